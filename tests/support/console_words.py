"""Journeys through the console in another language: their English texts are looked for in that language."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import pytest

from hostler.console.files import FOLDER

Test = TypeVar("Test", bound=Callable[..., Any])
LEAST_OF_PART = 8
LEAST_LETTERS = 2
"""A text that is hardly more than its fields is not recognised: everything would be it."""
_spoken = ["en"]


def in_languages(*languages: str) -> Callable[[Test], Test]:
    """A decorator of journeys: they are made once in each language."""

    def decorate(test: Test) -> Test:
        chosen = pytest.mark.parametrize("language", languages, indirect=True)
        marked: Test = pytest.mark.usefixtures("language")(chosen(test))  # before those that open a page
        return marked

    return decorate


@contextlib.contextmanager
def speaking(language: str) -> Iterator[None]:
    """Pages that are opened meanwhile are in a language, and `candidates` are of it."""
    _spoken.append(language)
    try:
        yield
    finally:
        _spoken.pop()


def spoken() -> str:
    """The language of pages that are opened now."""
    return _spoken[-1]


def candidates(said: str) -> list[str]:
    """What the console says for an English text of its own, or a part of one; the text itself if it is none.

    One English text can be more than one in another language, by where it stands. A part of a text becomes
    the longest piece between its fields; a name behind a colon stays.
    """
    if spoken() == "en":
        return [said]
    matches = [(key, match) for key, pattern in _patterns() if (match := pattern.fullmatch(said)) is not None]
    most = max((_letters(_texts("en")[key]) for key, _ in matches), default=0)
    found = [_filled(key, match) for key, match in matches if _letters(_texts("en")[key]) == most]
    if len(said) >= LEAST_OF_PART and _letters(said) > most:
        whole = [key for key, text in _texts("en").items() if said in text]
        found = [max(re.split(r"\{\w+\}", _text(key)), key=len) for key in whole] or found
    if not found and ": " in said:
        label, _, name = said.partition(": ")
        found = [f"{one}: {name}" for one in candidates(label)]
    return list(dict.fromkeys(found)) or [said]


def _filled(key: str, match: re.Match[str]) -> str:
    fields = {name: candidates(value)[0] for name, value in match.groupdict().items()}
    return re.sub(r"\{(\w+)\}", lambda found: fields.get(found[1], found[0]), _text(key))


def _letters(text: str) -> int:
    """How much of a text is its own: of two that match, the one with more is meant."""
    return len(re.findall(r"[A-Za-z]", re.sub(r"\{\w+\}", "", text)))


def _text(key: str) -> str:
    """Chinese has one form for all numbers."""
    return _texts(spoken())[re.sub(r"\.one$", ".other", key)]


@cache
def _texts(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((FOLDER / "locales" / f"{language}.json").read_text("utf-8"))
    return found


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(key, pattern) for key, text in _texts("en").items() if (pattern := _pattern(text)) is not None]


def _pattern(text: str) -> re.Pattern[str] | None:
    """A pattern for a text with its fields; None if nothing but fields would be left."""
    if _letters(text) < LEAST_LETTERS:
        return None
    parts, known = [], set[str]()
    for part in re.split(r"(\{\w+\})", text):
        name = part[1:-1]
        if not re.fullmatch(r"\{\w+\}", part):
            parts.append(re.escape(part))
        elif name in known:
            parts.append(f"(?P={name})")
        else:
            known.add(name)
            parts.append(f"(?P<{name}>.+?)")
    return re.compile("".join(parts), re.DOTALL)


def first_language(language: str) -> str:
    """A script for each page: the reader has chosen a language, unless another one was chosen since."""
    key = "'hostler-language'"
    return f"if (origin !== 'null') localStorage[{key}] ??= {json.dumps(language)};"
