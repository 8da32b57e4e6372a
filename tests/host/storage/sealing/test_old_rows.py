"""What was stored before there was a master key is sealed while a host works, wherever it is interrupted."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from hostler.storage.port import Query, Tx
from hostler.storage.sealing import old_rows
from hostler.storage.sealing.blob_keys import SealedBlobKeys
from hostler.storage.stores import hash_chain, search, transcripts
from hostler.storage.stores.blobs import next_names
from support.sealed_folders import CrashError, Crashing, Sealed, SealedFolder

pytestmark = pytest.mark.gate("sealed-later")

NEEDLE = b"secret words"
NO_GRANTS = Query("t.no_grants", *["UPDATE runs SET grant_json = NULL"] * 2)


async def plain(folder: SealedFolder) -> None:
    """A folder from before, with more messages than are indexed at once."""
    async with folder.open(seals=False) as opened:
        for number in range(20):
            await opened.world.turn(f"c-{number % 2}", "ada")
        # made-up grants have texts in them; real ones are configuration
        await opened.database.write(lambda tx: tx.all(NO_GRANTS))
    with contextlib.closing(sqlite3.connect(folder.database)) as connection:
        connection.execute("VACUUM")


async def seal(opened: Sealed, database: Crashing | None = None) -> int:
    where = database or opened.database
    rows = await old_rows.seal_rows(where)
    return rows + await old_rows.seal_blobs(where, opened.blobs, SealedBlobKeys(where, opened.sealer))


def files_with(folder: SealedFolder, needle: bytes) -> list[str]:
    found = [path for path in folder.path.rglob("*") if path.is_file() and needle in path.read_bytes()]
    return [path.name for path in found]


async def found(opened: Sealed, words: str = "secret words") -> int:
    def look(tx: Tx) -> int:
        return search.search(tx, "w", words, conversation_id="c-1", limit=100).total_count

    return await opened.database.read(look)


async def looks_the_same(opened: Sealed) -> None:
    """Everything is read as before, whatever of it is sealed by now."""
    page = await opened.database.read(lambda tx: transcripts.page(tx, "w", conversation_id="c-1", limit=100))
    assert len(page.items) == 20
    assert all("secret words of ada in c-1" in item.content for item in page.items)
    assert await found(opened) == 20
    assert await found(opened, "nothing like it") == 0
    names = await opened.database.read(lambda tx: next_names(tx, "", 100))
    texts = [await opened.blobs.read(name) for name in names]
    assert all(NEEDLE in text for text in texts)
    assert [await opened.blobs.size(name) for name in names] == [len(text) for text in texts]
    checked = await opened.database.read(lambda tx: hash_chain.verify(tx, "w", "events"))
    assert (checked.broken, checked.done) == (None, True)


async def test_old_rows_and_files_are_sealed_and_read_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_rows, "STEP_ROWS", 7)
    folder = SealedFolder(tmp_path / "data")
    await plain(folder)
    assert len(files_with(folder, NEEDLE)) > 40
    async with folder.open() as opened:
        await looks_the_same(opened)
        assert await opened.database.read(old_rows.count_plain) > 100
        assert await seal(opened) > 100
        assert await opened.database.read(old_rows.count_plain) == 0
        assert await seal(opened) == 0
        await looks_the_same(opened)
    assert files_with(folder, NEEDLE) == []


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
async def test_it_may_be_interrupted_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(old_rows, "STEP_ROWS", 40)
    first = SealedFolder(tmp_path / "first")
    await plain(first)
    number = 0
    while True:
        folder = first.copy(tmp_path / f"{number}")
        async with folder.open() as opened:
            try:
                await seal(opened, Crashing(opened.database, number, after))
            except CrashError:
                died = True
            else:
                died = False
            await looks_the_same(opened)
        async with folder.open() as opened:
            await looks_the_same(opened)
            await seal(opened)
            assert await opened.database.read(old_rows.count_plain) == 0
            await looks_the_same(opened)
        if not died:
            assert number > 20
            return
        number += 7


async def test_a_file_that_looks_sealed_is_read_as_it_is(tmp_path: Path) -> None:
    content = b"\x02hostler file 1\n" + b"A" * 16 + b"no key has this id" * 10
    folder = SealedFolder(tmp_path / "data")
    async with folder.open(seals=False) as opened:
        blob = await opened.world.put(content)
        assert await opened.blobs.read(blob.name, 0, 1000) == content
    async with folder.open() as opened:
        assert await opened.blobs.read(blob.name, 0, 1000) == content
        assert await opened.blobs.size(blob.name) == len(content)
