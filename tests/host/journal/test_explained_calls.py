"""Which rule decided a call: every check that can refuse one, and everything that can let it through.

Each call is made on real stores, and explained from what they hold afterwards.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.calls.budgets import RunBudget
from hostler.calls.needs import Needs
from hostler.calls.spending import Spending
from hostler.domain.agents import Rate
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.budget_limits import Budget
from hostler.domain.budgets import Spender, accounts_of
from hostler.domain.call_checks import CHECKS
from hostler.domain.explanations import Explanation
from hostler.domain.pause_actions import Action, Similar
from hostler.domain.quotas import AgentQuota
from hostler.journal.explained_calls import explain_call
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.errors import HostlerError, NotFoundError
from support.call_attempt import Attempts, CallAttempt, ada, attempt_grant, attempts_on
from support.call_world import World
from support.gates import Gate

pytestmark = pytest.mark.gate("explanations")

STATE: dict[str, Any] = {"scope": "conversation", "key": "k"}
BOOK: dict[str, Any] = {"tool_name": "book", "parameters": {"seats": 2}, "tool_call_id": "m-1"}


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


async def explained(attempt: CallAttempt, wanted: str) -> Explanation:
    await attempt.log.settled()
    world = attempt.world
    return await explain_call(world.db, world.services.blobs, "main", attempt.run.run_id, wanted)


async def last_of(attempt: CallAttempt) -> Explanation:
    """The explanation of the call of the journal's last entry about one."""
    return await explained(attempt, str((await attempt.entries())[-1].position))


def results(found: Explanation) -> dict[str, str]:
    return {one.check: one.result for one in found.checks}


def texts(found: Explanation, check: str) -> list[tuple[str, str | None]]:
    (view,) = [one for one in found.checks if one.check == check]
    return [(rule.source, rule.field) for rule in view.rules]


def words(found: Explanation, check: str) -> str:
    (view,) = [one for one in found.checks if one.check == check]
    return " / ".join(rule.text for rule in view.rules)


# -- refused by the gate ------------------------------------------------------------------------------


def exhausted(attempt: CallAttempt) -> None:
    grant = attempt.gated.grant
    spender = Spender(run_id=attempt.run.run_id, agent_id=grant.agent_id)
    accounts = tuple(accounts_of(spender, grant.budget))
    budget = RunBudget(attempt.world.db, "main", attempt.run.run_id, 1, accounts)
    attempt.gated.budget = Spending(budget, Needs(budget, attempt.scope.services.models))


def nothing(_: CallAttempt) -> None:
    pass


def stand(standing: Any) -> Callable[[CallAttempt], None]:
    return lambda attempt: setattr(attempt.gated, "standing", standing)


def late(attempt: CallAttempt) -> None:
    attempt.gated.deadline_at = time.time() - 1


def elsewhere(attempt: CallAttempt) -> None:
    attempt.gated.run_id = "another run"


REFUSALS: list[tuple[str, Callable[[CallAttempt], None], dict[str, Any], str, dict[str, Any]]] = [
    ("connection", elsewhere, {}, "state.get", STATE),
    ("attempt", stand("ended"), {}, "state.get", STATE),
    ("attempt", stand("fenced"), {}, "model.invoke", {}),
    ("attempt", stand("paused"), {}, "tool.call", BOOK),
    ("grant", nothing, {}, "model.invoke", {"model_id": "claude"}),
    ("grant", nothing, {}, "run.append", {}),
    ("grant", nothing, {}, "state.get", {"scope": "runner", "key": "k"}),
    ("grant", nothing, {}, "storage.get", {"area": "workspace", "key": "k"}),
    ("grant", nothing, {}, "history.page", {"conversation_id": "elsewhere"}),
    ("grant", nothing, {"allowed_agents": ["clerk"]}, "run.create", {"agent": "boss"}),
    ("arguments", nothing, {}, "state.get", {"scope": "conversation", "key": "k" * 5_000}),
    ("deadline", late, {}, "state.get", STATE),
    ("budget", exhausted, {"budget": Budget(max_calls_per_run=0)}, "state.get", STATE),
]


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{one[0]}-{one[3]}" for one in REFUSALS])
async def test_a_refusal_names_the_check_that_refused(attempts: Attempts, case: Any) -> None:
    check, prepare, policy, method, changes = case
    async with attempts.attempt(attempt_grant(**policy)) as attempt:
        prepare(attempt)
        with pytest.raises(HostlerError) as refused:
            await attempt.call(method, **changes)
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by, found.method) == ("refused", check, method)
        assert refused.value.message in found.text
        assert results(found)[check] == "refused"
        at = CHECKS.index(check)
        assert {results(found)[one] for one in CHECKS[:at]} <= {"passed"}
        assert {results(found)[one] for one in CHECKS[at + 1 :]} <= {"not reached"}
        assert refused.value.message in words(found, check)


async def test_a_rate_that_refused(attempts: Attempts) -> None:
    async with attempts.attempt(attempt_grant(rate=Rate(calls_per_second=1))) as attempt:
        await attempt.call("state.get", **STATE)
        with pytest.raises(HostlerError, match="calls a second"):
            await attempt.call("state.get", **STATE)
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by) == ("refused", "rate")
        assert texts(found, "rate")[1] == ("policy", "resource_policy.rate.calls_per_second")
        assert found.call_id is not None, "it was refused after it had an id"
        assert (await explained(attempt, found.call_id)).text == found.text


# -- where a part of the grant came from --------------------------------------------------------------


async def test_what_lets_a_call_through_says_where_it_came_from(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        await attempt.call("tool.call", **{**BOOK, "tool_name": "search"})
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by, found.named) == ("allowed", "grant", "search")
        assert set(results(found).values()) == {"passed", "not needed"}
        assert texts(found, "grant") == [
            ("manifest", "permissions.tools"),
            ("config", "config.tools"),
            ("policy", "resource_policy.allowed_tool_names"),
            ("manifest", "permissions.tools"),
        ]
        assert found.agent_version == 1
        assert (await explained(attempt, "m-1")).position == found.position, "by the model's own id"


async def test_what_the_grant_lacks_is_told_from_the_grant(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        with pytest.raises(NotFoundError):
            await attempt.call("tool.call", **{**BOOK, "tool_name": "gone"})
        found = await last_of(attempt)
        assert found.named == "gone"
        assert "selects others, and not 'gone'" in words(found, "grant")
        assert "not in the grant, as it was frozen" in words(found, "grant")
        with pytest.raises(HostlerError):
            await attempt.call("state.get", scope="runner", key="k")
        assert "does not open it" in words(await last_of(attempt), "grant")


async def test_an_error_of_the_call_itself_is_no_refusal(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        with pytest.raises(NotFoundError):
            await attempt.call("run.cancel", target_run_id="no such run")
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by) == ("failed", "grant")
        assert "was allowed, and failed" in found.text


# -- people -------------------------------------------------------------------------------------------


def asking() -> Any:
    return attempt_grant(tool_approval={"b*": ToolApprovalPolicy(subjects=["role:desk"], min_approvals=2)})


async def act(world: World, attempt: CallAttempt, subject: str, kind: Any, **more: Any) -> None:
    (call,) = (await attempt.pause())[1]
    person = await ada(world, "desk", subject=subject)
    await attempt.decide(person, Action(call_id=call.call_id, type=kind, args_hash=call.args_hash, **more))


@pytest.mark.parametrize(
    ("method", "params", "quota", "field"),
    [
        ("state.set", {**STATE, "value": "v" * 200}, {"max_state_bytes": 10}, "max_state_bytes"),
        (
            "storage.set",
            {"area": "plugin", "key": "k", "content_base64": "eHh4"},
            {"max_storage_bytes_per_run": 2},
            "max_storage_bytes_per_run",
        ),
    ],
)
async def test_a_quota_that_had_no_room(
    attempts: Attempts, method: str, params: Any, quota: dict[str, int], field: str
) -> None:
    async with attempts.attempt(attempt_grant(quota=AgentQuota(**quota))) as attempt:
        with pytest.raises(HostlerError) as refused:
            await attempt.call(method, **params)
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by) == ("refused", "quota")
        assert refused.value.message in found.text
        assert results(found)["quota"] == "refused"
        assert results(found)["budget"] == "passed"
        assert field in words(found, "quota")
        assert ("policy", "resource_policy.quota") in texts(found, "quota")


async def test_quotas_of_calls_that_store_and_of_others(attempts: Attempts) -> None:
    async with attempts.attempt(attempt_grant()) as attempt:
        await attempt.call("state.set", **STATE, value=1)
        assert results(await last_of(attempt))["quota"] == "passed"
        await attempt.call("state.get", **STATE)
        assert results(await last_of(attempt))["quota"] == "not needed"


async def test_two_who_approve_are_named_with_the_rule_that_they_met(attempts: Attempts) -> None:
    async with attempts.attempt(asking()) as attempt:
        made = attempt.begin("tool.call", **BOOK)
        (call,) = await attempt.asked()
        waits = await explained(attempt, call.call_id)
        assert (waits.outcome, waits.method, waits.named) == ("waiting", "tool.call", "book")
        await act(attempt.world, attempt, "rita", "approve")
        await act(attempt.world, attempt, "finn", "approve")
        await attempt.runner.answer(made)
        for wanted in (call.call_id, "m-1", str((await attempt.entries("call"))[0].position)):
            found = await explained(attempt, wanted)
            assert (found.outcome, found.decided_by) == ("allowed", "approval")
            assert results(found)["approval"] == "passed"
            told = words(found, "approval")
            assert "role:desk: 2 needed" in told
            assert "rita voted: approve" in told
            assert "finn voted: approve" in told
            decided = [one for one in found.decisions if one.action == "pause.call.approved"]
            assert [one.actor for one in decided] == ["finn"]
            assert decided[0].rule == {
                "subjects": ["role:desk"],
                "min_approvals": 2,
                "separation_of_duty": False,
            }


async def test_a_denial_names_who_denied(attempts: Attempts) -> None:
    async with attempts.attempt(asking()) as attempt:
        made = attempt.begin("tool.call", **BOOK)
        await attempt.asked()
        await act(attempt.world, attempt, "rita", "deny", comment="too many")
        with pytest.raises(HostlerError, match="denied by rita"):
            await attempt.runner.answer(made)
        found = await last_of(attempt)
        assert (found.outcome, found.decided_by) == ("refused", "approval")
        assert "denied by rita" in words(found, "approval")


async def test_an_approval_for_similar_calls_is_named_by_each_call_that_it_lets_through(
    attempts: Attempts,
) -> None:
    grant = attempt_grant(tool_approval={"book": ToolApprovalPolicy(subjects=["role:desk"])})
    async with attempts.attempt(grant) as attempt:
        made = attempt.begin("tool.call", **BOOK)
        await attempt.asked()
        await act(attempt.world, attempt, "rita", "approve", similar=Similar(uses=5))
        await attempt.runner.answer(made)
        await attempt.call("tool.call", **{**BOOK, "tool_call_id": "m-2"})
        found = await explained(attempt, "m-2")
        assert (found.outcome, found.decided_by) == ("allowed", "approval")
        assert "rita had approved similar calls" in words(found, "approval")


# -- what the facts do not say ------------------------------------------------------------------------


async def test_a_call_that_was_begun_and_has_no_outcome_is_unknown(attempts: Attempts) -> None:
    attempts.tools.gate = gate = Gate()
    async with attempts.attempt(attempt_grant()) as attempt:
        made = attempt.begin("tool.call", **BOOK)
        await gate.reached()
        (intent,) = await attempt.entries("intent")
        for wanted in ("m-1", str(intent.position)):
            found = await explained(attempt, wanted)
            assert (found.outcome, found.position) == ("unknown", intent.position)
        gate.open()
        await attempt.runner.answer(made)
        assert (await explained(attempt, "m-1")).outcome == "allowed"


async def test_a_call_that_is_not_there_is_not_found(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        await attempt.call("state.get", **STATE)
        for wanted in ("99", "0", "m-9", "", "9" * 30, "\u0661"):
            with pytest.raises(NotFoundError, match="has no call"):
                await explained(attempt, wanted)
        world = attempt.world
        with pytest.raises(NotFoundError):
            await explain_call(world.db, world.services.blobs, "other", attempt.run.run_id, "1")


async def test_a_large_call_is_explained_from_its_blob(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        await attempt.call("tool.call", **{**BOOK, "tool_name": "search", "parameters": {"q": "x" * 200_000}})
        (entry,) = await attempt.entries("call")
        assert entry.blob is not None
        assert (await last_of(attempt)).named == "search"
