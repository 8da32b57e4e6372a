"""History, search and state cost the same in a large conversation as in a small one.

Cost is what the database does, not what the clock says: pages read from the file through an empty cache, and
steps of its virtual machine.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.session import SessionTx
from hostler.storage.sql.sqlite import SqliteDriver
from hostler.storage.stores import search, transcripts
from hostler.storage.stores import state_values as states
from hostler.storage.stores.search_tokens import indexed_tokens

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts reads by /proc/thread-self/io")

SMALL, LARGE = 10_000, 200_000
HERE: dict[str, Any] = {"conversation_id": "big", "thread_id": None, "bot_id": "b"}
INSERT = """
INSERT INTO transcripts (workspace_id, seq, transcript_id, bot_id, conversation_id, role, item_type, content,
                         content_json, search_text, artifact_refs, metadata, size_bytes, created_at)
VALUES ('w', ?, ?, 'b', ?, 'user', 'message', ?, '{"role":"user","content":"x"}', ?, '[]', '{}', 1100, ?)
"""


@dataclass
class Meter:
    """A reader of a database with `items` messages, which counts what a query makes it do."""

    session: Any
    items: int
    steps: int = 0

    def cost(self, work: Callable[[Tx], Any]) -> tuple[int, int]:
        """Pages read and steps made (in tens)."""
        self.session.begin(synced=False)
        tx = SessionTx(self.session, 0)
        work(tx)  # prepares the statements
        self.steps = 0
        before = _bytes_read()
        work(tx)
        pages = (_bytes_read() - before) // 4096
        self.session.rollback()
        return pages, self.steps


def _bytes_read() -> int:
    text = Path("/proc/thread-self/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


def _words(number: int) -> tuple[str, list[str]]:
    """Conversation and words of the n-th message: two large conversations side by side, and a small one."""
    conversation = "small" if number % 250 == 0 else "big" if number % 2 else "elsewhere"
    words = ["common", f"only{number}", f"some{number % 97}", "東", "京", "東京"]
    if conversation == "elsewhere":
        words.append("foreign")
    return conversation, words


def _build(path: Path, items: int) -> None:
    asyncio.run(open_database(path).close())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        messages, tokens = [], []
        for number in range(1, items + 1):
            conversation, words = _words(number)
            text = " ".join(words)
            messages.append((number, f"t{number}", conversation, text, text, 1000 * number))
            place = Place("b", conversation)
            tokens.append((number, " ".join(indexed_tokens("sqlite", "w", place, words))))
        connection.executemany(INSERT, messages)
        connection.execute(
            "INSERT INTO transcript_docs (workspace_id, seq) SELECT 'w', seq FROM transcripts ORDER BY seq"
        )
        connection.executemany("INSERT INTO transcript_search (rowid, tokens) VALUES (?, ?)", tokens)
        connection.execute("INSERT INTO heads VALUES ('w', 'transcript', ?, '')", (items,))
        foreign = ((f"{number % 5000:064}", f"k{number}") for number in range(items))
        connection.executemany(
            "INSERT INTO states (workspace_id, scope_key, key, scope, value, version, agent_id, updated_at)"
            " VALUES ('w', ?, ?, 'actor', '1', 1, 'a', 0)",
            foreign,
        )
        mine = ((f"{scope * 1111:064}", f"mine{number}") for scope in range(1, 5) for number in range(5))
        connection.executemany(
            "INSERT INTO states (workspace_id, scope_key, key, scope, value, version, agent_id, updated_at)"
            " VALUES ('w', ?, ?, 'actor', '1', 1, 'b', 0)",
            ((f"mine{key}", name) for key, name in mine),
        )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture(scope="module")
def meters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Meter, Meter]]:
    folder = tmp_path_factory.mktemp("flat")
    opened = []
    for items in (SMALL, LARGE):
        _build(folder / f"{items}.db", items)
        driver = SqliteDriver(folder / f"{items}.db")
        meter = Meter(driver.open_reader(), items)

        def count(meter: Meter = meter) -> int:
            meter.steps += 1
            return 0

        connection = meter.session._connection
        connection.execute("PRAGMA cache_size=0")
        connection.set_progress_handler(count, 10)
        opened.append((meter, driver))
    yield opened[0][0], opened[1][0]
    for meter, driver in opened:
        meter.session.close()
        driver.close()


def page(tx: Tx, **edge: Any) -> int:
    return len(transcripts.page(tx, "w", limit=50, **HERE, **edge).items)


def hits(tx: Tx, query: str, **more: Any) -> int:
    return len(search.search(tx, "w", query, **{**HERE, **more}).items)


WORK: dict[str, Callable[[Tx, int], int]] = {
    "newest page": lambda tx, n: page(tx),
    "page from the middle": lambda tx, n: page(tx, before_seq=n // 2),
    "page forward from the middle": lambda tx, n: page(tx, after_seq=n // 2, direction="forward"),
    "oldest page": lambda tx, n: page(tx, direction="forward"),
    "page of all threads": lambda tx, n: len(transcripts.page(tx, "w", conversation_id="big").items),
    "latest sequence": lambda tx, n: transcripts.latest_seq(tx, "w", **HERE),
    "a common word": lambda tx, n: hits(tx, "common"),
    "a common pair of characters": lambda tx, n: hits(tx, "東京"),
    "a word said once": lambda tx, n: hits(tx, f"only{n // 4 * 2 + 1}"),
    "a word said nowhere": lambda tx, n: hits(tx, "nowhere"),
    "a word common elsewhere": lambda tx, n: hits(tx, "foreign"),
    "a word now and then": lambda tx, n: hits(tx, "some5"),
    "two words": lambda tx, n: hits(tx, f"common only{n // 4 * 2 + 1}"),
    "a word long ago": lambda tx, n: hits(tx, "common", before=1000 * n // 10),
    "a word in the small conversation": lambda tx, n: hits(tx, "common", conversation_id="small"),
    "a snapshot of four scopes": lambda tx, n: sum(
        len(held)
        for held in states.snapshot(
            tx, "w", {f"s{k}": f"mine{k * 1111:064}" for k in range(1, 5)}
        ).values.values()
    ),
}
FOUND_NOTHING = {"a word said nowhere", "a word common elsewhere"}


@pytest.mark.parametrize("name", WORK)
def test_what_it_costs_does_not_grow_with_the_conversation(meters: tuple[Meter, Meter], name: str) -> None:
    costs = []
    for meter in meters:
        found: list[int] = []
        costs.append(meter.cost(lambda tx, n=meter.items, found=found: found.append(WORK[name](tx, n))))  # type: ignore[misc]
        assert (found[-1] > 0) is (name not in FOUND_NOTHING)
    (small_pages, small_steps), (large_pages, large_steps) = costs
    # Twenty times the messages make trees a level deeper and spread the same hits over more pages; without
    # a cache each step down a tree is a page read.
    assert large_pages <= 4 * small_pages + 60, costs
    assert large_steps <= 2 * small_steps + 60, costs
