"""The event log on both databases: once per id, in sequence, and no change goes unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.events import Event
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import SessionTx
from hostler.storage.sql.statements import parse
from hostler.storage.stores import audit, events
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores.events import Duplicate, Inserted
from hostler.storage.stores.filters import ANY
from hostler_protocol.events import Actor, EventEnvelope, Input
from support.databases import read, write

pytestmark = pytest.mark.gate("hash-chains", "both-databases")

NEVER_CHANGES = [*chain.EVENT_FIELDS, "seq", "body_digest", "digest"]
NUMBERS = {"seq", "content_redacted", "event_time", "created_at"}
MAY_BE_NULL = {"bot_id", "thread_id", "subject_type", "subject_id", "requester", "event_time"}


def event(
    event_id: str, workspace: str = "w1", *, digest: str = "d", text: str = "hello", **fields: Any
) -> Event:
    envelope = EventEnvelope(
        event_type=fields.pop("event_type", "message.received"),
        input=Input(text=text),
        event_id=event_id,
        workspace_id=workspace,
        actor=Actor(actor_type="user", actor_id="u1", actor_name="Ada"),
        **fields,
    )
    return Event(workspace, event_id, envelope, digest, False, 1_700_000_000_000, "key:ada")


def insert(one: Event) -> Callable[[Tx], Inserted | Duplicate]:
    return lambda tx: events.insert(tx, one, "started", f"run of {one.event_id}", {"candidates": ["a"]})


async def verified(
    database: SqlDatabase, workspace: str = "w1", kind: chain.Chain = "events"
) -> chain.Verified:
    """Verify in steps of two rows, each from where the last one ended."""
    link, checked = chain.ChainPoint(), 0
    while True:
        step = await database.read(
            partial(chain.verify, workspace_id=workspace, chain=kind, after=link, limit=2)
        )
        checked += step.checked
        if step.done:
            return chain.Verified(step.link, checked, step.deleted, True, step.broken)
        link = step.link


async def change(database: SqlDatabase, sql: str, **params: Any) -> None:
    """Change the database behind the store's back."""
    query = parse(f"-- name: change\n{sql}", "t").change
    # as it is stored, also where content is sealed
    await database.write(lambda tx: SessionTx.run(tx, query, **params))  # type: ignore[arg-type]


def test_an_event_comes_back_as_it_was_given(database: SqlDatabase) -> None:
    given_event = event(
        "e1", conversation_id="c1", thread_id="t1", bot_id="b1", data={"n": [1, None, "é\x00"]}
    )
    assert write(database, insert(given_event)) == Inserted()
    found = read(database, lambda tx: events.find(tx, "w1", "e1"))
    assert found is not None
    assert found.envelope == given_event.envelope
    assert (found.seq, found.outcome, found.run_id, found.routing) == (
        1,
        "started",
        "run of e1",
        {"candidates": ["a"]},
    )
    assert (found.requester, found.input_summary, found.actor_name) == ("key:ada", "hello", "Ada")
    assert read(database, lambda tx: events.find(tx, "w2", "e1")) is None


async def test_the_same_event_five_hundred_times_at_once_is_one_event(database: SqlDatabase) -> None:
    outcomes = await asyncio.gather(*(database.write(insert(event("e1"))) for _ in range(500)))
    duplicates = [outcome for outcome in outcomes if isinstance(outcome, Duplicate)]
    assert len(duplicates) == 499
    assert {(one.record.event_id, one.record.run_id, one.same_body) for one in duplicates} == {
        ("e1", "run of e1", True)
    }
    assert await database.read(lambda tx: events.latest_seq(tx, "w1")) == 1


def test_another_body_under_a_known_id_is_told(database: SqlDatabase) -> None:
    write(database, insert(event("e1", digest="one")))
    outcome = write(database, insert(event("e1", digest="two", text="other")))
    assert isinstance(outcome, Duplicate)
    assert not outcome.same_body
    assert outcome.record.input_summary == "hello"
    assert write(database, insert(event("e1", "w2", digest="two"))) == Inserted(), "ids are per workspace"


def test_summaries_are_short_and_without_nul(database: SqlDatabase) -> None:
    write(database, insert(event("e1", text="a\x00b" * 1000)))
    found = read(database, lambda tx: events.find(tx, "w1", "e1"))
    assert found is not None
    assert found.input_summary == ("ab" * 1000)[:1000]
    assert found.envelope is not None
    assert found.envelope.input.text == "a\x00b" * 1000, "the event itself is kept as it came"


async def test_sequences_have_no_gaps_however_writers_race(database: SqlDatabase) -> None:
    async def one(number: int) -> None:
        await database.write(insert(event(f"e{number}", f"w{number % 3}", conversation_id="c")))

    await asyncio.gather(*(one(number) for number in range(90)))
    for workspace in ("w0", "w1", "w2"):
        found = await database.read(partial(events.page, workspace_id=workspace, limit=100))
        assert [one.seq for one in found] == list(range(30, 0, -1))
        assert (await verified(database, workspace)).broken is None


def test_pages_filter_and_go_backward(database: SqlDatabase) -> None:
    def fill(tx: Tx) -> None:
        for number in range(12):
            one = event(
                f"e{number}",
                conversation_id=[None, "c1", "c2"][number % 3],
                thread_id=[None, "t1"][number % 2],
                event_type=["message.received", "group.member_joined"][number // 6],
            )
            events.insert(tx, one, "unrouted", None, {})

    write(database, fill)

    def ids(**filters: Any) -> list[int]:
        return [int(one.event_id[1:]) for one in read(database, lambda tx: events.page(tx, "w1", **filters))]

    assert ids() == list(range(11, -1, -1))
    assert ids(limit=3) == [11, 10, 9]
    assert ids(before_seq=10, limit=3) == [8, 7, 6]
    assert ids(conversation_id="c1") == [10, 7, 4, 1]
    assert ids(conversation_id=None) == [9, 6, 3, 0]
    assert ids(conversation_id="c1", thread_id=None) == [10, 4]
    assert ids(conversation_id="c1", thread_id="t1") == [7, 1]
    assert ids(thread_id="t1", conversation_id=ANY, limit=2) == [11, 9]
    assert ids(event_types=["message.received"], limit=2) == [5, 4]
    assert ids(event_types=["message_received", "%"]) == []
    assert ids(event_types=[]) == []


async def test_what_becomes_of_an_event_stands_outside_the_chain(database: SqlDatabase) -> None:
    await database.write(insert(event("e1")))

    def later(tx: Tx) -> None:
        events.set_outcome(tx, "w1", "e1", "queued", "r9", {"reason": "busy"})
        events.set_steering(tx, "w1", "e1", {"status": "queued"})

    await database.write(later)
    found = await database.read(lambda tx: events.find(tx, "w1", "e1"))
    assert found is not None
    assert (found.outcome, found.run_id, found.routing) == ("queued", "r9", {"reason": "busy"})
    assert found.steering == {"status": "queued"}
    assert (await verified(database)).broken is None


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    column=st.sampled_from(NEVER_CHANGES),
    row=st.integers(1, 5),
    text=st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8),
    number=st.integers(-(2**40), 2**40),
    null=st.booleans(),
)
async def test_any_change_of_any_field_is_found(
    database: SqlDatabase, column: str, row: int, text: str, number: int, null: bool
) -> None:
    workspace = f"w{await database.read(lambda tx: len(chain.heads(tx)))}"
    for index in range(1, 6):
        await database.write(insert(event(f"e{index}", workspace, conversation_id="c")))
    assert (await verified(database, workspace)).broken is None
    value: Any = number if column in NUMBERS else text
    if null and column in MAY_BE_NULL:
        value = None
    before = await database.read(
        lambda tx: tx.all(Query("t.all", *["SELECT * FROM events ORDER BY workspace_id, seq"] * 2))
    )
    if column == "event_id" and value in {f"e{index}" for index in range(1, 6)}:
        value = "e9"
    if column == "seq" and value in range(1, 6):
        value = 77
    await change(
        database,
        f"UPDATE events SET {column} = :value WHERE workspace_id = :workspace AND seq = :row",
        value=value,
        workspace=workspace,
        row=row,
    )
    after = await database.read(
        lambda tx: tx.all(Query("t.all", *["SELECT * FROM events ORDER BY workspace_id, seq"] * 2))
    )
    if sorted(before, key=repr) == sorted(after, key=repr):
        return
    broken = (await verified(database, workspace)).broken
    assert broken is not None, f"{column} = {value!r} went unseen"
    if column not in {"seq", "digest"}:
        assert broken.seq == row
    assert broken.reason


@pytest.mark.parametrize(
    ("sql", "seq", "reason"),
    [
        ("DELETE FROM events WHERE seq = 3", 3, "sequence 3 is missing; 4 follows"),
        ("DELETE FROM events WHERE seq = 5", 5, "sequence 5 is missing; the chain's head is at 5"),
        ("DELETE FROM events", 1, "sequence 1 is missing; the chain's head is at 5"),
        ("UPDATE heads SET seq = 4", 5, "the chain's head does not match its last row"),
        ("UPDATE heads SET digest = 'x'", 5, "the chain's head does not match its last row"),
        ("UPDATE events SET seq = NULL WHERE seq = 2", 2, "sequence 2 is missing; 3 follows"),
        ("UPDATE events SET seq = 6 WHERE seq = 5", 5, "sequence 5 is missing; 6 follows"),
    ],
)
async def test_rows_that_are_gone_or_moved_are_found(
    database: SqlDatabase, sql: str, seq: int, reason: str
) -> None:
    for index in range(1, 6):
        await database.write(insert(event(f"e{index}")))
    await change(database, sql)
    assert (await verified(database)).broken == chain.Break(seq, reason)


async def test_a_row_slipped_in_beside_the_chain_is_found(database: SqlDatabase) -> None:
    await database.write(insert(event("e1")))
    columns = "workspace_id, body_digest, request_digest, event_type, source, input_summary, content_redacted"
    await change(
        database,
        f"INSERT INTO events (event_id, {columns}, outcome, routing, created_at)"
        f" SELECT 'forged', {columns}, outcome, routing, created_at FROM events",
    )
    assert (await verified(database)).broken == chain.Break(None, "row forged is not part of the chain")


async def test_deleted_content_leaves_a_chain_that_verifies(database: SqlDatabase) -> None:
    for index in range(1, 6):
        await database.write(insert(event(f"e{index}")))
    await change(database, "UPDATE events SET body = NULL, input_summary = '', actor_id = NULL WHERE seq = 2")
    found = await verified(database)
    assert found.broken is None
    assert (await database.read(lambda tx: chain.verify(tx, "w1", "events"))).deleted == 1
    gone = await database.read(lambda tx: events.find(tx, "w1", "e2"))
    assert gone is not None
    assert gone.envelope is None


async def test_audit_facts_stand_in_a_chain_of_their_own(database: SqlDatabase) -> None:

    def record(number: int) -> Callable[[Tx], str]:
        return lambda tx: audit.record(tx, "w1", "key:ada", "key.created", f"k{number}", {"n": number})

    for number in range(4):
        await database.write(record(number))
    await database.write(insert(event("e1")))
    facts = await database.read(lambda tx: audit.page(tx, "w1", limit=3))
    assert [(fact.seq, fact.target, fact.body) for fact in facts] == [
        (4, "k3", {"n": 3}),
        (3, "k2", {"n": 2}),
        (2, "k1", {"n": 1}),
    ]
    assert [fact.seq for fact in await database.read(lambda tx: audit.page(tx, "w1", before_seq=2))] == [1]
    assert await database.read(lambda tx: audit.page(tx, "w2")) == []
    assert await verified(database, kind="audit") == chain.Verified(
        await database.read(lambda tx: chain.head(tx, "w1", "audit")), 4, 0, True
    )
    await change(database, "UPDATE audit SET actor = 'nobody' WHERE seq = 2")
    assert (await verified(database, kind="audit")).broken == chain.Break(
        2, "the content does not match its digest"
    )
