"""Requests on their way to the host of their channel, on every database: taken once, by who has it."""

from __future__ import annotations

import pytest

from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import forwarded_requests as forwarded
from hostler.storage.stores.channel_connections import Hold
from hostler.storage.stores.forwarded_requests import ForwardedAnswer, ForwardedState, TakenRequest
from hostler_protocol.channels import ChannelAbilities, ChannelRequestParams, ChannelResponse
from support.databases import read, write

pytestmark = [pytest.mark.gate("both-databases"), pytest.mark.gate("channel-calls")]
LONG_MS = 600_000
REQUEST = ChannelRequestParams(channel_id="chat", method="POST", path="a", body_base64="e30=")
ANSWER = ForwardedAnswer(outcome="answered", response=ChannelResponse(status=418, body_base64="e30="))


def hold(tx: Tx, host: str, token: str) -> None:
    """Let a host have the channel."""
    assert connections.acquire(tx, Hold("w", "chat", token), host, LONG_MS, alone=True)
    connections.set_opened(tx, Hold("w", "chat", token), ChannelAbilities(webhook=True))


def send(database: SqlDatabase, request_id: str = "r", host: str = "h1", within_ms: int = LONG_MS) -> None:
    write(database, lambda tx: forwarded.send(tx, "w", request_id, host, REQUEST, within_ms))


def take(database: SqlDatabase, host: str = "h1", *names: str, limit: int = 10) -> list[TakenRequest]:
    return write(database, lambda tx: forwarded.take(tx, "w", host, names or ("chat",), limit))


def state(database: SqlDatabase, request_id: str = "r") -> ForwardedState | None:
    return read(database, lambda tx: forwarded.states(tx, "w", [request_id, "none"])).get(request_id)


def test_the_host_that_has_a_channel_is_found_while_its_lease_holds(database: SqlDatabase) -> None:
    assert read(database, lambda tx: forwarded.owner_of(tx, "w", "chat")) is None
    write(database, lambda tx: hold(tx, "h1", "t1"))
    owner = read(database, lambda tx: forwarded.owner_of(tx, "w", "chat"))
    assert owner is not None
    assert (owner.host_id, owner.token, owner.abilities.webhook) == ("h1", "t1", True)
    assert read(database, lambda tx: forwarded.owner_of(tx, "other", "chat")) is None
    write(database, lambda tx: connections.release(tx, Hold("w", "chat", "t1")))
    assert read(database, lambda tx: forwarded.owner_of(tx, "w", "chat")) is None


def test_a_request_is_taken_once_and_its_answer_comes_back(database: SqlDatabase) -> None:
    write(database, lambda tx: hold(tx, "h1", "t1"))
    send(database)
    assert not read(database, lambda tx: forwarded.is_sent_to(tx, "w", "h2"))
    assert read(database, lambda tx: forwarded.is_sent_to(tx, "w", "h1"))
    assert take(database, "h2") == []
    (taken,) = take(database)
    assert (taken.request_id, taken.channel, taken.request) == ("r", "chat", REQUEST)
    assert 0 < taken.left_ms <= LONG_MS
    assert take(database) == []
    found = state(database)
    assert found is not None
    assert (found.taken, found.answer, found.owner and found.owner.token) == (True, None, "t1")
    assert not write(database, lambda tx: forwarded.redirect(tx, "w", "r", "h2"))
    assert not write(database, lambda tx: forwarded.withdraw(tx, "w", "r")), "a plugin may have it"
    assert not write(database, lambda tx: forwarded.answer(tx, "w", "h2", taken, ANSWER)), "it is not h2's"
    assert write(database, lambda tx: forwarded.answer(tx, "w", "h1", taken, ANSWER))
    assert not write(database, lambda tx: forwarded.answer(tx, "w", "h1", taken, ANSWER)), "it has one"
    found = state(database)
    assert found is not None
    assert found.answer == ANSWER
    write(database, lambda tx: forwarded.delete(tx, "w", "r"))
    assert state(database) is None
    assert not write(database, lambda tx: forwarded.answer(tx, "w", "h1", taken, ANSWER))


def test_a_host_takes_nothing_for_a_channel_that_it_has_not_open(database: SqlDatabase) -> None:
    write(database, lambda tx: hold(tx, "h2", "t2"))
    send(database, "moved", "h1")
    send(database, "connecting", "h2")
    assert take(database, "h1") == []
    assert take(database, "h2", "another") == []
    for request_id in ("moved", "connecting"):
        found = state(database, request_id)
        assert found is not None
        assert found.answer == ForwardedAnswer(outcome="closed")
    # no plugin has been asked: it may go on
    assert write(database, lambda tx: forwarded.redirect(tx, "w", "moved", "h2"))
    assert [one.request_id for one in take(database, "h2")] == ["moved"]
    assert write(database, lambda tx: forwarded.withdraw(tx, "w", "connecting"))


def test_what_nobody_waits_for_any_more_is_not_taken_and_deleted(database: SqlDatabase) -> None:
    write(database, lambda tx: hold(tx, "h1", "t1"))
    send(database, "over", within_ms=0)
    send(database, "gone", within_ms=-forwarded.OLD_MS - 1)
    assert take(database) == []
    send(database, "now")
    assert read(database, lambda tx: forwarded.has_old(tx, "w"))
    assert write(database, lambda tx: forwarded.drop_old(tx, "w")) == 1
    assert not read(database, lambda tx: forwarded.has_old(tx, "w"))
    assert state(database, "gone") is None
    assert [one.request_id for one in take(database)] == ["now"]


def test_no_more_is_taken_than_asked_for_and_an_answer_of_another_version_is_none(
    database: SqlDatabase,
) -> None:
    write(database, lambda tx: hold(tx, "h1", "t1"))
    for number in range(3):
        send(database, f"r{number}")
    assert len(take(database, limit=2)) == 2
    assert len(take(database, limit=2)) == 1
    taken = TakenRequest("r0", "chat", REQUEST, 0)
    newer = ForwardedAnswer(outcome="later")  # type: ignore[arg-type]
    assert write(database, lambda tx: forwarded.answer(tx, "w", "h1", taken, newer))
    found = state(database, "r0")
    assert found is not None
    assert found.answer is not None
    assert found.answer.outcome == "failed"
