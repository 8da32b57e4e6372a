""" "Approve similar": an approval that also applies to later calls of the same tool.

It is limited to the same agent, the same conversation (or, without one, the same run), the same requester,
the unchanged tool, matching arguments, a number of uses, and a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hostler.domain.approvers import ApproverRule
from hostler.domain.events import Caller
from hostler.domain.record import Record
from hostler.domain.tool_pins import ApprovedTool
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, channel_people
from hostler.storage.stores.run_rows import Run
from hostler_protocol.ids import digest, new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_MAX_RULES = 100
"""Rules of one tool in one conversation that are compared with a call."""


class StandingRule(Record, kw_only=True):
    """A stored approval. Times are UTC epoch milliseconds.

    `arguments` names the arguments that must be equal; None means all.
    """

    workspace_id: str
    rule_id: str
    agent_id: str
    tool_name: str
    pin: ApprovedTool
    requester: str | None
    arguments: list[str] | None
    args_digest: str
    approver_rule: ApproverRule
    subject: str
    key_id: str
    pause_id: str
    call_id: str
    uses_left: int
    created_at: int
    expires_at: int
    revoked_at: int | None


def create(
    tx: Tx,
    run: Run,
    caller: Caller,
    *,
    tool_name: str,
    tool: ApprovedTool,
    effective: Mapping[str, Any],
    arguments: list[str] | None,
    rule: ApproverRule,
    pause_id: str,
    call_id: str,
    uses: int,
    minutes: float,
) -> str:
    """Create a rule from a call that `caller` just approved; return its id."""
    rule_id = new_id()
    tx.run(
        _q.insert,
        workspace_id=run.workspace_id,
        rule_id=rule_id,
        agent_id=run.agent_id,
        place=_place(run),
        tool_name=tool_name,
        pin=msgspec.json.encode(tool).decode(),
        requester=channel_people.requester_of(tx, run),
        arguments=msgspec.json.encode(arguments).decode(),
        args_digest=_digest_of(effective, arguments),
        approver_rule=msgspec.json.encode(rule).decode(),
        subject=caller.subject,
        key_id=caller.key_id,
        pause_id=pause_id,
        call_id=call_id,
        uses_left=uses,
        created_at=tx.now,
        expires_at=tx.now + int(minutes * 60_000),
    )
    body = {"run_id": run.run_id, "tool_name": tool_name, "uses": uses, "minutes": minutes}
    audit.record(tx, run.workspace_id, caller.subject, "approval_rule.created", rule_id, body)
    return rule_id


def take(
    tx: Tx,
    run: Run,
    *,
    tool_name: str,
    tool: ApprovedTool,
    arguments: Mapping[str, Any],
    rule: ApproverRule,
    call_id: str,
    holds: Callable[[StandingRule], bool],
) -> StandingRule | None:
    """Use a rule that applies to this call once, and return it. None if a person has to be asked.

    The approver rule that the call needs must be the one that the creator satisfied. `holds` says whether
    that person may still approve: no use of a rule is taken that does not hold.
    """
    if rule.min_approvals > 1:
        return None
    rows = tx.all(
        _q.standing,
        workspace_id=run.workspace_id,
        place=_place(run),
        tool_name=tool_name,
        agent_id=run.agent_id,
        now=tx.now,
        limit=_MAX_RULES,
    )
    requester = channel_people.requester_of(tx, run) if rows else None
    for row in rows:
        found = _rule_of(row)
        if (found.pin, found.requester, found.approver_rule) != (tool, requester, rule):
            continue
        if _digest_of(arguments, found.arguments) != found.args_digest:
            continue
        if not holds(found):
            continue
        if tx.run(_q.use, workspace_id=run.workspace_id, rule_id=found.rule_id) == 1:
            body = {"run_id": run.run_id, "call_id": call_id, "tool_name": tool_name}
            audit.record(tx, run.workspace_id, found.subject, "approval_rule.used", found.rule_id, body)
            return found
    return None


def find(tx: Tx, workspace_id: str, rule_id: str) -> StandingRule | None:
    """Return the rule, which may be used up, expired or revoked."""
    row = tx.one(_q.find, workspace_id=workspace_id, rule_id=rule_id)
    return None if row is None else _rule_of(row)


def page(tx: Tx, workspace_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[StandingRule]:
    """Return rules with uses and time left, by id, after the id `after`."""
    rows = tx.all(_q.page, workspace_id=workspace_id, now=tx.now, after=after, limit=limit)
    return [_rule_of(row) for row in rows]


def revoke(tx: Tx, workspace_id: str, rule_id: str, actor: str) -> bool:
    """Revoke a rule; return False if it is revoked already. Calls that it approved but that have not run yet
    are asked again.
    """
    if tx.run(_q.revoke, workspace_id=workspace_id, rule_id=rule_id, now=tx.now) != 1:
        return False
    audit.record(tx, workspace_id, actor, "approval_rule.revoked", rule_id, {})
    return True


def _place(run: Run) -> str:
    place = {"run": run.run_id} if run.conversation_id is None else {"conversation": run.conversation_id}
    return digest({**place, "bot": run.bot_id, "thread": run.thread_id})


def _digest_of(arguments: Mapping[str, Any], names: list[str] | None) -> str:
    """Digest the arguments that must be equal; an absent one differs from every value."""
    if names is None:
        return digest(dict(arguments))
    return digest({name: arguments[name] for name in names if name in arguments})


def _rule_of(row: Row) -> StandingRule:
    values = {name: row[name] for name in StandingRule.__struct_fields__}
    values["pin"] = _pins.decode(row["pin"])
    values["arguments"] = _names.decode(row["arguments"])
    values["approver_rule"] = _rules.decode(row["approver_rule"])
    return StandingRule(**values)


_pins = msgspec.json.Decoder(ApprovedTool)
_names = msgspec.json.Decoder(list[str] | None)
_rules = msgspec.json.Decoder(ApproverRule)
