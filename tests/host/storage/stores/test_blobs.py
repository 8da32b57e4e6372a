"""The blob folder: bytes stored once, read in ranges, never half there, never removed while in use."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import blobs
from hostler.storage.stores.blob_files import CHUNK_BYTES
from hostler.storage.stores.blobs import Blob, BlobFolder, Removed
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, StorageError

pytestmark = pytest.mark.gate("deletion")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


KNOWN = parse("-- name: all\nSELECT sha256 FROM blobs", "t").all


def files(tmp_path: Path) -> list[Path]:
    """Everything stored or half written."""
    root = tmp_path / "blobs"
    beside = {"locks", "pins"}
    return [p for p in root.rglob("*") if p.is_file() and p.relative_to(root).parts[0] not in beside]


async def chunked(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def grow_old(tmp_path: Path) -> None:
    long_ago = time.time() - 10 * blobs.GRACE_SECONDS
    for path in files(tmp_path):
        os.utime(path, (long_ago, long_ago))


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=2_000), st.integers(1, 700), st.integers(0, 2_100), st.integers(0, 2_100))
async def test_bytes_come_back_by_their_digest_in_any_range(
    folder: BlobFolder, data: bytes, size: int, offset: int, length: int
) -> None:
    blob = await folder.put(data)
    assert blob == Blob(hashlib.sha256(data).hexdigest(), len(data))
    assert await folder.put(chunked(data, size)) == blob
    assert await folder.size(blob.sha256) == len(data)
    assert await folder.read(blob.sha256, offset, length) == data[offset : offset + length]
    parts = [chunk async for chunk in folder.stream(blob.sha256, offset, length)]
    assert b"".join(parts) == data[offset : offset + length]
    assert b"".join([chunk async for chunk in folder.stream(blob.sha256, verify=True)]) == data


async def test_the_same_bytes_are_stored_once_however_many_put_them_at_once(
    folder: BlobFolder, tmp_path: Path
) -> None:
    data = random.Random(1).randbytes(3 * CHUNK_BYTES + 5)
    puts = [folder.put(data if n % 2 else chunked(data, 100_000)) for n in range(40)]
    assert len(set(await asyncio.gather(*puts))) == 1
    assert [path.read_bytes() for path in files(tmp_path)] == [data]


async def test_a_large_blob_is_never_whole_in_memory(folder: BlobFolder) -> None:
    piece = random.Random(2).randbytes(CHUNK_BYTES)
    pieces = 128  # 32 MiB

    async def content() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield piece

    async def story() -> int:
        blob = await folder.put(content())
        total = 0
        async for chunk in folder.stream(blob.sha256, verify=True):
            total += len(chunk)
        assert await folder.read(blob.sha256, blob.size_bytes - 3, 100) == piece[-3:]
        return total

    tracemalloc.start()
    try:
        assert await story() == pieces * CHUNK_BYTES
        assert tracemalloc.get_traced_memory()[1] < 16 * CHUNK_BYTES
    finally:
        tracemalloc.stop()


async def test_what_is_refused_or_cancelled_or_broken_leaves_nothing(
    folder: BlobFolder, tmp_path: Path
) -> None:
    class SourceError(Exception):
        pass

    async def breaks() -> AsyncIterator[bytes]:
        yield b"x" * CHUNK_BYTES
        raise SourceError

    async def never_ends(started: asyncio.Event) -> AsyncIterator[bytes]:
        yield b"x" * CHUNK_BYTES
        started.set()
        await asyncio.Event().wait()

    with pytest.raises(PayloadTooLargeError, match="allowed 10 bytes"):
        await folder.put(b"x" * 11, max_bytes=10)
    with pytest.raises(PayloadTooLargeError):
        await folder.put(chunked(b"x" * 11, 4), max_bytes=10)
    with pytest.raises(SourceError):
        await folder.put(breaks())
    started = asyncio.Event()
    task = asyncio.create_task(folder.put(never_ends(started)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    folder.close()  # waits for its threads
    assert files(tmp_path) == []


async def test_a_full_disk_is_a_clear_error_and_leaves_nothing(
    folder: BlobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageError, match="No space left") as caught:
            await folder.put(b"data")
    assert caught.value.retryable
    assert files(tmp_path) == []
    assert (await folder.put(b"data")).size_bytes == 4


async def test_missing_and_damaged_blobs_are_noticed(folder: BlobFolder, tmp_path: Path) -> None:
    blob = await folder.put(b"the right bytes")
    path = files(tmp_path)[0]
    path.write_bytes(b"the wrong bytes")

    async def whole() -> bytes:
        return b"".join([chunk async for chunk in folder.stream(blob.sha256, verify=True)])

    with pytest.raises(StorageError, match="damaged"):
        await whole()
    path.write_bytes(b"cut")
    assert await folder.put(b"the right bytes") == blob, "a file of another size is replaced"
    assert await whole() == b"the right bytes"
    path.unlink()
    with pytest.raises(StorageError, match="missing"):
        await whole()
    with pytest.raises(StorageError, match="missing"):
        await folder.size(blob.sha256)


@pytest.mark.parametrize("sha256", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n", "/" * 64])
async def test_only_a_digest_names_a_file(folder: BlobFolder, sha256: str) -> None:
    with pytest.raises(ValueError, match="is not a SHA-256"):
        await folder.read(sha256)


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, -1)])
async def test_a_range_that_cannot_be_is_refused(folder: BlobFolder, offset: int, length: int) -> None:
    blob = await folder.put(b"data")
    with pytest.raises(InvalidArgumentError, match="negative"):
        await folder.read(blob.sha256, offset, length)


async def test_references_decide_what_is_collected_and_when(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    kept, dropped, other = [await folder.put(data) for data in (b"kept", b"dropped", b"other")]
    held = [kept, dropped, other]
    digests = [blob.sha256 for blob in held]
    released = [kept.sha256, dropped.sha256, dropped.sha256, other.sha256]

    def name(tx: Tx) -> None:
        for blob in (held[0], held[0], held[1], held[1], held[2]):
            blobs.reference(tx, blob)

    def let_go(tx: Tx) -> None:
        for sha256 in released:
            blobs.release(tx, sha256)

    def count(tx: Tx) -> list[int]:
        return [blobs.references(tx, sha256) for sha256 in digests]

    await database.write(name)
    assert await database.read(count) == [2, 2, 1]
    await database.write(let_go)
    assert await database.read(count) == [1, 0, 0]
    gone = dropped.sha256
    assert await blobs.collect(database, folder) == Removed(0, 0), "they are still held"
    held.clear()
    del kept, dropped, other
    assert await blobs.collect(database, folder) == Removed(2, len(b"dropped") + len(b"other"))
    assert await folder.read(hashlib.sha256(b"kept").hexdigest()) == b"kept"
    with pytest.raises(StorageError):
        await folder.read(gone)
    assert await blobs.collect(database, folder) == Removed(0, 0)


async def put_and_let_go(database: SqlDatabase, folder: BlobFolder, data: bytes) -> str:
    """The digest of bytes that something named, and nothing names any more."""
    blob = await folder.put(data)
    await database.write(lambda tx: blobs.reference(tx, blob))
    await database.write(lambda tx: blobs.release(tx, blob.sha256))
    return blob.sha256


@pytest.mark.parametrize("other", [False, True], ids=["this process", "another"])
async def test_what_is_put_again_survives_its_collection(
    database: SqlDatabase, folder: BlobFolder, tmp_path: Path, other: bool
) -> None:
    """Nothing names it and somebody puts the same bytes, to name them soon: the file must stay."""
    sha256 = await put_and_let_go(database, folder, b"again")
    putter = BlobFolder(tmp_path / "blobs") if other else folder
    held = [await putter.put(b"again")]
    grow_old(tmp_path)
    assert (await blobs.collect(database, folder)).blobs == 0
    assert await folder.remove_unused(sha256) is False
    await database.write(lambda tx: blobs.reference(tx, held[0]))
    held.clear()
    grow_old(tmp_path)
    assert (await blobs.collect(database, folder)).blobs == 0
    assert await blobs.sweep(database, folder) == 0
    assert await folder.read(sha256) == b"again"
    putter.close()


async def test_a_stream_is_held_like_bytes(database: SqlDatabase, folder: BlobFolder) -> None:
    sha256 = await put_and_let_go(database, folder, b"in pieces")
    held = [await folder.put(chunked(b"in pieces", 2))]
    assert (await blobs.collect(database, folder)).blobs == 0
    assert await folder.read(sha256) == b"in pieces"
    held.clear()
    assert (await blobs.collect(database, folder)).blobs == 1
    with pytest.raises(StorageError):
        await folder.read(sha256)


PUT_AND_HOLD = """
import asyncio, pathlib, sys
from hostler.storage.stores.blobs import BlobFolder

blob = asyncio.run(BlobFolder(pathlib.Path(sys.argv[1])).put(b"held"))
print("put", flush=True)
sys.stdin.read()
"""


async def test_what_a_killed_process_held_is_collected(
    database: SqlDatabase, folder: BlobFolder, tmp_path: Path
) -> None:
    await put_and_let_go(database, folder, b"held")
    command = [sys.executable, "-c", PUT_AND_HOLD, str(tmp_path / "blobs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "put\n"
        assert (await blobs.collect(database, folder)).blobs == 0
        process.kill()
    assert (await blobs.collect(database, folder)).blobs == 1
    assert files(tmp_path) == []


async def test_a_removal_whose_caller_is_cancelled_is_finished(
    database: SqlDatabase, folder: BlobFolder, tmp_path: Path
) -> None:
    await put_and_let_go(database, folder, b"gone")
    collecting = asyncio.create_task(blobs.collect(database, folder))
    while not folder._removals:
        await asyncio.sleep(0)
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting
    await folder.settle()
    row = await database.read(lambda tx: tx.one(KNOWN))
    assert (files(tmp_path), row) == ([], None)


async def test_bytes_that_are_put_and_dropped_meanwhile_are_whole_or_gone(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    """Many name and drop the same few bytes while they are collected: whatever is named can be read."""
    data = [b"%d" % number * 1000 for number in range(3)]

    async def use(number: int) -> None:
        for turn in range(12):
            content = data[(number + turn) % len(data)]
            sha256 = await name(content)
            assert await folder.read(sha256, length=len(content)) == content
            await database.write(lambda tx, sha256=sha256: blobs.release(tx, sha256))  # type: ignore[misc]

    async def name(content: bytes) -> str:
        blob = await folder.put(content)
        await database.write(lambda tx: blobs.reference(tx, blob))
        return blob.sha256

    everybody = asyncio.gather(*(use(number) for number in range(8)))
    while not everybody.done():
        await blobs.collect(database, folder)
    await everybody
    await blobs.collect(database, folder)
    for content in data:
        with pytest.raises(StorageError):
            await folder.read(hashlib.sha256(content).hexdigest())


async def test_a_sweep_removes_what_no_row_knows(
    database: SqlDatabase, folder: BlobFolder, tmp_path: Path
) -> None:
    named, orphan = await folder.put(b"named"), (await folder.put(b"orphan")).sha256
    await database.write(lambda tx: blobs.reference(tx, named))
    (tmp_path / "blobs" / "tmp" / "half-written").write_bytes(b"half")
    assert await blobs.sweep(database, folder) == 0
    grow_old(tmp_path)
    fresh = await folder.put(b"put a moment ago")
    assert await blobs.sweep(database, folder) == 2
    assert sorted(path.name for path in files(tmp_path)) == sorted([named.sha256, fresh.sha256])
    with pytest.raises(StorageError):
        await folder.read(orphan)


PUT_FOR_EVER = """
import asyncio, pathlib, random, sys
from hostler.storage.stores.blobs import BlobFolder

async def main() -> None:
    folder = BlobFolder(pathlib.Path(sys.argv[1]))
    source = random.Random(7)
    while True:
        blob = await folder.put(source.randbytes(source.randrange(600_000)))
        print(blob.sha256, blob.size_bytes, flush=True)

asyncio.run(main())
"""


async def test_kill_9_while_writing_leaves_whole_blobs_and_sweepable_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PUT_FOR_EVER, str(tmp_path / "blobs")]
    told: list[list[str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told.append(line.split())
            if len(told) == 12:
                process.kill()
    assert len(told) >= 12
    for path in files(tmp_path):
        if path.parent.name != "tmp":
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    folder = BlobFolder(tmp_path / "blobs")
    for sha256, size in told[:12]:
        assert await folder.size(sha256) == int(size)
    await folder.remove_abandoned(older_than=-60)
    folder.close()
    assert not list((tmp_path / "blobs" / "tmp").iterdir())
