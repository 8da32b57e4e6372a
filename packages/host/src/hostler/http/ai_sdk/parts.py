"""Parts of a step of a message, which can be said again once their step is taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler.domain.run_events import ToolCalled
from hostler.http.ai_sdk.dialect import chunk, encode


@dataclass(slots=True)
class Part:
    """A part of the current step: the chunks that say it again, and of a text its id and what it has."""

    chunks: list[bytes] = field(default_factory=list)
    text_id: str | None = None
    text: str = ""
    ended: bool = False
    kind: Literal["text", "reasoning"] = "text"

    def said_again(self) -> list[bytes]:
        """Return the chunks that say it again; none of a text that has been taken back."""
        if self.text_id is None:
            return self.chunks
        if not self.text:
            return []
        return [*self.start(), self.more(self.text), *([self.end()] if self.ended else [])]

    def start(self) -> list[bytes]:
        """Return the chunks that begin a text."""
        return [chunk(f"{self.kind}-start", id=self.text_id)]

    def more(self, text: str) -> bytes:
        """Return the chunk that adds to a text."""
        return chunk(f"{self.kind}-delta", id=self.text_id, delta=text)

    def end(self) -> bytes:
        """Return the chunk that ends a text."""
        return chunk(f"{self.kind}-end", id=self.text_id)


def holds(step: list[Part], part: Part) -> bool:
    """Whether this very part is in a step: equal ones may be in it, too."""
    return any(one is part for one in step)


def drop(step: list[Part], part: Part) -> None:
    """Take this very part out of a step."""
    step[:] = [one for one in step if one is not part]


def goes_on_below(key: str) -> bytes:
    """End the part of a call that has another one from here on."""
    return chunk("tool-output-error", toolCallId=key, errorText="this call goes on below")


def given(called: ToolCalled, **fields: Any) -> bytes:
    """Return the chunk that says what a call is given."""
    known = {"toolCallId": called.key, "toolName": called.name, **fields}
    return encode({"type": "tool-input-available", **known, "input": called.arguments})


def output(key: str, result: Any) -> bytes:
    """Return the chunk that says what a call returned."""
    return encode({"type": "tool-output-available", "toolCallId": key, "output": result})


def text_of(error: Any) -> str:
    """Return an error as a sentence."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and isinstance(message := error.get("message"), str):
        return message
    return msgspec.json.encode(error, enc_hook=str).decode()
