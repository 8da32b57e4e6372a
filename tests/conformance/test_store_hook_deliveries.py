"""Requests that hooks took, on every database: each message once, and nothing signed for another."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

from hostler.domain.events import Event
from hostler.domain.retention import RetentionPolicy
from hostler.storage.port import Query, Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import events, hook_deliveries
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.hook_deliveries import Message, Noted
from hostler.storage.stores.retention import collect_workspace
from hostler_protocol.events import EventEnvelope, Input
from support.databases import read, write

pytestmark = pytest.mark.gate("both-databases")
WAIT_SECONDS = 60.0
AGED = [
    Query(table, *[f"UPDATE {table} SET {column} = 0 WHERE workspace_id = 'w1'"] * 2)
    for table, column in (("hook_deliveries", "last_at"), ("hook_signatures", "created_at"))
]

STORED = Query(
    "stored",
    *[
        "SELECT d.body_digest, s.signed_digest FROM hook_deliveries AS d "
        "JOIN hook_signatures AS s ON s.event_id = d.event_id"
    ]
    * 2,
)


def note(
    database: SqlDatabase, event: str, signed: str | None = None, *, hook: str = "h", ws: str = "w1"
) -> Noted:
    return write(database, lambda tx: hook_deliveries.note(tx, ws, Message(hook, event, "b", signed)))


def test_a_message_is_new_once(database: SqlDatabase) -> None:
    assert note(database, "e1") == ("new", "e1")
    assert note(database, "e1") == ("repeated", "e1")
    assert note(database, "e1", ws="w2") == ("new", "e1"), "of another workspace"
    found = read(database, lambda tx: hook_deliveries.find(tx, "w1", "e1"))
    assert found is not None
    assert (found.hook, found.deliveries, found.conflicts) == ("h", 2, 0)
    assert read(database, lambda tx: hook_deliveries.find(tx, "w1", "e2")) is None


def test_what_was_signed_for_another_message_is_a_replay(database: SqlDatabase) -> None:
    assert note(database, "e1", signed="s") == ("new", "e1")
    assert note(database, "e2", signed="s") == ("replayed", "e1")
    assert read(database, lambda tx: hook_deliveries.find(tx, "w1", "e2")) is None, "nothing is noted of it"
    assert note(database, "e1", signed="s2") == ("repeated", "e1"), "it was signed anew"
    assert note(database, "e2", signed="s2") == ("replayed", "e1"), "and that is remembered, too"
    assert note(database, "e2", signed="s", hook="other") == ("new", "e2")
    unnamed = Message("h", "made", "b", "s", named=False)
    assert write(database, lambda tx: hook_deliveries.note(tx, "w1", unnamed)) == ("repeated", "e1")


def test_digests_are_keyed_where_content_is_sealed(database: SqlDatabase) -> None:
    note(database, "e1", signed="s")

    def look(tx: Tx) -> tuple[bool, list[str]]:
        found = tx.all(STORED)
        return tx.seals, [row[name] for row in found for name in ("body_digest", "signed_digest")]

    seals, digests = read(database, look)
    assert [digest.startswith("keyed:") for digest in digests] == [seals, seals]
    assert note(database, "e1", signed="s") == ("repeated", "e1")
    assert note(database, "e2", signed="s") == ("replayed", "e1")


async def test_an_id_with_another_body_conflicts_once_there_is_an_event(database: SqlDatabase) -> None:
    async def noted(body: str) -> Noted:
        message = Message("h", "e-r1", body, None)
        return await database.write(lambda tx: hook_deliveries.note(tx, "w1", message))

    assert (await noted("first")).outcome == "new"
    assert (await noted("second")).outcome == "new", "the first became no event"
    envelope = EventEnvelope(event_type="webhook.received", input=Input(), event_id="e-r1", workspace_id="w1")
    event = Event("w1", "e-r1", envelope, "digest", content_redacted=False, created_at=1)
    await database.write(lambda tx: events.insert(tx, event, "started", None, {}))
    assert (await noted("second")).outcome == "repeated"
    assert (await noted("third")).outcome == "conflicting"
    found = await database.read(lambda tx: hook_deliveries.find(tx, "w1", "e-r1"))
    assert found is not None
    assert (found.deliveries, found.conflicts) == (2, 1)


async def test_requests_at_the_same_time_are_one_new_message(database: SqlDatabase) -> None:
    message = Message("h", "e1", "b", "s")
    found = await asyncio.gather(
        *(database.write(lambda tx: hook_deliveries.note(tx, "w1", message)) for _ in range(20))
    )
    assert sorted(one.outcome for one in found) == ["new"] + ["repeated"] * 19


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_one_of_two_hosts_takes_what_was_signed_once(database_url: str) -> None:
    """The second transaction finds no signature, and has to wait for the first to write its own."""
    waiting = Query("waiting", "", "SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted")
    noted = threading.Event()

    def first(tx: Tx) -> Noted:
        found = hook_deliveries.note(tx, "w1", Message("h", "e1", "b", "s"))
        noted.set()
        until = time.monotonic() + WAIT_SECONDS
        while not (tx.one(waiting) or {})["waiting"]:
            assert time.monotonic() < until
            time.sleep(0.01)
        return found

    one, two = open_database(database_url), open_database(database_url)
    try:
        taking = asyncio.create_task(one.write(first))
        assert await asyncio.to_thread(noted.wait, WAIT_SECONDS)
        captured = Message("h", "e2", "b", "s")
        assert await two.write(lambda tx: hook_deliveries.note(tx, "w1", captured)) == ("replayed", "e1")
        assert await taking == ("new", "e1")
        assert await two.read(lambda tx: hook_deliveries.find(tx, "w1", "e2")) is None
    finally:
        await one.close()
        await two.close()


async def test_old_ones_are_collected(database: SqlDatabase) -> None:
    count = STEP_ROWS + 10

    def fill(tx: Tx) -> None:
        for number in range(count):
            hook_deliveries.note(tx, "w1", Message("h", f"e{number}", "b", f"s{number}"))

    await database.write(fill)
    await collect_workspace(database, "w1", RetentionPolicy())
    assert await database.read(lambda tx: hook_deliveries.find(tx, "w1", "e0")) is not None
    await database.write(lambda tx: [tx.run(aged) for aged in AGED])
    await database.write(lambda tx: hook_deliveries.note(tx, "w1", Message("h", "young", "b", "young")))
    await collect_workspace(database, "w1", RetentionPolicy())
    for gone in ("e0", f"e{count - 1}"):
        assert await database.read(partial(hook_deliveries.find, workspace_id="w1", event_id=gone)) is None
    assert await database.read(lambda tx: hook_deliveries.find(tx, "w1", "young")) is not None
    again = Message("h", "e-new", "b", "s0")
    assert (await database.write(lambda tx: hook_deliveries.note(tx, "w1", again))).outcome == "new"
