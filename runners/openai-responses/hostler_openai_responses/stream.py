"""The stream of a response: server-sent events that name their type inside of the JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.services import (
    Ask,
    Done,
    Item,
    Note,
    ServiceFailure,
    Session,
    Spent,
    SseParser,
    Text,
    ToolEnd,
    ToolStart,
    Whole,
    number_in,
    object_in,
    text_in,
    usage_of,
)
from hostler_sdk.types import PendingCall, Usage

SESSION = "response_id"
MAX_TOOL_CHARS = 4_000
"""Of what a tool was given and gave, kept in the journal."""
_BUSY = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})
_SILENT = frozenset({"message", "reasoning", "mcp_list_tools", "compaction"})
"""Items of the output that are no use of a tool."""
_NEWS = (
    "response.in_progress",
    "response.queued",
    "response.content_part.",
    "response.output_text.",
    "response.output_item.",
    "response.refusal.",
    "response.reasoning",
    "response.file_search_call.",
    "response.web_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_",
    "response.function_call_arguments.",
    "response.custom_tool_call_input.",
    "response.shell_call",
    "response.compaction.",
    "response.audio.",
    "keepalive",
)
"""Beginnings of types that are no part of the answer, or come again with one that is."""


class ResponseStream(SseParser):
    """One response. `keeps`: its id is the conversation's, by which the next message goes on."""

    def __init__(self, *, keeps: bool = True) -> None:
        super().__init__()
        self._keeps = keeps
        self._id = ""
        self._part: tuple[Any, Any] | None = None
        self._wants: list[PendingCall] = []

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        kind = text_in(data, "type") or event
        match kind:
            case "response.created":
                self._id = text_in(data, "response", "id")
            case "response.output_text.delta" | "response.refusal.delta":
                yield from self._piece(data)
            case "response.output_item.added":
                yield from self._begun(object_in(data, "item"))
            case "response.output_item.done":
                yield from self._item(object_in(data, "item"))
            case "response.completed":
                yield from self._completed(object_in(data, "response"))
            case "response.incomplete":
                reason = text_in(data, "response", "incomplete_details", "reason") or "without a reason"
                raise ServiceFailure(
                    "service_error",
                    f"the response of OpenAI is incomplete ({reason:.100}); raise `max_output_tokens` in "
                    "config `parameters`, or ask differently",
                )
            case "response.failed":
                raise openai_error(object_in(data, "response", "error"))
            case "error":
                raise openai_error(object_in(data, "error") or data)
            case _ if not kind.startswith(_NEWS):
                yield Note(f"OpenAI sent an unknown event: {kind:.60}")

    def body(self, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of a response that came whole: not every server streams."""
        if data.get("object") != "response":
            raise openai_error(object_in(data, "error") or data)
        self._id = text_in(data, "id")
        status = text_in(data, "status")
        if status in ("failed", "incomplete"):
            yield from self.take("", {"type": f"response.{status}", "response": data})
        output = data.get("output")
        for item in output if isinstance(output, list) else []:
            if isinstance(item, dict):
                yield from self._item(item)
        yield from self._completed(data)

    def _piece(self, data: Mapping[str, Any]) -> Iterator[Item]:
        """Return a piece of the text; the parts of an output are joined by a blank line."""
        if piece := text_in(data, "delta"):
            part = data.get("output_index"), data.get("content_index")
            if self._part is not None and part != self._part:
                yield Text("\n\n")
            self._part = part
            yield Text(piece)

    def _begun(self, item: Mapping[str, Any]) -> Iterator[Item]:
        kind = text_in(item, "type")
        if kind in ("function_call", "custom_tool_call", "computer_call"):
            raise ServiceFailure(
                "service_error",
                f"the model wants a tool's result from its caller ({text_in(item, 'name') or kind:.100}); "
                "this runner has only tools that the service runs by itself",
            )
        if kind.endswith("_call"):
            yield ToolStart(text_in(item, "id"), _tool(item))

    def _item(self, item: Mapping[str, Any]) -> Iterator[Item]:
        kind = text_in(item, "type")
        if kind == "mcp_approval_request":
            self._wants.append(_approval(item))
        elif kind == "message" and self._part is None and (said := _text_of(item)):
            yield Whole(said)
        elif kind.endswith("_call"):
            error = item.get("error")
            gave = item.get("output") or item.get("result") or item.get("action")
            yield ToolEnd(text_in(item, "id"), _tool(item), _short(gave), _short(error))
        elif kind not in _SILENT and not kind.endswith("_call_output"):
            yield Note(f"OpenAI sent an output of an unknown type: {kind:.60}")

    def _completed(self, response: Mapping[str, Any]) -> Iterator[Item]:
        self._id = text_in(response, "id") or self._id
        if self._keeps:
            yield Session(SESSION, self._id)
        if usage := _usage(object_in(response, "usage")):
            yield Spent(usage)
        if self._wants and not self._keeps:
            raise ServiceFailure(
                "config_invalid",
                f"the tool {self._wants[0].tool_name:.100} needs an approval, for which the service keeps "
                "the conversation: switch config `previous-response` on, or its `require_approval` off",
            )
        if self._wants:
            yield Ask(tuple(self._wants), {SESSION: self._id})
        yield Done()


def _approval(item: Mapping[str, Any]) -> PendingCall:
    """Return the approval of a tool that a model wants to use; OpenAI runs it, not the host."""
    server, name = text_in(item, "server_label"), text_in(item, "name")
    try:
        arguments = msgspec.json.decode(text_in(item, "arguments") or "{}")
    except msgspec.DecodeError as error:
        raise ServiceFailure(
            "response_invalid", f"the arguments of {name:.100} are not JSON: {error}"
        ) from None
    return PendingCall(
        tool_name=f"{server}.{name}" if server else name,
        arguments=arguments if isinstance(arguments, dict) else {"arguments": arguments},
        kind="approval",
        title=f"{name} of {server}" if server else name,
        call_id=text_in(item, "id"),
        executor="runner",
    )


def _tool(item: Mapping[str, Any]) -> str:
    kind = text_in(item, "type").removesuffix("_call")
    return f"{kind}.{text_in(item, 'name')}" if text_in(item, "name") else kind


def _text_of(message: Mapping[str, Any]) -> str:
    parts = message.get("content")
    listed = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n\n".join(said for part in listed if (said := text_in(part, "text") or text_in(part, "refusal")))


def _short(value: Any) -> str | None:
    if not value:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:MAX_TOOL_CHARS]


def _usage(data: Mapping[str, Any]) -> Usage | None:
    found = usage_of(data)
    return found and msgspec.structs.replace(
        found,
        cached_tokens=number_in(object_in(data, "input_tokens_details"), "cached_tokens"),
        reasoning_tokens=number_in(object_in(data, "output_tokens_details"), "reasoning_tokens"),
    )


def openai_error(data: Mapping[str, Any]) -> ServiceFailure:
    """Return the failure for an error of OpenAI."""
    code = text_in(data, "code") or text_in(data, "type") or "without a code"
    said = text_in(data, "message") or "it gives no reason"
    return ServiceFailure(
        "service_error",
        f"OpenAI reported an error ({code:.100}): {said:.300}; look the code up in its documentation",
        retryable=code in _BUSY,
    )
