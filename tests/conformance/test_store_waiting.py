"""Messages that no run has taken up, on both databases: placed once, in order, and never lost."""

from __future__ import annotations

from functools import partial
from typing import Any

from hostler.domain.events import Event
from hostler.domain.place import Place
from hostler.domain.slots import Slots
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import debounce as gathering
from hostler.storage.stores import events, run_endings, runs, search, transcripts
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun
from hostler.storage.stores.transcripts import NewTranscriptItem, item_of
from hostler_protocol.content import Message
from hostler_protocol.events import EventEnvelope, Input
from support.databases import read, write

PLACE: dict[str, Any] = {"bot_id": "b", "conversation_id": "c", "thread_id": None}


def item(event_id: str, text: str | None = None, **place: Any) -> NewTranscriptItem:
    message = Message(role="user", content=text or f"text of {event_id}")
    return item_of(message, Place(**PLACE | place), event_id=event_id)


def stored(
    tx: Tx, event_id: str, run_id: str | None = None, *, ws: str = "w", outcome: Any = "queued"
) -> None:
    envelope = EventEnvelope(
        event_type="message.received",
        event_id=event_id,
        workspace_id=ws,
        conversation_id="c",
        input=Input(text="x"),
    )
    events.insert(tx, Event(ws, event_id, envelope, "digest", False, tx.now), outcome, run_id, {})


def said(database: SqlDatabase, *event_ids: str, ws: str = "w", **place: Any) -> None:
    """Store events and let their messages wait, each in a transaction of its own."""
    for event_id in event_ids:

        def work(tx: Tx, event_id: str = event_id) -> None:
            stored(tx, event_id, f"run of {event_id}", ws=ws)
            waiting.put(tx, ws, item(event_id, **place))

        write(database, work)


def new(run_id: str, event_id: str, **fields: Any) -> NewRun:
    return NewRun(
        workspace_id="w",
        run_id=run_id,
        agent_id="a1",
        agent_name="echo",
        agent_version=1,
        runner_id="plugin:acme/echo/default",
        lane="lane",
        event_id=event_id,
        **PLACE,
        **fields,
    )


def transcript(database: SqlDatabase, ws: str = "w") -> list[str | None]:
    """The events whose messages stand in the conversation, oldest first."""
    page = read(database, lambda tx: transcripts.page(tx, ws, conversation_id="c", limit=100))
    return [one.event_id for one in reversed(page.items)]


def waits(database: SqlDatabase, ws: str = "w", **where: Any) -> list[str]:
    return [one.event_id for one in read(database, lambda tx: waiting.page(tx, ws, "c", **where)).items]


def claim(database: SqlDatabase) -> list[str]:
    claimed = write(database, lambda tx: claims.claim(tx, Membership("h1"), Slots(10), []))
    return [one.run_id for one in claimed.runs]


def test_a_message_waits_until_it_is_placed_and_is_found_from_then_on(database: SqlDatabase) -> None:
    said(database, "e1", "e2", "e3")
    assert (waits(database), transcript(database)) == (["e1", "e2", "e3"], [])
    assert read(database, lambda tx: search.search(tx, "w", "text", conversation_id="c")).total_count == 0
    write(database, lambda tx: waiting.place(tx, "w", ["e3", "e1", "unknown"]))
    assert (waits(database), transcript(database)) == (["e2"], ["e3", "e1"])
    assert read(database, lambda tx: search.search(tx, "w", "text", conversation_id="c")).total_count == 2
    for _ in range(2):
        write(database, lambda tx: waiting.place(tx, "w", ["e1", "e3"]))
    assert transcript(database) == ["e3", "e1"], "once"


def test_what_is_shown_of_a_waiting_message(database: SqlDatabase) -> None:
    write(database, lambda tx: stored(tx, "e1", "r1", outcome="steered"))
    write(database, lambda tx: waiting.put(tx, "w", item("e1", "hello " * 2000)))
    (one,) = read(database, lambda tx: waiting.page(tx, "w", "c")).items
    assert (one.run_id, one.is_steer, one.role, len(one.content)) == ("r1", True, "user", 4000)
    assert one.content_json == {"role": "user", "content": "hello " * 2000}
    write(database, lambda tx: waiting.place(tx, "w", ["e1"]))
    (placed,) = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c")).items
    assert placed.metadata == {"received_at": one.created_at / 1000}
    assert placed.created_at >= one.created_at


def test_waiting_messages_belong_to_their_workspace_thread_and_bot(database: SqlDatabase) -> None:
    said(database, "e1")
    said(database, "e2", thread_id="t")
    said(database, "e3", bot_id=None)
    said(database, "e1", ws="w2")
    assert waits(database) == ["e1", "e2", "e3"]
    assert waits(database, thread_id="t") == ["e2"]
    assert waits(database, thread_id=None, bot_id="b") == ["e1"]
    write(database, lambda tx: waiting.place(tx, "w2", ["e1", "e2"]))
    assert (waits(database), transcript(database, "w2")) == (["e1", "e2", "e3"], ["e1"])


def test_a_page_of_waiting_messages_is_bounded_in_number_and_bytes(database: SqlDatabase) -> None:
    said(database, *(f"e{number:03}" for number in range(101)))
    page = read(database, lambda tx: waiting.page(tx, "w", "c"))
    assert (len(page.items), page.has_more) == (100, True)
    large = item("large", "x" * waiting.MAX_SHOWN_BYTES, conversation_id="d")
    write(database, lambda tx: stored(tx, "large"))
    write(database, lambda tx: waiting.put(tx, "w", large))
    small = item("small", conversation_id="d")
    write(database, lambda tx: stored(tx, "small"))
    write(database, lambda tx: waiting.put(tx, "w", small))
    page = read(database, lambda tx: waiting.page(tx, "w", "d"))
    assert ([one.event_id for one in page.items], page.has_more) == (["large"], True)


def test_a_queued_run_places_its_whole_turn_when_it_is_claimed(database: SqlDatabase) -> None:
    said(database, "e1", "e2", "e3", "e0")

    def open_turn(tx: Tx) -> None:
        soon = tx.now + 60_000
        runs.open(tx, new("r1", "e2", gathering="ada", not_before=soon, gather_until=soon), None)
        gathering.begin(tx, "w", "r1", "e2")
        joined = gathering.join(tx, "w", "lane", "ada", event_id="e1", size=1, not_before=soon)
        assert joined is not None
        gathering.join(
            tx, "w", "lane", "ada", event_id="none", size=gathering.MAX_GATHERED_BYTES, not_before=soon
        )

    write(database, open_turn)
    write(database, lambda tx: runs.open(tx, new("r2", "e3"), None))
    assert claim(database) == ["r1"]
    assert (transcript(database), waits(database)) == (["e2", "e1"], ["e3", "e0"])
    write(database, lambda tx: run_endings.finish(tx, "r1", None, "failed", cause="t", actor="t"))
    assert claim(database) == ["r2"]
    assert transcript(database) == ["e2", "e1", "e3"]


def test_a_run_that_begins_again_places_nothing_twice(database: SqlDatabase) -> None:
    said(database, "e1")
    write(database, lambda tx: runs.open(tx, new("r1", "e1"), None))
    assert claim(database) == ["r1"]
    for restart in (True, False):
        write(
            database,
            lambda tx, restart=restart: run_endings.begin_again(  # type: ignore[misc]
                tx, "r1", None, cause="lost", actor="t", crashed=True, restart=restart
            ),
        )
        assert claim(database) == ["r1"]
    write(database, lambda tx: run_endings.finish(tx, "r1", None, "failed", cause="t", actor="t"))
    assert (transcript(database), waits(database)) == (["e1"], [])


def test_a_message_of_an_older_database_that_has_its_place_keeps_it(database: SqlDatabase) -> None:
    def before_the_upgrade(tx: Tx) -> None:
        for event_id in ("queued", "steer"):
            stored(tx, event_id)
            transcripts.append(tx, "w", item(event_id))
        runs.open(tx, new("r1", "queued"), None)

    write(database, before_the_upgrade)
    assert claim(database) == ["r1"]
    write(database, lambda tx: waiting.place(tx, "w", ["steer"]))
    assert transcript(database) == ["queued", "steer"]


def test_a_run_that_ends_in_the_queue_leaves_its_message_in_the_conversation(database: SqlDatabase) -> None:
    said(database, "e1")
    write(database, lambda tx: runs.open(tx, new("r1", "e1"), None))
    write(database, lambda tx: run_endings.finish(tx, "r1", None, "cancelled", cause="t", actor="t"))
    assert (transcript(database), waits(database)) == (["e1"], [])


def test_a_message_that_was_given_back_waits_as_it_did_before(database: SqlDatabase) -> None:
    said(database, "e1")
    (before,) = read(database, lambda tx: waiting.page(tx, "w", "c")).items
    write(database, lambda tx: waiting.place(tx, "w", ["e1"]))
    (first,) = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c")).items
    write(database, lambda tx: waiting.take_back(tx, "w", ["e1", "unknown"]))
    (again,) = read(database, lambda tx: waiting.page(tx, "w", "c")).items
    assert (transcript(database), again) == ([], before)
    assert read(database, lambda tx: search.search(tx, "w", "text", conversation_id="c")).total_count == 0
    write(database, lambda tx: waiting.place(tx, "w", ["e1"]))
    (second,) = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c")).items
    assert second.seq > first.seq
    assert (second.transcript_id, second.metadata) == (first.transcript_id, first.metadata)
    assert read(database, lambda tx: search.search(tx, "w", "text", conversation_id="c")).total_count == 1


def test_a_message_placed_and_given_back_in_one_commit_stands_once(database: SqlDatabase) -> None:
    said(database, "e1")

    def both(tx: Tx) -> None:
        waiting.place(tx, "w", ["e1"])
        waiting.take_back(tx, "w", ["e1"])

    write(database, both)
    assert (transcript(database), waits(database)) == (["e1"], [])


def test_conversations_in_which_nothing_stands_are_known_by_what_waits(database: SqlDatabase) -> None:
    said(database, "e1", "e2")
    said(database, "e3", conversation_id="d")
    said(database, "e4", conversation_id=None)
    found = read(database, lambda tx: waiting.unstarted(tx, "w", 10))
    assert [(one.conversation_id, one.content) for one in found] == [("d", "text of e3"), ("c", "text of e2")]
    assert len(read(database, lambda tx: waiting.unstarted(tx, "w", 1))) == 1
    write(database, lambda tx: waiting.place(tx, "w", ["e1"]))
    assert [one.conversation_id for one in read(database, partial(waiting.unstarted, ws="w", limit=10))] == [
        "d"
    ]


def test_deleted_messages_wait_no_more(database: SqlDatabase) -> None:
    said(database, "e1", "e2")
    write(database, lambda tx: waiting.discard(tx, "w", ["e1"]))
    assert waits(database) == ["e2"]
    now = read(database, lambda tx: tx.now)
    assert write(database, lambda tx: waiting.drop_conversation(tx, "w", "c", now - 60_000)) == 0
    assert write(database, lambda tx: waiting.drop_conversation(tx, "w", "c", now)) == 1
    write(database, lambda tx: waiting.place(tx, "w", ["e1", "e2"]))
    assert (transcript(database), waits(database)) == ([], [])
