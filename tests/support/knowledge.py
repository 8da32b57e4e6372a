"""What tests of knowledge bases share: an open gate, bytes in chunks, and a text that says whose it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def open_gate() -> AsyncIterator[None]:
    """The gate in front of removals, which nobody keeps closed."""
    yield


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    """The body of a request, in small pieces."""
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


def text_of(number: int) -> str:
    """A document of some forty passages of 200 characters, each of which names the number."""
    return "\n\n".join(f"Paragraph {number} is the one of place {n}. " + "Word. " * 18 for n in range(40))
