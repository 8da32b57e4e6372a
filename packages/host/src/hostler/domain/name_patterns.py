"""Patterns of names. The only wildcard is `*`; every other character matches itself."""

from __future__ import annotations

from collections.abc import Iterable


def matches(pattern: str, name: str) -> bool:
    """Whether `name` matches; `*` matches any number of characters. Takes linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    # taking the earliest match of each middle part leaves most room for the next
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def may_begin(pattern: str, prefix: str) -> bool:
    """Whether a name that begins with `prefix` could match the pattern."""
    literal = pattern.partition("*")[0]
    return literal.startswith(prefix) or (literal != pattern and prefix.startswith(literal))


def best_match(patterns: Iterable[str], name: str) -> str | None:
    """Return the most specific matching pattern: the name itself, else that with most literal characters."""
    found = [pattern for pattern in patterns if matches(pattern, name)]
    if name in found:
        return name
    return max(found, key=lambda pattern: (len(pattern.replace("*", "")), pattern), default=None)
