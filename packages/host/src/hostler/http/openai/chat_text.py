"""The messages of a run as the text of one message: one after the other, whole, with blank lines between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hostler.domain.run_events import MessageEnded, MessageStarted, TextAdded

BETWEEN = "\n\n"
"""Between two messages of one answer."""


class Said(NamedTuple):
    """More text of a message."""

    key: int
    text: str


class Withdrawn(NamedTuple):
    """A message ended as incomplete."""

    key: int


@dataclass(slots=True)
class _Open:
    """A message under way. `held`: what it says while another has its turn."""

    key: int
    held: str = ""
    ended: bool = False
    incomplete: bool = False


@dataclass(slots=True)
class Turns:
    """Gives each message its turn: one that begins while another is under way is held back until its end."""

    _open: list[_Open] = field(default_factory=list)
    """In order of their beginning; the first has its turn."""

    def take(self, event: MessageStarted | TextAdded | MessageEnded) -> Iterator[Said | Withdrawn]:
        """Yield what can be said now."""
        match event:
            case MessageStarted(key=key):
                self._open.append(_Open(key))
            case TextAdded(key=key, text=text):
                if self._open[0].key == key:
                    yield Said(key, text)
                else:
                    self._find(key).held += text
            case MessageEnded(key=key, incomplete=incomplete):
                message = self._find(key)
                message.ended, message.incomplete = True, incomplete
                yield from self._next()

    def rest(self) -> Iterator[Said | Withdrawn]:
        """Yield what is held back, because the answer ends while its messages do not."""
        while self._open:
            self._open[0].ended = True
            yield from self._next()

    def _find(self, key: int) -> _Open:
        return next(message for message in self._open if message.key == key)

    def _next(self) -> Iterator[Said | Withdrawn]:
        while self._open and self._open[0].ended:
            message = self._open.pop(0)
            if message.incomplete:
                yield Withdrawn(message.key)
            if self._open and self._open[0].held:
                yield Said(self._open[0].key, self._open[0].held)
                self._open[0].held = ""
