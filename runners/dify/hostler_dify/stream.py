"""The stream of a Dify app: server-sent events with the event's name inside of the JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.services import (
    Done,
    Item,
    Note,
    ServerEvent,
    ServiceFailure,
    Session,
    Spent,
    SseParser,
    Task,
    Text,
    ToolEnd,
    ToolStart,
    Whole,
    number_in,
    object_in,
    text_in,
    usage_of,
)

MAX_TOOL_CHARS = 4_000
"""Of what a tool of Dify was given and gave, kept in the journal."""
OUTPUT_NAMES = ("answer", "text", "result", "output", "summary")
_NEWS = frozenset(
    {
        "workflow_started",
        "node_started",
        "node_finished",
        "node_retry",
        "iteration_started",
        "iteration_next",
        "iteration_completed",
        "loop_started",
        "loop_next",
        "loop_completed",
        "parallel_branch_started",
        "parallel_branch_finished",
        "agent_log",
        "tts_message",
        "tts_message_end",
        "message_file",
        "ping",
    }
)
"""Events that are no part of the answer."""


class DifyStream(SseParser):
    """One answer. A workflow ends with `workflow_finished`, any other app with `message_end`."""

    def __init__(self, *, is_workflow: bool = False, output: str = "") -> None:
        super().__init__()
        self._is_workflow = is_workflow
        self._output = output
        self._wrote = False

    def plain(self, event: ServerEvent) -> Iterator[Item] | None:
        """Return nothing for a ping, which has no JSON."""
        return iter(()) if event.event == "ping" else super().plain(event)

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        if id_ := text_in(data, "task_id"):
            yield Task(id_)
        if id_ := text_in(data, "conversation_id"):
            yield Session("conversation_id", id_)
        name = text_in(data, "event") or event
        match name:
            case "message" | "agent_message":
                yield from self._piece(text_in(data, "answer"))
            case "text_chunk":
                yield from self._piece(text_in(data, "data", "text"))
            case "message_replace":
                yield Whole(text_in(data, "answer"))
            case "agent_thought":
                yield from _tools(data)
            case "message_end":
                usage = object_in(data, "metadata", "usage")
                if found := usage_of(usage, "prompt_tokens", "completion_tokens"):
                    yield Spent(found)
                yield Done()
            case "workflow_finished":
                yield from self._finished(object_in(data, "data"))
            case "error":
                raise _error(data)
            case _ if name not in _NEWS:
                yield Note(f"Dify sent an unknown event: {name:.60}")

    def _piece(self, text: str) -> Iterator[Item]:
        if text:
            self._wrote = True
            yield Text(text)

    def _finished(self, data: Mapping[str, Any]) -> Iterator[Item]:
        status = text_in(data, "status")
        if status in ("failed", "stopped"):
            why = text_in(data, "error") or "it gives no reason"
            raise ServiceFailure(
                "service_error",
                f"the workflow of Dify {status}: {why:.300}; look at this run in Dify's log",
            )
        if not self._is_workflow:
            return
        total = number_in(data, "total_tokens")
        if total and (found := usage_of(data)):
            yield Spent(found)
        answer = self._answer(object_in(data, "outputs"))
        if answer or not self._wrote:
            yield Whole(answer)
        yield Done()

    def _answer(self, outputs: Mapping[str, Any]) -> str:
        """Return the output that is the answer. Raises ServiceFailure if it is not known which."""
        if self._output:
            if self._output not in outputs:
                there = ", ".join(map(str, outputs)) or "none"
                raise ServiceFailure(
                    "config_invalid",
                    f"the workflow has no output {self._output!r}; set config `workflow-output` to one of: "
                    f"{there:.200}",
                )
            return _as_text(outputs[self._output])
        for name in OUTPUT_NAMES:
            if outputs.get(name):
                return _as_text(outputs[name])
        if self._wrote or not outputs:
            return ""
        if len(outputs) == 1:
            return _as_text(next(iter(outputs.values())))
        raise ServiceFailure(
            "config_invalid",
            f"the workflow has several outputs ({', '.join(map(str, outputs)):.200}); name the answer in "
            "config `workflow-output`",
        )


def _tools(data: Mapping[str, Any]) -> Iterator[Item]:
    """Return the tools of a thought: names joined by `;`. It comes again with their results."""
    tool, id_ = text_in(data, "tool"), text_in(data, "id")
    if not tool:
        return
    observation = data.get("observation")
    if not observation:
        yield ToolStart(id_, tool, _short(data.get("tool_input")))
    else:
        yield ToolEnd(id_, tool, _short(observation))


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else _as_text(value)
    return text[:MAX_TOOL_CHARS]


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _error(data: Mapping[str, Any]) -> ServiceFailure:
    status, code = number_in(data, "status"), text_in(data, "code")
    what = " ".join(str(part) for part in (status, code) if part)
    said = text_in(data, "message") or "it gives no reason"
    advice = {
        "provider_quota_exceeded": "add credit for its model there",
        "provider_not_initialize": "set up its model provider there",
        "model_currently_not_support": "choose another model for it there",
    }.get(code, "look at this message in Dify's log")
    return ServiceFailure(
        "service_error",
        f"Dify reported an error ({what or 'without a code'}): {said:.300}; {advice}",
        retryable=status in (429, 500, 503),
    )
