"""Approvals of similar calls ahead: which there are, who sees them, and how they are revoked."""

from __future__ import annotations

from hostler.domain.approvers import may_see
from hostler.domain.events import Caller
from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.stores import approval_rules, members, pause_votes, pauses, runs
from hostler.storage.stores.approval_rules import StandingRule
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_PAGES_LOOKED_AT = 20
"""Pages of rules looked through for those that a caller may see; then the next request goes on."""


class ApprovalRuleView(Strict):
    """An approval that lets similar calls through, too. Times are UTC epoch seconds.

    `arguments`: those that must be equal; None: all of them. It applies to `agent` in the conversation of the
    call that was approved, without one in its run; these are None once that run is deleted. `lapsed`: whoever
    approved may not do so now, as after their key was revoked, so that people are asked all the same.
    """

    rule_id: str
    tool: str
    arguments: list[str] | None
    agent: str | None
    conversation_id: str | None
    run_id: str | None
    requester: str | None
    pause_id: str
    approved_by: str
    approved_by_name: str | None
    uses_left: int
    lapsed: bool
    created_at: float
    expires_at: float


class RulePage(Record):
    """Rules by id; `next`: the id after which more may follow."""

    items: list[ApprovalRuleView]
    next: str | None


def page(tx: Tx, caller: Caller, *, after: str, limit: int) -> RulePage:
    """Return the rules with uses and time left that the caller may see, by id, after the id `after`."""
    seen: list[StandingRule] = []
    more = True
    for _ in range(MAX_PAGES_LOOKED_AT):
        found = approval_rules.page(tx, caller.workspace_id, after=after, limit=MAX_PAGE_ITEMS)
        more = len(found) == MAX_PAGE_ITEMS
        for index, rule in enumerate(found):
            after = rule.rule_id
            if _may_see(caller, rule):
                seen.append(rule)
            if len(seen) == limit:
                more = more or index + 1 < len(found)
                break
        if len(seen) == limit or not more:
            break
    names = members.names(tx, caller.workspace_id, [rule.subject for rule in seen])
    return RulePage([_view(tx, rule, names.get(rule.subject)) for rule in seen], after if more else None)


def revoke(tx: Tx, caller: Caller, rule_id: str) -> None:
    """Revoke a rule. NotFoundError if there is none that the caller may see."""
    rule = approval_rules.find(tx, caller.workspace_id, rule_id)
    if rule is None or not _may_see(caller, rule):
        raise NotFoundError(f"there is no approval rule {rule_id!r}")
    approval_rules.revoke(tx, caller.workspace_id, rule_id, caller.subject)


def _may_see(caller: Caller, rule: StandingRule) -> bool:
    return caller.subject == rule.subject or may_see([rule.approver_rule], caller, rule.requester)


def _view(tx: Tx, rule: StandingRule, name: str | None) -> ApprovalRuleView:
    pause = pauses.find(tx, rule.workspace_id, rule.pause_id)
    run = None if pause is None else runs.find(tx, rule.workspace_id, pause.run_id)
    return ApprovalRuleView(
        rule_id=rule.rule_id,
        tool=rule.tool_name,
        arguments=rule.arguments,
        agent=None if run is None else run.agent_name,
        conversation_id=None if run is None else run.conversation_id,
        run_id=None if run is None else run.run_id,
        requester=rule.requester,
        pause_id=rule.pause_id,
        approved_by=rule.subject,
        approved_by_name=name,
        uses_left=rule.uses_left,
        lapsed=not pause_votes.still_stands(tx, rule.requester, rule),
        created_at=rule.created_at / 1000,
        expires_at=rule.expires_at / 1000,
    )
