"""Which rule decided a call of a run: an explanation from recorded facts alone. Pure.

The facts are the call's entries in the journal, the run's frozen grant, and the version of its agent. What
they do not say is shown as not recorded, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hostler.domain.agents import AgentSpec
from hostler.domain.call_checks import CHECKS, CallCheck
from hostler.domain.explained_approvals import approval_rules, asks_people, said_by_people
from hostler.domain.grant_rules import Rule, grant_rules
from hostler.domain.grants import Grant
from hostler.domain.journalled_calls import Decision, JournalledCall
from hostler.domain.top_ups import QUESTION
from hostler_protocol._base import Strict
from hostler_protocol.calls import CALLS

CallOutcome = Literal["allowed", "failed", "refused", "unsupported", "withdrawn", "waiting", "unknown"]
"""`failed`: it was carried out, and ended with an error. `unsupported`: a platform action that nobody can do.
`withdrawn`: the runner did not wait for the end. `unknown`: it was begun, and the journal has no outcome.
"""
_STORING = frozenset({"artifact.upload", "state.set", "storage.set", "tool.call"})
"""Calls that store what quotas bound: of a tool, files of its result."""
CheckResult = Literal["passed", "refused", "not reached", "not needed", "skipped"]
"""`skipped`: the call was answered from a recording, which takes nothing from rate and budget."""


class CheckView(Strict):
    """One check in front of the call, with the rules that it went by."""

    check: CallCheck
    result: CheckResult
    rules: list[Rule]


class DecisionView(Strict):
    """What one person, or the host, decided. `rule`: who may decide, as it was frozen with the question.

    `name`: how a person who signed in is called; null for others.
    """

    at: float
    action: str
    actor: str
    name: str | None = None
    cause: str | None = None
    rule: dict[str, Any] | None = None
    similar_id: str | None = None


class Explanation(Strict):
    """Which rule decided a call. `decided_by`: the last check that mattered; null: the journal does not say.

    `at` in UTC epoch seconds.
    """

    run_id: str
    position: int
    attempt: int
    at: float
    call_id: str | None
    method: str
    named: str | None
    outcome: CallOutcome
    decided_by: CallCheck | None
    text: str
    agent: str | None
    agent_version: int
    checks: list[CheckView]
    decisions: list[DecisionView]


def explain(run_id: str, call: JournalledCall, grant: Grant, spec: AgentSpec | None) -> Explanation:
    """Explain one call. `spec`: the version of the agent that the grant was built for, None if it is gone."""
    outcome = _outcome(call)
    checks = [_check(one, call, grant, spec) for one in CHECKS] if call.method else []
    decided_by = _decided_by(call, checks)
    return Explanation(
        run_id=run_id,
        position=call.position,
        attempt=call.attempt,
        at=call.at,
        call_id=call.call_id,
        method=call.method,
        named=call.named,
        outcome=outcome,
        decided_by=decided_by,
        text=_sentence(call, outcome, decided_by),
        agent=None if spec is None else spec.name,
        agent_version=grant.agent_version,
        checks=checks,
        decisions=[
            _shown(one, call.names) for one in sorted([*call.decisions, *call.about_budgets], key=_moment)
        ],
    )


def _outcome(call: JournalledCall) -> CallOutcome:
    if call.error is not None:
        return "refused" if call.by_gate or call.refused_at is not None else "failed"
    if call.given_up:
        return "withdrawn"
    if call.unsupported is not None:
        return "unsupported"
    if call.ended:
        return "allowed" if call.method else _own_outcome(call)
    asked = [one for one in [*call.decisions, *call.about_budgets] if one.action != "pause.vote"]
    return (
        "waiting"
        if asked and asked[-1].action.endswith((".open", ".undecided", ".needs_review"))
        else "unknown"
    )


def _own_outcome(call: JournalledCall) -> CallOutcome:
    """The outcome of a call that the runner carries out itself: what people decided of it."""
    words = {
        "pause.call.approved": "allowed",
        "pause.call.answered": "allowed",
        "pause.call.denied": "refused",
        "pause.call.expired": "refused",
        "pause.call.cancelled": "withdrawn",
    }
    decided = [words[one.action] for one in call.decisions if one.action in words]
    return decided[-1] if decided else "waiting"  # type: ignore[return-value]


def _decided_by(call: JournalledCall, checks: Sequence[CheckView]) -> CallCheck | None:
    if call.refused_at is not None:
        return call.refused_at
    if call.by_gate:  # of an older host
        return None
    if (not call.ended and call.method == QUESTION) or _was_added_to(call):
        return "budget"
    if not call.method or any(one.check == "approval" and one.result == "passed" for one in checks):
        return "approval"
    return "grant"


def _was_added_to(call: JournalledCall) -> bool:
    """Whether it went on because somebody added to its budget."""
    return any(one.action == "pause.call.approved" for one in call.about_budgets)


def _moment(decision: Decision) -> float:
    return decision.at


# -- the checks -------------------------------------------------------------------------------------------


def _check(check: CallCheck, call: JournalledCall, grant: Grant, spec: AgentSpec | None) -> CheckView:
    rules = _rules(check, call, grant, spec)
    return CheckView(check=check, result=_result(check, call, grant), rules=rules)


def _result(check: CallCheck, call: JournalledCall, grant: Grant) -> CheckResult:
    refused_at = call.refused_at if call.error is not None else None
    if call.by_gate and refused_at is None:
        return "not reached"  # an older host did not note where
    if check == refused_at:
        return "refused"
    if refused_at is not None and _order(check, call) > _order(refused_at, call):
        return "not reached"
    if check in ("approval", "quota"):
        return _approval_result(call, grant) if check == "approval" else _quota_result(call)
    if call.inherited and check in ("rate", "deadline", "budget"):
        return "skipped"
    return "passed"


def _order(check: CallCheck, call: JournalledCall) -> int:
    """The place of a check. The arguments of a tool are checked against its schema after the gate."""
    if check == "arguments" and call.check == "arguments" and not call.by_gate:
        return CHECKS.index("approval") - 1
    return CHECKS.index(check)


def _approval_result(call: JournalledCall, grant: Grant) -> CheckResult:
    if not asks_people(call, grant):
        return "not needed"
    if call.approved_by or any(one.action == "pause.call.approved" for one in call.decisions):
        return "passed"
    if any(one.action == "pause.call.answered" for one in call.decisions):
        return "passed"
    return "skipped" if call.inherited else "not reached"


def _quota_result(call: JournalledCall) -> CheckResult:
    if call.method not in _STORING:
        return "not needed"
    if call.inherited:
        return "skipped"
    return "passed" if call.ended and call.error is None and not call.given_up else "not reached"


def _rules(check: CallCheck, call: JournalledCall, grant: Grant, spec: AgentSpec | None) -> list[Rule]:
    said = [Rule("host", call.error.message)] if call.error is not None and check == call.refused_at else []
    match check:
        case "connection":
            rules = [
                Rule(
                    "host", f"plugin {grant.owner!r} makes calls of runs that were started on its connection"
                )
            ]
        case "attempt":
            rules = [Rule("host", f"the newest attempt of a run makes calls; this was number {call.attempt}")]
        case "grant":
            rules = grant_rules(grant, spec, call.method, call.named)
        case "arguments":
            tool = ", and the tool has a schema" if call.method == "tool.call" else ""
            rules = [Rule("host", f"each call has a form and limits of size{tool}")]
        case "rate":
            rules = [_rate_rule(grant)]
        case "deadline":
            rules = [_deadline_rule(grant)]
        case "budget":
            rules = _budget_rules(grant, call)
        case "approval":
            rules = approval_rules(call, grant, spec)
        case "quota":
            rules = _quota_rules(call, grant)
    return said + rules


def _deadline_rule(grant: Grant) -> Rule:
    seconds = grant.timeout_seconds
    limit = "has no time limit of its own" if seconds is None else f"may work for {seconds:g} s"
    return Rule("config", f"the run {limit}, and not longer than a run above it", "config.timeout")


def _rate_rule(grant: Grant) -> Rule:
    rate = grant.calls_per_second
    text = "no rate is set" if rate is None else f"at most {rate:g} calls a second, or what a run above has"
    return Rule("policy", text, "resource_policy.rate.calls_per_second")


def _budget_rules(grant: Grant, asked: JournalledCall) -> list[Rule]:
    set_ = {name: getattr(grant.budget, name) for name in grant.budget.__struct_fields__}
    limits = [
        f"{name} {value}" for name, value in set_.items() if name.startswith("max_") and value is not None
    ]
    call = CALLS.get(asked.method)
    spends = call is not None and call.spends
    text = f"{', '.join(limits) or 'no budget is set'}; the call {'spends' if spends else 'costs'} "
    text += "tokens or money" if spends else "one call"
    if grant.budget.on_exceeded != "refuse":
        text += f"; where too little is left: {grant.budget.on_exceeded}"
    rules = [Rule("policy", text, "resource_policy.budget")]
    if grant.above is not None:
        rules.append(Rule("parent", "budgets of the runs above this one count too"))
    return rules + said_by_people(asked.about_budgets, asked.names)


def _quota_rules(call: JournalledCall, grant: Grant) -> list[Rule]:
    if call.method not in _STORING:
        return [Rule("host", "the call stores nothing that quotas bound")]
    set_ = {name: getattr(grant.quota, name) for name in grant.quota.__struct_fields__}
    bounds = ", ".join(f"{name} {value}" for name, value in set_.items() if value is not None)
    return [
        Rule("policy", bounds or "no quota is set", "resource_policy.quota"),
        Rule("workspace", "the workspace's quota counts what all its agents store", "quota"),
    ]


def _shown(decision: Decision, names: Mapping[str, str]) -> DecisionView:
    body = decision.body
    return DecisionView(
        at=decision.at,
        action=decision.action,
        actor=decision.actor,
        name=names.get(decision.actor),
        cause=body.get("cause") or body.get("vote"),
        rule=body.get("rule"),
        similar_id=body.get("similar_id"),
    )


def _sentence(call: JournalledCall, outcome: CallOutcome, decided_by: CallCheck | None) -> str:
    what = call.method or "what the runner carries out itself"
    if call.method == QUESTION:
        what = "a call for which too little of a budget is left"
    if call.named is not None:
        what = f"{what} ({call.named!r})"
    error = "" if call.error is None else call.error.message
    match outcome:
        case "refused":
            where = "at a check that the journal does not name" if decided_by is None else f"at {decided_by}"
            became = f"refused {where}" + (f": {error}" if error else "")
        case "failed":
            became = f"allowed, and failed: {error or 'no reason is kept'}"
        case "unsupported":
            became = f"not refused, and nobody can carry it out: {call.unsupported}"
        case "withdrawn":
            became = "not refused; its runner did not wait for the end"
        case "waiting":
            return f"{what} waits for people"
        case "unknown":
            became = "allowed and begun; the journal has no outcome of it"
        case "allowed":
            added = ", as its budget was added to" if decided_by == "budget" else ""
            became = "allowed" + (" by people" if decided_by == "approval" else added)
    return f"{what} was {became}"
