"""Mistakes in a configuration: where they are, what is wrong, and whether they are errors or warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

MAX_MISTAKES = 1_000
"""Mistakes collected from one document; a person fixes some of them before trying again."""

MAX_SHOWN = 10
"""Mistakes listed in an error's message; its details have all of them."""

Severity = Literal["error", "warning"]
"""An error is refused. A warning is accepted and reported; it may turn out to be no problem."""


def name_mistake(name: str, max_chars: int) -> str | None:
    """Return the mistake in the name of an entry, or None. A name must fit into a URL's path."""
    if name in {".", ".."}:
        return f"{name!r} is not a name: in a URL it means another place"
    if not name.strip() or len(name) > max_chars or "\x00" in name:
        return f"a name has 1 to {max_chars:,} characters and no NUL"
    return None


class Mistake(NamedTuple):
    """`place`: the path of keys, "" for the whole document. `text`: the mistake and what is expected."""

    place: str
    text: str
    severity: Severity = "error"

    @property
    def sentence(self) -> str:
        """Place and text as one sentence."""
        return f"{self.place}: {self.text}" if self.place else self.text

    def within(self, place: str) -> Mistake:
        """Return the mistake with its place prefixed by `place`."""
        inner = self.place if self.place.startswith("[") or not self.place else f".{self.place}"
        return self._replace(place=(place + inner).removeprefix("."))

    def as_warning(self) -> Mistake:
        """Return the mistake as a warning."""
        return self._replace(severity="warning")


def key_place(place: str, key: Any) -> str:
    """Return the place of a key within another place: `config.model`, `tool_approval["shop.book"]`."""
    text = str(key)
    if not text.replace("_", "a").replace("-", "a").isalnum():
        return f"{place}[{msgspec.json.encode(text).decode()}]"
    return f"{place}.{text}" if place else text


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` or `; known are x, y`; "" if `known` is empty."""
    words = list(known)
    return f"; {did_you_mean(word, words)}" if words else ""


class ConfigurationError(InvalidArgumentError):
    """A configuration has mistakes; none of it was applied.

    `details["errors"]` is a list of {field, expected, at, line?}: `field` is the path of keys, `at` the same
    path with the name of its entry, for people, `line` the line in the file, from 1. `details["warnings"]`
    has the same form.
    """

    def __init__(
        self,
        mistakes: Sequence[Mistake],
        *,
        names: Mapping[str, str] | None = None,
        source: str = "",
        lines: Mapping[str, int] | None = None,
    ) -> None:
        details = [(_detail(mistake, names or {}, lines or {}), mistake.severity) for mistake in mistakes]
        details.sort(key=lambda pair: pair[0].get("line", 0))
        errors = [detail for detail, severity in details if severity == "error"]
        warnings = [detail for detail, severity in details if severity == "warning"]
        self.source = source
        """The file's name; "" if the configuration is not from a file."""
        sentences = [f"{one['at']}: {one['expected']}" if one["at"] else one["expected"] for one in errors]
        more = f" (and {len(sentences) - MAX_SHOWN} more)" if len(sentences) > MAX_SHOWN else ""
        message = "; ".join(sentences[:MAX_SHOWN]) + more
        if len(sentences) > 1:
            message = f"{len(sentences)} mistakes: {message}"
        if source:
            message = f"{source}: {message}"
        super().__init__(message, errors=errors, **({"warnings": warnings} if warnings else {}))


_ENTRY = re.compile(r"\w+\[\d+\]")


def _detail(mistake: Mistake, names: Mapping[str, str], lines: Mapping[str, int]) -> dict[str, Any]:
    """Return the mistake as JSON for `details`; `names` maps places of entries to their names."""
    detail: dict[str, Any] = {
        "field": mistake.place,
        "expected": mistake.text,
        "at": named_place(mistake.place, names),
    }
    line = _line(mistake.place, lines)
    return detail if line is None else {**detail, "line": line}


def named_place(place: str, names: Mapping[str, str]) -> str:
    """Return a place with the name of its entry: `agents[2] "support": config.model`."""
    match = _ENTRY.match(place)
    if match is None:
        return place
    name = names.get(match[0])
    at = match[0] if name is None else f"{match[0]} {msgspec.json.encode(name).decode()}"
    rest = place[match.end() :].removeprefix(".")
    return f"{at}: {rest}" if rest else at


def _line(place: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of a place, or of the nearest enclosing place that has one."""
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return lines.get(place)
