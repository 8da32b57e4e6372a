"""The states of a connection: which side may send which method, and which messages change the state."""

from __future__ import annotations

from enum import Enum

from hostler_protocol.calls import CALLS
from hostler_protocol.methods import Side


class State(Enum):
    """The state of a connection. Both sides change it on the same messages."""

    CONNECTED = "connected"
    INITIALIZING = "initializing"
    READY = "ready"
    DRAINING = "draining"
    CLOSED = "closed"

    __hash__ = object.__hash__  # looked up with every message: Enum's own is a Python function


_HOST_RUNNING = frozenset(
    {"run/ahead", "run/cancel", "run/credit", "run/park", "host/stream", "tool/cancel", "ping"}
)
_INGEST = frozenset(
    {"ingest/event", "ingest/check", "ingest/state", "ingest/file", "ingest/read", "ingest/health"}
)
_PLUGIN_RUNNING = _INGEST | {"run/result", "run/end", "host/cancel", *(f"host/{name}" for name in CALLS)}
_CHANNEL = frozenset(
    {
        "channels/list",
        "channel/open",
        "channel/send",
        "channel/find",
        "channel/edit",
        "channel/act",
        "channel/request",
    }
)
_HOST_READY = _CHANNEL | {
    "runners/list",
    "tools/list",
    "run/start",
    "tool/call",
    "tool/lookup",
    "channel/close",
    "shutdown",
}
_NOTHING: frozenset[str] = frozenset()

MAY_SEND: dict[tuple[Side, State], frozenset[str]] = {
    (Side.HOST, State.CONNECTED): frozenset({"initialize"}),
    (Side.HOST, State.INITIALIZING): _NOTHING,
    (Side.HOST, State.READY): _HOST_RUNNING | _HOST_READY,
    (Side.HOST, State.DRAINING): _HOST_RUNNING,
    (Side.HOST, State.CLOSED): _NOTHING,
    (Side.PLUGIN, State.CONNECTED): _NOTHING,
    (Side.PLUGIN, State.INITIALIZING): _NOTHING,
    (Side.PLUGIN, State.READY): _PLUGIN_RUNNING,
    (Side.PLUGIN, State.DRAINING): _PLUGIN_RUNNING,
    (Side.PLUGIN, State.CLOSED): _NOTHING,
}
"""Methods that a side may send in a state. Answers to open requests are allowed until CLOSED."""

AFTER_REQUEST: dict[tuple[State, str], State] = {
    (State.CONNECTED, "initialize"): State.INITIALIZING,
    (State.READY, "shutdown"): State.DRAINING,
}
"""The next state, once a request was sent or received."""
AFTER_REPLY: dict[tuple[State, str], State] = {(State.INITIALIZING, "initialize"): State.READY}
"""The next state, once a request was answered with a result."""
AFTER_REFUSAL: dict[tuple[State, str], State] = {(State.INITIALIZING, "initialize"): State.CONNECTED}
"""The next state, once a request was answered with an error."""
CHANGES_STATE = frozenset(method for _, method in (*AFTER_REQUEST, *AFTER_REPLY, *AFTER_REFUSAL))
"""The methods that the three tables name: any other leaves the state as it is."""
