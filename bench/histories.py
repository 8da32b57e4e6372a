"""Reading a long past: a page and a search of a conversation, and a state snapshot, small against large."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.table import Row, middle

from hostler.domain.place import Place
from hostler.domain.scopes import StateArea
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import search, transcripts
from hostler.storage.stores import state_values as states
from hostler_protocol.content import Message
from hostler_protocol.ids import digest

WORKSPACE, CONVERSATION = "w1", "c1"
BATCH = 5_000
TEXTS = (
    "The cheapest flight to Lisbon leaves at 7:40 and takes one cabin bag",
    "Which of them allow a second bag, and what does it cost on the way back",
    "Number {n} of the list was booked by somebody else meanwhile",
)
RARE = (17, 877)
"""The messages that hold a rare word: as many hits to be read among few messages as among many."""


def items(tx: Tx, first: int, count: int) -> None:
    """Write so many messages."""
    for n in range(first, first + count):
        text = TEXTS[n % 3].format(n=n) + (" with a marsupial" if n in RARE else "")
        said = transcripts.item_of(
            Message(role="user" if n % 2 else "assistant", content=text), Place(conversation_id=CONVERSATION)
        )
        transcripts.append(tx, WORKSPACE, said)


def values(tx: Tx, first: int, count: int) -> None:
    """Write state of other people."""
    for n in range(first, first + count):
        area = StateArea(scope="actor", scope_key=digest([f"someone {n // 8}"]), agent_id="a1")
        states.set(tx, WORKSPACE, area, f"key {n % 8}", '{"step":1}')


READS: dict[str, Callable[[Tx], Any]] = {
    "a page of history": lambda tx: transcripts.page(
        tx, WORKSPACE, conversation_id=CONVERSATION, before_seq=9_000, limit=50
    ),
    "a search for a rare word": lambda tx: search.search(
        tx, WORKSPACE, "marsupial", conversation_id=CONVERSATION, limit=10
    ),
    "a search for a word of every third message": lambda tx: search.search(
        tx, WORKSPACE, "lisbon", conversation_id=CONVERSATION, limit=10
    ),
    "a snapshot of a state scope": lambda tx: states.snapshot(
        tx, WORKSPACE, {"actor": digest(["someone 3"])}
    ),
}


async def measure(database: SqlDatabase, rounds: int) -> dict[str, float]:
    """Median milliseconds of each read."""
    times: dict[str, list[float]] = {name: [] for name in READS}
    for _ in range(rounds):
        for name, read in READS.items():
            times[name].append(await database.read(lambda tx, read=read: _timed(tx, read)))  # type: ignore[misc]
    return {name: middle(found) * 1e3 for name, found in times.items()}


def _timed(tx: Tx, read: Callable[[Tx], Any]) -> float:
    began = time.perf_counter()
    if not read(tx):
        raise RuntimeError("a read found nothing")
    return time.perf_counter() - began


async def grown(folder: Path, small: int, large: int, rounds: int) -> list[Row]:
    """The same database, measured when it is small and when it is large."""
    database = open_database(folder / "facts.db")
    found: list[dict[str, float]] = []
    written = 0
    for size in (small, large):
        while written < size:
            count = min(BATCH, size - written)
            await database.write(lambda tx, first=written, count=count: items(tx, first, count))  # type: ignore[misc]
            await database.write(lambda tx, first=written, count=count: values(tx, first, count))  # type: ignore[misc]
            written += count
        found.append(await measure(database, rounds))
    await database.close()
    few, many = found
    return [
        Row(
            f"{name} among {large:,}",
            many[name],
            "ms",
            many[name] / few[name],
            f"among {small:,} ({few[name]:.2f} ms)",
            "at most 2",
        )
        for name in READS
    ]


def rows(quick: bool) -> list[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = (1_000, 4_000, 20) if quick else (10_000, 1_000_000, 200)
        return asyncio.run(grown(Path(folder), *sizes))
