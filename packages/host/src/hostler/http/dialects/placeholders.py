"""Placeholders: what the frames of one fold say differently to each of its readers.

A response of JSON-RPC repeats the id of its request in every frame. A fold that writes a placeholder instead
writes the same frames for all readers of a run, so that they share its work; each stream fills in its own.
A placeholder is one byte that no UTF-8 text has, so nothing that a run says is ever taken for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Placeholder:
    """A byte that stands for a value which is another one for each reader."""

    __slots__ = ("mark",)

    def __init__(self, mark: bytes) -> None:
        self.mark = mark


REQUEST_ID: Final = Placeholder(b"\xf8")
PROGRESS_TOKEN: Final = Placeholder(b"\xf9")
EVENT_IDS: Final = Placeholder(b"\xfa")
REQUEST_STATE: Final = Placeholder(b"\xfb")

Filling = tuple[tuple[bytes, bytes], ...]
"""Marks, each with what a reader has in its place."""


def as_json(value: Any) -> Any:
    """Encode a placeholder as its mark, and any other value that JSON does not know as a text."""
    return msgspec.Raw(value.mark) if isinstance(value, Placeholder) else str(value)


def filling_of(values: Mapping[Placeholder, bytes]) -> Filling:
    """Return what one reader has in the place of each mark."""
    return tuple((placeholder.mark, value) for placeholder, value in values.items())


def filled(body: bytes, filling: Filling) -> bytes:
    """Return frames as one reader gets them."""
    for mark, value in filling:
        body = body.replace(mark, value)
    return body
