"""Transcripts on every database: pages and what they hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.calls.cursors import Cursors
from hostler.calls.history import transcript_page, transcript_record
from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import transcripts
from hostler.storage.stores.filters import ANY
from hostler.storage.stores.transcripts import TranscriptPage, item_of
from hostler_protocol.content import ArtifactRef, ImageUrl, ImageUrlElement, Message, TextElement
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_PAGE_BYTES
from support.databases import read, write
from support.transcript_rows import PLACES, add, fill, find, texts

CURSORS = Cursors(bytes(32)).scoped("history.page", "c")


def test_an_item_keeps_the_whole_message_and_shows_its_text(database: SqlDatabase) -> None:
    message = Message(
        role="assistant",
        content=[
            TextElement(text="a" * 3_999),
            ImageUrlElement(image_url=ImageUrl(url="https://example.org/x.png")),
            TextElement(text="tail"),
        ],
        artifact_refs=[ArtifactRef(artifact_id="art", name="n")],
        message_id="m1",
    )
    given = item_of(
        message,
        Place("b", "c", "t"),
        event_id="e",
        run_id="r",
        metadata={"k": [1]},
        created_at=1_700_000_000_123,
    )
    seqs: list[int] = []
    write(database, lambda tx: transcripts.append(tx, "w", given, seqs.append))
    stored = read(database, lambda tx: transcripts.items(tx, "w", [1]))[0]
    record = transcript_record(stored, CURSORS)
    assert seqs == [1]
    assert record.content == "a" * 3_999 + "\n"
    assert msgspec.convert(record.content_json, Message) == message
    assert (record.seq, record.created_at, record.thread_id, record.role) == (
        1,
        1_700_000_000.123,
        "t",
        "assistant",
    )
    assert record.artifact_refs == message.artifact_refs
    assert record.metadata == {"k": [1]}
    assert transcript_record(stored, CURSORS, artifacts=False).artifact_refs == []
    assert CURSORS.read_sequence(record.cursor) == 1


def test_nul_characters_are_left_out_and_backslashes_are_not(database: SqlDatabase) -> None:
    write(database, lambda tx: add(tx, "one\x00two \\u0000 three", metadata={"k\x00": "v\x00"}))
    item = read(database, lambda tx: transcripts.items(tx, "w", [1]))[0]
    assert item.content == item.content_json["content"] == "onetwo \\u0000 three"
    assert item.metadata == {"k": "v"}
    assert find(database, "onetwo") == [item.content]


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.sampled_from(PLACES), min_size=1, max_size=40),
    st.sampled_from(["c", "d", ANY]),
    st.sampled_from([ANY, None, "t", ""]),
    st.sampled_from([ANY, None, "b"]),
    st.sampled_from(["backward", "forward"]),
    st.integers(1, 7),
)
def test_pages_walk_a_scope_whole_once_and_in_order_and_back_again(
    database: SqlDatabase, places: Any, conversation: Any, thread: Any, bot: Any, direction: Any, limit: int
) -> None:
    ws = f"w{read(database, lambda tx: tx.now)}-{id(places)}"

    def build(tx: Tx) -> None:
        for n, (conversation_id, thread_id, bot_id) in enumerate(places, start=1):
            add(tx, str(n), ws=ws, conversation_id=conversation_id, thread_id=thread_id, bot_id=bot_id)

    write(database, build)
    scope: dict[str, Any] = {"conversation_id": conversation, "thread_id": thread, "bot_id": bot}
    wanted = [
        n
        for n, (c, t, b) in enumerate(places, start=1)
        if (conversation is ANY or c == conversation)
        and (thread is ANY or t == thread)
        and (bot is ANY or b == bot)
    ]
    forward = direction == "forward"

    def walk(tx: Tx) -> None:
        seen: list[int] = []
        page = TranscriptPage([], True)
        pages = []
        while page.has_more:
            edge: dict[str, Any] = {("after_seq" if forward else "before_seq"): seen[-1]} if seen else {}
            page = transcripts.page(tx, ws, limit=limit, direction=direction, **scope, **edge)
            assert len(page.items) <= limit
            pages.append(page)
            seen += [item.seq for item in page.items]
        assert seen == (wanted if forward else wanted[::-1])
        if len(pages) > 1:  # turning round at a page's start gives what was before it
            start = pages[-1].items[0].seq
            edge = {("before_seq" if forward else "after_seq"): start}
            other: Any = "backward" if forward else "forward"
            back = transcripts.page(tx, ws, limit=100, direction=other, **scope, **edge)
            assert [item.seq for item in back.items] == seen[: -len(pages[-1].items)][::-1]
        assert transcripts.latest_seq(tx, ws, **scope) == (wanted[-1] if wanted else 0)

    read(database, walk)


def test_a_page_of_a_run_ends_before_its_own_event(database: SqlDatabase) -> None:
    fill(database, map(str, range(1, 6)))

    def look(tx: Tx) -> None:
        page = transcripts.page(tx, "w", conversation_id="c", before_seq=4, after_seq=1, direction="forward")
        assert texts(page.items) == ["2", "3"]
        assert transcripts.latest_seq(tx, "w", conversation_id="c", before_seq=4) == 3

    read(database, look)


def test_cursors_of_a_page_go_on_and_turn_round(database: SqlDatabase) -> None:
    fill(database, map(str, range(1, 6)))
    page = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c", limit=2))
    record = transcript_page(page, CURSORS)
    assert record.next_cursor is not None
    assert record.prev_cursor is not None
    assert [CURSORS.read(record.next_cursor), CURSORS.read(record.prev_cursor)] == [4, 5]
    last = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c", limit=2, before_seq=2))
    assert transcript_page(last, CURSORS).next_cursor is None
    assert transcript_page(TranscriptPage([], False), CURSORS).prev_cursor is None


def test_a_page_stops_at_its_bound_in_bytes_but_never_without_an_item(database: SqlDatabase) -> None:
    fill(database, [f"{n}" + "x" * 700_000 for n in range(9)])
    page, pages = TranscriptPage([], True), list[TranscriptPage]()
    while page.has_more:
        before = pages[-1].items[-1].seq if pages else None
        page = read(database, partial(transcripts.page, ws="w", conversation_id="c", before_seq=before))
        pages.append(page)
        assert len(msgspec.json.encode(transcript_page(page, CURSORS))) <= MAX_PAGE_BYTES
    assert [len(page.items) for page in pages] == [5, 4]
    write(database, lambda tx: add(tx, "\x01" * 1_000_000))  # six bytes each as JSON: more than a page
    page = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c"))
    assert (len(page.items), page.has_more) == (1, True)


def test_limits_are_capped_and_refused(database: SqlDatabase) -> None:
    fill(database, ["x"] * 130)
    page = read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c", limit=5000))
    assert (len(page.items), page.has_more) == (100, True)
    with pytest.raises(InvalidArgumentError, match="limit is 0"):
        read(database, lambda tx: transcripts.page(tx, "w", conversation_id="c", limit=0))


def test_what_belongs_to_no_conversation_is_no_conversation(database: SqlDatabase) -> None:
    write(database, lambda tx: add(tx, "hello", conversation_id=None))
    assert not read(database, lambda tx: transcripts.page(tx, "w", conversation_id=None)).items
    assert find(database, "hello", conversation_id=None) == []
    assert find(database, "hello", conversation_id=ANY) == ["hello"]
