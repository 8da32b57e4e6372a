"""The view of a pause for one caller."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from hostler.domain.approvers import ANSWERED, refusal_of_kind
from hostler.domain.epoch import seconds
from hostler.domain.events import Caller
from hostler.domain.pause_values import CastVote, Pause, PausedCall
from hostler.domain.pauses import is_settled
from hostler_protocol._base import Strict
from hostler_protocol.pausing import Executor, QuestionKind


class VoteView(Strict):
    """A vote: subject, kind and time (UTC epoch seconds). `name`: how a person who signed in is called."""

    subject: str
    vote: str
    at: float
    name: str | None = None


class CallView(Strict):
    """A call of a pause, as one caller sees it."""

    call_id: str
    kind: str
    title: str
    tool: str | None
    args: dict[str, Any]
    args_hash: str
    args_schema: dict[str, Any] | None
    result_schema: dict[str, Any] | None
    fields: list[Any]
    actions: list[Any]
    editable: bool
    locked: list[str]
    may_decide: bool
    decision: str
    execution: str
    expires_at: float | None
    approvals_needed: int
    approvers: list[str] = []
    """The subjects that may decide: `requester`, `role:NAME`, `user:NAME` ... Empty for a front-end token,
    which is told of no other person.
    """
    separation_of_duty: bool = False
    """Whether the requester may not decide."""
    votes: list[VoteView] = []
    proposed_args: dict[str, Any] | None = None
    """The agent's arguments, if a person has edited them."""
    edited_by: str | None = None
    description: str | None = None
    executor: Executor = "host"
    """`runner`: the runner executes the call itself once it is approved; the host does nothing."""
    question_kind: QuestionKind | None = None
    """For questions: how the runner wants it shown."""
    fallback_text: str | None = None
    """For questions: the text to show where a form cannot be shown."""
    tool_call_id: str | None = None
    decided_by: str | None = None
    decided_by_name: str | None = None
    decided_at: float | None = None
    comment: str | None = None
    result: Any = None
    is_error: bool = False
    values: dict[str, Any] | None = None
    action: str | None = None
    review: str | None = None
    tool_changed: bool = False
    """Whether the tool is another one than when the call was first asked: the digest covers it then."""


class PauseView(Strict):
    """A pause, as one caller sees it. Times are UTC epoch seconds."""

    id: str
    run_id: str
    segment: int
    revision: int
    status: str
    form: str
    agent: str
    conversation_id: str | None
    requester: str | None
    created_at: float
    expires_at: float | None
    calls: list[CallView]
    settled_at: float | None = None


def view_of(
    pause: Pause,
    calls: Sequence[PausedCall],
    caller: Caller,
    *,
    agent: str,
    now: int,
    votes: Mapping[str, Sequence[CastVote]],
    names: Mapping[str, str] = MappingProxyType({}),
) -> PauseView:
    """Build the view; `votes` by call id, `names` of people by subject, `now` in UTC epoch milliseconds."""
    return PauseView(
        id=pause.pause_id,
        run_id=pause.run_id,
        segment=pause.segment,
        revision=pause.revision,
        status=pause.status,
        form=pause.form,
        agent=agent,
        conversation_id=pause.conversation_id,
        requester=pause.requester,
        created_at=pause.created_at / 1000,
        expires_at=None if pause.status == "needs_review" else seconds(pause.expires_at),
        calls=[_call(pause, call, caller, now, votes.get(call.call_id, ()), names) for call in calls],
        settled_at=seconds(pause.settled_at),
    )


def _call(  # noqa: PLR0917
    pause: Pause,
    call: PausedCall,
    caller: Caller,
    now: int,
    votes: Sequence[CastVote],
    names: Mapping[str, str],
) -> CallView:
    asked, given = call.asked, call.given
    refused = refusal_of_kind(call.kind, asked.rule, caller, pause.requester)
    view = CallView(
        call_id=call.call_id,
        kind=call.kind,
        title=asked.title,
        tool=asked.tool_name,
        args=call.effective,
        args_hash=call.args_hash,
        args_schema=asked.args_schema,
        result_schema=asked.result_schema,
        fields=[msgspec.to_builtins(field) for field in asked.fields],
        actions=[msgspec.to_builtins(button) for button in asked.actions],
        editable=asked.editable,
        locked=asked.locked,
        may_decide=_is_open(pause, call, now) and refused is None,
        decision=call.decision,
        execution=call.execution,
        expires_at=None if call.review == "in_doubt" else seconds(call.expires_at),
        approvals_needed=asked.rule.min_approvals,
        approvers=[] if caller.scope is not None else list(asked.rule.subjects),
        separation_of_duty=asked.rule.separation_of_duty,
        votes=[
            VoteView(subject=vote.subject, vote=vote.vote, at=vote.at / 1000, name=names.get(vote.subject))
            for vote in votes
        ],
        proposed_args=asked.arguments if call.edited_by is not None else None,
        edited_by=call.edited_by,
        description=asked.description,
        executor=asked.executor,
        question_kind=asked.question_kind,
        fallback_text=asked.fallback_text,
        tool_call_id=asked.tool_call_id,
        decided_by=call.decided_by,
        decided_by_name=names.get(call.decided_by or ""),
        decided_at=seconds(call.decided_at),
        comment=given.comment,
        result=given.result,
        is_error=given.is_error,
        values=given.values,
        action=given.action,
        review=call.review,
        tool_changed=asked.changed,
    )
    return _outcome_of(view) if caller.answers_only and call.kind not in ANSWERED else view


def _outcome_of(view: CallView) -> CallView:
    """Return what who approves nothing sees of a call: whether somebody has decided, not what it asks for."""
    return msgspec.structs.replace(
        view,
        title="",
        description=None,
        args={},
        args_schema=None,
        result_schema=None,
        locked=[],
        votes=[],
        proposed_args=None,
        edited_by=None,
        decided_by=None,
        decided_by_name=None,
        comment=None,
        result=None,
        values=None,
    )


def _is_open(pause: Pause, call: PausedCall, now: int) -> bool:
    """Whether the call can still be decided."""
    if is_settled(pause.status):
        return False
    if call.review is not None:
        return True
    late = pause.status == "open" and call.expires_at is not None and call.expires_at <= now
    return call.decision == "undecided" and not late


def over_with(pause: PauseView, own: Collection[str]) -> set[str]:
    """Return the calls that are asked about no more once `own` are decided: all, if the others were before.

    The same where `own` were decided long ago, whatever was decided after them.
    """
    times = [call.decided_at for call in pause.calls if call.call_id in own]
    latest = max(math.inf if at is None else at for at in times)
    others = [call for call in pause.calls if call.call_id not in own]
    if any(call.decided_at is None or call.decided_at > latest for call in others):
        return set(own)
    return {call.call_id for call in pause.calls}
