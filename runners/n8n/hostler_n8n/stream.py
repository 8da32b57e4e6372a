"""The answer of an n8n workflow: JSON objects one after the other, or a single one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hostler_sdk.services import (
    Done,
    Item,
    JsonSequenceDecoder,
    Note,
    ServiceFailure,
    Text,
    Whole,
    text_in,
)

_STREAMED = frozenset({"begin", "item", "end", "error"})


class N8nAnswer:
    """One answer. Each node that streams sends `begin`, items and `end`: it is over when all ended."""

    def __init__(self, output_key: str = "response") -> None:
        self._decoder = JsonSequenceDecoder()
        self._output_key = output_key
        self._open: set[str] = set()
        self._has_ended = False
        self._is_stream = False
        self._is_plain = False

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take the next bytes."""
        for value in self._decoder.feed(data):
            yield from self._value(value)

    def finish(self) -> Iterator[Item]:
        """End the answer."""
        if not self._decoder.is_between:
            return
        if not self._is_stream or (self._has_ended and not self._open):
            yield Done()

    def _value(self, value: Any) -> Iterator[Item]:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind in _STREAMED and not self._is_plain:
            self._is_stream = True
            yield from self._event(kind, value)
        elif self._is_stream:
            yield Note(f"n8n sent an unknown event: {kind!s:.60}")
        elif self._is_plain:
            raise ServiceFailure("response_invalid", "n8n sent several JSON objects that are no stream")
        else:
            self._is_plain = True
            yield Whole(self._text_of(value))

    def _event(self, kind: str, value: dict[str, object]) -> Iterator[Item]:
        node = text_in(value, "metadata", "nodeId")
        if kind == "item":
            yield Text(text_in(value, "content"))
        elif kind == "begin":
            self._open.add(node)
        elif kind == "end":
            self._open.discard(node)
            self._has_ended = True
        else:
            said = text_in(value, "content") or text_in(value, "message") or "it gives no reason"
            raise ServiceFailure(
                "service_error", f"the workflow of n8n failed: {said:.300}; look at this execution in n8n"
            )

    def _text_of(self, value: Any) -> str:
        """Return the text of a single answer. Workflows that answer with all items send a list."""
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, dict) and self._output_key in value:
            value = value[self._output_key]
        if value is None or value in ({}, []):
            return ""
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
