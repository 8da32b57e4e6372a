"""What a parser of a service's answer returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hostler_sdk.types import PendingCall, Usage


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Whole:
    """The answer so far, as a whole: it replaces what came before."""

    text: str


@dataclass(frozen=True, slots=True)
class Session:
    """The service's id of the conversation, kept under `external.<name>` for the next message."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Task:
    """The service's id of its work, by which it can be told to stop."""

    id: str


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens of the answer."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ToolStart:
    """The service began to use a tool of its own."""

    id: str
    name: str
    parameters: Any = None


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """A tool of the service is at its end."""

    id: str
    name: str
    result: Any = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class Note:
    """An entry for the run's journal."""

    text: str
    level: Literal["debug", "info", "warning"] = "debug"


@dataclass(frozen=True, slots=True)
class Ask:
    """The service waits for people: the run pauses, and goes on with their decisions and this `state`."""

    calls: tuple[PendingCall, ...]
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The service said that its answer is complete: what follows is not read."""


Item = Text | Whole | Session | Task | Spent | ToolStart | ToolEnd | Note | Ask | Done


class Parser(Protocol):
    """Turns the bytes of an answer into items, wherever they are cut. Raises ServiceFailure."""

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take the next bytes."""
        ...

    def finish(self) -> Iterator[Item]:
        """End the answer."""
        ...
