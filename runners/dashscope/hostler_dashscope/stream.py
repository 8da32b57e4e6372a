"""The stream of an app of DashScope: server-sent events `result` and `error`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hostler_sdk.services import (
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
)
from hostler_sdk.types import Usage

MAX_TOOL_CHARS = 4_000
MAX_REFERENCES = 500
_MARK = re.compile(r"<ref>\[([^\[\]<>]{1,20})\]</ref>|\[(\d{1,4})\]")
_BUSY = re.compile(r"Throttling|RateQuota|InternalError|ServiceUnavailable|RequestTimeOut")
_THINKING = frozenset({"reasoning", "response"})


class DashScopeStream(SseParser):
    """One answer, whose pieces are `output.text`, or the messages of a workflow's nodes."""

    def __init__(self, *, references_quote: str = "") -> None:
        super().__init__()
        self._quote = references_quote
        self._pieces: list[str] = []
        self._documents: dict[str, str] = {}
        self._tools: set[tuple[int, str]] = set()
        self._by_nodes = False

    def body(self, data: dict[str, object]) -> Iterator[Item]:
        """Raise the error that is no stream."""
        raise dashscope_error(data)

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        if event == "error" or (text_in(data, "code") and "output" not in data):
            raise dashscope_error(data)
        if event not in ("result", ""):
            yield Note(f"DashScope sent an unknown event: {event:.60}")
            return
        output = object_in(data, "output")
        yield Session("session_id", text_in(output, "session_id"))
        yield from self._thoughts(output.get("thoughts"))
        self._read_references(output.get("doc_references"))
        yield from self._text(output)
        if text_in(output, "finish_reason") == "stop":
            yield from self._end(data)

    def _text(self, output: Mapping[str, Any]) -> Iterator[Item]:
        by_node = text_in(output, "workflow_message", "message", "content")
        if by_node:
            self._by_nodes = True
        # with messages of nodes, the text at the end repeats them
        piece = by_node or ("" if self._by_nodes else text_in(output, "text"))
        if piece:
            self._pieces.append(piece)
            yield Text(piece)

    def _end(self, data: dict[str, object]) -> Iterator[Item]:
        if found := _usage(object_in(data, "usage").get("models")):
            yield Spent(found)
        said = "".join(self._pieces)
        named = _MARK.sub(self._named, said)
        if named != said:
            yield Whole(named)
        yield Done()

    def _named(self, mark: re.Match[str]) -> str:
        document = self._documents.get(mark[1] or mark[2])
        return mark[0] if document is None else f"({self._quote}{document})"

    def _read_references(self, references: Any) -> None:
        for one in references if isinstance(references, list) else ():
            if isinstance(one, dict) and len(self._documents) < MAX_REFERENCES:
                number, name = one.get("index_id"), text_in(one, "doc_name") or text_in(one, "title")
                if isinstance(number, str | int) and name:
                    self._documents[str(number)] = name

    def _thoughts(self, thoughts: Any) -> Iterator[Item]:
        """Return the calls of tools among the thoughts. Each event repeats those before it."""
        for number, thought in enumerate(thoughts if isinstance(thoughts, list) else ()):
            if not isinstance(thought, dict) or text_in(thought, "action_type") in _THINKING:
                continue
            name = text_in(thought, "action_name") or text_in(thought, "action")
            observation = text_in(thought, "observation")
            id_ = f"thought-{number}"
            if name and (number, "start") not in self._tools:
                self._tools.add((number, "start"))
                yield ToolStart(id_, name, text_in(thought, "action_input_stream")[:MAX_TOOL_CHARS])
            if name and observation and (number, "end") not in self._tools:
                self._tools.add((number, "end"))
                yield ToolEnd(id_, name, observation[:MAX_TOOL_CHARS])


def _usage(models: Any) -> Usage | None:
    """Return the sum over all models that the app used."""
    counted = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    if not counted:
        return None
    given = [number_in(model, "input_tokens") for model in counted]
    made = [number_in(model, "output_tokens") for model in counted]
    if None in given or None in made:
        return None
    sums = sum(n or 0 for n in given), sum(n or 0 for n in made)
    return Usage(input_tokens=sums[0], output_tokens=sums[1], total_tokens=sum(sums))


def dashscope_error(data: Mapping[str, Any]) -> ServiceFailure:
    """Return the failure for an error of DashScope."""
    code = text_in(data, "code") or "without a code"
    said = text_in(data, "message") or "it gives no reason"
    if code in ("InvalidApiKey", "AccessDenied") or code.startswith("AccessDenied"):
        return ServiceFailure(
            "auth_error", f"DashScope refused the key ({code:.60}): {said:.300}; check config `api-key`"
        )
    return ServiceFailure(
        "service_error",
        f"DashScope reported an error ({code:.60}): {said:.300}; look at the app in Model Studio",
        retryable=_BUSY.search(code) is not None,
    )
