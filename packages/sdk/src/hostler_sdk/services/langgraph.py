"""The stream of runs of a LangGraph server, and of services that speak as one: bytes in, items out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.items import Done, Item, Note, Spent, Task, Text, ToolEnd, ToolStart, Whole
from hostler_sdk.services.json_values import add_usage, object_in, text_in, usage_of
from hostler_sdk.services.sse import ServerEvent, SseParser
from hostler_sdk.types import Usage

MAX_TOOL_CHARS = 4_000
"""Of what a tool gave, kept in the journal."""
_AI = frozenset({"ai", "AIMessage", "AIMessageChunk"})
_HUMAN = frozenset({"human", "HumanMessage"})
_TOOL = frozenset({"tool", "ToolMessage"})


class LangGraphStream(SseParser):
    """One run. Its answer is the text of the last message of the assistant.

    Text comes piece by piece with `messages` (the mode `messages-tuple`), whole messages with `updates` or
    `values`. The first `values` are those before the run: messages up to the last one of a person are not
    its own. A run is complete with `end`; a server that sends none has to be asked, see `Turn.send`.
    """

    title = "LangGraph"

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] | None = None
        self._streaming = ""
        self._streamed: set[str] = set()
        self._usage: Usage | None = None
        self._is_summed_up = False
        self.answer = ""
        """The text of the answer so far, from whole messages."""
        self.interrupts: list[Mapping[str, Any]] = []
        """What the run waits for: `id` and `value` of each interrupt."""

    def plain(self, event: ServerEvent) -> Iterator[Item] | None:
        """Return the items of an event with a list or null, or with a JSON text on each of its lines."""
        match event.event.partition("|")[0]:
            case "end":
                return self._end()
            case "messages" | "messages-tuple" | "custom" | "values" | "updates" as name:
                return self._each(name, event.data)
            case _:
                return super().plain(event)

    def finish(self) -> Iterator[Item]:
        """End the stream: what is known of the answer is complete only if the server says so."""
        yield from super().finish()
        yield from self._sum_up_once()

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        match event.partition("|")[0]:
            case "metadata":
                yield Task(text_in(data, "run_id"))
            case "error":
                raise self._error(data)
            case _:
                yield Note(f"{self.title} sent an unknown event: {event:.60}")

    def custom(self, data: Any) -> Iterator[Item]:
        """Return the items of what a node wrote by itself: none."""
        return iter(())

    def answer_in(self, message: Mapping[str, Any]) -> str:
        """Return the text of a message if it is one of the assistant to the user."""
        return text_of(message.get("content")) if message.get("type") in _AI else ""

    def update(self, node: str, values: Mapping[str, Any]) -> None:
        """Take what a node wrote into the state."""

    def sum_up(self) -> Iterator[Item]:
        """Return the whole answer and the tokens, once."""
        if self.answer:
            yield Whole(self.answer)
        if self._usage is not None:
            yield Spent(self._usage)

    def _sum_up_once(self) -> Iterator[Item]:
        if not self._is_summed_up:
            self._is_summed_up = True
            yield from self.sum_up()

    def _end(self) -> Iterator[Item]:
        yield from self._sum_up_once()
        yield Done()

    def _each(self, name: str, text: str) -> Iterator[Item]:
        for data in _decoded(text):
            match name:
                case "custom":
                    yield from self.custom(data)
                case "values" if isinstance(data, dict):
                    yield from self._values(data)
                case "updates" if isinstance(data, dict):
                    yield from self._updates(data)
                case "messages" | "messages-tuple" if isinstance(data, list) and data:
                    yield from self._piece(data[0])
                case "messages" | "messages-tuple" if isinstance(data, dict):
                    yield from self._piece(data)
                case _:
                    kind = type(data).__name__
                    raise ServiceFailure("response_invalid", f"an event {name} of its stream has a {kind}")

    def _piece(self, message: Any) -> Iterator[Item]:
        if not isinstance(message, dict) or message.get("type") not in _AI:
            return
        text, id_ = text_of(message.get("content")), text_in(message, "id")
        if not text or (message["type"] != "AIMessageChunk" and id_ in self._streamed):
            return
        if self._streamed and id_ != self._streaming:
            yield Text("\n\n")
        self._streaming = id_
        self._streamed.add(id_)
        yield Text(text)

    def _values(self, state: Mapping[str, Any]) -> Iterator[Item]:
        messages = messages_in(state)
        if self._known is None:
            people = [place for place, one in enumerate(messages) if one.get("type") in _HUMAN]
            before = messages[: people[-1] + 1] if people else []
            self._known = {_name(one) for one in before}
        yield from self._messages(messages)
        self.interrupts = _interrupts(state)

    def _updates(self, nodes: Mapping[str, Any]) -> Iterator[Item]:
        self.interrupts += [one for one in _interrupts(nodes) if one not in self.interrupts]
        for node, written in nodes.items():
            for values in written if isinstance(written, list) else [written]:
                if node.startswith("__") or not isinstance(values, dict):
                    continue
                self.update(node, values)
                messages = messages_in(values)
                if not any(one.get("type") == "remove" for one in messages):  # else it is a new history
                    yield from self._messages(messages)

    def _messages(self, messages: list[dict[str, Any]]) -> Iterator[Item]:
        """Take messages; those that are known are not taken again."""
        if self._known is None:
            self._known = set()
        for message in messages:
            name = _name(message)
            if name in self._known:
                continue
            self._known.add(name)
            self.answer = self.answer_in(message) or self.answer
            if found := usage_of(object_in(message, "usage_metadata")):
                self._usage = add_usage(self._usage, found)
            yield from _tools(message)

    def _error(self, data: Mapping[str, Any]) -> ServiceFailure:
        kind = text_in(data, "error") or text_in(data, "name") or "an error"
        said = text_in(data, "message") or "it gives no reason"
        return ServiceFailure(
            "service_error",
            f"the run at {self.title} failed with {kind:.80}: {said:.300}; look at this run there",
        )


def text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(
        part if isinstance(part, str) else text_in(part, "text") if part.get("type") == "text" else ""
        for part in parts
        if isinstance(part, str | dict)
    )


def messages_in(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a state."""
    found = values.get("messages")
    listed = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, dict)]


def _decoded(text: str) -> Iterator[Any]:
    """Decode the data of an event: one JSON text, or one on each line."""
    try:
        values = [msgspec.json.decode(text)]
    except msgspec.DecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise ServiceFailure("response_invalid", f"its answer is not JSON: {error}") from None
        try:
            values = [msgspec.json.decode(line) for line in lines]
        except msgspec.DecodeError:
            raise ServiceFailure("response_invalid", f"its answer is not JSON: {error}") from None
    return iter(values)


def _interrupts(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = state.get("__interrupt__")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _name(message: Mapping[str, Any]) -> str:
    """Return what tells a message from others: its id, or all of it."""
    return text_in(message, "id") or msgspec.json.encode(message).decode()


def _tools(message: Mapping[str, Any]) -> Iterator[Item]:
    calls = message.get("tool_calls")
    for call in calls if message.get("type") in _AI and isinstance(calls, list) else []:
        if isinstance(call, dict):
            yield ToolStart(text_in(call, "id"), text_in(call, "name"), call.get("args"))
    if message.get("type") in _TOOL:
        said = text_of(message.get("content"))[:MAX_TOOL_CHARS]
        is_error = message.get("status") == "error"
        yield ToolEnd(
            text_in(message, "tool_call_id"),
            text_in(message, "name"),
            None if is_error else said,
            said if is_error else None,
        )
