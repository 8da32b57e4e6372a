"""A host is killed while it indexes, replaces and removes documents: what is found is whole, old or new."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.domain.knowledge import KnowledgeBase
from hostler.domain.quotas import UNBOUNDED
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.statements import query_of
from hostler.storage.stores import knowledge_documents, quotas
from hostler.storage.stores.blobs import BlobFolder
from hostler.tools.knowledge.bases import KnowledgeBases
from hostler.tools.knowledge.indexer import Indexer
from support.knowledge import open_gate

pytestmark = pytest.mark.gate("knowledge")

KILLS = 30 if os.environ.get("HOSTLER_SOAK") else 6
WORK = """
import asyncio, itertools, sys
from pathlib import Path
from hostler.domain.quotas import UNBOUNDED
from hostler.storage.sql.connect import open_database
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores import knowledge_documents
from hostler.tools.knowledge.bases import KnowledgeBases, Upload
from hostler.tools.knowledge.indexer import Indexer
from hostler_protocol.errors import NotFoundError
from support.knowledge import chunks, open_gate, text_of

where, folder, first = sys.argv[1:]

async def main():
    db, blobs = open_database(where), BlobFolder(Path(folder))
    bases = KnowledgeBases(db, blobs, lambda _: UNBOUNDED)
    indexer = Indexer(db, blobs, bases, "host", open_gate)
    real = indexer._step

    def step(*args, **more):
        print("step", flush=True)
        return real(*args, **more)

    indexer._step = step
    await db.write(lambda tx: knowledge_documents.release_own(tx, "host"))
    print("ready", flush=True)
    for number in itertools.count(int(first)):
        name = f"d{number % 3}"
        if number % 5 == 4:
            try:
                await bases.remove_document("w", "house", name, "test")
            except NotFoundError:
                pass
            print(f"removed {number}", flush=True)
        else:
            upload = Upload(name=name, mime_type="text/plain", metadata={})
            await bases.put_document("w", "house", upload, chunks(text_of(number).encode()), "test")
            print(f"put {number}", flush=True)
        while await indexer.index_next() or await indexer.remove_next():
            pass

asyncio.run(main())
"""


async def test_what_is_found_after_a_kill_is_whole_and_nothing_else_is_left(
    tmp_path: Path, database_url: str
) -> None:
    where = database_url if database_url.startswith("postgresql:") else str(tmp_path / "facts.db")
    chance = random.Random(5)
    db = open_database(where)
    folder = tmp_path / "blobs"
    await KnowledgeBases(db, BlobFolder(folder), lambda _: UNBOUNDED).create("w", ENTRY, "test")
    await db.close()
    first, confirmed = 0, dict[str, int | None]()
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, where, str(folder), str(first)],
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lines = [process.stdout.readline() for _ in range(chance.randrange(1, 30))]
        process.kill()
        lines += process.stdout.read().splitlines()
        process.wait()
        for line in lines:
            what, _, number = line.strip().partition(" ")
            if number:
                first = int(number) + 1
                confirmed[f"d{int(number) % 3}"] = int(number) if what == "put" else None
        await check(where, folder, confirmed, first)
        first += 1  # the next one may have been put without a word


ENTRY = KnowledgeBase(kb_id="house", passage_chars=200)


async def check(where: str, folder: Path, confirmed: dict[str, int | None], following: int) -> None:
    """Let another process of the host go on; then compare each document with what it may be."""
    db, blobs = open_database(where), BlobFolder(folder)
    bases = KnowledgeBases(db, blobs, lambda _: UNBOUNDED)
    indexer = Indexer(db, blobs, bases, "host", open_gate, purge_seconds=0)
    await db.write(lambda tx: knowledge_documents.release_own(tx, "host"))
    while await indexer.index_next() or await indexer.remove_next() or await indexer.purge():
        pass
    for name in ("d0", "d1", "d2"):
        may_be = {confirmed.get(name)}
        if f"d{following % 3}" == name:
            may_be.add(None if following % 5 == 4 else following)
        found = await bases.search("w", "house", "paragraph", 50, {"document": name})
        numbers = {int(one.content.split()[1]) for one in found}
        assert len(numbers) <= 1, (name, numbers)
        number = next(iter(numbers), None)
        assert number in may_be, (name, number, may_be)
        assert all(one.passages == len(found) for one in found), name
        confirmed[name] = number

    def left(tx: Tx) -> tuple[int, int, list[object]]:
        counts = []
        for table in ("knowledge_versions", "blobs"):
            text = f"SELECT count(*) AS n FROM {table}"
            row = tx.one(query_of("test.left", text, text))
            counts.append(0 if row is None else int(row["n"]))
        return counts[0], counts[1], list(quotas.recount(tx, "w"))

    there = sum(number is not None for number in confirmed.values())
    assert await db.read(left) == (there, there, [])
    await blobs.settle()
    blobs.close()
    await db.close()
