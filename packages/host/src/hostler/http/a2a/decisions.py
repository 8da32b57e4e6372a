"""Messages that answer what a task waits for: by data parts, or in text where that is plain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.domain.pause_actions import Action, ResolveRequest, UnprocessableError
from hostler.domain.pause_views import CallView, PauseView
from hostler.http.a2a.extensions import ANSWERS
from hostler.http.a2a.messages import wrong
from hostler.http.a2a.wire import GivenMessage
from hostler.http.auth import has_right
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import (
    MAX_PAUSES_OF_RUN,
    WAITING,
    answer_after,
    decide,
    find_calls_of_pause,
    waiting_calls,
)
from hostler.http.dialects.requests import (
    DIGEST_CHARS,
    NamedCall,
    check_shown,
    is_about_doubt,
    read_request_id,
    resolution_of,
    resolve_doubt,
)
from hostler.http.request import ApiRequest
from hostler_protocol._base import Lenient
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_INTEGER

_IN_TEXT = re.compile(
    rf"\s*(approve|deny)\s+([0-9a-f]{{{DIGEST_CHARS}}})\b[\s.:,-]*(.*)", re.DOTALL | re.IGNORECASE
)


class Given(Lenient, rename="camel"):
    """The answer to one request, in a data part."""

    id: str
    approved: bool | None = None
    edited_args: dict[str, Any] | None = None
    comment: str | None = None
    result: Any = msgspec.UNSET
    error: str | None = None
    values: dict[str, Any] | None = None
    action: str | None = None
    happened: bool | None = None


def answers_in(message: GivenMessage) -> list[Given]:
    """Return the answers in the data parts of a message. InvalidArgumentError for one that cannot be read.

    A data part is an answer if its `id` is that of a request, `call_...`.
    """
    found = []
    for number, part in enumerate(message.parts):
        data = part.data
        if not isinstance(data, dict) or not str(data.get("id", "")).startswith("call_"):
            continue
        try:
            found.append(msgspec.convert(_whole_numbers(data), Given))
        except (msgspec.ValidationError, RecursionError) as error:
            raise wrong(
                f"message.parts[{number}].data", f"the id of a request and one of {ANSWERS}: {error}"
            ) from None
    return found


def _whole_numbers(value: Any) -> Any:
    """Return data with 3 for 3.0: clients that send `google.protobuf.Struct` have no whole numbers."""
    match value:
        case float() if value.is_integer() and abs(value) <= MAX_INTEGER:
            return int(value)
        case list():
            return [_whole_numbers(one) for one in value]
        case dict():
            return {name: _whole_numbers(one) for name, one in value.items()}
    return value


class Taken(NamedTuple):
    """The answer that goes on after a message. `waits`: the task waits for something else, too."""

    answer: Answer
    waits: bool = False


async def _decide(request: ApiRequest, run_id: str, actions: Sequence[Action]) -> Taken:
    answer, done = await decide(request, run_id, [(action.call_id, action) for action in actions])
    return Taken(answer, waits=done.status in WAITING)


async def answer_requests(request: ApiRequest, run_id: str, given: Sequence[Given]) -> Taken:
    """Decide what data parts answer; return the answer that goes on after it.

    Nothing is done unless all of them are about what is to be decided now, and say what its kind asks. Then
    the doubts are resolved one by one, and after them the other calls are decided, all or none. If one of
    these is refused (the caller may not decide a call, values do not fit its schema, it was decided
    otherwise), the doubts before it stay resolved: the same message again changes nothing in them.

    Raises as `decide`; InvalidArgumentError for an id of another task, or one that is given twice.
    """
    named: dict[str, tuple[Given, NamedCall]] = {}
    for one in given:
        name = read_request_id(one.id)
        if name.run_id != run_id:
            raise wrong("message.taskId", f"the task of the request {one.id[:200]!r}")
        if name.call_id in named:
            raise wrong("message.parts", f"one answer to the request {one.id[:200]!r}")
        named[name.call_id] = (one, name)
    pause, calls = await find_calls_of_pause(request, run_id, named)
    actions: list[Action] = []
    doubts: list[tuple[CallView, ResolveRequest]] = []
    for call in calls:
        one, name = named[call.call_id]
        payload = msgspec.to_builtins(one)
        if is_about_doubt(call, payload):
            check_shown(one.id, name, call)
            doubts.append((call, resolution_of(call, payload)))
        else:
            check_shown(one.id, name, call, one.edited_args)
            actions.append(_action_of(one, call))
    for call, said in doubts:
        await resolve_doubt(request, pause, call, said)
    if not actions:
        return Taken(*await answer_after(request, run_id, list(named)))
    return await _decide(request, run_id, actions)


def _action_of(given: Given, call: CallView) -> Action:
    own: dict[str, Any] = {
        "call_id": call.call_id,
        "args_hash": call.args_hash,
        "comment": given.comment,
    }
    match call.kind:
        case "client_tool" if given.error is not None:
            return Action(type="error", error=given.error or "it failed", **own)
        case "client_tool" if given.result is not msgspec.UNSET:
            return Action(type="result", result=given.result, **own)
        case "question" if given.values is not None or given.action is not None:
            return Action(type="answer", values=given.values or {}, action=given.action, **own)
        case "client_tool":
            expected = "result or error"
        case "question":
            expected = "values, or the action that was chosen"
        case _ if given.approved is not None:
            edited = given.edited_args if given.approved else None
            return Action(type="approve" if given.approved else "deny", edited_args=edited, **own)
        case _:
            expected = "approved: true or false"
    raise UnprocessableError(
        f"the answer to {given.id[:200]!r} decides nothing: expected {expected}",
        reason="schema",
        call_id=call.call_id,
    )


# -- in text ------------------------------------------------------------------------------------------------


async def answer_in_text(request: ApiRequest, run_id: str, message: GivenMessage) -> Taken | None:
    """Decide what a text answers; None if it answers nothing that waits, or waited last.

    `approve CODE` and `deny CODE` are of the approval with the code; any other text is the answer to the only
    question. Raises as `decide`.
    """
    if not has_right(request.caller, "pauses:write") or any(part.text is None for part in message.parts):
        return None
    text = "\n".join(part.text or "" for part in message.parts)
    page = await request.state.host.pauses.page(request.caller, run_id=run_id, limit=MAX_PAUSES_OF_RUN)
    if (said := _IN_TEXT.fullmatch(text)) is not None:
        verb, code, comment = said[1].lower(), said[2].lower(), said[3].strip()
        call = _by_code(page.items, code)
        if call is not None:
            action = Action(
                call_id=call.call_id,
                type="approve" if verb == "approve" else "deny",
                args_hash=call.args_hash,
                comment=comment or None,
            )
            return await _decide(request, run_id, [action])
    return await _answer_question(request, run_id, page.items, text)


def _by_code(pauses: Sequence[PauseView], code: str) -> CallView | None:
    """Return the approval that was shown with a code: one that waits, or the latest. None: there is none."""
    found = [
        call
        for pause in pauses  # newest first
        for call in pause.calls
        if call.kind in ("approval", "budget") and call.args_hash.startswith(code)
    ]
    waiting = [call for call in found if call.decision == "undecided"]
    if len(waiting) > 1:
        raise wrong("message.parts", "data parts: several calls with these arguments wait")
    return next(iter(waiting or found), None)


async def _answer_question(
    request: ApiRequest, run_id: str, pauses: Sequence[PauseView], text: str
) -> Taken | None:
    if not pauses:
        return None
    newest = pauses[0]
    waiting = waiting_calls(newest)
    questions = [call for call in waiting or newest.calls if call.kind == "question"]
    if len(questions) != 1 or len(waiting) > 1:
        return None
    call = questions[0]
    values, action = _read_text(call, text)
    if not waiting and (call.values != values or call.action != action):
        return None  # it was answered already, and this is something new
    if values is None and action is None:
        raise InvalidArgumentError(
            "this question has several fields: answer it with a data part that has its id and values"
        )
    decided = Action(
        call_id=call.call_id, type="answer", args_hash=call.args_hash, values=values or {}, action=action
    )
    return await _decide(request, run_id, [decided])


def _read_text(call: CallView, text: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return values and button that a text means; both None if it has to be told by a data part."""
    wanted = text.strip()
    for button in call.actions:
        if wanted.casefold() in (str(button.get("name")).casefold(), str(button.get("label")).casefold()):
            return {}, str(button["name"])
    if len(call.fields) != 1:
        return None, None
    (field,) = call.fields
    name, value = field["name"], _value(field, wanted)
    return {name: value}, None


def _value(field: dict[str, Any], text: str) -> Any:
    kind = field.get("type")
    if kind in ("text", "textarea", "select"):
        for option in field.get("options", []):
            if str(option).casefold() == text.casefold():
                return option
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
