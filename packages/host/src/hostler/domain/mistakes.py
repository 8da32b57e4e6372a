"""What is wrong in a configuration: where, how, and whether it can be accepted all the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.nearest import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

MAX_MISTAKES = 1_000
"""Mistakes that are collected of one document; a person mends some of them before the next try."""

MAX_TOLD = 10
"""Mistakes that the message of one error names; its details hold all."""

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


class ConfigurationError(InvalidArgumentError):
    """A configuration has mistakes, and nothing of it was taken.

    `details["errors"]` is a list of {field, expected, at}: `field` is the path of keys, `at` the same with
    the name of its entry, for people. `details["warnings"]` has the same form: what would be accepted.
    """

    def __init__(
        self, mistakes: Sequence[Mistake], *, names: Mapping[str, str] | None = None, source: str = ""
    ) -> None:
        told = [(_told(mistake, names or {}), mistake.severity) for mistake in mistakes]
        errors = [one for one, severity in told if severity == "error"]
        warnings = [one for one, severity in told if severity == "warning"]
        self.source = source
        """The file, "" where it is none."""
        lines = [f"{one['at']}: {one['expected']}" if one["at"] else one["expected"] for one in errors]
        more = f" (and {len(lines) - MAX_TOLD} more)" if len(lines) > MAX_TOLD else ""
        message = "; ".join(lines[:MAX_TOLD]) + more
        if len(lines) > 1:
            message = f"{len(lines)} mistakes: {message}"
        if source:
            message = f"{source}: {message}"
        super().__init__(message, errors=errors, **({"warnings": warnings} if warnings else {}))


_ENTRY = re.compile(r"\w+\[\d+\]")


def _told(mistake: Mistake, names: Mapping[str, str]) -> dict[str, str]:
    """The mistake as it is sent; `names` are those of entries, by the places of these."""
    match = _ENTRY.match(mistake.place)
    at = mistake.place
    if match is not None and match[0] in names:
        rest = mistake.place[match.end() :].removeprefix(".")
        at = f"{match[0]} {msgspec.json.encode(names[match[0]]).decode()}"
        at += f": {rest}" if rest else ""
    return {"field": mistake.place, "expected": mistake.text, "at": at}


__all__ = ["MAX_MISTAKES", "ConfigurationError", "Mistake", "Severity", "key_place", "nearest"]
