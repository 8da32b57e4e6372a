"""Stored secrets: their names and bounds, whose they are, and which entries refer to them.

`secret://NAME` stands for a secret of the installation in an entry of the configuration, and for one of the
agent's workspace in an agent. So nobody reaches the installation's secrets by an agent, or those of another
workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.secret_refs import STORED, stored_name

SecretOwner = Literal["workspace", "installation"]
MAX_SECRETS = 1_000
"""Secrets of one owner."""
MAX_SECRET_BYTES = 32 * 1024
"""The size of a value in UTF-8: keys and certificates have a few thousand bytes."""
MAX_PLACES = 20
"""Places shown that refer to one secret."""


def value_mistake(value: str) -> str | None:
    """Return the mistake in a value, without the value, or None."""
    if not value.strip():
        return "the value is empty"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "the value is no text"
    if size > MAX_SECRET_BYTES:
        return f"the value has {size:,} bytes; at most {MAX_SECRET_BYTES:,} are possible"
    return None


def reference_to(name: str) -> str:
    """Return the reference to a stored secret."""
    return STORED + name


def places_of(kind: str, name: str, entry: Any) -> Iterator[tuple[str, str]]:
    """Yield the references to stored secrets in an entry: the name of the secret, and the place."""
    label = f"{kind} {name}"
    if isinstance(entry, AgentSpec):
        for field, value in entry.config.items():
            if (found := stored_name(value)) is not None:
                yield found, f"{label}: config.{field}"
        return
    yield from _within(msgspec.to_builtins(entry), label, "")


def by_name(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the places by the name of the secret."""
    places: dict[str, list[str]] = {}
    for name, place in found:
        places.setdefault(name, []).append(place)
    return places


def _within(value: Any, label: str, place: str) -> Iterator[tuple[str, str]]:
    if (found := stored_name(value)) is not None:
        yield found, f"{label}: {place}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _within(inner, label, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _within(inner, label, f"{place}[{number}]")
