"""Differences between two JSON values, by path; those of longer texts as a unified diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import Any, Final

import msgspec

from hostler.domain.record import Record
from hostler_protocol.ids import canonical_json

MAX_DIFFERENCES = 50
"""Differences that are shown; further ones are only mentioned."""
MAX_ALIGNED_ITEMS = 2_000
"""Longer lists are compared item by item, without aligning inserted or removed items."""
MAX_TEXT_LINES = 40
"""Lines of one text's diff."""
MAX_LINE_CHARS = 400
MAX_VALUE_CHARS = 160
_CONTEXT_CHARS = 60
_INDEX = re.compile(r"\[\d+\]")
_SHORT_TEXT_CHARS = 60
"""Texts up to this length are shown on one line; longer ones as a diff."""


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = _Absent.ABSENT
"""Marks a value that one side does not have."""


class Difference(Record):
    """One difference. `path` is like `messages[0].content`; "" is the whole value."""

    path: str
    recorded: Any
    replayed: Any


def differences(recorded: Any, replayed: Any, limit: int = MAX_DIFFERENCES) -> list[Difference]:
    """Return at most `limit` differences between two JSON values, in the order of the recorded one."""
    return list(islice(_walk("", recorded, replayed), limit))


def describe(found: Sequence[Difference]) -> list[str]:
    """Describe differences in lines; equal differences give equal lines."""
    lines = [line for one in found[:MAX_DIFFERENCES] for line in _describe(one)]
    if len(found) >= MAX_DIFFERENCES:
        lines.append("... and perhaps more")
    return lines


def parts(found: Sequence[Difference], depth: int = 1) -> list[str]:
    """Return the outer names that differ, each once: `messages` for `messages[0].content`."""
    names = (".".join(_INDEX.sub("", one.path).split(".")[:depth]) for one in found)
    return list(dict.fromkeys(name for name in names if name))


def _walk(path: str, recorded: Any, replayed: Any) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for name in dict.fromkeys([*recorded, *replayed]):
            below = f"{path}.{name}" if path else str(name)
            yield from _walk(below, recorded.get(name, ABSENT), replayed.get(name, ABSENT))
    elif isinstance(recorded, list) and isinstance(replayed, list):
        yield from _walk_lists(path, recorded, replayed)
    elif not _same(recorded, replayed):
        yield Difference(path, recorded, replayed)


def _same(recorded: Any, replayed: Any) -> bool:
    if isinstance(recorded, bool) is not isinstance(replayed, bool):
        return False  # 1 == True in Python, and not in JSON
    return bool(recorded == replayed)


def _walk_lists(path: str, recorded: list[Any], replayed: list[Any]) -> Iterator[Difference]:
    """Align equal items, so that inserted and removed items do not shift the rest."""
    if len(recorded) == len(replayed) or max(len(recorded), len(replayed)) > MAX_ALIGNED_ITEMS:
        yield from _walk_pairs(path, 0, 0, recorded, replayed)
        return
    matcher = difflib.SequenceMatcher(
        None, [canonical_json(item) for item in recorded], [canonical_json(i) for i in replayed], False
    )
    for tag, first, last, begin, end in matcher.get_opcodes():
        if tag != "equal":
            yield from _walk_pairs(path, first, begin, recorded[first:last], replayed[begin:end])


def _walk_pairs(
    path: str, first: int, begin: int, recorded: list[Any], replayed: list[Any]
) -> Iterator[Difference]:
    common = min(len(recorded), len(replayed))
    for index in range(common):
        yield from _walk(f"{path}[{first + index}]", recorded[index], replayed[index])
    for index in range(common, len(recorded)):
        yield Difference(f"{path}[{first + index}]", recorded[index], ABSENT)
    for index in range(common, len(replayed)):
        yield Difference(f"{path}[{begin + index}]", ABSENT, replayed[index])


def _describe(one: Difference) -> Iterator[str]:
    where = one.path or "the whole"
    if one.recorded is ABSENT:
        yield f"{where}: new: {_shown(one.replayed)}"
    elif one.replayed is ABSENT:
        yield f"{where}: gone: {_shown(one.recorded)}"
    elif isinstance(one.recorded, str) and isinstance(one.replayed, str) and _is_long(one):
        yield f"{where}:"
        yield from _text_diff(one.recorded, one.replayed)
    else:
        yield f"{where}: {_shown(one.recorded)} -> {_shown(one.replayed)}"


def _is_long(one: Difference) -> bool:
    return any(len(text) > _SHORT_TEXT_CHARS or "\n" in text for text in (one.recorded, one.replayed))


def _text_diff(recorded: str, replayed: str) -> Iterator[str]:
    if max(map(len, [*recorded.splitlines(), *replayed.splitlines()]), default=0) > MAX_LINE_CHARS:
        recorded, replayed = _around(recorded, replayed)
    lines = list(
        islice(
            difflib.unified_diff(
                recorded.splitlines(), replayed.splitlines(), "recorded", "replayed", lineterm="", n=2
            ),
            MAX_TEXT_LINES + 1,
        )
    )
    if not lines:  # they differ by line ends alone
        yield f"  {_shown(recorded)} -> {_shown(replayed)}"
        return
    yield from (f"  {_cut(line)}" for line in lines[:MAX_TEXT_LINES])
    if len(lines) > MAX_TEXT_LINES:
        yield "  ..."


def _around(recorded: str, replayed: str) -> tuple[str, str]:
    """Cut both texts to the part around their first and last difference."""
    start = _common(recorded, replayed)
    rest = _common(recorded[start:][::-1], replayed[start:][::-1])
    begin = max(0, start - _CONTEXT_CHARS)
    ends = [len(text) - max(0, rest - _CONTEXT_CHARS) for text in (recorded, replayed)]
    return recorded[begin : ends[0]], replayed[begin : ends[1]]


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]} ... ({len(line):,} characters)"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return (
        text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]} ... ({len(text):,} characters)"
    )
