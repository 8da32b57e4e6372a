"""The outbox and the connections of channels, on every database."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.retention import RetentionPolicy
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import outbox, outbox_upkeep
from hostler.storage.stores.channel_connections import Hold
from hostler.storage.stores.outbox_rows import Claimed, Delivery, Head, NewDelivery, Outbound
from hostler.storage.stores.retention import collect_workspace
from hostler_protocol.channels import ChannelAbilities, ChannelMessage, ChannelTarget, Person
from hostler_protocol.errors import ConflictError, NotFoundError, PayloadTooLargeError

pytestmark = pytest.mark.gate("both-databases")
LEASE_MS = 60_000
_ENDED = "UPDATE outbox SET lease_until = 0 WHERE workspace_id = 'w1'"
ENDED = Query("ended", _ENDED, _ENDED)
_DUE = "UPDATE outbox SET due_at = 0 WHERE workspace_id = 'w1' AND due_at IS NOT NULL"
DUE = Query("due", _DUE, _DUE)
_OLD = "UPDATE outbox SET created_at = 0 WHERE workspace_id = 'w1'"
OLD = Query("old", _OLD, _OLD)
_AGED = f"""UPDATE outbox SET created_at = created_at - {2 * 86_400_000},
    due_at = CASE WHEN due_at IS NULL THEN NULL ELSE 0 END
    WHERE workspace_id = 'w1' AND delivery_id <> 'young'"""
AGED = Query("aged", _AGED, _AGED)
_OVER = "UPDATE channel_connections SET lease_until = 1 WHERE workspace_id = 'w1'"
OVER = Query("over", _OVER, _OVER)


def new(
    name: str, *, chat: str = "c1", thread: str | None = None, text: str = "hello", **fields: Any
) -> NewDelivery:
    target = ChannelTarget(chat_id=chat, thread_id=thread)
    return NewDelivery(
        delivery_id=name, channel="chat", outbound=Outbound(target, ChannelMessage(text=text)), **fields
    )


async def add(database: SqlDatabase, *deliveries: NewDelivery) -> list[bool]:
    return await database.write(lambda tx: [outbox.add(tx, "w1", one) for one in deliveries])


async def heads(database: SqlDatabase, channel: str = "chat") -> list[str]:
    found = await database.read(lambda tx: outbox.heads(tx, "w1", channel, limit=100))
    return sorted(one.delivery_id for one in found)


async def claim(
    database: SqlDatabase, name: str, *, host: str = "h1", repeats: bool = False, send_again: bool = False
) -> Claimed | None:
    def work(tx: Tx) -> Claimed | None:
        head = Head(name, "")
        return outbox.claim(
            tx, "w1", head, host_id=host, lease_ms=LEASE_MS, repeats=repeats, send_again=send_again
        )

    return await database.write(work)


async def get(database: SqlDatabase, name: str) -> Delivery:
    return await database.read(lambda tx: outbox.get(tx, "w1", name))


async def test_messages_of_a_chat_are_sent_in_order_and_chats_side_by_side(database: SqlDatabase) -> None:
    assert await add(database, new("a"), new("b"), new("z", chat="c2"), new("t", thread="t1")) == [True] * 4
    assert await add(database, new("a", text="again")) == [False], "it is there already"
    assert await heads(database) == ["a", "t", "z"]
    assert await heads(database, "other") == []
    first = await claim(database, "a")
    assert first is not None
    assert (first.step, first.delivery.status, first.delivery.attempts) == ("send", "sending", 1)
    assert first.delivery.outbound.message.text == "hello"
    assert await claim(database, "a", host="h2") is None, "another host has it"
    assert await heads(database) == ["t", "z"], "what is being sent keeps the next one of its chat back"
    assert await database.write(lambda tx: outbox.mark_sent(tx, first, "m1"))
    assert not await database.write(lambda tx: outbox.mark_failed(tx, first, "late")), "its lease is over"
    assert await heads(database) == ["b", "t", "z"]
    sent = await get(database, "a")
    assert (sent.status, sent.message_id, sent.due_at) == ("sent", "m1", None)


async def test_a_try_that_has_failed_is_repeated_later(database: SqlDatabase) -> None:
    await add(database, new("a"), new("b"))
    first = await claim(database, "a")
    assert first is not None
    await database.write(lambda tx: outbox.mark_pending(tx, first, "busy", 60.0))
    assert await heads(database) == [], "the next one waits for it"
    await database.write(lambda tx: tx.run(DUE))
    again = await claim(database, "a")
    assert again is not None
    assert again.delivery.attempts == 2
    await database.write(lambda tx: outbox.mark_pending(tx, again, "limited", 0.0, counts=False))
    found = await get(database, "a")
    assert (found.attempts, found.error) == (1, "limited")
    await database.write(lambda tx: tx.run(DUE))
    last = await claim(database, "a")
    assert last is not None
    await database.write(lambda tx: outbox.mark_failed(tx, last, "e" * 600))
    assert len((await get(database, "a")).error or "") == 500
    assert await heads(database) == ["b"], "a dead letter keeps nothing back"


@pytest.mark.parametrize(
    ("repeats", "send_again", "step", "twice"),
    [(True, False, "send", False), (False, True, "send", True), (False, False, "settle", False)],
)
async def test_a_message_whose_host_died_is_in_doubt(
    database: SqlDatabase, repeats: bool, send_again: bool, step: str, twice: bool
) -> None:
    await add(database, new("a"))
    assert await claim(database, "a") is not None
    assert await database.write(lambda tx: outbox.release(tx, "w1", "chat", "h2")) == 0
    assert await database.write(lambda tx: outbox.release(tx, "w1", "chat", "h1")) == 1
    again = await claim(database, "a", host="h2", repeats=repeats, send_again=send_again)
    assert again is not None
    assert (again.step, again.delivery.maybe_twice) == (step, twice)
    assert again.delivery.attempts == (2 if step == "send" else 1)
    if step == "settle":
        await database.write(lambda tx: outbox.mark_in_doubt(tx, again, "nobody knows", None))
        assert (await get(database, "a")).status == "in_doubt"
        assert await heads(database) == []
        resent = await database.write(lambda tx: outbox.resend(tx, "w1", "a"))
        assert (resent.status, resent.attempts, resent.maybe_twice) == ("pending", 0, True)


async def test_messages_are_dropped_one_by_one_by_run_conversation_and_age(database: SqlDatabase) -> None:
    await add(
        database,
        new("a"),
        new("r", chat="c2", run_id="r1"),
        new("k", chat="c3", conversation_id="k1"),
        new("o", chat="c4"),
    )
    assert await claim(database, "a") is not None
    with pytest.raises(ConflictError, match="being sent"):
        await database.write(lambda tx: outbox.drop(tx, "w1", "a"))
    await database.write(lambda tx: tx.run(ENDED))
    await database.write(lambda tx: outbox.drop(tx, "w1", "a"))
    with pytest.raises(NotFoundError):
        await get(database, "a")
    with pytest.raises(NotFoundError):
        await database.read(lambda tx: outbox.get(tx, "w2", "r"))
    assert await database.write(lambda tx: outbox.drop_of_run(tx, "w1", "r1")) == 1
    assert await database.write(lambda tx: outbox.drop_of_conversation(tx, "w1", "k1", tx.now)) == 1
    assert len(await database.write(lambda tx: outbox_upkeep.give_up_waiting(tx, "w1", "chat", "gone"))) == 1
    assert await database.write(lambda tx: outbox.drop_old(tx, "w1")) == 0
    await database.write(lambda tx: tx.run(OLD))
    assert await database.write(lambda tx: outbox.drop_old(tx, "w1")) == 1
    assert await database.read(lambda tx: outbox.page(tx, "w1")) == []


async def test_a_chat_has_room_for_so_many(database: SqlDatabase) -> None:
    most = outbox.MAX_WAITING_PER_CHAT
    await add(database, *(new(f"{number:04}") for number in range(most + 1)))
    last = await get(database, f"{most:04}")
    assert last.status == "failed"
    assert "1,000 messages of this chat wait" in (last.error or "")
    counted = await database.read(lambda tx: outbox_upkeep.counts(tx, "w1"))
    assert [(one.status, one.number) for one in counted] == [("failed", 1), ("pending", most)]


async def test_what_a_channel_leaves_behind_is_failed_or_in_doubt(database: SqlDatabase) -> None:
    await add(database, *(new(name, chat=name) for name in ("fresh", "tried", "doubted", "sending", "held")))
    tried, doubted = await claim(database, "tried"), await claim(database, "doubted")
    assert tried is not None and doubted is not None  # noqa: PT018
    await database.write(lambda tx: outbox.mark_pending(tx, tried, "busy", 60.0))
    await database.write(lambda tx: outbox.mark_in_doubt(tx, doubted, "no answer", 60.0))
    assert await claim(database, "sending") is not None
    await database.write(lambda tx: tx.run(ENDED))
    assert await claim(database, "held") is not None
    assert await database.read(lambda tx: outbox_upkeep.channels_waiting(tx, "w1")) == ["chat"]
    assert await database.read(lambda tx: outbox_upkeep.channels_waiting(tx, "w2")) == []
    given_up = await database.write(
        lambda tx: outbox_upkeep.give_up_waiting(tx, "w1", "chat", "it was removed")
    )
    doubt = "it was removed, and nobody knows whether the platform has it"
    assert {one.delivery_id: (one.status, one.error, one.due_at) for one in given_up} == {
        "fresh": ("failed", "it was removed", None),
        "tried": ("failed", "it was removed", None),
        "doubted": ("in_doubt", doubt, None),
        "sending": ("in_doubt", doubt, None),
    }
    assert (await get(database, "held")).status == "sending", "a host is at work on it"
    assert await database.read(lambda tx: outbox_upkeep.channels_waiting(tx, "w1")) == ["chat"]


@pytest.mark.parametrize("doubt", ["lost answer", "looked for", "host died", "sent again"])
async def test_only_what_is_surely_not_sent_is_withdrawn(database: SqlDatabase, doubt: str) -> None:
    await add(database, new("a"), new("b", chat="c2"))
    claimed = await claim(database, "a")
    assert claimed is not None
    if doubt == "lost answer":  # the platform takes a key once: it is simply sent again
        await database.write(lambda tx: outbox.mark_pending(tx, claimed, "lost", 0.0, doubt=True))
    elif doubt == "looked for":
        await database.write(lambda tx: outbox.mark_in_doubt(tx, claimed, "lost", 0.0))
        looked = await claim(database, "a")
        assert looked is not None
        await database.write(lambda tx: outbox.mark_pending(tx, looked, "the look failed", 0.0))
    elif doubt == "host died":
        await database.write(lambda tx: tx.run(ENDED))
        again = await claim(database, "a", repeats=True)
        assert again is not None
        await database.write(lambda tx: outbox.mark_pending(tx, again, "not connected", 0.0, counts=False))
    else:
        await database.write(lambda tx: outbox.mark_sent(tx, claimed, "m1"))
        await database.write(lambda tx: outbox.resend(tx, "w1", "a"))
    assert not await database.write(lambda tx: outbox.withdraw(tx, "w1", "a"))
    assert (await get(database, "a")).perhaps_sent
    assert await database.write(lambda tx: outbox.withdraw(tx, "w1", "b"))


async def test_what_could_not_be_sent_for_a_day_is_given_up(database: SqlDatabase) -> None:
    await add(database, new("old"), new("again", chat="c2"), new("doubted", chat="c3"))
    doubted, again = await claim(database, "doubted"), await claim(database, "again")
    assert doubted is not None
    assert again is not None
    await database.write(lambda tx: outbox.mark_in_doubt(tx, doubted, "no answer", 0.0))
    await database.write(lambda tx: outbox.mark_failed(tx, again, "refused"))
    await database.write(lambda tx: tx.run(OLD))
    assert await database.write(lambda tx: outbox_upkeep.give_up_overdue(tx, "w1", "chat")) == [], (
        "it is due anew"
    )
    await database.write(lambda tx: tx.run(DUE))
    await database.write(lambda tx: outbox.resend(tx, "w1", "again"))
    given_up = await database.write(lambda tx: outbox_upkeep.give_up_overdue(tx, "w1", "chat"))
    assert sorted((one.delivery_id, one.status) for one in given_up) == [
        ("doubted", "in_doubt"),
        ("old", "failed"),
    ]
    assert (await get(database, "again")).status == "pending", "an operator has had it sent again"


async def test_messages_are_kept_no_longer_than_transcripts(database: SqlDatabase) -> None:
    await add(database, new("settled"), new("waits", chat="c2"), new("young", chat="c3"))
    settled = await claim(database, "settled")
    assert settled is not None
    await database.write(lambda tx: outbox.mark_sent(tx, settled, "m1"))
    await database.write(lambda tx: tx.run(AGED))
    for policy, kept in (
        (RetentionPolicy(), ["settled", "waits", "young"]),
        (RetentionPolicy(transcripts=3), ["settled", "waits", "young"]),
        (RetentionPolicy(transcripts=1), ["young"]),
    ):
        await collect_workspace(database, "w1", policy)
        rows = await database.read(lambda tx: outbox.page(tx, "w1"))
        assert sorted(one.delivery_id for one in rows) == kept
        if kept != ["young"]:
            assert (await get(database, "waits")).error == "it could not be sent for a day"


async def test_counts_are_bounded_and_name_each_channel(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_upkeep, "MAX_COUNTED", 2)
    other = NewDelivery(
        delivery_id="o",
        channel="other",
        outbound=Outbound(ChannelTarget(chat_id="c"), ChannelMessage(text="x")),
    )
    await add(database, *(new(name) for name in "abc"), other)
    claimed = await claim(database, "a")
    assert claimed is not None
    await database.write(lambda tx: outbox.mark_sent(tx, claimed, None))
    await add(database, new("d"))
    counted = await database.read(lambda tx: outbox_upkeep.counts(tx, "w1"))
    assert [(one.channel, one.status, one.number) for one in counted] == [
        ("chat", "pending", 2),
        ("other", "pending", 1),
    ]


async def test_alone_a_connection_of_a_host_that_crashed_is_forgotten(database: SqlDatabase) -> None:
    hold = Hold("w1", "chat", "t1")
    await database.write(lambda tx: connections.acquire(tx, hold, "h1", 2**53, alone=True))
    assert not await database.write(lambda tx: connections.forget(tx, "w1", "chat", alone=False))
    assert await database.write(lambda tx: connections.forget(tx, "w1", "chat", alone=True))


async def test_one_host_holds_a_connection(database: SqlDatabase) -> None:
    mine, other = Hold("w1", "chat", "t1"), Hold("w1", "chat", "t2")
    row = await database.write(lambda tx: connections.acquire(tx, mine, "h1", LEASE_MS, alone=False))
    assert row is not None
    assert (row.host_id, row.health, row.state, row.account) == ("h1", "connecting", None, None)
    assert (
        await database.write(lambda tx: connections.acquire(tx, other, "h2", LEASE_MS, alone=False)) is None
    )
    bot = Person(person_id="b", name="Bot", is_bot=True)
    await database.write(lambda tx: connections.set_health(tx, mine, "connected", "", bot))
    assert await database.write(lambda tx: connections.set_state(tx, mine, {"offset": 7}))
    await database.write(lambda tx: connections.count(tx, mine, received=2, ignored=1))
    with pytest.raises(PayloadTooLargeError):
        await database.write(lambda tx: connections.set_state(tx, mine, "x" * 70_000))
    await database.write(lambda tx: tx.run(OVER))
    taken = await database.write(lambda tx: connections.acquire(tx, other, "h2", LEASE_MS, alone=False))
    assert taken is not None
    assert (taken.host_id, taken.state, taken.account, taken.received) == ("h2", {"offset": 7}, bot, 2)
    assert not await database.write(lambda tx: connections.set_state(tx, mine, {"offset": 9})), "it is fenced"
    assert await database.write(lambda tx: connections.renew(tx, mine, LEASE_MS)) is None
    asked = await database.write(lambda tx: connections.request_restart(tx, "w1", "chat"))
    assert asked.restarts == 1
    await database.write(lambda tx: connections.release(tx, other))
    assert await database.write(lambda tx: connections.forget(tx, "w1", "chat", alone=False))
    assert await database.read(lambda tx: connections.page(tx, "w1")) == []
    with pytest.raises(NotFoundError, match="never connected"):
        await database.write(lambda tx: connections.request_restart(tx, "w1", "chat"))


async def test_a_host_takes_its_own_connection_again_at_once(database: SqlDatabase) -> None:
    before, after = Hold("w1", "chat", "t1"), Hold("w1", "chat", "t2")
    await database.write(lambda tx: connections.acquire(tx, before, "h1", LEASE_MS, alone=False))
    assert (
        await database.write(lambda tx: connections.acquire(tx, after, "h1", LEASE_MS, alone=False))
        is not None
    )
    assert not await database.write(lambda tx: connections.set_opened(tx, before, ChannelAbilities()))
    assert await database.write(lambda tx: connections.set_opened(tx, after, ChannelAbilities(buttons=True)))
    opened = await database.read(lambda tx: connections.find(tx, "w1", "chat"))
    assert opened is not None
    assert opened.abilities == ChannelAbilities(buttons=True)
