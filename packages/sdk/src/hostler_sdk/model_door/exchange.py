"""Requests and answers of the door, whatever carries them: a socket, or memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

import msgspec

from hostler_sdk.model_door.problems import DoorError, anthropic_fields
from hostler_sdk.model_door.reading import Json

JSON_TYPE = ("content-type", "application/json")
STREAM_TYPE = ("content-type", "text/event-stream; charset=utf-8")


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """A request. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_anthropic(self) -> bool:
        """Whether its client knows Anthropic's interface: only such clients name a version of it."""
        return "anthropic-version" in self.headers or self.path.startswith("/v1/messages")


@dataclass(slots=True)
class DoorAnswer:
    """An answer: a body, or the pieces of a stream, which its reader closes."""

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    pieces: AsyncGenerator[bytes] | None = None

    async def close(self) -> None:
        """Give up what was not read; the host call behind it ends."""
        if self.pieces is not None:
            await self.pieces.aclose()


def json_answer(value: Json) -> DoorAnswer:
    """Return an answer with an object."""
    return DoorAnswer(headers=[JSON_TYPE], body=msgspec.json.encode(value))


def error_answer(error: DoorError, request: DoorRequest | None = None) -> DoorAnswer:
    """Return the answer of a refused request, in the form that its client knows."""
    if request is not None and request.is_anthropic:
        body = msgspec.json.encode(anthropic_fields(error))
        return DoorAnswer(error.status, [JSON_TYPE, *error.headers], body)
    return DoorAnswer(error.status, [JSON_TYPE, *error.headers], error.body)
