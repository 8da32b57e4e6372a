"""Recorded answers that are sent to the runner ahead of their calls: which, how many, and what takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.errors import HostlerError, PluginProtocolError
from hostler_protocol.limits import MAX_ANSWERS_AHEAD
from support.call_attempt import Attempts, CallAttempt, attempt_grant, attempts_on

STATE: dict[str, Any] = {"scope": "conversation", "key": "k", "alone": True}
PLENTY = 1_000_000
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


async def set_to(attempt: CallAttempt, *values: Any, **changes: Any) -> None:
    """Change the state by one call after the other."""
    for value in values:
        await attempt.call("state.set", value=value, **{**STATE, **changes})


def sent(attempt: CallAttempt) -> list[tuple[int, list[Any]]]:
    """The versions in the answers that were sent ahead, with the number of calls seen before."""
    return [
        (requests, [msgspec.json.decode(answer.result)["version"] for answer in answers])
        for requests, answers in attempt.ahead
    ]


async def test_the_next_answers_go_with_the_first_and_their_calls_take_them(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1, 2, 3, 4)
        recorded = await first.entries()
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await set_to(second, 1)
        assert sent(second) == [(1, [2, 3])], "never the last one"
        assert [answer.method for answer in second.ahead[0][1]] == ["state.set"] * 2
        assert second.take_ahead("state.set", value=2, **STATE) is None
        assert second.take_ahead("state.set", value=3, **STATE) is None
        await set_to(second, 4)
        assert await second.entries() == recorded, "nothing was done twice"
        assert second.calls.had_effects
        assert second.live == []
        await set_to(second, 5)
        assert second.live == [0]
        assert (await second.call("state.get", **STATE)).version == 5
        assert len(sent(second)) == 1, "none is sent beyond the recording"


async def test_a_plugin_that_does_not_take_them_gets_none(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1, 2, 3)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        await set_to(second, 1, 2, 3)
        assert second.ahead == []
        with pytest.raises(PluginProtocolError, match=r"state\.set came without an id"):
            second.take_ahead("state.set", value=1, **STATE)


async def test_more_are_sent_when_some_of_them_are_taken(attempts: Attempts) -> None:
    count = MAX_ANSWERS_AHEAD + 200
    async with attempts.attempt() as first:
        for _ in range(count):
            await first.call("state.get", **STATE)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await second.call("state.get", **STATE)
        most = 0
        for taken in range(count - 2):
            most = max(most, sum(len(answers) for _, answers in second.ahead) - taken)
            assert second.take_ahead("state.get", **STATE) is None
        assert sum(len(answers) for _, answers in second.ahead) == count - 2
        assert most <= MAX_ANSWERS_AHEAD
        assert len(second.ahead) < 30
        assert second.take_ahead("state.get", **STATE) == (
            "state.get was made with an answer that was sent ahead of another call"
        )


async def test_their_bytes_are_bounded(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 0, "x" * 2_000, 3)
        for _ in range(6):
            await first.call("state.get", **STATE)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=500
    ) as second:
        await set_to(second, 0)
        assert sent(second) == [(1, [2, 3, 3])], "as many as fit: parameters are not sent"
        second.ahead.clear()
        await set_to(second, "x" * 2_000)
        assert sent(second) == [(2, [3, 3, 3])]


@pytest.mark.parametrize(
    ("alone", "ahead"),
    [((True, False, True), [(2, [3])]), ((True, True, False), []), ((False, True), [(1, [2])])],
)
async def test_none_is_sent_whose_call_was_made_beside_another(
    attempts: Attempts, alone: tuple[bool, ...], ahead: list[Any]
) -> None:
    async with attempts.attempt() as first:
        for value, by_itself in enumerate(alone):
            await set_to(first, value, alone=by_itself)
        await set_to(first, 4)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        for value, by_itself in enumerate(alone):
            await set_to(second, value, alone=by_itself)
        assert sent(second) == ahead


async def test_a_refusal_and_what_is_not_granted_any_more_wait_for_their_calls(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1)
        with pytest.raises(HostlerError):
            await set_to(first, 2, if_version=7)
        await set_to(first, 2)
        await first.call("knowledge.retrieve", alone=True)
        await set_to(first, 3, 4)
    async with attempts.attempt(
        attempt_grant(allowed_kb_ids=[]),
        again=await attempts.lost(first.run),
        resumed=True,
        ahead_bytes=PLENTY,
    ) as second:
        await set_to(second, 1)
        assert sent(second) == []
        with pytest.raises(HostlerError):
            await set_to(second, 2, if_version=7)
        assert sent(second) == [(2, [2])]
        assert second.take_ahead("state.set", value=2, **STATE) is None
        with pytest.raises(HostlerError):
            await second.call("knowledge.retrieve", alone=True)
        assert len(second.ahead) == 1


async def test_another_call_than_the_next_ends_it_and_is_handled_as_ever(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1, 2, 3, 4)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await set_to(second, 1)
        await second.call("state.get", **STATE)
        assert second.live == [0]
        await set_to(second, 2, 3)
        assert sent(second) == [(1, [2, 3])]
        assert second.take_ahead("state.set", value=4, **STATE) is not None


async def test_the_next_call_may_cross_them(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1, 2, 3, 4, 5)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await set_to(second, 1, 2)
        assert sent(second) == [(1, [2, 3, 4]), (2, [3, 4])]
        assert second.take_ahead("state.set", value=3, **STATE) is None


@pytest.mark.parametrize("value", [True, 2, 1.0, "1"])
async def test_an_answer_taken_for_another_call_is_found_out(attempts: Attempts, value: Any) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 0, 1, 2, 3)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await set_to(second, 0)
        wrong = second.take_ahead("state.set", value=value, **STATE)
        assert wrong == "state.set was made with an answer that was sent ahead of another call"
        assert (await first.call("state.get", **STATE)).version == 4, "it was not carried out"


async def test_the_gate_refuses_what_took_its_answer_like_any_call(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await set_to(first, 1, 2, 3, 4)
    async with attempts.attempt(
        again=await attempts.lost(first.run), resumed=True, ahead_bytes=PLENTY
    ) as second:
        await set_to(second, 1)
        second.gated.standing = "fenced"
        wrong = second.take_ahead("state.set", value=2, **STATE)
        assert wrong is not None
        assert wrong.startswith("state.set was made with an answer that was sent ahead, and is refused")
        assert len(await second.entries("refusal")) == 1
