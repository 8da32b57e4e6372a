"""Remove `<think>...</think>` from a text that comes in pieces, wherever the pieces are cut. Pure."""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"


class ThinkFilter:
    """Takes pieces, and returns the text to show.

    The beginning of a tag is held back until it is complete, at most seven characters. A part that is never
    closed is removed to the end. Blank space before the first word is removed.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._begun = False

    def feed(self, piece: str) -> str:
        """Take a piece, and return the text to show next."""
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
        """Return the rest to show: the beginning of a tag that was never completed."""
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


class BlankFilter:
    """Like ThinkFilter, but shows the whole text, once it has a word. A blank text is not shown."""

    def __init__(self) -> None:
        self._blank: list[str] = []
        self._begun = False

    def feed(self, piece: str) -> str:
        """Take a piece, and return the text to show next: the piece, and blank space held back before it."""
        if self._begun:
            return piece
        self._blank.append(piece)
        if not piece.strip():
            return ""
        self._begun = True
        return "".join(self._blank)

    def finish(self) -> str:
        """Return the empty text: only blank space was held back."""
        return ""


def _beginning_of(tag: str, text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
