"""Calls that an attempt holds until people decide: asked, joined, decided, refused, given up, parked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.grants import Grant
from hostler.domain.pause_actions import Action, AlreadyDecidedError, Similar
from hostler.domain.pauses import MAX_CALLS
from hostler.domain.recording import CallName
from hostler.pauses import held_calls
from hostler.pauses.question import AskAgainError, Question, Verdict
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_endings
from hostler_protocol.calls import InteractionParams
from hostler_protocol.errors import CancelledCallError, ConflictError, HostError, PayloadTooLargeError
from support.call_attempt import Attempts, CallAttempt, ada, attempt_grant, attempts_on
from support.gates import Gate

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
APPROVAL = Question("approval", CallName("tool.call", "d", 1), {}, tool_name="search")


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


def question(attempt: CallAttempt, number: int = 1, title: str = "Go on?") -> Question:
    form = InteractionParams(run_id=attempt.run.run_id, kind="confirmation", title=title)
    return Question("question", CallName("interaction.request", f"d{number}", 1), {}, form=form)


def ask(attempt: CallAttempt, *numbers: int) -> list[asyncio.Task[Verdict]]:
    """Ask questions at once."""
    return [asyncio.create_task(attempt.held.ask(question(attempt, number))) for number in numbers]


def yes(attempt: CallAttempt, number: int = 1, **more: Any) -> Action:
    return Action(call_id=question(attempt, number).call_id, type="answer", values={}, **more)


# -- asked ------------------------------------------------------------------------------------------------


async def test_questions_that_come_together_open_one_pause(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        ask(attempt, 1, 2)
        await attempt.asked(2)
        pause, calls = await attempt.pause()
        assert (pause.status, len(calls), attempt.held.waiting) == ("open", 2, 2)
        assert [call.call_id for call in calls] == [question(attempt, n).call_id for n in (1, 2)]
        assert [call.call_id for call in attempt.held.held()] == [call.call_id for call in calls]


async def test_a_later_question_joins_the_open_pause(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        ask(attempt, 1)
        await attempt.asked(1)
        first, _ = await attempt.pause()
        timer = attempt.held._hold_timer
        ask(attempt, 2)
        await attempt.asked(2)
        pause, calls = await attempt.pause()
        assert (pause.pause_id, len(calls)) == (first.pause_id, 2)
        shown = [call.call_id for call in attempt.requested]
        assert shown == [question(attempt, n).call_id for n in (1, 2)], "each is shown once"
        assert attempt.held._hold_timer is not timer, "they are held from the last question on"


async def test_more_questions_than_a_pause_holds_are_refused(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        tasks = ask(attempt, *range(MAX_CALLS + 1))
        await attempt.asked(MAX_CALLS)
        with pytest.raises(PayloadTooLargeError) as refused:
            await tasks[-1]
        assert refused.value.details["limit"] == MAX_CALLS
        assert attempt.held.waiting == MAX_CALLS


async def test_a_question_that_cannot_be_asked_is_refused_alone(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        large = attempt.held.ask(question(attempt, 1, title="x" * 501))
        (asked,) = ask(attempt, 2)
        with pytest.raises(PayloadTooLargeError):
            await large
        await attempt.asked(1)
        assert not asked.done()


# -- decided ----------------------------------------------------------------------------------------------


async def test_a_decision_is_the_verdict_of_its_call_alone(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in ("LOOK_SECONDS", "SHARED_LOOK_SECONDS"):  # they are woken, and look once
        monkeypatch.setattr(held_calls, seconds, 3600.0)
    person = await ada(attempts.world)
    async with attempts.attempt() as attempt:
        first, second = ask(attempt, 1, 2)
        await attempt.asked(2)
        await attempt.decide(person, yes(attempt, 1))
        await attempt.decide(person, yes(attempt, 2))
        verdicts = await first, await second
        assert [one.outcome for one in verdicts] == ["answered", "answered"]
        assert {one.decided_by for one in verdicts} == {"user:ada"}
        assert attempt.held.waiting == 0


async def test_calls_of_one_pause_go_on_together(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt() as attempt:
        first, second = ask(attempt, 1, 2)
        await attempt.asked(2)
        await attempt.decide(person, yes(attempt, 1))
        ask(attempt, 3)
        await attempt.asked(3)
        assert not first.done()
        assert not second.done()


async def test_of_two_decisions_at_once_one_counts(attempts: Attempts) -> None:
    ann, bob = await ada(attempts.world), await ada(attempts.world, "admin", subject="user:bob")
    async with attempts.attempt() as attempt:
        asked = asyncio.create_task(attempt.held.ask(APPROVAL))
        await attempt.asked(1)
        approve, deny = (Action(call_id=APPROVAL.call_id, type=word) for word in ("approve", "deny"))
        answers = await asyncio.gather(
            attempt.decide(ann, approve), attempt.decide(bob, deny), return_exceptions=True
        )
        (lost,) = [one for one in answers if isinstance(one, Exception)]
        assert isinstance(lost, AlreadyDecidedError)
        verdict = await asked
        winner = ("approved", "user:ada") if answers[1] is lost else ("denied", "user:bob")
        assert (verdict.outcome, verdict.decided_by) == winner
        assert lost.details["decided_by"] == winner[1]


async def test_a_question_that_nobody_answers_in_time_expires(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        (asked,) = ask(attempt, 1)
        await attempt.asked(1)
        await attempt.expire()
        assert (await asked).outcome == "expired"


async def test_a_pause_that_is_cancelled_refuses_its_calls_and_they_are_not_asked_again(
    attempts: Attempts,
) -> None:
    person = await ada(attempts.world, "admin")
    async with attempts.attempt() as attempt:
        (asked,) = ask(attempt, 1)
        await attempt.asked(1)
        pause, _ = await attempt.pause()
        await attempt.desk().cancel(person, pause.pause_id)
        with pytest.raises(CancelledCallError, match="the run is being cancelled"):
            await asked
        latest, (call,) = await attempt.pause()
        assert (latest.pause_id, latest.status, call.decision) == (pause.pause_id, "cancelled", "cancelled")
        assert len(attempt.requested) == 1


async def test_a_decision_is_found_although_nobody_tells_of_it(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_calls, "LOOK_SECONDS", 0.01)
    person = await ada(attempts.world)
    async with attempts.attempt() as attempt:
        (asked,) = ask(attempt, 1)
        await attempt.asked(1)
        monkeypatch.setattr(attempt.held, "changed", lambda: None)
        await attempt.decide(person, yes(attempt))
        assert (await asked).outcome == "answered"


async def test_a_later_attempt_finds_the_decision_without_asking(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt() as first:
        ask(first, 1)
        await first.asked(1)
    await first.decide(person, yes(first))
    async with attempts.attempt(again=await attempts.lost(first.run)) as second:
        assert (await second.held.ask(question(second))).outcome == "answered"
        assert second.requested == []


# -- over -------------------------------------------------------------------------------------------------


async def test_a_call_given_up_is_neither_asked_about_nor_waited_for(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        first, _ = ask(attempt, 1, 2)
        attempt.held.give_up(question(attempt, 1).call_id)
        await attempt.asked(1)
        _, calls = await attempt.pause()
        assert [call.call_id for call in calls] == [question(attempt, 2).call_id]
        first.cancel()
        await asyncio.wait([first])
        assert attempt.held.waiting == 1


async def test_a_withdrawn_call_is_no_longer_anybodys_to_decide(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        ask(attempt, 1)
        await attempt.asked(1)
        call_id = question(attempt).call_id
        attempt.held.give_up(call_id)
        await attempt.world.db.write(lambda tx: attempt.held.withdraw(tx, call_id))
        _, (call,) = await attempt.pause()
        assert call.decision == "cancelled"


async def test_an_attempt_that_is_over_asks_nobody(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        await attempt.world.db.write(
            lambda tx: run_endings.finish(tx, attempt.run.run_id, 1, "cancelled", cause="t", actor="t")
        )
        with pytest.raises(CancelledCallError):
            await attempt.held.ask(question(attempt))
        assert attempt.requested == []


async def test_an_unexpected_error_refuses_those_that_wait_and_the_next_are_asked(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    async with attempts.attempt() as attempt:
        attempts.tools.broken = RuntimeError("what only the log may say")
        with pytest.raises(HostError, match="the host failed to ask people"):
            await attempt.held.ask(APPROVAL)
        assert "what only the log may say" in caplog.text
        assert "Traceback" in caplog.text
        ask(attempt, 1)
        await attempt.asked(1)


async def test_closing_ends_the_worker_and_answers_nobody(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        (asked,) = ask(attempt, 1)
        await attempt.asked(1)
        worker, timer = attempt.held._worker, attempt.held._hold_timer
        assert worker is not None
        assert timer is not None
        attempt.held.close()
        await asyncio.wait([worker])
        assert (worker.cancelled(), timer.cancelled(), asked.done()) == (True, True, False)


# -- parking ----------------------------------------------------------------------------------------------


async def test_the_attempt_is_to_be_parked_once_the_hold_time_is_over(attempts: Attempts) -> None:
    async with attempts.attempt(hold_seconds=0.01) as attempt:
        ask(attempt, 1)
        await attempt.parking()
        assert len(attempt.requested) == 1
        assert attempt.held.waiting == 1


async def test_an_answer_in_time_parks_nothing(attempts: Attempts) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt(hold_seconds=3600.0) as attempt:
        (asked,) = ask(attempt, 1)
        await attempt.asked(1)
        timer = attempt.held._hold_timer
        assert timer is not None
        await attempt.decide(person, yes(attempt))
        await asked
        assert timer.cancelled()
        assert attempt.parked == 0


async def test_calls_of_a_runner_that_cannot_resume_are_held_without_end(attempts: Attempts) -> None:
    async with attempts.attempt(hold_seconds=0.0, resumable=False) as attempt:
        ask(attempt, 1)
        await attempt.asked(1)
        assert (attempt.parked, attempt.held._hold_timer) == (0, None)


async def test_a_new_question_waits_until_the_calls_of_the_last_pause_are_made_again(
    attempts: Attempts,
) -> None:
    person = await ada(attempts.world)
    async with attempts.attempt() as first:
        ask(first, 1)
        await first.asked(1)
    await first.decide(person, yes(first))
    again = await attempts.lost(first.run)
    async with attempts.attempt(again=again, hold_seconds=0.0, blocked_seconds=-1.0) as second:
        with pytest.raises(ConflictError, match="were not made again"):
            await second.held.ask(question(second, 2))
        assert second.requested == []
        assert second.parked == 0, "it would be queued at once, without end"
    pause, _ = await second.pause()
    assert pause.status == "resuming"


@pytest.mark.parametrize("does", ["starts", "works"])
async def test_a_new_question_waits_as_long_as_an_approved_tool_starts_or_works(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    monkeypatch.setattr(held_calls, "SHARED_LOOK_SECONDS", 0.01)
    person = await ada(attempts.world)
    grant = attempt_grant(tool_approval={"search": "required"})
    gate, tools = Gate(), attempts.tools
    if does == "starts":
        tools.starts, tools.pins = gate, dict(grant.tool_pins)
    else:
        tools.gate = gate
    async with attempts.attempt(grant, hold_seconds=0.0, blocked_seconds=-1.0) as attempt:
        approved = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.decide(person, Action(call_id=asked.call_id, type="approve"))
        await gate.reached()
        later = attempt.begin("tool.call", parameters={"text": "another"})
        looks = 3
        done = asyncio.Event()

        def looked() -> None:
            nonlocal looks
            looks -= 1
            if looks == 0:
                done.set()

        attempt.held.looked = looked
        async with asyncio.timeout(30):
            await done.wait()
        assert later not in attempt.runner.answers, "it is neither refused nor asked yet"
        gate.open()
        assert (await attempt.runner.answer(approved)).result == 1
        assert len(await attempt.asked(2)) == 2


# -- approved ahead ---------------------------------------------------------------------------------------


async def approved_ahead(attempts: Attempts, grant: Grant) -> Caller:
    """A person has approved a call of `search`, and those like it."""
    boss = await ada(attempts.world, "admin")
    async with attempts.attempt(grant) as attempt:
        tool = attempt.begin("tool.call")
        (asked,) = await attempt.asked()
        await attempt.decide(boss, Action(call_id=asked.call_id, type="approve", similar=Similar(uses=5)))
        await attempt.runner.answer(tool)
    return boss


async def cancel(attempt: CallAttempt, person: Caller) -> None:
    def work(tx: Tx) -> None:
        run_endings.request_cancel(tx, "main", attempt.run.run_id, reason="enough", actor=person.subject)

    await attempt.world.db.write(work)


async def test_7_a_run_that_is_being_cancelled_makes_no_call_that_was_approved_ahead(
    attempts: Attempts,
) -> None:
    grant = attempt_grant(tool_approval={"search": "required"})
    boss = await approved_ahead(attempts, grant)
    async with attempts.attempt(grant) as attempt:
        await attempt.call("tool.call")
        assert len(attempts.tools.calls) == 2, "it is approved"
    async with attempts.attempt(grant) as attempt:
        await cancel(attempt, boss)
        with pytest.raises(CancelledCallError, match="the run is being cancelled"):
            await attempt.call("tool.call")
    assert len(attempts.tools.calls) == 2


async def test_7_an_approval_ahead_lets_nothing_through_once_its_run_is_being_cancelled(
    attempts: Attempts,
) -> None:
    grant = attempt_grant(tool_approval={"search": "required"})
    boss = await approved_ahead(attempts, grant)
    async with attempts.attempt(grant) as attempt:
        pin = grant.tool_pins["search"]
        rule = grant.tool_approvals["search"]
        arguments = attempts.tools.calls[0].parameters
        name = CallName("tool.call", "d", 1)
        verdict = await attempt.held.ask(
            Question("approval", name, arguments, tool_name="search", pin=pin, rule=rule)
        )
        reserve = verdict.reserve
        assert reserve is not None
        assert await attempt.world.db.write(lambda tx: reserve(tx, "key")) is None
        await cancel(attempt, boss)
        assert isinstance(await attempt.world.db.write(lambda tx: reserve(tx, "key")), AskAgainError)
