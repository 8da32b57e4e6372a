"""Leaves out `<think>...</think>` of a text that comes in pieces, wherever the pieces are cut. Pure."""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"


class ThinkFilter:
    """Feed it pieces; it gives what may be shown.

    A tag that is not complete yet is held back, at most seven characters. A part that is never closed is left
    out to the end, and so is blank space before the first word.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._begun = False

    def feed(self, piece: str) -> str:
        """What this piece adds."""
        self._held += piece
        shown: list[str] = []
        while (split := self._held.partition(self._awaited))[1]:
            before, _, self._held = split
            if not self._thinking:
                shown.append(before)
            self._thinking = not self._thinking
        ready = len(self._held) - _beginning_of(self._awaited, self._held)
        if not self._thinking:
            shown.append(self._held[:ready])
        self._held = self._held[ready:]
        return self._show("".join(shown))

    def finish(self) -> str:
        """What is left at the end: the beginning of a tag that never became one."""
        left, self._held = self._held, ""
        return "" if self._thinking else self._show(left)

    @property
    def _awaited(self) -> str:
        return CLOSE if self._thinking else OPEN

    def _show(self, text: str) -> str:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        return text


class KeepAll:
    """The same interface for a text that is shown as it is, once there is a word in it."""

    def __init__(self) -> None:
        self._blank: list[str] = []
        self._begun = False

    def feed(self, piece: str) -> str:
        """What this piece adds: itself, and the blank space before the first word."""
        if self._begun:
            return piece
        self._blank.append(piece)
        if not piece.strip():
            return ""
        self._begun = True
        return "".join(self._blank)

    def finish(self) -> str:
        """Nothing that is worth showing is held back."""
        return ""


def _beginning_of(tag: str, text: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
