"""What comes out of a link: one type per thing the peer can say or do wrong."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol.errors import HostlerError, RunFailure
from hostler_protocol.oversize import MessageId
from hostler_protocol.results import AgentRunResult


class Called(msgspec.Struct, frozen=True):
    """The peer made a request; answer it with `reply` or `refuse`."""

    id: MessageId
    method: str
    params: Any


class Noted(msgspec.Struct, frozen=True):
    """The peer sent a notification other than those below."""

    method: str
    params: Any


class ResultArrived(msgspec.Struct, frozen=True, gc=False):
    """A runner's result, in its order; `size` in bytes of its JSON. The payload is still undecoded."""

    result: AgentRunResult
    size: int


class RunEnded(msgspec.Struct, frozen=True):
    """`run/end` of a run of this connection: nothing follows, the link has forgotten it."""

    run_id: str


class RunLeft(msgspec.Struct, frozen=True):
    """`run/end` of a run that was ended on our side before: the plugin works on it no more."""

    run_id: str


class RunBroken(msgspec.Struct, frozen=True):
    """A run of this connection broke the rules; the others are untouched."""

    run_id: str
    code: RunFailure
    reason: str


class CallCancelled(msgspec.Struct, frozen=True):
    """The runner gave up waiting for this open request."""

    id: MessageId


class StreamArrived(msgspec.Struct, frozen=True):
    """A piece of a streaming answer (plugin side); pieces come in order and without a gap."""

    id: MessageId
    index: int
    chunk: msgspec.Raw


class Replied(msgspec.Struct, frozen=True):
    """The answer to a request of ours."""

    id: MessageId
    method: str
    result: Any


class Refused(msgspec.Struct, frozen=True):
    """A request of ours was refused."""

    id: MessageId
    method: str
    error: HostlerError


class Warned(msgspec.Struct, frozen=True):
    """Something was dropped. `foreign` is True where the peer reached for a run that is not its own.

    Without `foreign`, `run_id` is a run of this connection or None.
    """

    reason: str
    run_id: str | None = None
    foreign: bool = False


class Broken(msgspec.Struct, frozen=True):
    """The connection is of no more use; it is CLOSED and nothing further comes out."""

    reason: str


Incoming = (
    Called
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
