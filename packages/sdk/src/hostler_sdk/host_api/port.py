"""How Host API calls leave a runner: what the groups of this package stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec


class StreamingAnswer(Protocol):
    """A streaming call in flight: its pieces undecoded, then its reply."""

    reply: Any
    """The whole answer, once the pieces are read to their end."""

    def __aiter__(self) -> AsyncIterator[msgspec.Raw]: ...


class HostCalls(Protocol):
    """How a call reaches the host; parameters are encoded as they are."""

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Make a call and give its decoded reply; a HostError where it is refused."""
        ...

    def stream(self, method: str, params: dict[str, Any]) -> AbstractAsyncContextManager[StreamingAnswer]:
        """Make a streaming call; leaving the block early tells the host that nobody waits."""
        ...


def stated(**params: Any) -> dict[str, Any]:
    """Parameters without those that were not given, so that the host's defaults hold."""
    return {name: value for name, value in params.items() if value is not None}


class Group:
    """Calls that serve one subject."""

    __slots__ = ("_host",)

    def __init__(self, host: HostCalls) -> None:
        self._host = host
