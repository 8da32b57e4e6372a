"""The events that a link yields: one type per message or mistake of the peer."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol.errors import HostlerError, RunFailure
from hostler_protocol.oversize import MessageId
from hostler_protocol.results import AgentRunResult


class Called(msgspec.Struct, frozen=True):
    """The peer made a request. Answer it with `reply` or `refuse`."""

    id: MessageId
    method: str
    params: Any


class CalledAhead(msgspec.Struct, frozen=True):
    """An active run made a Host API call, and took the answer that was sent ahead of it. Not answered."""

    run_id: str
    method: str
    params: Any


class Noted(msgspec.Struct, frozen=True):
    """The peer sent a notification that has no event of its own below."""

    method: str
    params: Any


class ResultArrived(msgspec.Struct, frozen=True, gc=False):
    """A runner's result, in order. `size` of its JSON in bytes; the payload is undecoded."""

    result: AgentRunResult
    size: int


class RunEnded(msgspec.Struct, frozen=True):
    """`run/end` of an active run: no more results follow, and the link has removed it."""

    run_id: str


class RunLeft(msgspec.Struct, frozen=True):
    """`run/end` of a run that our side had already ended: the plugin has stopped working on it."""

    run_id: str


class RunBroken(msgspec.Struct, frozen=True):
    """An active run broke the protocol, and the link has removed it. Other runs are not affected."""

    run_id: str
    code: RunFailure
    reason: str


class CallCancelled(msgspec.Struct, frozen=True):
    """The runner no longer waits for this open request."""

    id: MessageId
    run_id: str


class StreamArrived(msgspec.Struct, frozen=True):
    """A piece of a streaming answer (plugin side). Pieces come in order and without gaps."""

    id: MessageId
    index: int
    chunk: msgspec.Raw


class Replied(msgspec.Struct, frozen=True):
    """The peer answered a request of ours with a result."""

    id: MessageId
    method: str
    result: Any


class Refused(msgspec.Struct, frozen=True):
    """The peer answered a request of ours with an error, or its answer was invalid."""

    id: MessageId
    method: str
    error: HostlerError


class Warned(msgspec.Struct, frozen=True):
    """The link dropped or refused something. `foreign`: the peer named a run that is not of this connection.

    Without `foreign`, `run_id` is a run of this connection or None.
    """

    reason: str
    run_id: str | None = None
    foreign: bool = False


class Broken(msgspec.Struct, frozen=True):
    """The connection is broken: the link is CLOSED, and no further event follows."""

    reason: str


Incoming = (
    Called
    | CalledAhead
    | Noted
    | ResultArrived
    | RunEnded
    | RunLeft
    | RunBroken
    | CallCancelled
    | StreamArrived
    | Replied
    | Refused
    | Warned
    | Broken
)
