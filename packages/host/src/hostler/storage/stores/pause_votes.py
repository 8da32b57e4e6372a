"""Votes on calls of pauses, with the key of each voter; and the requests that contained them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hostler.domain.approvers import Vote, VoteKind, tally
from hostler.domain.channels import person_of_key
from hostler.domain.events import Caller
from hostler.domain.members import member_of_key
from hostler.domain.narrow_callers import maker_and_subject
from hostler.domain.pause_values import CastVote, Pause, PausedCall, VoteWord
from hostler.domain.widgets import widget_of
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import approval_rules, channel_people, members, pause_facts, widgets
from hostler.storage.stores.approval_rules import StandingRule

_q = load(__file__)

INSTALLATION_KEY_ID = "admin"
"""The key that an installation is started with (http/auth); it is in no table and cannot be revoked."""


class AnsweredRequest(NamedTuple):
    """An action request that was answered under its Idempotency-Key."""

    body_digest: str
    answer: str


def record(
    tx: Tx,
    pause: Pause,
    call: PausedCall,
    vote: VoteWord,
    caller: Caller,
    *,
    args_hash: str | None = None,
    comment: str | None = None,
) -> None:
    """Store a vote. `args_hash` is set if the vote is for other arguments than the present ones."""
    tx.run(
        _q.insert,
        workspace_id=pause.workspace_id,
        pause_id=pause.pause_id,
        call_id=call.call_id,
        revision=call.revision,
        args_hash=args_hash or call.args_hash,
        subject=caller.subject,
        key_id=caller.key_id,
        vote=vote,
        comment=comment,
        now=tx.now,
    )
    pause_facts.of_vote(tx, pause, call, vote, key_id=caller.key_id, actor=caller.subject)


def of_pause(tx: Tx, pause: Pause) -> list[CastVote]:
    """Return all votes of a pause, earlier revisions included, in order."""
    rows = tx.all(_q.of_pause, workspace_id=pause.workspace_id, pause_id=pause.pause_id)
    return [
        CastVote(
            row["call_id"],
            row["revision"],
            row["args_hash"],
            row["subject"],
            row["key_id"],
            row["vote"],
            row["comment"],
            row["created_at"],
        )
        for row in rows
    ]


def countable_votes(votes: Iterable[CastVote], call: PausedCall) -> list[Vote]:
    """Return the approvals and denials of a call in the form that domain/approvers counts."""
    of_call = [one for one in votes if one.call_id == call.call_id]
    if call.kind == "in_doubt":  # `not_happened` approves that the call is executed
        resolved = [one for one in of_call if one.vote == "not_happened"]
        return [Vote(one.key_id, one.subject, "approve", call.args_hash, call.revision) for one in resolved]
    words: dict[str, VoteKind] = {"approve": "approve", "deny": "deny"}
    return [
        Vote(one.key_id, one.subject, words[one.vote], one.args_hash, one.revision)
        for one in of_call
        if one.vote in words
    ]


def key_holders(tx: Tx, workspace_id: str, key_ids: Iterable[str]) -> dict[str, Caller]:
    """Return the present holders of these keys, with their present roles and rights, without revoked keys
    and removed members.

    Votes with a key that has expired since then still count.
    """
    holders: dict[str, Caller] = {}
    for key_id in set(key_ids):
        if key_id == INSTALLATION_KEY_ID:
            holders[key_id] = Caller(
                workspace_id, "admin", key_id, frozenset({"admin"}), frozenset({"installation"})
            )
            continue
        if (member_id := member_of_key(key_id)) is not None:
            member = members.find(tx, workspace_id, member_id)
            if member is not None and member.removed_at is None:
                holders[key_id] = member.caller(credential=key_id)
            continue
        if (person := person_of_key(key_id)) is not None:
            if (holder := channel_people.present(tx, workspace_id, *person)) is not None:
                holders[key_id] = holder
            continue
        narrow = maker_and_subject(key_id)
        if narrow is not None and narrow[0] == INSTALLATION_KEY_ID:
            holders[key_id] = _narrow_holder(workspace_id, key_id, narrow[1])
            continue
        if narrow is not None and (widget := widget_of(narrow[0])) is not None:
            if (entry := widgets.find(tx, workspace_id, widget)) is not None and entry.visitors_approve:
                holders[key_id] = _narrow_holder(workspace_id, key_id, narrow[1])
            continue
        key = keys.find(tx, workspace_id, key_id if narrow is None else narrow[0])
        if key is None or key.revoked_at is not None or key.plugin is not None:
            continue
        if narrow is not None:
            holders[key_id] = _narrow_holder(workspace_id, key_id, narrow[1])
        else:
            holders[key_id] = Caller(workspace_id, key.subject, key_id, key.roles, key.rights)
    return holders


def _narrow_holder(workspace_id: str, key_id: str, subject: str) -> Caller:
    """Return who voted with a front-end token: its key is still valid, and tokens end after minutes."""
    return Caller(workspace_id, subject, key_id, rights=frozenset({"pauses:write"}))


def still_approved(tx: Tx, pause: Pause, call: PausedCall) -> bool:
    """Whether those who approved the call may still do so; checked again before it is executed."""
    if call.similar_id is not None:
        standing = approval_rules.find(tx, pause.workspace_id, call.similar_id)
        return standing is not None and still_stands(tx, pause.requester, standing)
    votes = countable_votes(of_pause(tx, pause), call)
    rule = call.asked.rule
    if call.kind == "in_doubt":
        rule = msgspec.structs.replace(rule, min_approvals=1)
    holders = key_holders(tx, pause.workspace_id, [vote.key_id for vote in votes])
    counting = tally(rule, pause.requester, votes, holders, args_hash=call.args_hash, revision=call.revision)
    return counting.outcome == "approved"


def still_stands(tx: Tx, requester: str | None, standing: StandingRule) -> bool:
    """Whether an approval for similar calls is not revoked, and its approver may still approve."""
    if standing.revoked_at is not None:
        return False
    votes = [Vote(standing.key_id, standing.subject, "approve")]
    holders = key_holders(tx, standing.workspace_id, [standing.key_id])
    return tally(standing.approver_rule, requester, votes, holders).outcome == "approved"


def find_request(tx: Tx, pause: Pause, caller: Caller, request_key: str) -> AnsweredRequest | None:
    """Return the answer that this caller got under this key, or None."""
    row = tx.one(
        _q.request,
        workspace_id=pause.workspace_id,
        pause_id=pause.pause_id,
        key_id=caller.key_id,
        request_key=request_key,
    )
    return None if row is None else AnsweredRequest(row["body_digest"], row["answer"])


def keep_request(
    tx: Tx, pause: Pause, caller: Caller, request_key: str, *, body_digest: str, answer: str
) -> None:
    """Store the answer, in the transaction of the decisions that it reports."""
    tx.run(
        _q.keep_request,
        workspace_id=pause.workspace_id,
        pause_id=pause.pause_id,
        key_id=caller.key_id,
        request_key=request_key,
        body_digest=body_digest,
        answer=answer,
        now=tx.now,
    )
