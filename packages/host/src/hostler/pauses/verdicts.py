"""Find the verdict on a call that an attempt makes, and apply its side effects."""

from __future__ import annotations

from functools import partial
from typing import Literal

from hostler.domain.approvers import rule_of
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.tool_pins import PresentTool, approved_tool
from hostler.pauses.question import AskAgainError, Question, Verdict
from hostler.storage.port import Tx
from hostler.storage.stores import (
    approval_rules,
    channel_people,
    pause_calls,
    pause_claims,
    pause_votes,
    pauses,
    run_notes,
)
from hostler.storage.stores.pause_claims import ClaimRefused
from hostler.storage.stores.run_rows import Run
from hostler.tools.port import ToolService, present_tool
from hostler_protocol.errors import CancelledCallError, HostlerError

Found = Verdict | Literal["waits"] | None
"""`waits`: the call is in the pause and undecided. None: it is in no pause."""


def find_verdict(
    tx: Tx, run: Run, pause: Pause | None, question: Question, tools: ToolService | None
) -> Found:
    """Look a call up in the run's unsettled pause, or among the standing approvals.

    What no longer holds (a tool that changed, an effect that is in doubt) is written down here, and asked.
    """
    call = None if pause is None else _call(tx, pause, question)
    if call is None and question.begun_under is not None and (begun := _begun(tx, run, question)) is not None:
        return _settled(tx, run, begun, question, tools)
    if pause is None or call is None:
        return _standing(tx, run, question, tools)
    if question.kind == "in_doubt" and call.execution == "reserved":
        reason = question.reason or "nobody knows what came of it"
        pause_claims.mark_in_doubt(tx, run.run_id, call.call_id, run.attempt, cause=reason)
        return "waits"
    if pause.status != "resuming":
        return "waits"
    return _settled(tx, run, call, question, tools)


def is_doubted(tx: Tx, run: Run, question: Question) -> bool:
    """Whether people are asked, or were asked, what came of this making of the call: their word counts."""
    pause = pauses.unsettled(tx, run.run_id)
    call = None if pause is None else _call(tx, pause, question)
    if call is None:
        return False
    begun = call.decision == "approved" and call.execution == "reserved"
    return not begun or call.resolution > question.resolution


def _settled(
    tx: Tx, run: Run, call: PausedCall, question: Question, tools: ToolService | None
) -> Verdict | Literal["waits"]:
    """Return the verdict on a call whose pause is being resumed."""
    if question.kind == "in_doubt":
        if call.kind == "approval" and _is_about_to_run(call) and _changed(tx, run, call, tools):
            return "waits"
        return _doubtful(run, call)
    if call.decision != "approved":
        return _said(run, call)
    if question.kind == "budget":  # what was approved is done: something was added
        return Verdict(
            "approved",
            comment=call.given.comment,
            decided_by=call.decided_by,
            pause_id=call.pause_id,
            settle=partial(_hand_over, run, call),
        )
    if question.pin is not None and _is_about_to_run(call) and _changed(tx, run, call, tools):
        return "waits"
    return Verdict(
        "approved",
        arguments=call.effective,
        comment=call.given.comment,
        decided_by=call.decided_by,
        pause_id=call.pause_id,
        pin=call.asked.pin,
        definition=call.asked.definition if call.execution == "none" else None,
        reserve=partial(_reserve, run, call),
        settle=partial(_settle, run, call),
    )


def _call(tx: Tx, pause: Pause, question: Question) -> PausedCall | None:
    """The call by its name. In the explicit form the runner chose the names, so that they prove nothing:
    there it is an approved call of the same tool with the same arguments that the host is to execute, or
    has begun to; also one whose approval was undone, so that it is asked again, however that is decided. What
    joined such a pause while it was open again has the name that the host gave it.
    """
    if pause.form == "implicit":
        return pause_calls.find(tx, pause, question.call_id)
    own = [call for call in pause_calls.of_pause(tx, pause) if call.created_at == pause.created_at]
    joined = pause_calls.find(tx, pause, question.call_id)
    if joined is not None and joined.call_id not in {call.call_id for call in own}:
        return joined
    if question.kind != "approval":
        return None
    for call in own:
        shown = call.asked.shown_digest(question.parameters)
        same = call.asked.tool_name == question.tool_name and call.args_hash == shown
        decided = call.decision == "approved" or (call.revision > 1 and not call.handed_over)
        approved = call.kind == "approval" and decided and call.asked.executor == "host"
        begun = call.effect_key if call.execution == "reserved" else None
        if same and approved and call.execution in {"none", "reserved"} and begun == question.begun_under:
            return call
    return None


def _begun(tx: Tx, run: Run, question: Question) -> PausedCall | None:
    """Return a call that was begun, and whose explicit pause was settled when the run opened the next one."""
    begun = (call for call in pause_calls.reserved(tx, run.run_id) if call.effect_key == question.begun_under)
    return next(begun, None)


def _standing(tx: Tx, run: Run, question: Question, tools: ToolService | None) -> Verdict | None:
    """Return the verdict of an approval for similar calls whose approver may still approve."""
    if question.kind != "approval" or question.pin is None or question.rule is None:
        return None
    tool = _present(tools, run, question.tool_name)
    definition = tool.definition if tool is not None and tool.pin == question.pin else None
    if run.cancel_requested_at is not None:  # what waits for people begins no more, whoever approves it
        return None
    taken = approval_rules.take(
        tx,
        run,
        tool_name=question.tool_name or "",
        tool=approved_tool(question.pin, definition),
        arguments=question.parameters,
        rule=rule_of(question.rule),
        call_id=question.call_id,
        holds=partial(pause_votes.still_stands, tx, channel_people.requester_of(tx, run)),
    )
    if taken is None:
        return None
    return Verdict(
        "approved",
        decided_by=taken.subject,
        similar_id=taken.rule_id,
        definition=definition,
        reserve=partial(_confirm_standing, run, taken.rule_id),
    )


def _said(run: Run, call: PausedCall) -> Verdict:
    """Return a verdict that leads to no execution: a denial or an answer."""
    if call.decision == "undecided" or call.decision == "approved":  # noqa: PLR1714  mypy narrows by this
        raise RuntimeError(f"call {call.call_id} is {call.decision} in a pause that goes on")
    given = call.given
    return Verdict(
        call.decision,
        result=given.result if call.kind != "question" else given.action,
        values=given.values,
        comment=given.comment,
        decided_by=call.decided_by,
        pause_id=call.pause_id,
        is_error=given.is_error,
        settle=partial(_hand_over, run, call),
    )


def _doubtful(run: Run, call: PausedCall) -> Verdict:
    if call.execution == "succeeded":
        return Verdict(
            "happened",
            result=call.given.result,
            comment=call.given.comment,
            decided_by=call.decided_by,
            pause_id=call.pause_id,
            settle=partial(_hand_over, run, call),
        )
    if call.decision in {"cancelled", "denied", "expired"}:
        return _said(run, call)
    return Verdict(
        "not_happened",
        arguments=call.effective,
        comment=call.given.comment,
        decided_by=call.decided_by,
        pause_id=call.pause_id,
        pin=call.asked.pin,
        definition=call.asked.definition if call.kind == "approval" else None,
        reserve=partial(_reserve, run, call),
        settle=partial(_settle, run, call),
    )


def _changed(tx: Tx, run: Run, call: PausedCall, tools: ToolService | None) -> bool:
    """Whether the tool changed after the approval; if so, the call is asked again or needs a review."""
    tool = _present(tools, run, call.asked.tool_name)
    if call.asked.pin is None or (tool is not None and call.asked.is_about(tool)):
        return False
    cause = "the tool changed after it was approved" if tool else "the tool is gone"
    pause_claims.ask_again(tx, run.run_id, call.call_id, run.attempt, "changed", cause=cause, tool=tool)
    return True


def _is_about_to_run(call: PausedCall) -> bool:
    return call.decision == "approved" and call.execution == "none"


def _present(tools: ToolService | None, run: Run, name: str | None) -> PresentTool | None:
    return None if tools is None or name is None else present_tool(tools, run.workspace_id, name)


def _reserve(run: Run, call: PausedCall, tx: Tx, effect_key: str) -> HostlerError | None:
    reserved = pause_claims.reserve(tx, run.run_id, call.call_id, run.attempt, effect_key=effect_key)
    if not isinstance(reserved, ClaimRefused):
        return None
    if reserved.reason == "revoked":
        pause_claims.ask_again(tx, run.run_id, call.call_id, run.attempt, "revoked", cause=reserved.message)
        return AskAgainError(reserved.message)
    if reserved.reason == "not_ready":  # another call of the pause is asked again: they go on together
        return AskAgainError(reserved.message)
    return CancelledCallError(reserved.message)


def _confirm_standing(run: Run, rule_id: str, tx: Tx, _effect_key: str) -> HostlerError | None:
    """Check once more, before the call is made, the approval for similar calls that lets it through."""
    current = run_notes.hold(tx, run.run_id)
    if current is None or current.cancel_requested_at is not None:
        return AskAgainError("the run is being cancelled")
    standing = approval_rules.find(tx, run.workspace_id, rule_id)
    if standing is not None and pause_votes.still_stands(tx, channel_people.requester_of(tx, run), standing):
        return None
    return AskAgainError("who approved calls like this one may not approve them any more")


def _settle(run: Run, call: PausedCall, tx: Tx, error: HostlerError | None) -> None:
    told = pause_claims.record_outcome(
        tx, run.run_id, call.call_id, run.attempt, failed=error is not None, pause_id=call.pause_id
    )
    if isinstance(told, ClaimRefused) and told.reason == "made":  # approved, and not called yet
        _hand_over(run, call, tx, error)


def _hand_over(run: Run, call: PausedCall, tx: Tx, _error: HostlerError | None) -> None:
    pause_claims.hand_over(tx, run.run_id, call.call_id, run.attempt)
