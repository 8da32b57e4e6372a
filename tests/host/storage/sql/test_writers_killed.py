"""A process killed while it writes: what it acknowledged is there, and every transaction is whole."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database

PAIRS = Query("t.pairs", *["SELECT id, count(*) AS rows FROM t GROUP BY id"] * 2)
WRITING_CHILD = """
import asyncio, sys
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.statements import Query, query_of

CREATE = Query("t.create", *["CREATE TABLE t (id bigint, half bigint)"] * 2)
INSERT = query_of("t.insert", *["INSERT INTO t VALUES (:id, :half)"] * 2)

async def main():
    database = open_database(sys.argv[1])
    await database.write(lambda tx: tx.run(CREATE))

    def work(number):
        def both(tx):
            tx.run(INSERT, id=number, half=1)
            tx.run(INSERT, id=number, half=2)
        return both

    async def worker(number):
        while True:
            await database.write(work(number), synced=number % 3 != 0)
            sys.stdout.write(f"{number}\\n")
            sys.stdout.flush()
            number += 32

    await asyncio.gather(*(worker(n) for n in range(32)))

asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(4))
async def test_acknowledged_writes_survive_kill_9(database_url: str, seed: int) -> None:
    acknowledged = set()
    with subprocess.Popen(
        [sys.executable, "-c", WRITING_CHILD, database_url], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        moment = random.Random(seed).randrange(1, 800)
        for line in child.stdout:
            acknowledged.add(int(line))
            if len(acknowledged) == moment:
                child.kill()
                break
        acknowledged |= {int(line) for line in child.stdout if line.endswith("\n")}
    assert len(acknowledged) >= moment

    database = open_database(database_url)
    rows = {row["id"]: row["rows"] for row in await database.read(lambda tx: tx.all(PAIRS))}
    assert acknowledged <= rows.keys()
    assert set(rows.values()) == {2}, "both rows of a transaction, or neither"
    await database.close()
