"""Run tokens: they let an external service reach the run that it works for, and nothing else.

A runner whose configuration says `assets-enabled: true` gets, with each attempt, the address of this host's
MCP server and a token for it. The token is for that attempt alone: calls made with it go through the
attempt's own calls, and it ends with it. It is kept by digest, in memory; no journal and no log has it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from hostler.calls.executor import CallExecutor
from hostler.calls.in_progress import ExternalCaller
from hostler.domain.clock import wall_clock
from hostler.domain.grants import Grant
from hostler_protocol.calls import CallParams
from hostler_protocol.errors import CancelledCallError, UnauthorizedError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId

TOKEN_SECONDS = 3600.0
"""Longest lifetime of a token; shorter if the run's deadline comes first."""
TOKEN_BYTES = 32
TOKEN_PREFIX = "hostler_run_"  # noqa: S105  what all begin with
MAX_ENDED = 10_000
"""Ended tokens that are remembered, so that their refusal can name the run."""
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
    """A run token that is not valid. `run_id`, `workspace_id`: of the run it was for, if known."""

    def __init__(self, reason: Reason, run_id: str | None = None, workspace_id: str | None = None) -> None:
        self.reason, self.run_id, self.workspace_id = reason, run_id, workspace_id
        super().__init__(_SENTENCES[reason], reason=reason)


@dataclass(eq=False, slots=True)
class RunAccess:
    """Access to one attempt with its token. `has_ended`: no call is taken any more."""

    run_id: str
    grant: Grant
    calls: CallExecutor
    expires_at: float
    digest: str
    may_wait: bool
    """Whether its calls may wait for people."""
    has_ended: bool = False
    _external_callers: dict[MessageId, ExternalCaller] = field(default_factory=dict)

    @property
    def workspace_id(self) -> str:
        """The run's workspace."""
        return self.grant.workspace_id

    def begin(self, call_id: MessageId, method: str, params: CallParams, external: ExternalCaller) -> None:
        """Make a call. Call `over` once the caller has its answer."""
        self._external_callers[call_id] = external
        self.calls.begin(call_id, method, params, external)

    def over(self, call_id: MessageId) -> None:
        """Forget a call that was answered."""
        self._external_callers.pop(call_id, None)

    def end(self) -> None:
        """End the access with its attempt, and refuse the calls that wait for an answer."""
        self.has_ended = True
        error = CancelledCallError("the attempt of the run is over, and its token with it")
        for call_id, external in list(self._external_callers.items()):
            external.refuse(call_id, error)


class RunTokens:
    """The run tokens of one host. `url` is that of its MCP server, or None if it serves no HTTP."""

    def __init__(self, url: str | None = None, clock: Callable[[], float] = wall_clock) -> None:
        self.url = url
        self._clock = clock
        self._open: dict[str, RunAccess] = {}
        self._by_attempt: dict[tuple[str, int], RunAccess] = {}
        self._ended: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def open(
        self, context: AgentRunContext, grant: Grant, calls: CallExecutor, *, may_wait: bool
    ) -> AgentRunContext:
        """Return the runner's context, with a token if its configuration asks for one."""
        if self.url is None or context.config.get(CONFIG_ITEM) is not True:
            return context
        token = f"{TOKEN_PREFIX}{secrets.token_urlsafe(TOKEN_BYTES)}"
        expires_at = self._clock() + TOKEN_SECONDS
        if context.runtime.deadline_at is not None:
            expires_at = min(expires_at, context.runtime.deadline_at)
        access = RunAccess(context.run_id, grant, calls, expires_at, _digest(token), may_wait)
        self._open[access.digest] = self._by_attempt[context.run_id, context.attempt] = access
        assets = {"url": self.url, "token": token, "expires_at": expires_at}
        metadata = context.runtime.metadata | {CONTEXT_KEY: assets}
        runtime = msgspec.structs.replace(context.runtime, metadata=metadata)
        return msgspec.structs.replace(context, runtime=runtime)

    def close(self, run_id: str, attempt: int) -> None:
        """End the token of an attempt that is over."""
        access = self._by_attempt.pop((run_id, attempt), None)
        if access is None:
            return
        del self._open[access.digest]
        self._ended[access.digest] = (access.run_id, access.workspace_id)
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        access.end()

    def find(self, token: str) -> RunAccess:
        """Return the access of a token. AssetRefusedError.

        Tokens are looked up by digest, so that the time it takes says nothing about a similar token.
        """
        digest = _digest(token)
        access = self._open.get(digest)
        if access is None:
            if (ended := self._ended.get(digest)) is not None:
                raise AssetRefusedError("ended", *ended)
            raise AssetRefusedError("wrong")
        if self._clock() >= access.expires_at:
            raise AssetRefusedError("expired", access.run_id, access.workspace_id)
        return access


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
