"""What is wrong in a configuration: where, how, and whether it can be accepted all the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

MAX_MISTAKES = 1_000
"""Mistakes that are collected of one document; a person mends some of them before the next try."""

MAX_SHOWN = 10
"""Mistakes that the message of one error names; its details hold all."""

Severity = Literal["error", "warning"]
"""An error is refused. A warning is accepted and told: it may be right once more is known."""


def name_mistake(name: str, max_chars: int) -> str | None:
    """Return what is wrong with the name of an entry, or None. It has to fit into a URL's path."""
    if name in {".", ".."}:
        return f"{name!r} is not a name: in a URL it stands for another place"
    if not name.strip() or len(name) > max_chars or "\x00" in name:
        return f"a name has 1 to {max_chars:,} characters and no NUL"
    return None


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

    `details["errors"]` is a list of {field, expected, at, line?}: `field` is the path of keys, `at` the same
    with the name of its entry, for people, `line` where it stands in the file, from 1. `details["warnings"]`
    has the same form: what would be accepted.
    """

    def __init__(
        self,
        mistakes: Sequence[Mistake],
        *,
        names: Mapping[str, str] | None = None,
        source: str = "",
        lines: Mapping[str, int] | None = None,
    ) -> None:
        told = [(_told(mistake, names or {}, lines or {}), mistake.severity) for mistake in mistakes]
        told.sort(key=lambda one: one[0].get("line", 0))
        errors = [one for one, severity in told if severity == "error"]
        warnings = [one for one, severity in told if severity == "warning"]
        self.source = source
        """The file, "" where it is none."""
        sentences = [f"{one['at']}: {one['expected']}" if one["at"] else one["expected"] for one in errors]
        more = f" (and {len(sentences) - MAX_SHOWN} more)" if len(sentences) > MAX_SHOWN else ""
        message = "; ".join(sentences[:MAX_SHOWN]) + more
        if len(sentences) > 1:
            message = f"{len(sentences)} mistakes: {message}"
        if source:
            message = f"{source}: {message}"
        super().__init__(message, errors=errors, **({"warnings": warnings} if warnings else {}))


_ENTRY = re.compile(r"\w+\[\d+\]")


def _told(mistake: Mistake, names: Mapping[str, str], lines: Mapping[str, int]) -> dict[str, Any]:
    """The mistake as it is sent; `names` are those of entries, by the places of these."""
    told: dict[str, Any] = {
        "field": mistake.place,
        "expected": mistake.text,
        "at": named_place(mistake.place, names),
    }
    line = _line(mistake.place, lines)
    return told if line is None else {**told, "line": line}


def named_place(place: str, names: Mapping[str, str]) -> str:
    """A place with the name of its entry: `agents[2] "support": config.model`."""
    match = _ENTRY.match(place)
    if match is None:
        return place
    name = names.get(match[0])
    at = match[0] if name is None else f"{match[0]} {msgspec.json.encode(name).decode()}"
    rest = place[match.end() :].removeprefix(".")
    return f"{at}: {rest}" if rest else at


def _line(place: str, lines: Mapping[str, int]) -> int | None:
    """The line of a place, or of the nearest thing around it that has one."""
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return lines.get(place)


__all__ = [
    "MAX_MISTAKES",
    "MAX_SHOWN",
    "ConfigurationError",
    "Mistake",
    "Severity",
    "key_place",
    "nearest",
]
