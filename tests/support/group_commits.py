"""Works on one small table, queued behind a writer that is held in the middle of a group."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import query_of

CREATE = Query("t.create", *["CREATE TABLE t (id bigint PRIMARY KEY, note text)"] * 2)
INSERT = query_of("t.insert", *["INSERT INTO t VALUES (:id, :note)"] * 2)
CLEAR = Query("t.clear", *["DELETE FROM t"] * 2)
IDS = Query("t.ids", *["SELECT id FROM t ORDER BY id"] * 2)


class Guilty(Exception):
    """What a failing work raises."""


class Gate:
    """Holds the writer in the middle of a group, so that what follows queues behind it."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()

    def hold(self, _tx: Tx) -> None:
        self._entered.set()
        assert self._opened.wait(60)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.wait, 60)

    def open(self) -> None:
        self._opened.set()


def insert(number: int) -> Callable[[Tx], int]:
    return lambda tx: tx.run(INSERT, id=number, note="")


async def ids(database: SqlDatabase) -> list[int]:
    return [row["id"] for row in await database.read(lambda tx: tx.all(IDS))]


async def with_table(database: SqlDatabase) -> None:
    drop = Query("t.drop", *["DROP TABLE IF EXISTS t"] * 2)
    await database.write(lambda tx: [tx.run(drop), tx.run(CREATE)])


def look_at_ids(tx: Tx) -> list[int]:
    return [row["id"] for row in tx.all(IDS)]


async def queued_behind(database: SqlDatabase, works: list[Callable[[Tx], object]]) -> list[object]:
    """Run `works` so that all of them are queued before the first is begun."""
    gate = Gate()
    holding = asyncio.create_task(database.write(gate.hold))
    await gate.entered()
    tasks = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0)
    gate.open()
    await holding
    return list(await asyncio.gather(*tasks, return_exceptions=True))
