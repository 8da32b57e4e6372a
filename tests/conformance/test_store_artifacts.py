"""Artifacts and uploads, on every database, with a real blob folder."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import artifacts, blobs, uploads
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact, Taken
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.registered_files import RegisteredFiles
from hostler.storage.stores.uploads import Part, ReceivedPart
from hostler_protocol.errors import (
    CallerError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    StorageError,
)
from hostler_protocol.limits import MAX_UPLOAD_PART_BYTES


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


async def store(
    database: SqlDatabase, folder: BlobFolder, content: bytes, ws: str = "w", **given: Any
) -> StoredArtifact:
    blob = await folder.put(content)
    new = NewArtifact(artifact_type="file", blob=blob, source="run", **given)
    stored = await database.write(lambda tx: artifacts.create(tx, ws, new))
    assert isinstance(stored, StoredArtifact)
    return stored


# -- artifacts --------------------------------------------------------------------------------------------


async def test_an_artifact_comes_back_as_it_was_made(database: SqlDatabase, folder: BlobFolder) -> None:
    content = random.Random(1).randbytes(700_000)
    stored = await store(
        database,
        folder,
        content,
        artifact_id="art",
        mime_type="text/plain",
        name="no\x00te.txt",
        event_id="e",
        place=Place("b", "c", "t"),
        run_id="r",
        runner_id="plugin:a/b/c",
        metadata={"k": ["v\x00"]},
        expires_at=10**15,
    )
    found = await database.read(lambda tx: artifacts.find(tx, "w", "art"))
    assert found == stored
    assert found is not None
    record = msgspec.to_builtins(found.record())
    assert record.pop("created_at") > 1_600_000_000
    assert record == {
        "artifact_id": "art",
        "artifact_type": "file",
        "size_bytes": 700_000,
        "sha256": hashlib.sha256(content).hexdigest(),
        "mime_type": "text/plain",
        "name": "note.txt",
        "source": "run",
        "conversation_id": "c",
        "run_id": "r",
        "runner_id": "plugin:a/b/c",
        "expires_at": 10**12,
        "metadata": {"k": ["v"]},
    }

    async def whole(offset: int, length: int | None) -> bytes:
        return b"".join([chunk async for chunk in artifacts.stream(stored, folder, offset, length)])

    for offset, length in [
        (0, None),
        (0, 10),
        (299_999, 300_000),
        (699_990, 100),
        (700_000, 5),
        (900_000, 5),
    ]:
        end = None if length is None else offset + length
        assert await whole(offset, length) == content[offset:end]
        if length is not None:
            assert await artifacts.read(stored, folder, offset, length) == content[offset:end]


async def test_ids_and_workspaces_keep_artifacts_apart(database: SqlDatabase, folder: BlobFolder) -> None:
    first = await store(database, folder, b"same", artifact_id="a")
    again = await store(database, folder, b"same", artifact_id="a", name="another name")
    assert again == first, "the same id with the same bytes is the same artifact"
    assert await database.read(lambda tx: blobs.references(tx, first.sha256)) == 1
    other = NewArtifact(artifact_type="file", blob=await folder.put(b"other"), source="run", artifact_id="a")
    assert await database.write(lambda tx: artifacts.create(tx, "w", other)) == Taken("a")
    assert await database.read(lambda tx: blobs.references(tx, other.blob.sha256)) == 0
    elsewhere = await database.write(lambda tx: artifacts.create(tx, "w2", other))
    assert isinstance(elsewhere, StoredArtifact)
    assert await database.read(lambda tx: artifacts.find(tx, "w", "a")) == first
    assert await database.read(lambda tx: artifacts.find(tx, "w3", "a")) is None


async def test_removing_the_last_of_equal_artifacts_lets_the_blob_go(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    one, two = await store(database, folder, b"shared"), await store(database, folder, b"shared", ws="w2")
    assert one.artifact_id != two.artifact_id
    assert await database.write(lambda tx: artifacts.remove(tx, "w", one.artifact_id)) == one
    assert await database.write(lambda tx: artifacts.remove(tx, "w", one.artifact_id)) is None
    assert (await blobs.collect(database, folder)).blobs == 0
    assert await artifacts.read(two, folder, 0, 10) == b"shared"
    await database.write(lambda tx: artifacts.remove(tx, "w2", two.artifact_id))
    assert (await blobs.collect(database, folder)).blobs == 1


async def test_an_expired_artifact_is_gone_at_once(database: SqlDatabase, folder: BlobFolder) -> None:
    now = await database.read(lambda tx: tx.now)
    gone = await store(database, folder, b"1", expires_at=now - 1)
    kept = await store(database, folder, b"2", expires_at=now + 10**7)
    assert await database.read(lambda tx: artifacts.find(tx, "w", gone.artifact_id)) is None
    assert await database.read(lambda tx: artifacts.find(tx, "w", kept.artifact_id)) == kept


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"size_bytes": 5, "sha256": None}, "size_bytes says 5"),
        ({"size_bytes": None, "sha256": "0" * 64}, "sha256 says"),
        ({"size_bytes": None, "sha256": "nonsense"}, "sha256 says"),
    ],
)
def test_what_is_said_of_bytes_is_compared_with_what_they_are(declared: Any, message: str) -> None:
    blob = Blob(hashlib.sha256(b"data").hexdigest(), 4)
    artifacts.check_declared(blob, size_bytes=4, sha256=blob.sha256.upper())
    artifacts.check_declared(blob, size_bytes=None, sha256=None)
    with pytest.raises(InvalidArgumentError, match=message):
        artifacts.check_declared(blob, **declared)


async def test_a_registered_file_is_an_artifact_whose_path_nobody_sees(
    database: SqlDatabase, folder: BlobFolder, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    path = tmp_path / "shared" / "report.pdf"
    path.write_bytes(b"%PDF")
    registered = RegisteredFiles([tmp_path / "shared"])
    file = await registered.register(path)
    new = NewArtifact(
        artifact_type="file", blob=file.blob, source="registered", registered=file, name="report.pdf"
    )
    stored = await database.write(lambda tx: artifacts.create(tx, "w", new))
    assert isinstance(stored, StoredArtifact)
    assert str(tmp_path).encode() not in msgspec.json.encode(stored.record())
    assert await artifacts.read(stored, folder, 1, 10, registered=registered) == b"PDF"
    assert await database.read(lambda tx: blobs.references(tx, stored.sha256)) == 0
    with pytest.raises(StorageError, match="not open"):
        await artifacts.read(stored, folder, 0, 10)
    await database.write(lambda tx: artifacts.remove(tx, "w", stored.artifact_id))
    assert path.read_bytes() == b"%PDF", "the file stays where it is"
    registered.close()


# -- uploads ----------------------------------------------------------------------------------------------


async def send(
    database: SqlDatabase,
    folder: BlobFolder,
    part: Part,
    *,
    ws: str = "w",
    run_id: str = "r",
    **declared: Any,
) -> ReceivedPart:
    return await send_async(database, folder, part, ws=ws, run_id=run_id, **declared)


async def send_async(
    database: SqlDatabase,
    folder: BlobFolder,
    part: Part,
    *,
    ws: str = "w",
    run_id: str = "r",
    **declared: Any,
) -> ReceivedPart:
    prepared = await uploads.prepare(database, folder, ws, run_id, part, **declared)
    answer = await database.write(lambda tx: uploads.commit(tx, ws, run_id, prepared, describe))
    if isinstance(answer, CallerError):
        raise answer
    return answer


def describe(blob: Blob) -> NewArtifact:
    return NewArtifact(artifact_type="file", blob=blob, source="upload", run_id="r")


async def leftovers(database: SqlDatabase, folder: BlobFolder) -> int:
    """How many blobs nothing names any more; they are gone afterwards."""
    return (await blobs.collect(database, folder)).blobs


async def test_parts_become_one_artifact_and_leave_nothing_else(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    source = random.Random(3)
    parts = [source.randbytes(size) for size in (300_000, 1, 700_000, 0)]
    content = b"".join(parts)
    upload_id = None
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        declared: dict[str, Any] = (
            {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)} if last else {}
        )
        received = await send(database, folder, Part(upload_id, number, part, last), **declared)
        upload_id = received.upload_id
    stored = received.artifact
    assert stored is not None
    assert stored.size_bytes == len(content)
    assert await artifacts.read(stored, folder, 299_999, 3) == content[299_999:300_002]
    assert await leftovers(database, folder) == 3, "the parts before the last one"
    assert await artifacts.read(stored, folder, 0, len(content)) == content
    with pytest.raises(NotFoundError):
        await send(database, folder, Part(upload_id, 4, b"x", False))


@pytest.mark.parametrize("content", [b"", b"all of it"])
async def test_one_part_is_enough(database: SqlDatabase, folder: BlobFolder, content: bytes) -> None:
    received = await send(database, folder, Part(None, 0, content, True))
    assert received.artifact is not None
    assert await artifacts.read(received.artifact, folder, 0, 100) == content


async def test_a_part_sent_again_changes_nothing_and_another_in_its_place_is_refused(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    upload_id = (await send(database, folder, Part(None, 0, b"one ", False))).upload_id
    for _ in range(3):
        assert await send(database, folder, Part(upload_id, 1, b"two ", False)) == ReceivedPart(
            upload_id, None
        )
    with pytest.raises(ConflictError, match="part 1 was received already"):
        await send(database, folder, Part(upload_id, 1, b"TWO ", False))
    stored = (await send(database, folder, Part(upload_id, 2, b"three", True))).artifact
    assert stored is not None
    assert await artifacts.read(stored, folder, 0, 100) == b"one two three"


async def test_parts_keep_their_order_and_their_run(database: SqlDatabase, folder: BlobFolder) -> None:
    upload_id = (await send(database, folder, Part(None, 0, b"one", False))).upload_id
    with pytest.raises(InvalidArgumentError, match="part 2 came where part 1 is next"):
        await send(database, folder, Part(upload_id, 2, b"three", False))
    with pytest.raises(InvalidArgumentError, match="part 0 came where part 1 is next"):
        await send(database, folder, Part(upload_id, 0, b"one", True))
    with pytest.raises(InvalidArgumentError, match="only part 0 begins"):
        await send(database, folder, Part(None, 1, b"two", False))
    with pytest.raises(InvalidArgumentError, match="only the last one may be"):
        await send(database, folder, Part(upload_id, 1, b"", False))
    for ws, run_id in (("w", "another"), ("w2", "r")):
        with pytest.raises(NotFoundError):
            await send(database, folder, Part(upload_id, 1, b"two", True), ws=ws, run_id=run_id)
    with pytest.raises(NotFoundError):
        await send(database, folder, Part("made up", 0, b"one", False))


async def test_what_was_declared_wrongly_can_be_finished_rightly(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    upload_id = (await send(database, folder, Part(None, 0, b"one", False))).upload_id
    with pytest.raises(InvalidArgumentError, match="size_bytes says 7"):
        await send(database, folder, Part(upload_id, 1, b"two", True), size_bytes=7)
    stored = (await send(database, folder, Part(upload_id, 1, b"two", True), size_bytes=6)).artifact
    assert stored is not None


async def test_uploads_are_bounded(
    database: SqlDatabase, folder: BlobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PayloadTooLargeError, match="at most 4,194,304"):
        await send(database, folder, Part(None, 0, bytes(MAX_UPLOAD_PART_BYTES + 1), False))
    for _ in range(uploads.MAX_OPEN_UPLOADS_PER_RUN):
        upload_id = (await send(database, folder, Part(None, 0, b"x" * 10, False))).upload_id
    with pytest.raises(InvalidArgumentError, match="unfinished uploads"):
        await send(database, folder, Part(None, 0, b"y", False))
    assert (await send(database, folder, Part(None, 0, b"whole", True))).artifact is not None
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 15)
    with pytest.raises(PayloadTooLargeError, match="more than 15"):
        await send(database, folder, Part(upload_id, 1, b"x" * 10, False))
    monkeypatch.setattr(uploads, "MAX_PARTS", 2)
    await send(database, folder, Part(upload_id, 1, b"x", False))
    with pytest.raises(InvalidArgumentError, match="at most 2 parts"):
        await send(database, folder, Part(upload_id, 2, b"x", False))
    assert (await send(database, folder, Part(upload_id, 2, b"x", True))).artifact is not None


async def test_of_the_same_part_sent_at_once_one_is_taken(database: SqlDatabase, folder: BlobFolder) -> None:
    upload_id = (await send_async(database, folder, Part(None, 0, b"one", False))).upload_id
    sent = [send_async(database, folder, Part(upload_id, 1, f"two{n}".encode(), False)) for n in range(10)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert sum(isinstance(answer, ReceivedPart) for answer in answers) == 1
    assert all(isinstance(answer, ReceivedPart | ConflictError) for answer in answers)
    sent = [send_async(database, folder, Part(upload_id, 2, f"end{n}".encode(), True)) for n in range(10)]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    done = [answer for answer in answers if isinstance(answer, ReceivedPart)]
    assert len(done) == 1
    assert done[0].artifact is not None
    content = await artifacts.read(done[0].artifact, folder, 0, 100)
    assert content.startswith(b"onetwo")
    assert len(content) == len(b"onetwo0end0")


async def test_an_abandoned_upload_lets_its_parts_go(database: SqlDatabase, folder: BlobFolder) -> None:
    upload_id = (await send(database, folder, Part(None, 0, b"one", False))).upload_id
    await send(database, folder, Part(upload_id, 1, b"two", False))
    assert await leftovers(database, folder) == 0

    def forget(tx: Tx) -> None:
        uploads.abandon(tx, "w", upload_id)

    await database.write(forget)
    assert await leftovers(database, folder) == 2
    with pytest.raises(NotFoundError):
        await send(database, folder, Part(upload_id, 2, b"three", True))
