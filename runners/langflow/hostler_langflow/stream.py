"""The answer of a Langflow flow: JSON objects on lines, or a single one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler_sdk.services import (
    Done,
    Item,
    JsonSequenceDecoder,
    Note,
    ServiceFailure,
    Text,
    Whole,
    as_object,
    object_in,
    text_in,
)


class LangflowAnswer:
    """One answer. Its end has the whole result; without a token before it, the flow does not stream."""

    def __init__(self) -> None:
        self._decoder = JsonSequenceDecoder()
        self._wrote = False
        self._said = ""

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take the next bytes."""
        for value in self._decoder.feed(data):
            yield from self._event(as_object(value))

    def finish(self) -> Iterator[Item]:
        """Return nothing: the end is an event."""
        return iter(())

    def _event(self, value: Mapping[str, Any]) -> Iterator[Item]:
        name, data = value.get("event"), object_in(value, "data")
        match name:
            case None if "outputs" in value:
                yield from self._end(value)
            case "token":
                if piece := text_in(data, "chunk"):
                    self._wrote = True
                    yield Text(piece)
            case "add_message":
                self._message(data)
            case "end":
                yield from self._end(object_in(data, "result"))
            case "error":
                raise _error(text_in(data, "error") or text_in(data, "text") or text_in(data, "message"))
            case _:
                yield Note(f"Langflow sent an unknown event: {name!s:.60}")

    def _message(self, data: Mapping[str, Any]) -> None:
        """Remember a message of the flow, which may be all that its end does not repeat."""
        if data.get("error") is True or text_in(data, "category") == "error":
            raise _error(text_in(data, "text"))
        if text_in(data, "sender").lower() != "user":
            self._said = text_in(data, "text") or self._said

    def _end(self, result: Mapping[str, Any]) -> Iterator[Item]:
        text = _text_of(result)
        if not self._wrote:
            yield Whole(text or self._said)
        elif text:
            yield Whole(text)
        yield Done()


def _text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a flow's first output, which components write to different places."""
    output = _first(_first(result.get("outputs")).get("outputs"))
    for path in (("outputs", "message", "message"), ("results", "message", "text")):
        if text := text_in(output, *path):
            return text
    if text := text_in(output, "outputs", "message", "message", "text"):
        return text
    return text_in(_first(output.get("messages")), "message")


def _first(value: Any) -> Mapping[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def _error(said: str) -> ServiceFailure:
    why = said or "it gives no reason"
    return ServiceFailure(
        "service_error", f"the flow of Langflow failed: {why:.300}; run it in the Playground"
    )
