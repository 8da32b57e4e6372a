"""The interface through which the groups of this package make their calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec


class StreamingAnswer(Protocol):
    """A streaming call. Iterate over its undecoded pieces; then read `reply`."""

    reply: Any
    """The complete answer, once the iteration has ended."""

    def __aiter__(self) -> AsyncIterator[msgspec.Raw]: ...


class HostCalls(Protocol):
    """Makes calls to the host, in the name of one run."""

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Make a call and return its decoded reply. Raises HostError if the host refuses it."""
        ...

    def stream(self, method: str, params: dict[str, Any]) -> AbstractAsyncContextManager[StreamingAnswer]:
        """Make a streaming call. Leaving the block early cancels it."""
        ...


def stated(**params: Any) -> dict[str, Any]:
    """Return the parameters that are not None, so that the host's defaults apply to the others."""
    return {name: value for name, value in params.items() if value is not None}


class Group:
    """Base class of a group of calls."""

    __slots__ = ("_host",)

    def __init__(self, host: HostCalls) -> None:
        self._host = host
