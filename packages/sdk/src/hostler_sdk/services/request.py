"""A request to a service, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostler_sdk.services.files import InputFile


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` follows the base address; empty: the base address itself.

    The body is `json`, or a multipart form of `fields` and `files`, each file with the name of its field.
    """

    path: str = ""
    json: Any = None
    method: str = "POST"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[tuple[str, InputFile]] = ()
    accepted: tuple[int, ...] = (200,)
    """The statuses of success."""
