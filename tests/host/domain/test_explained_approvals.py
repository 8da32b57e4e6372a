"""What is said of the approvals of a call: of platform actions, by tool or asked for, and of tools."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.explained_approvals import approval_rules, asks_people
from hostler.domain.journalled_calls import JournalledCall
from hostler_protocol.manifest import Permissions
from support.grants import agent_of, catalog_of, grant_of, manifest_of

DESK = ToolApprovalPolicy(subjects=["role:desk"], min_approvals=2, separation_of_duty=True)
WHO = "approvals by role:desk: 2 needed, none by the requester"
RISK = "member.ban is dangerous, and actions_without_approval does not name it"
NO_RISK = "resource_policy.actions_without_approval"


def told(method: str, named: str, **policy: Any) -> tuple[bool, list[tuple[str | None, str]]]:
    agent = agent_of(resource_policy=ResourcePolicy(allowed_actions=["*"], **policy))
    manifest = manifest_of(permissions=Permissions(actions=["*"], tools=["call"]))
    tools = ["search", "platform.member_ban", "platform.message_send"]
    grant = grant_of(
        agent=agent, manifest=manifest, config={"tools": tools}, catalog=catalog_of([], tools, [])
    )
    call = JournalledCall(1, 1, 0.0, method, named=named)
    rules = approval_rules(call, grant, agent.spec)
    return asks_people(call, grant), [(rule.field, rule.text) for rule in rules]


@pytest.mark.parametrize(
    ("method", "named"), [("action.request", "member.ban"), ("tool.call", "platform.member_ban")]
)
def test_a_dangerous_action_asks_by_its_risk_or_by_a_rule(method: str, named: str) -> None:
    by_default = "approvals by requester, role:admin: 1 needed"
    assert told(method, named) == (True, [(NO_RISK, RISK), (None, by_default)])
    rule = {"platform.member_*": DESK}
    field = "resource_policy.tool_approval[platform.member_*]"
    assert told(method, named, tool_approval=rule) == (True, [(NO_RISK, RISK), (field, WHO)])
    waived: dict[str, Any] = {"actions_without_approval": ["member.*"]}
    assert told(method, named, tool_approval=rule, **waived) == (True, [(field, WHO)])
    says = "member.ban is dangerous, and needs no approval, as 'member.*'"
    assert told(method, named, **waived) == (False, [(NO_RISK, says)])


@pytest.mark.parametrize(
    ("method", "named"), [("action.request", "message.send"), ("tool.call", "platform.message_send")]
)
def test_another_action_asks_by_a_rule_alone(method: str, named: str) -> None:
    says = "message.send only writes, and no rule asks for more"
    assert told(method, named) == (False, [("resource_policy.tool_approval", says)])
    field = "resource_policy.tool_approval[platform.*]"
    assert told(method, named, tool_approval={"platform.*": DESK}) == (True, [(field, WHO)])


def test_a_tool_and_what_no_action_is() -> None:
    plain = (False, [("resource_policy.tool_approval", "no approval is needed")])
    assert told("tool.call", "search") == plain
    assert told("action.request", "member.bann") == plain
    assert told("state.get", "conversation") == plain
