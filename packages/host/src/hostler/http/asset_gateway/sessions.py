"""Sessions of the asset gateway, and their calls in progress."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hostler.calls.run_tokens import AssetRefusedError, RunAccess
from hostler.http.asset_gateway.limits import MAX_CALLS, MAX_SESSIONS, SESSION_ID_BYTES
from hostler.http.mcp.messages import RequestId
from hostler_protocol.calls import CallParams
from hostler_protocol.errors import CancelledCallError, HostlerError, NotFoundError, RateLimitedError
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id


@dataclass(eq=False, slots=True)
class ExternalCall:
    """One call made through the run's own calls. Implements `calls.in_progress.ExternalCaller`."""

    access: RunAccess
    call_id: str = field(default_factory=lambda: f"external-{new_id()}")
    outcome: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def may_wait(self) -> bool:
        """Whether the call may wait for people."""
        return self.access.may_wait

    def begin(self, method: str, params: CallParams) -> None:
        """Start the call."""
        self.access.begin(self.call_id, method, params, self)

    def reply(self, call_id: MessageId, result: Any) -> None:
        """Set the result of the call."""
        if not self.outcome.done():
            self.outcome.set_result(result)

    def refuse(self, call_id: MessageId, error: HostlerError) -> None:
        """Set the error of the call."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    async def stream(self, call_id: MessageId, chunk: Any) -> bool:
        """Refuse a chunk: no call that is offered here streams its result."""
        return False

    def give_up(self) -> None:
        """Cancel the call for the client. A tool call that has started still runs to its end."""
        self.access.calls.give_up(self.call_id, goes_on=True)
        self.refuse(self.call_id, CancelledCallError("the call was cancelled"))


@dataclass(eq=False, slots=True)
class McpSession:
    """A session that a client opened with `initialize`. `calls`: those in progress, by request id."""

    access: RunAccess
    session_id: str = field(default_factory=lambda: secrets.token_urlsafe(SESSION_ID_BYTES))
    calls: dict[RequestId, ExternalCall] = field(default_factory=dict)


class Sessions:
    """All sessions of this server. Each belongs to one token and ends with it."""

    def __init__(self) -> None:
        self._sessions: dict[str, McpSession] = {}
        self._calls: Counter[str] = Counter()

    def begin(self, access: RunAccess) -> McpSession:
        """Open a session; over MAX_SESSIONS end the longest idle one. RateLimitedError if none is idle."""
        self._sessions = {
            id_: session for id_, session in self._sessions.items() if not session.access.has_ended
        }
        own = [session for session in self._sessions.values() if session.access is access]
        if len(own) >= MAX_SESSIONS:
            idle = next((session for session in own if not session.calls), None)
            if idle is None:
                raise RateLimitedError(f"this run token has {MAX_SESSIONS} sessions, and all are busy", 1.0)
            self.end(idle)
        session = McpSession(access)
        self._sessions[session.session_id] = session
        return session

    def find(self, access: RunAccess, session_id: str) -> McpSession:
        """Return a session. NotFoundError; AssetRefusedError if it belongs to another token."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFoundError("there is no such session, or it has ended: open another with initialize")
        if session.access is not access:
            raise AssetRefusedError("foreign", session.access.run_id, session.access.workspace_id)
        self._sessions[session_id] = self._sessions.pop(session_id)  # keeps the order of last use
        return session

    def end(self, session: McpSession) -> None:
        """End a session and cancel its calls."""
        self._sessions.pop(session.session_id, None)
        for call in list(session.calls.values()):
            call.give_up()

    def enter(self, access: RunAccess) -> None:
        """Count a call that starts; `leave` has to follow. RateLimitedError over MAX_CALLS per token."""
        if self._calls[access.digest] >= MAX_CALLS:
            raise RateLimitedError(
                f"this run token has {MAX_CALLS} calls in progress, the most it may have", 1.0
            )
        self._calls[access.digest] += 1

    def leave(self, access: RunAccess) -> None:
        """Count a call that has ended."""
        self._calls[access.digest] -= 1
        if not self._calls[access.digest]:
            del self._calls[access.digest]

    @property
    def count(self) -> int:
        """The number of open sessions."""
        return len(self._sessions)
