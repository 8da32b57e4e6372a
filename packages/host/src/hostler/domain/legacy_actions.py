"""Decisions in the formats of other clients: by conversation instead of by pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from hostler.domain.pause_actions import Action, ActionType, StaleViewError, UnprocessableError
from hostler.domain.pause_views import CallView, PauseView
from hostler.domain.pauses import MAX_CALLS, SETTLED
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.errors import InvalidArgumentError


class ToolAction(Strict):
    """`{call_id, decision, args_hash?, comment?}` for an approval, `{call_id, result}` of a client's tool."""

    call_id: str
    decision: Literal["approved", "denied"] | None = None
    comment: str | None = None
    result: Any = msgspec.UNSET
    edited_args: dict[str, Any] | None = None
    args_hash: str | None = None
    values: dict[str, Any] | None = None


class ResumeAction(Lenient):
    """AG-UI: the answer to one interrupt. `interruptId` is the call's id, `payload.argsHash` the digest."""

    interrupt_id: str = msgspec.field(name="interruptId")
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class ToolMessage(Lenient):
    """OpenAI: the outcome of a tool call that the client made."""

    tool_call_id: str
    content: Any
    role: Literal["tool"] = "tool"


class OlderActions(Strict):
    """`POST /v1/pauses/actions`: one of the three lists."""

    conversation_id: str
    tool_actions: Annotated[list[ToolAction], msgspec.Meta(max_length=MAX_CALLS)] = []
    resume: Annotated[list[ResumeAction], msgspec.Meta(max_length=MAX_CALLS)] = []
    messages: Annotated[list[ToolMessage], msgspec.Meta(max_length=MAX_CALLS)] = []

    def names(self) -> list[str]:
        """The call ids as the client knows them. InvalidArgumentError unless exactly one list has entries."""
        given = [name for name in ("tool_actions", "resume", "messages") if getattr(self, name)]
        if len(given) != 1:
            raise InvalidArgumentError("give exactly one of tool_actions, resume and messages, not empty")
        return [
            *(one.call_id for one in self.tool_actions),
            *(one.interrupt_id for one in self.resume),
            *(one.tool_call_id for one in self.messages),
        ]


def waiting_for(pauses: Sequence[PauseView], names: Sequence[str]) -> PauseView | None:
    """Return the first pause that has all these calls, unsettled ones first, or None."""
    ordered = sorted(pauses, key=lambda pause: pause.status in SETTLED)
    return next((p for p in ordered if all(_find(p, name) is not None for name in names)), None)


def actions_of(older: OlderActions, pause: PauseView) -> list[Action]:
    """Convert the decisions to actions.

    UnprocessableError if one is not possible for its call; StaleViewError for an approval without the digest
    of a call whose tool has changed: it may be one that was sent before.
    """
    actions = [
        *(_of_tool_action(one, _call(pause, one.call_id)) for one in older.tool_actions),
        *(action_of_resume(one, _call(pause, one.interrupt_id)) for one in older.resume),
        *(action_of_message(one, _call(pause, one.tool_call_id)) for one in older.messages),
    ]
    for action in actions:
        call = _call(pause, action.call_id)
        if action.type == "approve" and action.args_hash is None and call.tool_changed:
            raise StaleViewError(
                f"the tool of {call.call_id!r} has changed: send args_hash of what you saw",
                call_id=call.call_id,
                args_hash=call.args_hash,
            )
    return actions


def _find(pause: PauseView, name: str) -> CallView | None:
    for call in pause.calls:
        if call.call_id == name:
            return call
    of_model = [call for call in pause.calls if call.tool_call_id == name]
    return of_model[0] if len(of_model) == 1 else None


def _call(pause: PauseView, name: str) -> CallView:
    call = _find(pause, name)
    if call is None:
        raise UnprocessableError(f"this pause has no call {name!r}", reason="unknown_call")
    return call


def _of_tool_action(one: ToolAction, call: CallView) -> Action:
    if one.decision is not None:
        kind: ActionType = "approve" if one.decision == "approved" else "deny"
        return Action(
            call_id=call.call_id,
            type=kind,
            args_hash=one.args_hash,
            comment=one.comment,
            edited_args=one.edited_args,
        )
    if one.values is not None:
        return Action(call_id=call.call_id, type="answer", values=one.values, comment=one.comment)
    if one.result is msgspec.UNSET:
        raise UnprocessableError(
            f"the call {one.call_id!r} is given no decision, no values and no result", reason="schema"
        )
    return Action(call_id=call.call_id, type="result", result=one.result, comment=one.comment)


def action_of_resume(one: ResumeAction, call: CallView) -> Action:
    """Convert an answer to an interrupt. Of a question, `payload` are its values."""
    payload = one.payload if isinstance(one.payload, dict) else {}
    comment = payload.get("comment") if isinstance(payload.get("comment"), str) else None
    if call.kind == "client_tool":
        if one.status == "cancelled":
            return Action(call_id=call.call_id, type="error", error="cancelled by the client")
        return Action(call_id=call.call_id, type="result", result=one.payload)
    if call.kind == "question" and one.status == "resolved":
        return Action(call_id=call.call_id, type="answer", values=payload)
    approved = one.status == "resolved" and (one.payload is True or payload.get("approved") is True)
    edited, shown = payload.get("editedArgs"), payload.get("argsHash")
    return Action(
        call_id=call.call_id,
        type="approve" if approved else "deny",
        args_hash=shown if isinstance(shown, str) else None,
        comment=comment,
        edited_args=edited if approved and isinstance(edited, dict) else None,
    )


def action_of_message(one: ToolMessage, call: CallView) -> Action:
    """Convert a tool message; content that is JSON text is decoded."""
    result = one.content
    if isinstance(result, str):
        try:
            result = msgspec.json.decode(result)
        except (msgspec.DecodeError, RecursionError):
            result = one.content
    return Action(call_id=call.call_id, type="result", result=result)
