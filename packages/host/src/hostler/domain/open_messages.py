"""Messages under way, over attempts that are superseded: what was shown of them, and what comes next."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass(slots=True)
class Thoughts:
    """The reasoning beside a message under way, as `OpenMessage` has its text."""

    pieces: list[str] = field(default_factory=list)
    sequences: array[int] = field(default_factory=lambda: array("q"))
    unrepeated: str = ""

    @property
    def shown(self) -> str:
        """What readers have of it."""
        return "".join(self.pieces) + self.unrepeated

    def add(self, text: str, sequence: int) -> str:
        """Add reasoning; return what is to be shown of it. Another train of thought is shown whole."""
        self.pieces.append(text)
        self.sequences.append(sequence)
        before, self.unrepeated = self.unrepeated, ""
        if before.startswith(text):
            self.unrepeated = before[len(text) :]
            return ""
        return text.removeprefix(before)

    def supersede(self, after: int) -> None:
        """Drop the pieces that came after a sequence; what they showed waits to be repeated."""
        shown = self.shown
        kept = sum(1 for sequence in self.sequences if sequence <= after)
        del self.pieces[kept:], self.sequences[kept:]
        self.unrepeated = shown[len("".join(self.pieces)) :]

    def retract(self) -> bool:
        """Drop what waits to be repeated; return whether something did."""
        retracted, self.unrepeated = bool(self.unrepeated), ""
        return retracted


@dataclass(slots=True)
class OpenMessage:
    """A message under way.

    `pieces`: its raw text so far, with the sequence of each piece's result. `blanks`: the end of that, not
    shown yet. `unrepeated`: what was shown beyond it, by an attempt that was superseded.
    """

    key: int
    message_id: str | None
    pieces: list[str] = field(default_factory=list)
    sequences: array[int] = field(default_factory=lambda: array("q"))
    blanks: str = ""
    unrepeated: str = ""
    thoughts: Thoughts = field(default_factory=Thoughts)
    started: bool = False
    """Whether its MessageStarted was said: reasoning alone begins no message."""

    @property
    def raw(self) -> str:
        """The text of the attempts that count, with blanks at its end."""
        return "".join(self.pieces)

    @property
    def shown(self) -> str:
        """What readers have of it."""
        raw = self.raw
        return raw[: len(raw) - len(self.blanks)] + self.unrepeated

    def add(self, text: str, sequence: int) -> str | None:
        """Add raw text; return what is to be shown of it, None if it differs from what was shown."""
        self.pieces.append(text)
        self.sequences.append(sequence)
        if self.unrepeated:
            if self.unrepeated.startswith(text):
                self.unrepeated = self.unrepeated[len(text) :]
                return ""
            if not text.startswith(self.unrepeated):
                return None
            text, self.unrepeated = text[len(self.unrepeated) :], ""
        text = self.blanks + text
        shown = text.rstrip()
        self.blanks = text[len(shown) :]
        return shown

    def supersede(self, after: int) -> None:
        """Drop the pieces that came after a sequence; what they showed waits to be repeated."""
        shown = self.shown
        kept = sum(1 for sequence in self.sequences if sequence <= after)
        del self.pieces[kept:], self.sequences[kept:]
        raw = self.raw
        self.unrepeated = shown[len(raw) :]
        self.blanks = raw[len(shown) :]

    def retract(self) -> bool:
        """Drop what waits to be repeated; return whether something did."""
        retracted, self.unrepeated = bool(self.unrepeated), ""
        return retracted
