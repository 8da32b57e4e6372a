"""Whether a call had to be let go on by people or a client, and by which rule, from recorded facts. Pure.

A platform action has the rules of its tool (`platform.member_ban`), whether it was called as a tool or asked
for, and one of its risk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.domain.action_decisions import asks_by_itself
from hostler.domain.agents import AgentSpec
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.grant_rules import Rule
from hostler.domain.grants import Grant
from hostler.domain.journalled_calls import Decision, JournalledCall
from hostler.domain.name_patterns import best_match
from hostler.domain.platform_actions import ACTION_OF_TOOL, PLATFORM_ACTIONS, PlatformAction

_RULES = "resource_policy.tool_approval"
_WAIVERS = "resource_policy.actions_without_approval"


def asks_people(call: JournalledCall, grant: Grant) -> bool:
    """Whether people, or a client, have to let the call go on, or had to."""
    if call.method == "interaction.request" or call.decisions or call.approved_by:
        return True
    tool = _tool_of(call)
    if tool is None:
        return False
    pin = grant.tool_pins.get(tool)
    return tool in grant.tool_approvals or (pin is not None and pin.client)


def approval_rules(call: JournalledCall, grant: Grant, spec: AgentSpec | None) -> list[Rule]:
    """Return the rules of approval that the call went by, and what people said."""
    tool, rules = _tool_of(call), []
    if call.method == "interaction.request":
        rules.append(Rule("people", "a question is for people to answer", "allow_questions"))
    elif tool is not None and (policy := grant.tool_approvals.get(tool)) is not None:
        rules += _asking(tool, policy, spec)
    elif tool is not None and (pin := grant.tool_pins.get(tool)) is not None and pin.client:
        rules.append(Rule("host", "a client carries the tool out"))
    elif not asks_people(call, grant):
        rules.append(_waived(tool, spec) or Rule("policy", "no approval is needed", _RULES))
    if call.similar_id is not None:
        text = f"{call.approved_by} had approved similar calls (approval {call.similar_id})"
        rules.append(Rule("people", text))
    return rules + said_by_people(call.decisions, call.names)


def said_by_people(decisions: Sequence[Decision], names: Mapping[str, str]) -> list[Rule]:
    """Return what people, or the host in their place, decided."""
    return [Rule("people", _words(one, names)) for one in decisions if one.action != "pause.open"]


def _tool_of(call: JournalledCall) -> str | None:
    """Return the tool whose rules a call has."""
    if call.method == "action.request":
        action = PLATFORM_ACTIONS.get(call.named or "")
        return None if action is None else action.tool_name
    return call.named if call.method in {"tool.call", ""} else None


def _action_of(tool: str) -> PlatformAction | None:
    name = ACTION_OF_TOOL.get(tool)
    return None if name is None else PLATFORM_ACTIONS[name]


def _asking(tool: str, policy: ToolApprovalPolicy, spec: AgentSpec | None) -> list[Rule]:
    who = f"approvals by {', '.join(policy.subjects)}: {policy.min_approvals} needed"
    who += ", none by the requester" if policy.separation_of_duty else ""
    pattern = None if spec is None else best_match(spec.resource_policy.tool_approval, tool)
    field = None if pattern is None else f"{_RULES}[{pattern}]"
    action = _action_of(tool)
    if action is not None and spec is not None and asks_by_itself(spec.resource_policy, action):
        risk = f"{action.name} is dangerous, and actions_without_approval does not name it"
        return [Rule("policy", risk, _WAIVERS), Rule("policy", who, field)]
    if pattern is not None or action is not None:
        return [Rule("policy", who, field)]
    return [Rule("host", f"the tool itself asks for approval; {who}")]


def _waived(tool: str | None, spec: AgentSpec | None) -> Rule | None:
    """Return why a platform action needs no approval; None for other calls."""
    action = None if tool is None else _action_of(tool)
    if action is None:
        return None
    if action.risk != "dangerous":
        text = (
            f"{action.name} only {'reads' if action.risk == 'read' else 'writes'}, and no rule asks for more"
        )
        return Rule("policy", text, _RULES)
    waiver = None if spec is None else best_match(spec.resource_policy.actions_without_approval, action.name)
    if waiver is None:
        return None
    return Rule("policy", f"{action.name} is dangerous, and needs no approval, as {waiver!r}", _WAIVERS)


def _words(decision: Decision, names: Mapping[str, str]) -> str:
    kind, who = decision.action.removeprefix("pause.").removeprefix("call."), decision.actor
    if who in names:
        who = f"{names[who]} ({who})"
    if kind == "vote":
        return f"{who} voted: {decision.body.get('vote')}"
    cause = decision.body.get("cause")
    return f"{kind} by {who}" + (f" ({cause})" if cause and cause != kind else "")
