"""Reasoning as items of a response: each piece of it that is under way, and then over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.http.dialects.fold import Answer
from hostler.http.openai.responses_types import ItemStatus, OutputItem, Reasoning, ReasoningText


class WriteEvent(Protocol):
    """Returns the frame of the next event of a response."""

    def __call__(self, name: str, **fields: Any) -> bytes:
        """`fields`: those of the event."""


@dataclass(slots=True)
class _Open:
    """Reasoning under way: its item, where that is in the output, and the pieces of its text."""

    item: Reasoning
    index: int
    pieces: list[str] = field(default_factory=list)


class ReasoningItems:
    """Adds reasoning to the output of a response."""

    def __init__(self, answer: Answer, output: list[OutputItem], event: WriteEvent) -> None:
        self._answer = answer
        self._output = output
        self._event = event
        self._open: _Open | None = None

    def keep(self) -> None:
        """Put the text so far into its item."""
        if self._open is not None:
            self._open.item.content[0].text = "".join(self._open.pieces)

    def more(self, key: int, text: str) -> list[bytes]:
        """Return the frames of more reasoning beside a message."""
        frames: list[bytes] = []
        if self._open is None:
            run_id, after = self._answer
            item_id = f"rs_{run_id}_{after}_{len(self._output)}_{key}"
            item = Reasoning(id=item_id, status="in_progress", content=[])
            self._output.append(item)
            self._open = _Open(item, len(self._output) - 1)
            frames.append(self._event("response.output_item.added", output_index=self._open.index, item=item))
            item.content.append(ReasoningText())
            frames.append(self._of(self._open, "response.content_part.added", part=item.content[0]))
        self._open.pieces.append(text)
        return [*frames, self._of(self._open, "response.reasoning_text.delta", delta=text)]

    def end(self, status: ItemStatus) -> list[bytes]:
        """Return the frames that end what is under way, if something is."""
        if self._open is None:
            return []
        self.keep()
        ended, self._open = self._open, None
        item, part = ended.item, ended.item.content[0]
        item.status = status
        return [
            self._of(ended, "response.reasoning_text.done", text=part.text),
            self._of(ended, "response.content_part.done", part=part),
            self._event("response.output_item.done", output_index=ended.index, item=item),
        ]

    def _of(self, reasoning: _Open, name: str, **fields: Any) -> bytes:
        index, item_id = reasoning.index, reasoning.item.id
        return self._event(name, item_id=item_id, output_index=index, content_index=0, **fields)
