"""What is wrong in a configuration: where, how, and whether it can be accepted all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.nearest import did_you_mean

MAX_MISTAKES = 1_000
"""Mistakes that are collected of one document; a person mends some of them before the next try."""

Severity = Literal["error", "warning"]
"""An error is refused. A warning is accepted and told: it may be right once more is known."""


class Mistake(NamedTuple):
    """`place`: the path of keys to it, "" for the whole. `text`: what is wrong and what would be right."""

    place: str
    text: str
    severity: Severity = "error"

    @property
    def sentence(self) -> str:
        """Place and text."""
        return f"{self.place}: {self.text}" if self.place else self.text

    def within(self, place: str) -> Mistake:
        """The same mistake as seen from outside of `place`."""
        inner = self.place if self.place.startswith("[") or not self.place else f".{self.place}"
        return self._replace(place=(place + inner).removeprefix("."))

    def as_warning(self) -> Mistake:
        """The same, accepted."""
        return self._replace(severity="warning")


def key_place(place: str, key: Any) -> str:
    """The place of a key below another place: `config.model`, `tool_approval["shop.book"]`."""
    text = str(key)
    if not text.replace("_", "a").replace("-", "a").isalnum():
        return f"{place}[{msgspec.json.encode(text).decode()}]"
    return f"{place}.{text}" if place else text


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or `; known are x, y`; nothing where nothing is known."""
    words = list(known)
    return f"; {did_you_mean(word, words)}" if words else ""


__all__ = ["MAX_MISTAKES", "Mistake", "Severity", "key_place", "nearest"]
