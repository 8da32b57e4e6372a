"""Run tokens: what lets a service outside reach the run that it works for, and nothing else.

A runner whose configuration says `assets-enabled: true` is given, with each attempt, the address of this
host's MCP server and a token for it. The token stands for that attempt: calls made with it go through the
attempt's own calls, and it ends with it. It is held here by digest, in memory; no journal and no log has it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec

from hostler.calls.in_progress import Guest
from hostler.domain.grants import Grant
from hostler_protocol.calls import CallParams
from hostler_protocol.errors import CancelledCallError, UnauthorizedError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId

TOKEN_SECONDS = 3600.0
"""A token lives so long at most; less where the run's deadline comes first."""
TOKEN_BYTES = 32
MAX_ENDED = 10_000
"""Tokens that are remembered after their end, so that their refusal can say whose they were."""
CONFIG_ITEM = "assets-enabled"
"""The item of a runner's form that asks for a token."""
CONTEXT_KEY = "assets"
"""Where in `ctx.runtime.metadata` the runner finds it."""

Reason = Literal["wrong", "expired", "ended", "foreign"]
_SENTENCES: dict[Reason, str] = {
    "wrong": "this is no run token that this host gave out",
    "expired": "this run token has expired",
    "ended": "the attempt of the run that this token was for is over",
    "foreign": "this session belongs to another run token",
}


class AssetRefusedError(UnauthorizedError):
    """A run token that opens nothing. `run_id`, `workspace_id`: whose it was, where that is known."""

    def __init__(self, reason: Reason, run_id: str | None = None, workspace_id: str | None = None) -> None:
        self.reason, self.run_id, self.workspace_id = reason, run_id, workspace_id
        super().__init__(_SENTENCES[reason], reason=reason)


class GuestCalls(Protocol):
    """The calls of an attempt: `executor.CallExecutor` is one."""

    def begin(self, call_id: MessageId, method: str, params: CallParams, guest: Guest | None = None) -> None:
        """Take a call of a guest: through the same gate and ledger as the runner's own."""
        ...

    def give_up(self, call_id: MessageId, *, goes_on: bool) -> None:
        """Nobody waits for it any more."""
        ...


@dataclass(eq=False, slots=True)
class RunDoor:
    """One attempt of a run, as it is reached with its token. `has_ended`: nothing is taken any more."""

    run_id: str
    grant: Grant
    calls: GuestCalls
    expires_at: float
    digest: str
    may_wait: bool
    """Whether its calls may wait for people."""
    has_ended: bool = False
    _guests: dict[MessageId, Guest] = field(default_factory=dict)

    @property
    def workspace_id(self) -> str:
        """The run's."""
        return self.grant.workspace_id

    def begin(self, call_id: MessageId, method: str, params: CallParams, guest: Guest) -> None:
        """Make a call; tell `over` when the guest was told what came of it."""
        self._guests[call_id] = guest
        self.calls.begin(call_id, method, params, guest)

    def over(self, call_id: MessageId) -> None:
        """A call was answered."""
        self._guests.pop(call_id, None)

    def end(self) -> None:
        """The attempt is over: who still waits for an answer is told so."""
        self.has_ended = True
        error = CancelledCallError("the attempt of the run is over, and its token with it")
        for call_id, guest in list(self._guests.items()):
            guest.refuse(call_id, error)


class RunDoors:
    """The run tokens of one host. `url`: of its MCP server; None while it serves no HTTP."""

    def __init__(self, url: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self.url = url
        self._clock = clock
        self._open: dict[str, RunDoor] = {}
        self._by_attempt: dict[tuple[str, int], RunDoor] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def open(
        self, context: AgentRunContext, grant: Grant, calls: GuestCalls, *, may_wait: bool
    ) -> AgentRunContext:
        """The context that the runner gets: with a token, where its configuration asks for one."""
        if self.url is None or context.config.get(CONFIG_ITEM) is not True:
            return context
        token = f"hostler_run_{secrets.token_urlsafe(TOKEN_BYTES)}"
        expires_at = self._clock() + TOKEN_SECONDS
        if context.runtime.deadline_at is not None:
            expires_at = min(expires_at, context.runtime.deadline_at)
        door = RunDoor(context.run_id, grant, calls, expires_at, _digest(token), may_wait)
        self._open[door.digest] = self._by_attempt[context.run_id, context.attempt] = door
        lent = {"url": self.url, "token": token, "expires_at": expires_at}
        metadata = context.runtime.metadata | {CONTEXT_KEY: lent}
        runtime = msgspec.structs.replace(context.runtime, metadata=metadata)
        return msgspec.structs.replace(context, runtime=runtime)

    def close(self, run_id: str, attempt: int) -> None:
        """The attempt is over, and its token with it."""
        door = self._by_attempt.pop((run_id, attempt), None)
        if door is None:
            return
        del self._open[door.digest]
        self._ended[door.digest] = (door.run_id, door.workspace_id)
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        door.end()

    def find(self, token: str) -> RunDoor:
        """The attempt that a token stands for. AssetRefusedError.

        Tokens are looked up by their digest, which tells nothing of a token that is nearly right.
        """
        digest = _digest(token)
        door = self._open.get(digest)
        if door is None:
            if (ended := self._ended.get(digest)) is not None:
                raise AssetRefusedError("ended", *ended)
            raise AssetRefusedError("wrong")
        if self._clock() >= door.expires_at:
            raise AssetRefusedError("expired", door.run_id, door.workspace_id)
        return door


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
