"""The addresses of resources: `hostler://artifacts/ID`, `hostler://conversations/ID`, `hostler://runs/ID`."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import quote, unquote

Kind = Literal["artifacts", "conversations", "runs"]
SCHEME = "hostler://"


class ResourceUri(NamedTuple):
    """What an address names."""

    kind: Kind
    name: str


def uri_of(kind: Kind, name: str) -> str:
    """Return the address of a resource."""
    return f"{SCHEME}{kind}/{quote(name, safe='')}"


def artifact_uri(artifact_id: str) -> str:
    """Return the address of an artifact."""
    return uri_of("artifacts", artifact_id)


def read_uri(text: str) -> ResourceUri | None:
    """Return what an address names, None for any other text."""
    kind, slash, raw = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash or kind not in get_args(Kind) or not raw or "/" in raw:
        return None
    try:
        name = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in name else ResourceUri(cast("Kind", kind), name)
