"""A call that has no answer yet, and who waits for the answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hostler_protocol.calls import CallParams
from hostler_protocol.errors import HostlerError
from hostler_protocol.frames import MessageId


class Requester(Protocol):
    """Makes calls and receives the answers: the connection of the runner's plugin, or an external caller."""

    def reply(self, call_id: MessageId, result: Any) -> None:
        """Answer a call."""
        ...

    def refuse(self, call_id: MessageId, error: HostlerError) -> None:
        """Refuse a call."""
        ...

    async def stream(self, call_id: MessageId, chunk: Any) -> bool:
        """Send a piece of an answer. Return False if the requester no longer waits for it."""
        ...


class ExternalCaller(Requester, Protocol):
    """Makes calls of a run from outside of its runner."""

    @property
    def may_wait(self) -> bool:
        """Whether its calls may wait for people: not where the run could be parked meanwhile."""
        ...


@dataclass(slots=True, eq=False)
class CallInProgress:
    """One call. `external`: the requester, if that is not the runner."""

    call_id: MessageId
    method: str
    params: CallParams
    requester: Requester
    external: ExternalCaller | None = None
    given_up: Literal["", "goes on", "stops"] = ""
    """Whether the runner gave it up, and goes on without it or is being stopped."""
    task: asyncio.Task[None] | None = None
    """The task that carries it out. A recorded call may be answered without one."""
