"""The fields that one service refuses or requires, learned from its refusals.

A refused request is corrected by the field that the refusal names, and repeated. Corrections that helped are
applied to later requests.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

from hostler.models.provider_data import OF_CALLS, OF_FUNCTIONS, OF_MESSAGES
from hostler_protocol.errors import InvalidArgumentError

MAX_CORRECTIONS = 4
"""The most corrections of one request; services name one field at a time."""
NO_REASONING = " "
"""Replaces missing reasoning, for example of another model; some services treat empty text as missing."""
NO_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Google's documented value for calls that another model made."""
OUTPUT_LIMIT = "max_completion_tokens"
"""What newer models of some services take in place of `max_tokens`."""
_SAID = "It said: "
_REFUSED_FIELD = re.compile(
    r"unsupported|not (supported|permitted|allowed)|unrecognized|unexpected|unknown|extra|additional|remove",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)

_Body = dict[str, Any]
_T = TypeVar("_T")


class Correction(NamedTuple):
    """A field to remove or to add. `lasts`: also in later requests."""

    kind: Literal["with", "without"]
    field: str
    lasts: bool = True


class Dialect:
    """The corrections for one service."""

    def __init__(self) -> None:
        self._known: list[Correction] = []

    async def ask(self, body: _Body, ask: Callable[[_Body], Awaitable[_T]]) -> _T:
        """Send a request with `ask`, corrected for the service. InvalidArgumentError if none helps."""
        for known in self._known:
            body = corrected(body, known)
        made: list[Correction] = []
        while True:
            try:
                answer = await ask(body)
            except InvalidArgumentError as error:
                found = correction(body, error)
                if found is None or found in made or len(made) == MAX_CORRECTIONS:
                    raise
                made.append(found)
                body = corrected(body, found)
            else:
                self._known += [one for one in made if one.lasts and one not in self._known]
                return answer


def correction(body: _Body, error: InvalidArgumentError) -> Correction | None:
    """Return the correction for a refused request; None if the refusal names no field to correct."""
    reply = error.message.partition(_SAID)[2]
    if error.details.get("reason") or not reply:
        return None
    if "stream_options" in body and _names("stream_options", reply):
        return Correction("without", "stream_options")
    if "max_tokens" in body and OUTPUT_LIMIT not in body and _names(OUTPUT_LIMIT, reply):
        return Correction("with", OUTPUT_LIMIT)
    if _names("reasoning_content", reply) and any(not m.get("reasoning_content") for m in _calling(body)):
        return Correction("with", "reasoning_content")
    if _SIGNATURE.search(reply) and any(not _is_signed(message) for message in _calling(body)):
        return Correction("with", "thought_signature")
    named = next((name for name in _own_fields(body) if _names(name, reply)), None)
    return None if named is None else Correction("without", named, _REFUSED_FIELD.search(reply) is not None)


def corrected(body: _Body, change: Correction) -> _Body:
    """Return the request with one correction."""
    if change.field == "stream_options":
        return {name: value for name, value in body.items() if name != change.field}
    if change.field == OUTPUT_LIMIT:  # the same limit, under the newer name
        given = body.get("max_tokens")
        left = {name: value for name, value in body.items() if name != "max_tokens"}
        return body if given is None else {**left, OUTPUT_LIMIT: body.get(OUTPUT_LIMIT) or given}
    edit = _without if change.kind == "without" else _with
    return {**body, "messages": [edit(m, change.field) if _is_answer(m) else m for m in body["messages"]]}


def _without(message: _Body, field: str) -> _Body:
    left = {name: value for name, value in message.items() if name != field or name in OF_MESSAGES}
    if calls := left.get("tool_calls"):
        left["tool_calls"] = [_call_without(call, field) for call in calls]
    return left


def _call_without(call: _Body, field: str) -> _Body:
    left = {name: value for name, value in call.items() if name != field or name in OF_CALLS}
    function = call["function"].items()
    return {**left, "function": {n: value for n, value in function if n != field or n in OF_FUNCTIONS}}


def _with(message: _Body, field: str) -> _Body:
    if not message.get("tool_calls"):
        return message
    if field == "reasoning_content":
        return {**message, field: message.get(field) or NO_REASONING}
    if _is_signed(message):
        return message
    first, *others = message["tool_calls"]  # parallel calls are signed by their first
    return {**message, "tool_calls": [{**first, "extra_content": NO_SIGNATURE}, *others]}


def _is_signed(message: _Body) -> bool:
    return any("extra_content" in call for call in message["tool_calls"])


def _is_answer(message: _Body) -> bool:
    return message.get("role") == "assistant"


def _calling(body: _Body) -> list[_Body]:
    return [m for m in body.get("messages", ()) if _is_answer(m) and m.get("tool_calls")]


def _own_fields(body: _Body) -> Iterator[str]:
    """Yield the fields of the assistant messages that not all services know."""
    for message in filter(_is_answer, body.get("messages", ())):
        yield from (name for name in message if name not in OF_MESSAGES)
        for call in message.get("tool_calls") or ():
            yield from (name for name in call if name not in OF_CALLS)
            yield from (name for name in call["function"] if name not in OF_FUNCTIONS)


def _names(field: str, reply: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", reply) is not None
