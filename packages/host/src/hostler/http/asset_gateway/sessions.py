"""Sessions of the asset gateway, and the calls that are under way in them."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hostler.calls.run_tokens import AssetRefusedError, RunDoor
from hostler.http.asset_gateway.limits import MAX_CALLS, MAX_SESSIONS, SESSION_ID_BYTES
from hostler.http.asset_gateway.messages import RequestId
from hostler_protocol.calls import CallParams
from hostler_protocol.errors import CancelledCallError, HostlerError, NotFoundError, RateLimitedError
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id


@dataclass(eq=False, slots=True)
class GuestCall:
    """One call on its way through the run's own calls. `calls.run_tokens.Guest`."""

    door: RunDoor
    call_id: str = field(default_factory=lambda: f"guest-{new_id()}")
    outcome: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def may_wait(self) -> bool:
        """Whether it may wait for people."""
        return self.door.may_wait

    def begin(self, method: str, params: CallParams) -> None:
        """Make it."""
        self.door.begin(self.call_id, method, params, self)

    def reply(self, call_id: MessageId, result: Any) -> None:
        """It has an answer."""
        if not self.outcome.done():
            self.outcome.set_result(result)

    def refuse(self, call_id: MessageId, error: HostlerError) -> None:
        """It has none, and why."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    async def stream(self, call_id: MessageId, chunk: Any) -> bool:
        """No call that is offered here answers in pieces."""
        return False

    def give_up(self) -> None:
        """The client waits for it no more. A tool that was asked already is carried to its end."""
        self.door.calls.give_up(self.call_id, goes_on=True)
        self.refuse(self.call_id, CancelledCallError("the call was cancelled"))


@dataclass(eq=False, slots=True)
class Session:
    """What a client began with `initialize`. `calls`: those under way, by the client's request ids."""

    door: RunDoor
    session_id: str = field(default_factory=lambda: secrets.token_urlsafe(SESSION_ID_BYTES))
    calls: dict[RequestId, GuestCall] = field(default_factory=dict)


class Sessions:
    """All sessions of this server; each belongs to one token, and is gone when that is."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._calls: Counter[str] = Counter()

    def begin(self, door: RunDoor) -> Session:
        """A new session; the longest idle one of the token makes room. RateLimitedError: none is idle."""
        self._sessions = {name: one for name, one in self._sessions.items() if not one.door.has_ended}
        own = [one for one in self._sessions.values() if one.door is door]
        if len(own) >= MAX_SESSIONS:
            idle = next((one for one in own if not one.calls), None)
            if idle is None:
                raise RateLimitedError(
                    f"this run token has {MAX_SESSIONS} sessions, and all are at work", 1.0
                )
            self.end(idle)
        session = Session(door)
        self._sessions[session.session_id] = session
        return session

    def find(self, door: RunDoor, session_id: str) -> Session:
        """NotFoundError; AssetRefusedError where it is another token's."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFoundError("there is no such session (any more): begin another with initialize")
        if session.door is not door:
            raise AssetRefusedError("foreign", session.door.run_id, session.door.workspace_id)
        self._sessions[session_id] = self._sessions.pop(session_id)  # the longest unused stands first
        return session

    def end(self, session: Session) -> None:
        """Its calls are given up."""
        self._sessions.pop(session.session_id, None)
        for call in list(session.calls.values()):
            call.give_up()

    def enter(self, door: RunDoor) -> None:
        """A call begins. RateLimitedError where the token has enough of them; tell `leave` otherwise."""
        if self._calls[door.digest] >= MAX_CALLS:
            raise RateLimitedError(
                f"this run token has {MAX_CALLS} calls under way, which is all it may", 1.0
            )
        self._calls[door.digest] += 1

    def leave(self, door: RunDoor) -> None:
        """A call is over."""
        self._calls[door.digest] -= 1
        if not self._calls[door.digest]:
            del self._calls[door.digest]

    @property
    def count(self) -> int:
        """Sessions that are open."""
        return len(self._sessions)
