"""Calls of reconcilable tools whose look-up failed: what a person says of them holds for the next attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from hostler.calls import tool_tries
from hostler.domain.pause_actions import Action
from hostler.domain.pause_values import PausedCall
from hostler.storage.sql.database import SqlDatabase
from hostler.tools.errors import OutcomeUnknownError
from hostler.tools.port import Found
from hostler_protocol.errors import HostError
from support.call_attempt import Attempts, CallAttempt, ada, attempt_grant, attempts_on
from support.gates import Gate

ASKS: dict[str, Any] = {"tool_approval": {"search": "required"}}
pytestmark = [
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),
    pytest.mark.parametrize(
        "rules", [{}, {"tool_approval": {"search": "required"}}], ids=["plain", "approved"]
    ),
]
SAYS_NOTHING_HAPPENED = None
"""Answer of a look-up that works again."""


@pytest.fixture
async def attempts(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Attempts]:
    monkeypatch.setattr(tool_tries, "FIRST_RETRY_SECONDS", 0.0)
    async with attempts_on(database, tmp_path) as made:
        yield made


async def in_doubt(attempts: Attempts, grant: Any, *, asks: bool) -> tuple[CallAttempt, PausedCall]:
    """Make a call whose outcome nobody knows, and lose its attempt while a person is asked."""
    tools = attempts.tools
    tools.outcomes = [OutcomeUnknownError("it died")]
    tools.found = [HostError("503")] * tool_tries.MAX_TRIES
    async with attempts.attempt(grant, hold_seconds=0.0) as first:
        first.begin("tool.call")
        if asks:
            (asked,) = await first.asked()
            await first.decide(await ada(attempts.world), Action(call_id=asked.call_id, type="approve"))
        asked = (await first.asked(2 if asks else 1))[-1]
        await first.parking()
    assert asked.review == "in_doubt"
    assert len(tools.calls) == 1
    return first, asked


async def resolve(
    attempts: Attempts, attempt: CallAttempt, outcome: Literal["happened", "not_happened"], result: Any = None
) -> None:
    boss = await ada(attempts.world, "admin")
    pause, (call,) = await attempt.pause()
    await attempt.desk().resolve(boss, pause.pause_id, call.call_id, outcome, result)


def reconcilable(rules: dict[str, Any]) -> Any:
    return attempt_grant(effects={"search": "reconcilable"}, **rules)


@pytest.mark.parametrize("found", [SAYS_NOTHING_HAPPENED, Found("by the tool")])
async def test_what_a_person_says_happened_is_not_made_again(
    attempts: Attempts, rules: dict[str, Any], found: Found | None
) -> None:
    grant = reconcilable(rules)
    first, _ = await in_doubt(attempts, grant, asks=bool(rules))
    await resolve(attempts, first, "happened", "booked by hand")
    attempts.tools.found = [found]
    async with attempts.attempt(grant, again=await attempts.lost(first.run), resumed=True) as second:
        assert (await second.call("tool.call")).result == "booked by hand"
        assert len(attempts.tools.calls) == 1
        pause, _ = await second.pause()
        assert pause.status == "resumed"


async def test_what_a_person_says_did_not_happen_is_made_once_and_its_pause_is_over(
    attempts: Attempts, rules: dict[str, Any]
) -> None:
    grant = reconcilable(rules)
    first, _ = await in_doubt(attempts, grant, asks=bool(rules))
    await resolve(attempts, first, "not_happened")
    attempts.tools.found = [SAYS_NOTHING_HAPPENED]
    async with attempts.attempt(grant, again=await attempts.lost(first.run), resumed=True) as second:
        assert (await second.call("tool.call")).result == 2
        before, after = attempts.tools.calls
        assert before.effect_key != after.effect_key
        pause, (call,) = await second.pause()
        assert (pause.status, call.execution) == ("resumed", "succeeded")


async def test_what_did_not_happen_is_asked_about_again_if_its_tool_comes_back_changed(
    attempts: Attempts, rules: dict[str, Any]
) -> None:
    grant, tools = reconcilable(rules), attempts.tools
    tools.pins = dict(grant.tool_pins)
    first, _ = await in_doubt(attempts, grant, asks=bool(rules))
    await resolve(attempts, first, "not_happened")
    tools.found, tools.comes_back = [SAYS_NOTHING_HAPPENED], "2.0.0"
    async with attempts.attempt(grant, again=await attempts.lost(first.run), resumed=True) as second:
        made = second.begin("tool.call")
        if rules:  # of what nobody approved nobody is asked
            (asked,) = await second.asked()
            assert (asked.review, len(tools.calls)) == (None, 1)
            await second.decide(await ada(attempts.world), Action(call_id=asked.call_id, type="approve"))
        assert (await second.runner.answer(made)).result == 2
        assert len(tools.calls) == 2


async def test_while_nobody_has_said_anything_it_is_not_made_again(
    attempts: Attempts, rules: dict[str, Any]
) -> None:
    grant = reconcilable(rules)
    first, _ = await in_doubt(attempts, grant, asks=bool(rules))
    attempts.tools.found = [SAYS_NOTHING_HAPPENED]
    async with attempts.attempt(grant, again=await attempts.lost(first.run), resumed=True) as second:
        call_id = second.begin("tool.call")
        await second.parking()
        assert len(attempts.tools.calls) == 1
        await resolve(attempts, second, "happened", "booked by hand")
        assert (await second.runner.answer(call_id)).result == "booked by hand"
        assert len(attempts.tools.calls) == 1


async def test_a_call_made_again_that_is_lost_once_more_is_looked_up(
    attempts: Attempts, rules: dict[str, Any]
) -> None:
    grant = reconcilable(rules)
    first, _ = await in_doubt(attempts, grant, asks=bool(rules))
    await resolve(attempts, first, "not_happened")
    attempts.tools.found = []
    async with attempts.attempt(grant, again=await attempts.lost(first.run), resumed=True) as second:
        gate = attempts.tools.gate = Gate()
        second.begin("tool.call")
        await gate.reached()
        second.calls.stop()
    attempts.tools.gate, attempts.tools.found = None, [Found("the second time")]
    async with attempts.attempt(grant, again=await attempts.lost(second.run), resumed=True) as third:
        assert (await third.call("tool.call")).result == "the second time"
        assert len(attempts.tools.calls) == 2
        pause, _ = await third.pause()
        assert pause.status == "resumed"
