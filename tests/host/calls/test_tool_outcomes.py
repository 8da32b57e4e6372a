"""Tool calls: with and without an outcome, of a lost attempt, decided by people, of external callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.calls import tool_tries
from hostler.domain.pause_actions import Action
from hostler.storage.sql.database import SqlDatabase
from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.port import Found
from hostler_protocol.errors import (
    DeadlineExceededError,
    DeniedError,
    ExpiredError,
    HostlerError,
    InvalidArgumentError,
    RemoteFaultError,
    UnauthorizedError,
)
from support.call_attempt import Attempts, ada, attempt_grant, attempts_on
from support.gates import Gate
from support.played_services import PlayedExternalCaller

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ASKS: dict[str, Any] = {"tool_approval": {"search": "required"}}


@pytest.fixture
async def attempts(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Attempts]:
    monkeypatch.setattr(tool_tries, "FIRST_RETRY_SECONDS", 0.0)
    async with attempts_on(database, tmp_path) as made:
        yield made


def kinds(entries: list[Any]) -> list[str]:
    return [entry.kind for entry in entries]


def data_of(entry: Any) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(entry.data)
    return data


@pytest.mark.parametrize(("effect", "journalled"), [("pure", ["call"]), ("idempotent", ["intent", "call"])])
async def test_only_what_has_an_effect_has_an_intent(
    attempts: Attempts, effect: str, journalled: list[str]
) -> None:
    async with attempts.attempt(attempt_grant(effects={"search": effect})) as attempt:
        gate = attempts.tools.gate = Gate()
        call_id = attempt.begin("tool.call")
        await gate.reached()
        assert kinds(await attempt.entries()) == journalled[:-1], "the intent is durable before the call"
        gate.open()
        assert (await attempt.runner.answer(call_id)).result == 1
        assert kinds(await attempt.entries()) == journalled
        assert attempt.calls.had_effects == (effect != "pure")


async def test_the_error_of_a_tool_is_its_outcome(attempts: Attempts) -> None:
    attempts.tools.outcomes = [ToolFailedError.of(InvalidArgumentError("no such seat"))]
    async with attempts.attempt() as attempt:
        with pytest.raises(RemoteFaultError, match="no such seat"):
            await attempt.call("tool.call")
        _, outcome = await attempt.entries()
        assert data_of(outcome)["error"]["message"] == "no such seat"
    async with attempts.attempt(again=await attempts.lost(attempt.run), resumed=True) as later:
        with pytest.raises(HostlerError, match="no such seat"):
            await later.call("tool.call")
        assert len(attempts.tools.calls) == 1


async def test_what_a_tool_does_beyond_the_deadline_is_journalled_as_late_and_is_no_answer(
    attempts: Attempts,
) -> None:
    async with attempts.attempt(scope={"deadline_at": 0.0}) as attempt:
        gate = attempts.tools.gate = Gate()
        call_id = attempt.begin("tool.call")
        with pytest.raises(DeadlineExceededError):
            await attempt.runner.answer(call_id)
        await gate.reached()
        gate.open()
        await attempt.calls.quiet()
        intent, told, came = [data_of(entry) for entry in await attempt.entries()]
        assert told["error"]["code"] == "deadline_exceeded"
        assert ("late" in told, came["late"], came["reply"]) == (False, True, {"result": 1})
        assert intent["nth"] == told["nth"] == came["nth"]
    async with attempts.attempt(again=await attempts.lost(attempt.run), resumed=True) as later:
        with pytest.raises(HostlerError, match="deadline"):
            await later.call("tool.call")
        assert len(attempts.tools.calls) == 1


async def test_a_tool_that_may_be_called_again_is_called_under_the_same_key(attempts: Attempts) -> None:
    attempts.tools.outcomes = [OutcomeUnknownError("it died"), OutcomeUnknownError("it died"), "done"]
    async with attempts.attempt() as attempt:
        assert (await attempt.call("tool.call")).result == "done"
        assert len({call.effect_key for call in attempts.tools.calls}) == 1
        assert kinds(await attempt.entries()) == ["intent", "call"]


async def test_after_so_many_tries_the_unknown_outcome_is_the_answer(attempts: Attempts) -> None:
    attempts.tools.outcomes = [OutcomeUnknownError("it died")] * tool_tries.MAX_TRIES
    async with attempts.attempt() as attempt:
        with pytest.raises(HostlerError, match="it died"):
            await attempt.call("tool.call")
        assert len(attempts.tools.calls) == tool_tries.MAX_TRIES


async def test_a_reconcilable_tool_is_looked_up_and_not_called_again(attempts: Attempts) -> None:
    attempts.tools.outcomes = [OutcomeUnknownError("it died")]
    attempts.tools.found = [Found("it was done")]
    async with attempts.attempt(attempt_grant(effects={"search": "reconcilable"})) as attempt:
        assert (await attempt.call("tool.call")).result == "it was done"
        assert len(attempts.tools.calls) == 1


async def test_a_tool_runs_to_its_end_although_the_runner_gave_the_call_up(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        gate = attempts.tools.gate = Gate()
        call_id = attempt.begin("tool.call")
        await gate.reached()
        attempt.calls.give_up(call_id, goes_on=True)
        assert attempt.calls.under_way
        gate.open()
        await attempt.calls.quiet()
        assert kinds(await attempt.entries()) == ["intent", "call"]
        assert call_id not in attempt.runner.answers


async def test_the_next_attempt_calls_an_idempotent_tool_again(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        gate = attempts.tools.gate = Gate()
        first.begin("tool.call")
        await gate.reached()
        first.calls.stop()
    attempts.tools.gate = None
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        assert (await second.call("tool.call")).result == 2
        one, two = attempts.tools.calls
        assert one.effect_key == two.effect_key
        assert kinds(await second.entries()) == ["intent", "call"]


async def test_of_any_other_tool_a_person_says_what_happened(attempts: Attempts) -> None:
    grant = attempt_grant(effects={"search": "default"})
    async with attempts.attempt(grant) as first:
        gate = attempts.tools.gate = Gate()
        first.begin("tool.call")
        await gate.reached()
        first.calls.stop()
    again = await attempts.lost(first.run)
    async with attempts.attempt(grant, again=again, resumed=True) as second:
        call_id = second.begin("tool.call")
        (asked,) = await second.asked()
        assert (asked.kind, asked.review) == ("in_doubt", "in_doubt")
        await second.calls.quiet()
        assert len(attempts.tools.calls) == 1, "it is not called while nobody knows"
        boss = await ada(attempts.world, "admin")
        pause, _ = await second.pause()
        await second.desk().resolve(boss, pause.pause_id, asked.call_id, "happened", "booked")
        assert (await second.runner.answer(call_id)).result == "booked"
        assert len(attempts.tools.calls) == 1


# -- people -----------------------------------------------------------------------------------------------


async def test_a_call_that_needs_a_yes_is_held_and_made_once_it_is_given(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        call_id = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.calls.quiet()
        assert attempts.tools.calls == []
        assert attempt.calls.under_way, "it waits"
        await attempt.decide(person, Action(call_id=asked.call_id, type="approve"))
        assert (await attempt.runner.answer(call_id)).result == 1
        pause, (settled,) = await attempt.pause()
        assert (pause.status, settled.execution) == ("resumed", "succeeded")


async def test_who_waits_for_quiet_learns_that_a_call_has_begun_to_wait(attempts: Attempts) -> None:
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        attempt.begin("tool.call")
        await attempt.calls.quiet()
        assert attempt.held.waiting == 1


async def test_a_call_that_is_denied_is_not_made(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        call_id = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.decide(person, Action(call_id=asked.call_id, type="deny", comment="too dear"))
        with pytest.raises(DeniedError, match="denied by user:ada: too dear"):
            await attempt.runner.answer(call_id)
        assert attempts.tools.calls == []
        assert kinds(await attempt.entries()) == ["call"]


async def test_a_call_that_was_parked_is_made_by_the_next_attempt(attempts: Attempts) -> None:
    person, grant = await ada(attempts.world), attempt_grant(**ASKS)
    async with attempts.attempt(grant, hold_seconds=0.0) as first:
        first.begin("tool.call")
        (asked,) = await first.asked()
        await first.parking()
        await first.calls.quiet()
        assert first.held.waiting == 1
    await first.decide(person, Action(call_id=asked.call_id, type="approve"))
    again = await attempts.lost(first.run)
    async with attempts.attempt(grant, again=again, resumed=True) as second:
        assert (await second.call("tool.call")).result == 1
        assert second.requested == [], "nobody is asked again"
        assert len(attempts.tools.calls) == 1


async def test_a_call_given_up_while_people_are_asked_is_withdrawn(attempts: Attempts) -> None:
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        call_id = attempt.begin("tool.call")
        await attempt.asked()
        attempt.calls.give_up(call_id, goes_on=True)
        await attempt.idle()
        (entry,) = await attempt.entries()
        assert data_of(entry)["given_up"] is True
        _, (settled,) = await attempt.pause()
        assert settled.decision == "cancelled"
        assert attempts.tools.calls == []


@pytest.mark.parametrize("comes_back", ["", "2.0.0"])
async def test_a_call_given_up_while_its_tool_starts_is_made_or_withdrawn(
    attempts: Attempts, comes_back: str
) -> None:
    person, grant, tools = await ada(attempts.world), attempt_grant(**ASKS), attempts.tools
    tools.pins, tools.starts, tools.comes_back = dict(grant.tool_pins), Gate(), comes_back
    async with attempts.attempt(grant) as attempt:
        call_id = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.decide(person, Action(call_id=asked.call_id, type="approve"))
        await tools.starts.reached()
        attempt.calls.give_up(call_id, goes_on=True)
        tools.starts.open()
        while not (made := await attempt.entries("call")):  # nobody is told when it is over
            await asyncio.sleep(0)
        entries = await attempt.entries()
        pause, (settled,) = await attempt.pause()
        assert (pause.status, settled.handed_over) == ("resumed", True)
        if comes_back:
            assert data_of(made[0])["given_up"] is True
            assert kinds(entries) == ["call"]
            assert (settled.execution, tools.calls) == ("none", [])
        else:  # it is the one that was approved
            assert kinds(entries) == ["intent", "call"]
            assert (settled.execution, len(tools.calls)) == ("succeeded", 1)
        attempt.begin("tool.call", text="another")
        again = (await attempt.asked(len(attempt.requested) + 1))[-1]
        assert again.call_id != asked.call_id, "the next question does not wait for it"


@pytest.mark.parametrize("turns", range(10))
async def test_a_call_is_withdrawn_at_whatever_moment_it_is_given_up_while_its_tool_turns_out_to_be_another(
    attempts: Attempts, turns: int
) -> None:
    person, grant, tools = await ada(attempts.world), attempt_grant(**ASKS), attempts.tools
    tools.pins, tools.starts, tools.comes_back = dict(grant.tool_pins), Gate(), "2.0.0"
    async with attempts.attempt(grant) as attempt:
        call_id = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.decide(person, Action(call_id=asked.call_id, type="approve"))
        await tools.starts.reached()
        tools.starts.open()
        for _ in range(turns):  # of the loop
            await asyncio.sleep(0)
        attempt.calls.give_up(call_id, goes_on=True)
        while not (made := await attempt.entries("call")):
            await asyncio.sleep(0)
        assert data_of(made[0])["given_up"] is True
        pause, (settled,) = await attempt.pause()
        assert (pause.status, settled.handed_over, tools.calls) == ("resumed", True, [])


async def test_a_question_is_answered_with_the_decision(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt() as attempt:
        call_id = attempt.begin("interaction.request", kind="confirmation", title="Go on?")
        (asked,) = await attempt.asked()
        await attempt.decide(person, Action(call_id=asked.call_id, type="answer", values={}))
        answer = await attempt.runner.answer(call_id)
        assert (answer.call_id, answer.decision, answer.decided_by) == (
            asked.call_id,
            "answered",
            "user:ada",
        )
        (entry,) = await attempt.entries()
        assert data_of(entry)["reply"]["decision"] == "answered"


async def test_a_question_that_nobody_answers_in_time_is_refused_and_journalled(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        call_id = attempt.begin("interaction.request", kind="confirmation", title="Go on?")
        await attempt.asked()
        await attempt.expire()
        with pytest.raises(ExpiredError):
            await attempt.runner.answer(call_id)
        (entry,) = await attempt.entries()
        assert data_of(entry)["error"]["code"] == "expired"
        pause, (settled,) = await attempt.pause()
        assert (pause.status, settled.handed_over) == ("resumed", True)


async def test_an_agent_that_may_ask_no_questions_is_refused_them(attempts: Attempts) -> None:
    grant = msgspec.structs.replace(attempt_grant(), questions=False)
    async with attempts.attempt(grant) as attempt:
        with pytest.raises(DeniedError, match="Go on"):
            await attempt.call("interaction.request", kind="confirmation", title="Go on?")
        assert attempt.requested == []


# -- external callers -----------------------------------------------------------------------------------


async def test_an_external_caller_is_answered_itself_and_no_later_attempt_is(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        external = PlayedExternalCaller()
        call_id = first.begin("tool.call", external=external)
        assert (await external.answer(call_id)).result == 1
        assert first.runner.answers == {}
        assert data_of((await first.entries("call"))[0]).get("digest", "") == ""
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        assert (await second.call("tool.call")).result == 2


async def test_an_external_call_may_not_wait_where_the_run_could_be_parked(attempts: Attempts) -> None:
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        external = PlayedExternalCaller(may_wait=False)
        with pytest.raises(UnauthorizedError, match="a service can not"):
            await external.answer(attempt.begin("tool.call", external=external))
        patient = PlayedExternalCaller(may_wait=True)
        attempt.begin("tool.call", external=patient)
        assert len(await attempt.asked()) == 1
