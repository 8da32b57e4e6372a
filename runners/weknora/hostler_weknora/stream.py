"""The stream of a WeKnora answer: server-sent events with a `response_type` inside of the JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler_sdk.services import (
    Done,
    Item,
    Note,
    ServiceFailure,
    Spent,
    SseParser,
    Task,
    Text,
    ToolEnd,
    ToolStart,
    Whole,
    object_in,
    text_in,
    usage_of,
)

MAX_TOOL_CHARS = 4_000
"""Of what a tool of WeKnora gave, kept in the journal."""
_WAITS = {
    "tool_approval_required": "WeKnora waits until somebody approves a tool there",
    "mcp_oauth_required": "WeKnora waits until somebody signs in to an MCP service there",
}
_NEWS = frozenset(
    {
        "thinking",
        "references",
        "reflection",
        "session_title",
        "artifacts_pending",
        "tool_approval_resolved",
        "mcp_oauth_resolved",
        "memory_recalled",
        "context_compacted",
        "command_output",
        "install_output",
        "install_prompt",
        "user_message_injected",
    }
)
"""Types that are no part of the answer."""


class WeKnoraStream(SseParser):
    """One answer. It ends with `complete`; older versions end the stream after an `answer` that is done."""

    def __init__(self) -> None:
        super().__init__()
        self._wrote = False
        self._is_answered = False

    def finish(self) -> Iterator[Item]:
        """End the answer."""
        yield from super().finish()
        if self._is_answered:
            yield Done()

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        kind, more = text_in(data, "response_type"), object_in(data, "data")
        match kind:
            case "agent_query":
                yield Task(text_in(data, "assistant_message_id") or text_in(more, "assistant_message_id"))
            case "answer":
                if piece := text_in(data, "content"):
                    self._wrote = True
                    yield Text(piece)
                self._is_answered = data.get("done") is True
            case "tool_call":
                yield from self._tool(more)
            case "tool_result":
                yield _result(data, more)
            case "error" if data.get("done") is not True and more.get("tool_call_id"):
                yield _result(data, more)
            case "error":
                raise _error(text_in(data, "content") or text_in(more, "error"))
            case "complete":
                yield from self._complete(data, more)
            case _ if kind in _WAITS:
                yield Note(_WAITS[kind], "warning")
            case _ if kind not in _NEWS:
                yield Note(f"WeKnora sent an event of an unknown type: {kind or event:.60}")

    def _tool(self, call: Mapping[str, Any]) -> Iterator[Item]:
        """Return the use of a tool. What an agent said before one is no part of its answer."""
        if self._wrote:
            yield Whole("")
        self._wrote = self._is_answered = False
        yield ToolStart(text_in(call, "tool_call_id"), text_in(call, "tool_name"), call.get("arguments"))

    def _complete(self, data: Mapping[str, Any], more: Mapping[str, Any]) -> Iterator[Item]:
        usage = object_in(data, "usage") or object_in(more, "usage")
        if found := usage_of(usage, "prompt_tokens", "completion_tokens"):
            yield Spent(found)
        if not self._wrote and (whole := text_in(more, "final_content")):
            yield Whole(whole)
        yield Done()


def _result(data: Mapping[str, Any], more: Mapping[str, Any]) -> ToolEnd:
    said = text_in(data, "content")[:MAX_TOOL_CHARS]
    failed = text_in(data, "response_type") == "error"
    return ToolEnd(
        text_in(more, "tool_call_id"),
        text_in(more, "tool_name"),
        None if failed else said,
        (said or "it failed") if failed else None,
    )


def _error(said: str) -> ServiceFailure:
    why = said or "it gives no reason"
    return ServiceFailure(
        "service_error", f"WeKnora reported an error: {why:.300}; look at the agent and its model there"
    )
