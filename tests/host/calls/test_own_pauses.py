"""Calls that were approved in a pause of the runner's own, while the run asks people something else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action
from hostler.domain.pause_values import PausedCall
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import api_keys, pause_calls, pause_claims, pause_votes, pauses
from hostler_protocol.errors import DeniedError
from support.call_attempt import Attempts, CallAttempt, ada, attempt_grant, attempts_on
from support.call_params import params_of
from support.gates import Gate
from support.pauses import ADMIN, call, open_pause

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ASKS: dict[str, Any] = {"tool_approval": {"search": "required"}}


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


async def approve_ahead(attempt: CallAttempt, by: Caller = ADMIN) -> None:
    """The attempt goes on from a pause of its runner's own, in which a call was approved."""
    arguments = params_of("tool.call", attempt.run.run_id).parameters  # type: ignore[attr-defined]
    asked = call("k1", tool_name="search", arguments=arguments, pin=attempt.scope.grant.tool_pins["search"])

    def work(tx: Tx) -> None:
        pause = open_pause(tx, asked, run_id=attempt.run.run_id, form="explicit")
        (one,) = pause_calls.of_pause(tx, pause)
        pause_votes.record(tx, pause, one, "approve", by)
        pause_calls.decide(tx, pause, one, "approved", cause="t", actor="admin")
        pauses.settle(tx, pause, actor="admin")
        pause_claims.begin_resuming(tx, attempt.run.run_id, attempt.run.attempt)

    await attempt.world.db.write(work)


async def approved(attempt: CallAttempt) -> PausedCall:
    def work(tx: Tx) -> PausedCall:
        own = pauses.of_run(tx, attempt.run.run_id)[-1]
        assert (own.form, own.status) == ("explicit", "resumed")
        return pause_calls.of_pause(tx, own)[0]

    return await attempt.world.db.read(work)


async def test_11_an_outcome_of_an_approved_call_counts_although_people_are_asked_something_else(
    attempts: Attempts,
) -> None:
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        await approve_ahead(attempt)
        gate = attempts.tools.gate = Gate()
        tool = attempt.begin("tool.call")
        await gate.reached()
        attempt.begin("interaction.request")
        await attempt.asked()
        assert (await approved(attempt)).execution == "reserved"
        gate.open()
        await attempt.runner.answer(tool)
        assert (await approved(attempt)).execution == "succeeded"


async def test_10_an_approved_call_that_was_begun_is_made_again_and_not_asked_again(
    attempts: Attempts,
) -> None:
    grant = attempt_grant(effects={"search": "idempotent"}, **ASKS)
    async with attempts.attempt(grant) as attempt:
        await approve_ahead(attempt)
        gate = attempts.tools.gate = Gate()
        attempt.begin("tool.call")
        await gate.reached()
        attempt.begin("interaction.request")
        await attempt.asked()
    attempts.tools.gate = None
    async with attempts.attempt(grant, again=await attempts.lost(attempt.run), resumed=True) as later:
        await later.call("tool.call")
        assert (await approved(later)).execution == "succeeded"
        assert later.requested == []
    first, again = attempts.tools.calls
    assert first.effect_key == again.effect_key


@pytest.mark.parametrize("again", ["approve", "deny"])
async def test_17_a_call_whose_approver_may_not_approve_any_more_waits_under_its_own_name(
    attempts: Attempts, again: str
) -> None:
    boss, other = [await ada(attempts.world, "admin", subject=f"user:{name}") for name in ("boss", "other")]
    async with attempts.attempt(attempt_grant(**ASKS)) as attempt:
        await approve_ahead(attempt, boss)
        await attempts.world.db.write(lambda tx: api_keys.revoke(tx, "main", boss.key_id))
        tool = attempt.begin("tool.call")
        while (await attempt.pause())[0].status != "open":
            await attempt.calls.quiet()
        question = attempt.begin("interaction.request")  # joins it, as it is open again
        (asked,) = await attempt.asked()
        for _ in range(3):
            attempt.held.changed()
            await attempt.writing()
            await attempt.log.settled()
        pause, calls = await attempt.pause()
        assert (pause.form, pause.status) == ("explicit", "open")
        assert [(one.call_id, one.decision) for one in calls] == [
            ("k1", "undecided"),
            (asked.call_id, "undecided"),
        ]
        assert attempts.tools.calls == []
        assert not attempt.calls.had_effects, "lost now, it goes on from the same pause"
        await attempt.decide(
            other,
            Action(call_id="k1", type="approve" if again == "approve" else "deny"),
            Action(call_id=asked.call_id, type="answer", values={}),
        )
        if again == "approve":
            assert (await attempt.runner.answer(tool)).result == 1
        else:
            with pytest.raises(DeniedError):
                await attempt.runner.answer(tool)
        assert (await attempt.runner.answer(question)).decision == "answered"
        assert len(attempts.tools.calls) == (again == "approve")
        assert (await approved(attempt)).decided_by == "user:other"
