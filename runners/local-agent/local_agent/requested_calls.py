"""The tool calls that a model asks for: assembled from a stream, and checked as untrusted input. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from hostler_sdk.types import FunctionCall, ToolCall, ToolCallDelta
from local_agent.toolbox import Toolbox

MAX_ARGUMENT_CHARS = 256 * 1024
"""Arguments of one call. Longer ones are a model's error, and would fill the window in later requests."""
MAX_ARGUMENT_DEPTH = 64
"""Nesting of lists and objects in arguments: every program on the way can still read it."""
MAX_CALL_ID_CHARS = 128
MAX_QUOTED_CHARS = 200
"""Model's text that an error quotes."""
MAX_LISTED_NAMES = 50
_CUT = (
    "your answer was cut off before the arguments of this call were whole, so it was not made; write it "
    "again with shorter arguments, or in several calls"
)


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call that a model asked for. `call_id` is unique in the run.

    `problem` says why it cannot be made; `parameters` are then empty. `shown_name` is for the journal.
    `reads`: it reads from a stored result, and calls no tool.
    """

    call: ToolCall
    tool: str | None
    shown_name: str
    parameters: dict[str, Any]
    problem: str | None = None
    is_skill: bool = False
    reads: bool = False

    @property
    def call_id(self) -> str:
        """The id of the call in its tool message."""
        return self.call.id


@dataclass(slots=True)
class _Growing:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class CallAssembly:
    """Assembles the tool calls of a streamed answer."""

    def __init__(self) -> None:
        self._calls: dict[int, _Growing] = {}

    def add(self, pieces: Sequence[ToolCallDelta]) -> None:
        """Take the pieces of one chunk."""
        for piece in pieces:
            call = self._calls.setdefault(piece.index, _Growing())
            call.id = call.id or piece.id or ""
            call.name = call.name or piece.name or ""
            call.arguments.append(piece.arguments or "")

    def whole(self) -> list[ToolCall]:
        """Return the calls, in the order of their indexes."""
        return [
            ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments="".join(call.arguments)))
            for _, call in sorted(self._calls.items())
        ]


def read_calls(
    calls: Sequence[ToolCall], toolbox: Toolbox, taken: set[str], round_: int, *, is_cut: bool = False
) -> list[RequestedCall]:
    """Check the calls of an answer. Return one RequestedCall each, in order; their ids are added to `taken`.

    `is_cut`: the service ended the answer early, so that the last call may be incomplete.
    """
    requested = [_read(call, toolbox, _own_id(call.id, taken, round_, n)) for n, call in enumerate(calls, 1)]
    if is_cut and requested and not requested[-1].parameters:
        requested[-1] = replace(requested[-1], problem=_CUT)
    return requested


def _read(call: ToolCall, toolbox: Toolbox, call_id: str) -> RequestedCall:
    name = call.function.name.strip()
    tool = toolbox.find(name)
    parameters, problem = _arguments_of(call.function.arguments)
    reads = name == toolbox.reading
    if tool is None and not reads:
        offered = ", ".join(toolbox.names[:MAX_LISTED_NAMES]) or "none at all"
        parameters, problem = {}, f"there is no tool {_quoted(name)}; there are: {offered}"
    kept = "{}" if problem else msgspec.json.encode(parameters).decode()
    function = FunctionCall(name=toolbox.function_of(name), arguments=kept)
    whole = ToolCall(id=call_id, function=function, provider_data=call.provider_data)
    parameters = toolbox.own_parameters(tool, parameters)
    shown = tool or _cleaned(name) or "unknown"
    return RequestedCall(
        whole, tool, shown, parameters, problem, is_skill=toolbox.is_skill(tool), reads=reads
    )


def _arguments_of(text: str) -> tuple[dict[str, Any], str | None]:
    """Return (arguments, None), or ({}, what is wrong with them)."""
    if len(text) > MAX_ARGUMENT_CHARS:
        return {}, f"the arguments have {len(text):,} characters; at most {MAX_ARGUMENT_CHARS:,} are taken"
    if not text.strip():
        return {}, None
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, str):  # some models write the object as text inside of text
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, f"the arguments are not JSON ({error}); they began {_quoted(text)}. Write one JSON object"
    if not isinstance(value, dict):
        return {}, f"the arguments must be one JSON object, not {_quoted(text)}"
    if _too_deep(value):
        return {}, f"the arguments are nested more than {MAX_ARGUMENT_DEPTH} deep"
    return value, None


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_ARGUMENT_DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _own_id(given: str, taken: set[str], round_: int, place: int) -> str:
    """Return the model's id if it is usable and new, else one built from the call's place in the run."""
    usable = given.strip() == given and given.isprintable() and 0 < len(given) <= MAX_CALL_ID_CHARS
    call_id = given if usable and given not in taken else f"call_{round_}_{place}"
    while call_id in taken:
        call_id += "x"
    taken.add(call_id)
    return call_id


def _cleaned(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:MAX_QUOTED_CHARS])


def _quoted(text: str) -> str:
    return repr(_cleaned(text) + ("..." if len(text) > MAX_QUOTED_CHARS else ""))
