"""Answers that grow by edits, on every database: one text after the other, until the last one is final."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.outbound import ReplyTarget
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import outbox, outbox_growth, runs, settings
from hostler.storage.stores.channel_entries import CHANNEL
from hostler.storage.stores.outbox_rows import Claimed, Delivery, Head
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from hostler_protocol.content import ArtifactRef
from support.databases import read, write
from support.pauses import WORKSPACE, open_run

pytestmark = pytest.mark.gate("both-databases")
HERE = ChannelTarget(chat_id="room")
TO = ReplyTarget("chat", HERE, 100, "characters", files=True, edit_seconds=1.0)
_ENDED = "UPDATE outbox SET lease_until = 0"
ENDED = Query("ended", _ENDED, _ENDED)


@pytest.fixture
def run(database: SqlDatabase) -> SqlDatabase:
    def work(tx: Tx) -> None:
        open_run(tx, requester="channel:chat")
        settings.put(tx, WORKSPACE, CHANNEL, "chat", {"name": "chat", "channel": "plugin:a/b/c"})

    write(database, work)
    return database


def grow(database: SqlDatabase, *texts: str, key: str = "") -> bool:
    said = [(HERE, text) for text in texts]
    return write(database, lambda tx: outbox_growth.grow(tx, runs.get(tx, WORKSPACE, "r1"), TO, key, said))


def complete(database: SqlDatabase, *messages: Any, message_id: str = "m1") -> list[ChannelMessage]:
    said = [(HERE, ChannelMessage(text=one) if isinstance(one, str) else one) for one in messages]
    text = "".join(message.text for _, message in said)
    left = write(database, lambda tx: outbox_growth.complete(tx, "r1", message_id, text, said, 7))
    return [message for _, message in left]


def rows(database: SqlDatabase) -> list[Delivery]:
    return sorted(read(database, lambda tx: outbox.page(tx, WORKSPACE)), key=lambda one: one.position)


def claim(database: SqlDatabase, **how: bool) -> Claimed | None:
    def work(tx: Tx) -> Claimed | None:
        heads = outbox.heads(tx, WORKSPACE, "chat", limit=9)
        if not heads:
            return None
        flags = {"repeats": True, "send_again": False, **how}
        return outbox.claim(tx, WORKSPACE, Head(*heads[0]), host_id="h1", lease_ms=60_000, **flags)

    return write(database, work)


def sent(database: SqlDatabase, **how: bool) -> Delivery:
    """Send what is due, and return it as it was claimed."""
    claimed = claim(database, **how)
    assert claimed is not None
    assert claimed.step == "send"
    message_id = claimed.delivery.message_id or "5"
    assert write(database, lambda tx: outbox.mark_sent(tx, claimed, message_id))
    return claimed.delivery


def test_the_newest_text_alone_is_sent_and_the_last_one_is_final(run: SqlDatabase) -> None:
    assert grow(run, "The answer is long")
    assert grow(run, "The answer is long and")
    first = sent(run)
    assert (first.outbound.message.text, first.edits_itself) == ("The answer is long and", False)
    assert claim(run) is None, "nothing is newer"
    assert not grow(run, "The answer is long and"), "it is the same text"
    assert grow(run, "The answer is long and grows")
    assert grow(run, "The answer is long and grows on")
    second = sent(run)
    assert (second.outbound.message.text, second.edits_itself) == ("The answer is long and grows on", True)
    assert complete(run, "The answer is long and grows on.") == []
    last = sent(run)
    assert (last.outbound.message.text, last.growing) == ("The answer is long and grows on.", 2)
    (row,) = rows(run)
    assert (row.status, row.due_at, row.growing, row.result_sequence) == ("sent", None, 0, 7)
    assert row.settled_at is not None
    assert complete(run, "The answer is long") != [], "it is over: another answer is its own"


def test_a_text_that_became_newer_while_it_was_sent_is_due_at_once(run: SqlDatabase) -> None:
    grow(run, "one")
    claimed = claim(run)
    assert claimed is not None
    grow(run, "one two")
    assert complete(run, "one two three") == []
    assert write(run, lambda tx: outbox.mark_sent(tx, claimed, "5"))
    (row,) = rows(run)
    assert row.due_at is not None
    assert sent(run).outbound.message.text == "one two three"
    assert claim(run) is None


def test_what_is_shown_already_needs_no_edit(run: SqlDatabase) -> None:
    grow(run, "one")
    sent(run)
    assert complete(run, "one") == []
    assert claim(run) is None
    assert rows(run)[0].growing == 0


def test_more_text_is_more_messages(run: SqlDatabase) -> None:
    grow(run, "the first part")
    sent(run)
    grow(run, "the first part", "the second")
    assert sent(run).outbound.message.text == "the second"
    left = complete(run, "the first part", "the second one", "the third")
    assert [one.text for one in left] == ["the third"]
    assert sent(run).outbound.message.text == "the second one"
    assert claim(run) is None


def test_less_text_withdraws_what_is_too_much(run: SqlDatabase) -> None:
    grow(run, "the first part", "the second")
    sent(run), sent(run)
    assert complete(run, "the first part.") == []
    assert [sent(run).outbound.message.text for _ in range(2)] == ["the first part.", "[…]"]


def test_files_are_a_message_of_their_own(run: SqlDatabase) -> None:
    file = ArtifactRef(artifact_id="a1")
    grow(run, "see the file")
    assert complete(run, ChannelMessage(text="see the file!", attachments=[file])) == [
        ChannelMessage(attachments=[file])
    ]
    assert sent(run).outbound.message == ChannelMessage(text="see the file!")


def test_another_message_is_not_the_one_that_grows(run: SqlDatabase) -> None:
    grow(run, "the long answer", key="m2")
    assert not grow(run, "another one", key="m3"), "one at a time"
    assert [one.text for one in complete(run, "a remark", message_id="m9")] == ["a remark"]
    assert rows(run)[0].growing == 1
    assert complete(run, "a corrected answer", message_id="m2") == []
    assert rows(run)[0].outbound.message.text == "a corrected answer"


@pytest.mark.parametrize(
    ("repeats", "looks_up", "step", "growing"),
    [(True, False, "send", 2), (False, True, "settle", 2), (False, False, "send", 0)],
)
def test_of_a_text_in_doubt_the_whole_is_sent(
    run: SqlDatabase, repeats: bool, looks_up: bool, step: str, growing: int
) -> None:
    grow(run, "one")
    assert claim(run, repeats=repeats, looks_up=looks_up) is not None
    write(run, lambda tx: tx.run(ENDED))  # its host died while it sent
    assert complete(run, "one two") == []
    again = claim(run, repeats=repeats, looks_up=looks_up)
    assert again is not None
    assert (again.step, again.delivery.growing) == (step, growing)
    assert again.delivery.maybe_twice == (growing == 0)
    assert write(run, lambda tx: outbox.mark_sent(tx, again, "5"))
    if growing == 0:
        assert claim(run) is None, "the platform has got the whole"
    else:
        assert sent(run).edits_itself, "it may have the first text: it is edited"
        assert claim(run) is None


def test_what_a_lost_try_may_have_sent_is_edited_also_if_the_next_try_surely_sent_nothing(
    run: SqlDatabase,
) -> None:
    """A platform that takes a key once answers with the message it has, and shows the text of then."""
    grow(run, "one")
    assert claim(run) is not None
    write(run, lambda tx: tx.run(ENDED))  # its host died while it sent
    again = claim(run)
    assert again is not None
    assert write(run, lambda tx: outbox.mark_pending(tx, again, "the channel is not connected", 0.0))
    assert complete(run, "one two") == []
    whole = sent(run)
    assert (whole.outbound.message.text, whole.edits_itself) == ("one two", False)
    edit = sent(run)
    assert (edit.outbound.message.text, edit.edits_itself) == ("one two", True)
    assert claim(run) is None


def test_the_whole_is_sent_though_it_was_left_in_doubt_while_the_answer_was_completed(
    run: SqlDatabase,
) -> None:
    grow(run, "one")
    assert claim(run, repeats=False) is not None
    write(run, lambda tx: tx.run(ENDED))  # its host died while it sent
    looked = claim(run, repeats=False)
    assert looked is not None
    assert looked.step == "settle"
    assert complete(run, "one two") == []
    assert write(run, lambda tx: outbox.mark_in_doubt(tx, looked, "nobody can know", None))
    again = claim(run, repeats=False)
    assert again is not None
    assert (again.step, again.delivery.outbound.message.text) == ("send", "one two")
    assert write(run, lambda tx: outbox.mark_in_doubt(tx, again, "nobody can know", None))
    assert claim(run, repeats=False) is None, "it was the whole: people decide"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("failed", "as far as it came\n\n[This answer was not finished.]"),
        ("cancelled", "as far as it came\n\n[This answer was not finished.]"),
        ("completed", "as far as it came"),
    ],
)
def test_the_end_of_the_run_leaves_what_was_said(run: SqlDatabase, status: Any, text: str) -> None:
    grow(run, "as far as it came")
    sent(run)
    write(run, lambda tx: outbox_growth.leave(tx, "r1", status))
    if status != "completed":
        assert sent(run).outbound.message.text == text
    assert claim(run) is None
    (row,) = rows(run)
    assert (row.outbound.message.text, row.growing) == (text, 0)


def test_a_chat_that_takes_nothing_is_not_tried_again(run: SqlDatabase) -> None:
    grow(run, "one")
    claimed = claim(run)
    assert claimed is not None
    assert write(run, lambda tx: outbox.mark_failed(tx, claimed, "the bot was blocked"))
    grow(run, "one two")
    assert complete(run, "one two three") == []
    (row,) = rows(run)
    assert (row.status, row.due_at, row.growing) == ("failed", None, 0)
    assert row.outbound.message.text == "one two three", "a dead letter has the whole"
