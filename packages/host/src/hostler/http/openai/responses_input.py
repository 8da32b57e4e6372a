"""The items of a request: what is said, what was said before, and what decides calls that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from hostler.domain.pause_actions import Action
from hostler.domain.pause_views import CallView
from hostler.domain.record import Record
from hostler.domain.type_fit import misfit
from hostler.http.dialects.answers import read_call_id
from hostler.http.dialects.files import content_of, web_address
from hostler.http.dialects.paused_calls import ToAction
from hostler.http.openai.responses_items import json_text, read_approval_id, result_of
from hostler.http.openai.responses_request import refused
from hostler_protocol._base import Lenient
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    FunctionCall,
    HistoryMessage,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    Role,
    TextElement,
    ToolCall,
    text_of,
)
from hostler_protocol.errors import NotFoundError

T = TypeVar("T")
MAX_ITEMS = 2_000
"""Items of one request; a conversation that is longer has an id."""


class _Text(Lenient, tag="input_text", tag_field="type"):
    text: str


class _Said(Lenient, tag="output_text", tag_field="type"):
    text: str


class _Refusal(Lenient, tag="refusal", tag_field="type"):
    refusal: str


class _Image(Lenient, tag="input_image", tag_field="type"):
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class _File(Lenient, tag="input_file", tag_field="type"):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None


_Part = _Text | _Said | _Refusal | _Image | _File


class _MessageItem(Lenient):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[_Part]


class _OutputItem(Lenient):
    call_id: str
    output: str | list[_Text | _Image | _File]
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class _CallItem(Lenient):
    call_id: str
    name: str
    arguments: str = "{}"


class _ApprovalItem(Lenient):
    approval_request_id: str
    approve: bool
    reason: str | None = None


_ECHOES = frozenset(
    {
        "mcp_list_tools",
        "reasoning",
        "compaction",
    }
)
"""Other items of responses, as clients send them back; the host has them."""


class Decided(Record):
    """An item that decides a call: the run, the host's id of the call, and how."""

    param: str
    run_id: str
    call_id: str
    to_action: ToAction


@dataclass(slots=True)
class Turn:
    """What a request says.

    `contents`: the new message of the user. `history`: what was said before it. `instructions`: of messages
    of the roles system and developer. `decided`: results and approvals at the end of the input.
    `references`: the places of references to other items.
    """

    contents: list[ContentElement] = field(default_factory=list)
    history: list[HistoryMessage] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    references: list[str] = field(default_factory=list)


def read_input(given: str | Sequence[dict[str, Any]] | None) -> Turn:
    """Return the turn of a request's input. InvalidArgumentError names the item that is wrong.

    Results and approvals count if no message follows them; earlier ones are of turns that are over.
    """
    if given is None or isinstance(given, str):
        return Turn(contents=[TextElement(text=given)] if given else [])
    if len(given) > MAX_ITEMS:
        raise refused("input", f"input has {len(given):,} items; at most {MAX_ITEMS:,}: use a conversation")
    reading = _Reading()
    for number, item in enumerate(given):
        reading.add(item, f"input[{number}]")
    return reading.finish()


class _Reading:
    """Reads the items of a request, in order."""

    def __init__(self) -> None:
        self._turn = Turn()
        self._deciding: list[tuple[_OutputItem | _ApprovalItem, str]] = []

    def add(self, item: dict[str, Any], place: str) -> None:
        """Read one item."""
        match item.get("type", "message"):
            case "message":
                self._add_message(_read(item, _MessageItem, place), place)
            case "function_call_output":
                self._deciding.append((_read(item, _OutputItem, place), place))
            case "mcp_approval_response":
                self._deciding.append((_read(item, _ApprovalItem, place), place))
            case "function_call":
                self._end_turn()
                self._add_call(_read(item, _CallItem, place))
            case "mcp_call" | "mcp_approval_request":
                self._end_turn()
            case "item_reference":
                self._turn.references.append(place)
            case str(kind) if kind in _ECHOES:
                pass
            case kind:
                text = str(kind)[:100]
                raise refused(f"{place}.type", f"{place}: items of the type {text!r} are not taken")

    def finish(self) -> Turn:
        """Return the turn, once all items are read."""
        if self._deciding and self._turn.contents:
            raise refused(
                "input",
                "input has results of calls and a new message: send the results alone, and the message then",
            )
        for item, place in self._deciding:
            decided = _result(item, place) if isinstance(item, _OutputItem) else _approval(item, place)
            self._turn.decided.append(decided)
        return self._turn

    def _add_message(self, item: _MessageItem, place: str) -> None:
        contents = _contents(item.content, f"{place}.content")
        match item.role:
            case "user":
                self._retire()  # the turn that they were of is over
                self._turn.contents += contents
            case "assistant":
                self._end_turn()
                self._turn.history.append(_message("assistant", contents))
            case _:
                if text := text_of(contents):
                    self._turn.instructions.append(text)

    def _add_call(self, item: _CallItem) -> None:
        """Add a call to the history: to its last message, if that has calls, too."""
        history = self._turn.history
        call = ToolCall(id=item.call_id, function=FunctionCall(name=item.name, arguments=item.arguments))
        if history and history[-1].tool_calls:
            last = history.pop()
            call_message = msgspec.structs.replace(last, tool_calls=[*last.tool_calls, call])
        else:
            call_message = HistoryMessage(role="assistant", content="", tool_calls=[call])
        history.append(call_message)

    def _end_turn(self) -> None:
        """Move what the user said to the history: the agent has answered it."""
        self._retire()
        if self._turn.contents:
            self._turn.history.append(_message("user", self._turn.contents))
            self._turn.contents = []

    def _retire(self) -> None:
        """Move results to the history: they are of a turn that is over."""
        for item, place in self._deciding:
            if isinstance(item, _OutputItem):
                output = _output_text(item, place)
                self._turn.history.append(
                    HistoryMessage(role="tool", content=output, tool_call_id=item.call_id)
                )
        self._deciding.clear()


def _message(role: Role, contents: list[ContentElement]) -> HistoryMessage:
    return HistoryMessage(role=role, content=content_of(contents))


def _contents(given: str | list[_Part], place: str) -> list[ContentElement]:
    if isinstance(given, str):
        return [TextElement(text=given)] if given else []
    return [_element(part, f"{place}[{number}]") for number, part in enumerate(given)]


def _element(part: _Part, place: str) -> ContentElement:
    match part:
        case _Text(text=text) | _Said(text=text) | _Refusal(refusal=text):
            return TextElement(text=text)
        case _Image(file_id=str(file_id)) | _File(file_id=str(file_id)):
            name = part.filename if isinstance(part, _File) else None
            return ArtifactElement(artifact_id=file_id, file_name=name)
        case _Image(image_url=str(url)):
            if url.startswith("data:"):
                return ImageBase64Element(image_base64=url)
            return ImageUrlElement(
                image_url=ImageUrl(url=_address(url, f"{place}.image_url"), detail=part.detail)
            )
        case _File(file_data=str(data)):
            return FileBase64Element(file_base64=data, file_name=part.filename)
        case _File(file_url=str(url)):
            return FileUrlElement(file_url=_address(url, f"{place}.file_url"), file_name=part.filename)
        case _Image():
            raise refused(place, f"{place}: an input_image needs image_url or file_id")
        case _:
            raise refused(place, f"{place}: an input_file needs file_data, file_url or file_id")


def _address(url: str, place: str) -> str:
    try:
        return web_address(url)
    except ValueError as error:
        raise refused(place, f"{place}: {error}") from None


# -- decisions ---------------------------------------------------------------------------------------------


def _result(item: _OutputItem, place: str) -> Decided:
    param = f"{place}.call_id"
    try:
        run_id, call_id = read_call_id(item.call_id)
    except NotFoundError as error:
        raise refused(param, error.message) from None
    output = _output_text(item, place)

    def to_action(call: CallView) -> Action:
        if item.status == "incomplete":
            return Action(call_id=call.call_id, type="error", args_hash=call.args_hash, error=output)
        return Action(
            call_id=call.call_id, type="result", args_hash=call.args_hash, result=result_of(output, call)
        )

    return Decided(param, run_id, call_id, to_action)


def _output_text(item: _OutputItem, place: str) -> str:
    if isinstance(item.output, str):
        return item.output
    contents = [_element(part, f"{place}.output[{number}]") for number, part in enumerate(item.output)]
    return json_text(content_of(contents))


def _approval(item: _ApprovalItem, place: str) -> Decided:
    param = f"{place}.approval_request_id"
    try:
        shown = read_approval_id(item.approval_request_id)
    except NotFoundError as error:
        raise refused(param, error.message) from None

    def to_action(call: CallView) -> Action:
        return Action(
            call_id=call.call_id,
            type="approve" if item.approve else "deny",
            args_hash=shown.args_hash,
            comment=item.reason,
        )

    return Decided(param, shown.run_id, shown.call_id, to_action)


def _read(item: dict[str, Any], kind: Callable[..., T], place: str) -> T:
    try:
        found: T = msgspec.convert(item, kind)
    except msgspec.ValidationError as error:
        mistake = misfit(error, kind)
        field = f"{place}.{mistake.place}" if mistake.place else place
        raise refused(field, f"{place}: {mistake.sentence}") from None
    return found
