"""What encryption at rest costs: the same work with and without it, side by side.

    python -m bench.sealed [--seconds 2]

Runs are those of `bench.facts`, 26 facts each. A page is the newest 50 messages of one conversation, of runs
that each have keys of their own; `cold` reads it after the keys were forgotten. A blob is 8 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.facts import ANSWER, WORKSPACE, measure
from bench.table import Row, middle, text_of

from hostler.domain.place import Place
from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.port import Tx
from hostler.storage.sealing.blob_keys import SealedBlobKeys
from hostler.storage.sealing.erasing import ERASURE_KEY
from hostler.storage.sealing.erasure_key import ErasureKey
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sealing.tx import sealing
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import blobs, installation, search, transcripts
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler_protocol.content import Message
from hostler_protocol.ids import new_id

MESSAGES = 500
PAGE = 50
BLOB = os.urandom(1024) * 8 * 1024


class Side:
    """A database and a blob folder, sealed or not."""

    def __init__(self, folder: Path, *, sealed: bool) -> None:
        folder.mkdir()
        self.database: SqlDatabase = open_database(folder / "facts.db")
        self.blobs = BlobFolder(folder / "blobs")
        self._sealed = sealed
        self._puts = 0
        self._master = KeyRing([new_key()])
        self._key = ErasureKey([folder / "erasure.key"])
        self.forget()

    def forget(self) -> None:
        """Seal with keys that were not opened yet."""
        if self._sealed:
            self._key.create()
            sealer = Sealer(lambda: self._master, self._key, shared=False)
            self.database.transact_by(sealing(sealer))
            self.blobs.keys = SealedBlobKeys(self.database, sealer)

    async def fill(self) -> None:
        """Store a conversation."""
        current = self._key.ring().current_id.encode() if self._sealed else b""
        await self.database.write(lambda tx: installation.add(tx, ERASURE_KEY, current))
        message = Message(role="assistant", content=ANSWER)
        for _ in range(MESSAGES):
            item = transcripts.item_of(message, Place(conversation_id="c"), run_id=new_id())
            await self.database.write(lambda tx, item=item: transcripts.append(tx, WORKSPACE, item))  # type: ignore[misc]

    async def page(self) -> None:
        """Read a page of the conversation."""
        await self.database.read(lambda tx: transcripts.page(tx, WORKSPACE, conversation_id="c", limit=PAGE))

    async def cold_page(self) -> None:
        """The same, with keys that have to be opened first."""
        self.forget()
        await self.page()

    async def search(self) -> None:
        """Search the conversation."""
        await self.database.read(
            lambda tx: search.search(tx, WORKSPACE, "cheapest cabin", conversation_id="c")
        )

    async def put(self) -> None:
        """Store a blob."""
        self._puts += 1
        name = await self._put_once(self._puts.to_bytes(8) + BLOB)
        await blobs.remove(self.database, self.blobs, [Blob(name, len(BLOB) + 8)])

    async def _put_once(self, content: bytes) -> str:
        blob = await self.blobs.put(content)

        def refer(tx: Tx) -> None:
            blobs.reference(tx, blob)
            blobs.release(tx, blob.name)

        await self.database.write(refer)
        return blob.name

    async def close(self) -> None:
        """Close both."""
        self.blobs.close()
        await self.database.close()


async def _seconds_each(work: Callable[[], Awaitable[None]], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        await work()
        done += 1
    return (time.perf_counter() - began) / done


async def rounds(folder: Path, seconds: float, count: int) -> list[Row]:
    """Measure both sides in turns."""
    plain, sealed = Side(folder / "plain", sealed=False), Side(folder / "sealed", sealed=True)
    sides = (plain, sealed)
    for side in sides:
        await side.fill()
    rates: dict[str, tuple[list[float], list[float]]] = {}

    def note(name: str, number: int, value: float) -> None:
        rates.setdefault(name, ([], []))[number].append(value)

    for _ in range(count):
        for number, side in enumerate(sides):
            for at_once in (1, 32):
                note(f"runs {at_once}", number, (await measure(side.database, at_once, seconds))[0])
            for name, work in {
                "page": side.page,
                "cold": side.cold_page,
                "search": side.search,
                "blob": side.put,
            }.items():
                note(name, number, 1 / await _seconds_each(work, seconds / 2))
    for side in sides:
        await side.close()
    return [_row(name, key, rates[key], unit, goal) for name, key, unit, goal in _ROWS]


_ROWS = (
    ("facts of a run, sealed, one at a time", "runs 1", "runs/s", "at least 0.5"),
    ("facts of a run, sealed, 32 at once", "runs 32", "runs/s", "at least 0.25"),
    ("a page of 50 sealed messages", "page", "pages/s", "at least 0.2"),
    ("a page of 50 sealed messages, keys not in memory", "cold", "pages/s", ""),
    ("search of a sealed conversation", "search", "searches/s", "at least 0.2"),
    ("a sealed blob of 8 MiB, stored and removed", "blob", "blobs/s", "at least 0.4"),
)


def _row(name: str, key: str, rates: tuple[list[float], list[float]], unit: str, goal: str) -> Row:
    plain, sealed = map(middle, rates)
    return Row(name, sealed, unit, sealed / plain, f"the same, not sealed ({plain:,.0f} {unit})", goal)


def rows(quick: bool) -> list[Row]:
    """Measure on SQLite, with full durability."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(rounds(Path(folder), 0.3 if quick else 2.0, 1 if quick else 5))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(text_of(asyncio.run(rounds(Path(folder), arguments.seconds, arguments.rounds))))


if __name__ == "__main__":
    main()
