"""Facts per second through the stores against raw SQLite writing the same rows with the same durability.

    python -m bench.facts [--seconds 2] [--postgres URL]

A run is 26 facts: an event, the user's message, the run and its changes of status, 20 results, one state
value, the assistant's message. Hostler commits it at two points (accept, end). Raw is one connection that
inserts the very rows that such a run leaves behind, in one transaction a run, with prepared statements.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.table import Row, middle, text_of

from hostler.domain.events import Event
from hostler.domain.place import Place
from hostler.domain.scopes import StateArea
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import events, runs, transcripts
from hostler.storage.stores import state_values as states
from hostler.storage.stores.filters import ANY
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, NewEntry
from hostler.storage.stores.search_tokens import fold, indexed_tokens, tokens_of, wanted_tokens
from hostler_protocol.content import Message
from hostler_protocol.events import Actor, EventEnvelope, Input
from hostler_protocol.ids import digest, new_id

WORKSPACE, RAW_WORKSPACE = "w1", "raw"
TEXT = "Please find the three cheapest flights to Lisbon next Friday and compare their baggage rules."
ANSWER = "The cheapest one leaves at 7:40 and takes one cabin bag; " * 8
DELTA = b'{"data":{"chunk":{"role":"assistant","content":"The cheapest one leaves ","message_id":"m1"}}}'
COMPLETED = b'{"data":{"message":{"role":"assistant","content":"%s","message_id":"m1"}}}' % ANSWER.encode()
RESULTS: list[NewEntry | Deltas] = [Deltas([DELTA] * 18), NewEntry("result", "message.completed", COMPLETED)]
"""As a host writes them: deltas that came together as one entry."""
TABLES = ("events", "transcripts", "runs", "journal", "states")
ACCEPTED = 3
"""The first so many of TABLES hold what `accept` stores, the others nearly all of the rest."""


def accept(tx: Tx, run_id: str, conversation: str) -> None:
    """The first durable point: event, user's message, run."""
    event_id = f"event-{run_id}"
    envelope = EventEnvelope(
        event_type="message.received",
        input=Input(text=TEXT),
        event_id=event_id,
        conversation_id=conversation,
        actor=Actor(actor_type="user", actor_id="u1", actor_name="Ada"),
    )
    event = Event(WORKSPACE, event_id, envelope, digest([event_id]), False, tx.now, "key:ada")
    events.insert(tx, event, "started", run_id, {})
    said = Message(role="user", content=TEXT)
    transcripts.append(tx, WORKSPACE, _item(said, event_id=event_id, run_id=None, conversation=conversation))
    new = runs.NewRun(
        workspace_id=WORKSPACE,
        run_id=run_id,
        agent_id="a1",
        agent_name="travel",
        agent_version=1,
        runner_id="plugin:acme/travel/default",
        lane=digest([WORKSPACE, conversation]),
        event_id=event_id,
        conversation_id=conversation,
    )
    runs.open(tx, new, Membership("h1"))


def finish(tx: Tx, run_id: str, conversation: str) -> None:
    """The second durable point: results, state, assistant's message, end."""
    begun = runs.Begun.of(cause="started", actor="h1")
    area = StateArea(
        scope="conversation", scope_key=digest([conversation]), agent_id="a1", conversation_id=conversation
    )
    states.set(tx, WORKSPACE, area, "step", '{"step":1}')
    answer = Message(role="assistant", content=ANSWER, message_id="m1")
    transcripts.append(tx, WORKSPACE, _item(answer, event_id=None, run_id=run_id, conversation=conversation))
    ended = NewEntry("result", "run.completed", b'{"data":{"finish_reason":"stop"}}')
    entries = [begun.entry, *RESULTS, ended]
    runs.transition(tx, run_id, 1, "completed", cause="finished", actor="h1", entries=entries, begun=begun)


def _item(message: Message, *, conversation: str, **ids: Any) -> transcripts.NewTranscriptItem:
    return transcripts.item_of(message, Place(conversation_id=conversation), **ids)


async def one_run(database: SqlDatabase) -> None:
    """A whole run, as its caller waits for it."""
    run_id, conversation = new_id(), new_id()
    await database.write(lambda tx: accept(tx, run_id, conversation))
    await database.write(lambda tx: finish(tx, run_id, conversation))


async def measure(database: SqlDatabase, at_once: int, seconds: float) -> tuple[float, float]:
    """Runs per second, and commits per run, with so many runs at once."""
    done = 0
    until = time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await one_run(database)
            done += 1

    before, began = database.groups_committed, time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return done / (time.perf_counter() - began), (database.groups_committed - before) / done


def rows_of_a_run(path: Path) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """The rows that one run leaves behind, as INSERT statements with their values."""
    with sqlite3.connect(path) as connection:
        run_id, event_id, conversation = connection.execute(
            "SELECT run_id, event_id, conversation_id FROM runs ORDER BY created_at DESC LIMIT 1"
        ).fetchone()
        found: list[tuple[str, list[tuple[Any, ...]]]] = []
        for table in TABLES:
            cursor = connection.execute(f"SELECT * FROM {table} LIMIT 1")
            columns = [column[0] for column in cursor.description]
            key = {"journal": ("run_id", run_id), "events": ("event_id", event_id)}.get(
                table, ("conversation_id", conversation)
            )
            rows = connection.execute(f"SELECT * FROM {table} WHERE {key[0]} = ?", (key[1],)).fetchall()
            found.append((f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows))
    return found


def raw(path: Path, template: list[tuple[str, list[tuple[Any, ...]]]], points: int = 1) -> Callable[[], None]:
    """A function that writes the rows of another run in one transaction, or in two (accept, end)."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    numbers = itertools.count(time.time_ns())
    run_id = template[2][1][0][1]
    event_id, conversation = template[2][1][0][6], template[2][1][0][9]
    scope, said = _scope_token(conversation), (_tokens(TEXT, conversation), _tokens(ANSWER, conversation))

    def write() -> None:
        number = next(numbers)
        new_run, new_conversation = new_id(), new_id()
        swap = {run_id: new_run, event_id: f"event-{new_run}", conversation: new_conversation}
        swap[WORKSPACE] = RAW_WORKSPACE
        connection.execute("BEGIN IMMEDIATE")
        for index, (statement, rows) in enumerate(template):
            if index == ACCEPTED and points == 2:
                connection.execute("COMMIT")
                connection.execute("BEGIN IMMEDIATE")
            fresh: list[list[Any]] = []
            for row in rows:
                values = [swap.get(value, value) for value in row]
                if "INTO events" in statement:
                    values[2] = number
                elif "INTO transcripts" in statement:
                    values[1] = number * 2 + len(fresh)
                elif "INTO states" in statement:
                    values[1] = new_conversation
                fresh.append(values)
            connection.executemany(statement, fresh)
        fresh_scope = f"\ue000{number:016x}"
        for half, tokens in enumerate(said):
            connection.execute(
                "INSERT INTO transcript_docs (workspace_id, seq) VALUES (?, ?)",
                (RAW_WORKSPACE, number * 2 + half),
            )
            connection.execute(
                "INSERT INTO transcript_search (rowid, tokens) VALUES (last_insert_rowid(), ?)",
                (tokens.replace(scope, fresh_scope),),
            )
        connection.execute("COMMIT")

    return write


def _tokens(text: str, conversation: str) -> str:
    """What the text index holds of a message."""
    return " ".join(
        indexed_tokens("sqlite", WORKSPACE, Place(conversation_id=conversation), tokens_of(fold(text)))
    )


def _scope_token(conversation: str) -> str:
    """What the words of a conversation begin with in the index."""
    (token,) = wanted_tokens("sqlite", WORKSPACE, conversation, ANY, [""])
    return token


def measure_raw(path: Path, seconds: float) -> float:
    """Runs per second of raw SQLite."""
    template = rows_of_a_run(path)
    write = raw(path, template)
    write()
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        write()
        done += 1
    return done / (time.perf_counter() - began)


async def rounds(folder: Path, seconds: float, count: int) -> list[Row]:
    """Measure in turns, so that a noisy neighbour hurts all alike."""
    path = folder / "facts.db"
    database = open_database(path)
    await one_run(database)
    found: dict[str, list[float]] = {"raw": [], "1": [], "32": [], "commits 1": [], "commits 32": []}
    for _ in range(count):
        found["raw"].append(await asyncio.to_thread(measure_raw, path, seconds))
        for at_once in (1, 32):
            rate, commits = await measure(database, at_once, seconds)
            found[str(at_once)].append(rate)
            found[f"commits {at_once}"].append(commits)
    await database.close()
    got = {name: middle(values) for name, values in found.items()}
    against = f"raw SQLite, one transaction a run ({got['raw']:,.0f} runs/s)"
    rows = []
    for many, words, goal in (("1", "one at a time", "at least 0.45"), ("32", "32 at once", "at least 1.5")):
        name = f"facts of a run through the stores, {words}"
        rows.append(Row(name, got[many], "runs/s", got[many] / got["raw"], against, goal))
        rows.append(Row(f"commits of a run, {words}", got[f"commits {many}"], "", goal="at most 2"))
    return rows


def rows(quick: bool) -> list[Row]:
    """Measure on SQLite, with full durability."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(rounds(Path(folder), 0.3 if quick else 2.0, 1 if quick else 5))


async def on_postgres(url: str, seconds: float) -> None:
    """The same stores on PostgreSQL."""
    database = open_database(url)
    for at_once in (1, 32):
        rate, commits = await measure(database, at_once, seconds)
        print(
            f"PostgreSQL, {at_once:>2} run(s) at once        {rate:8.0f} runs/s   {commits:.2f} commits a run"
        )
    await database.close()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the databases lie (a temporary folder)")
    parser.add_argument("--postgres", help="address of an empty PostgreSQL database to measure as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        print(text_of(asyncio.run(rounds(Path(folder), arguments.seconds, arguments.rounds))))
    if arguments.postgres:
        asyncio.run(on_postgres(arguments.postgres, arguments.seconds))


if __name__ == "__main__":
    main()
