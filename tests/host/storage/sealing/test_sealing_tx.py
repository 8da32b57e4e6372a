"""The transaction that seals: keys are made once, kept only once committed, and never used when gone."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from hostler.storage.port import Query, Tx
from hostler.storage.sealing.envelope import SealedError
from hostler.storage.sealing.tx import SealingTx
from hostler.storage.stores import plugin_storage
from support.sealed_folders import Sealed, SealedFolder

pytestmark = pytest.mark.gate("sealed-content")

KEYS = Query("t.keys", *["SELECT key_id, name FROM sealing_keys ORDER BY name"] * 2)
NAME = "storage:a/b"


def store(tx: Tx, key: str = "k", value: bytes = b"value", owner: str = "a/b") -> None:
    plugin_storage.set(tx, "w", owner, key, value)


async def names(opened: Sealed) -> list[str]:
    return [row["name"] for row in await opened.database.read(lambda tx: tx.all(KEYS))]


async def test_work_that_is_rolled_back_leaves_no_key_in_memory(tmp_path: Path) -> None:
    async with SealedFolder(tmp_path / "data").open() as opened:

        def fails(tx: Tx) -> None:
            store(tx)
            raise ValueError("undone")

        with pytest.raises(ValueError, match="undone"):
            await opened.database.write(fails)
        assert opened.sealer.named("w", NAME) is None
        assert await names(opened) == []
        await opened.database.write(store)
        assert NAME in await names(opened)
        assert await opened.database.read(lambda tx: plugin_storage.get(tx, "w", "a/b", "k")) == b"value"


async def test_groups_of_which_one_work_fails_seal_the_rest_once(tmp_path: Path) -> None:
    async with SealedFolder(tmp_path / "data").open() as opened:

        def work(number: int, tx: Tx) -> None:
            store(tx, f"k{number}", b"%d" % number, owner=f"a/{number % 3}")
            if number % 5 == 0:
                raise ValueError("undone")

        works = [opened.database.write(lambda tx, n=n: work(n, tx)) for n in range(40)]  # type: ignore[misc]
        done = await asyncio.gather(*works, return_exceptions=True)
        assert [number for number, one in enumerate(done) if one is not None] == list(range(0, 40, 5))
        assert len([name for name in await names(opened) if name.startswith("storage:")]) == 3
        for number in range(40):
            found = await opened.database.read(
                lambda tx, n=number: plugin_storage.get(tx, "w", f"a/{n % 3}", f"k{n}")  # type: ignore[misc]
            )
            assert found == (None if number % 5 == 0 else b"%d" % number)


async def test_a_snapshot_from_before_the_end_of_a_key_does_not_bring_it_back(tmp_path: Path) -> None:
    async with SealedFolder(tmp_path / "data").open() as opened:
        await opened.database.write(store)

        def look(tx: Tx) -> SealingTx:
            assert isinstance(tx, SealingTx)
            tx.key_named("w", NAME)
            return tx

        snapshot = await opened.database.read(look)
        await opened.database.write(lambda tx: tx.destroy("w", NAME))
        snapshot.committed()  # it ends only now
        assert opened.sealer.named("w", NAME) is None
        await opened.database.write(lambda tx: store(tx, "new", b"later"))
        assert await opened.database.read(lambda tx: plugin_storage.get(tx, "w", "a/b", "new")) == b"later"
        with pytest.raises(SealedError, match="was erased"):
            await opened.database.read(lambda tx: plugin_storage.get(tx, "w", "a/b", "k"))


async def test_a_key_that_another_process_removed_is_not_used_again(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    async with folder.open() as opened:
        await opened.database.write(store)
        with contextlib.closing(sqlite3.connect(folder.database)) as other, other:
            other.execute("DELETE FROM sealing_keys WHERE name = ?", (NAME,))
        await opened.database.write(lambda tx: store(tx, "new", b"later"))
    async with folder.open() as opened:
        assert await opened.database.read(lambda tx: plugin_storage.get(tx, "w", "a/b", "new")) == b"later"


async def test_equal_values_are_not_seen_to_be_equal(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    async with folder.open() as opened:
        for number in range(10):
            await opened.database.write(lambda tx, n=number: store(tx, f"k{n}", b"the same"))  # type: ignore[misc]
    with contextlib.closing(sqlite3.connect(folder.database)) as raw:
        values = [row[0] for row in raw.execute("SELECT value FROM storage")]
    assert len(set(values)) == 10
