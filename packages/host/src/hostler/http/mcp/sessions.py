"""Sessions, streams and states that the client keeps: signed texts, good on every host and after restarts.

A session's id says what its client can do, the id of an event how its stream goes on, and `requestState`
which run a repeated call goes on with. They are signed with the installation's key, each for its workspace.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple, TypeGuard

from hostler.calls.cursors import Position, ScopedCursors
from hostler.http.dialects.fold import Answer
from hostler.http.mcp.levels import LEVELS
from hostler.http.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_REPEATED_BYTES,
    SESSION_HEADER,
    SESSION_VERSIONS,
    RequestId,
    RpcError,
    RpcMessage,
    is_short,
    session_version,
)
from hostler.http.request import ApiRequest
from hostler_protocol.errors import InvalidArgumentError, NotFoundError

NONCE_BYTES = 12
"""Two sessions of a workspace do not share an id: with it the ids of their requests are unique."""


class Session(NamedTuple):
    """A session of a client before 2026-07-28. `elicits`: it can ask its user."""

    session_id: str
    elicits: bool
    version: str


class NoSessionError(NotFoundError):
    """The session of a request was not begun here: its client begins another when it is told so by a 404."""


class Resumed(NamedTuple):
    """What the id of an event says about its stream. `level` empty: no log messages."""

    answer: Answer
    request_id: RequestId
    progress: RequestId | None
    level: str
    elicits: bool
    task: bool
    frames: int


# -- sessions --------------------------------------------------------------------------------------------


def begin_session(request: ApiRequest, message: RpcMessage) -> Session:
    """Return a new session for a client that says `initialize`."""
    given = message.params.get("capabilities")
    elicitation = given.get("elicitation") if isinstance(given, dict) else None
    elicits, version = can_elicit(elicitation), session_version(message)
    position: Position = [secrets.token_urlsafe(NONCE_BYTES), int(elicits), version]
    return Session(_session_ids(request).issue(position), elicits, version)


def find_session(request: ApiRequest) -> Session:
    """Return the session of a request. RpcError without one; NoSessionError if it was not begun here."""
    session_id = request.headers.get(SESSION_HEADER)
    if session_id is None:
        raise RpcError(
            INVALID_REQUEST,
            f"the header {SESSION_HEADER} is missing: start with initialize",
            of_connection=True,
        )
    try:
        position = _session_ids(request).read(session_id, SESSION_HEADER)
    except InvalidArgumentError:
        position = ""
    match position:
        case [str(), int(elicits), str(version)] if version in SESSION_VERSIONS:
            return Session(session_id, bool(elicits), version)
        case _:
            raise NoSessionError("there is no such session for this key: open another with initialize")


def can_elicit(capability: Any) -> bool:
    """Whether a client shows forms to its user. An empty capability means forms."""
    return isinstance(capability, dict) and ("form" in capability or "url" not in capability)


def _session_ids(request: ApiRequest) -> ScopedCursors:
    caller = request.caller
    return request.state.host.cursors.scoped("mcp session", [caller.workspace_id, caller.key_id])


# -- streams ---------------------------------------------------------------------------------------------


def event_ids(request: ApiRequest, stream: Resumed) -> bytes:
    """Return what the ids of a stream's events begin with."""
    flags = sum(bit for bit, is_set in ((1, stream.elicits), (2, stream.task)) if is_set)
    if stream.progress is not None:
        flags |= 4
    position: Position = [
        stream.answer.run_id,
        stream.answer.after,
        stream.request_id,
        "" if stream.progress is None else stream.progress,
        stream.level,
        flags,
    ]
    return _streams(request).issue(position).encode("ascii")


def read_event_id(request: ApiRequest, text: str) -> Resumed:
    """Return the stream after one of its events. InvalidArgumentError for any other text."""
    head, _, number = text.rpartition(".")
    if number.isascii() and number.isdecimal() and len(number) <= 15:
        match _streams(request).read(head, "Last-Event-ID"):
            case [
                str(run_id),
                int(after),
                str() | int() as id_,
                str() | int() as token,
                str(level),
                int(flags),
            ]:
                progress = token if flags & 4 else None
                answer = Answer(run_id, after)
                return Resumed(answer, id_, progress, level, bool(flags & 1), bool(flags & 2), int(number))
            case _:
                pass
    raise InvalidArgumentError("Last-Event-ID: expected the id of an event of this server")


def _streams(request: ApiRequest) -> ScopedCursors:
    return request.state.host.cursors.scoped("mcp stream", [request.workspace_id])


# -- calls that are repeated -----------------------------------------------------------------------------


class Round(NamedTuple):
    """What a state says: the answer of the call, and how often it was repeated with responses."""

    answer: Answer
    number: int = 0


def seal_state(request: ApiRequest, tool: str, round_: Round) -> str:
    """Return the state with which a call of a tool is repeated: it goes on with its run."""
    return _states(request, tool).issue([*round_.answer, round_.number])


def open_state(request: ApiRequest, tool: str, text: Any) -> Round:
    """Return what a repeated call goes on with. RpcError unless its state is of this tool.

    States of earlier versions have no number.
    """
    if isinstance(text, str):
        try:
            match _states(request, tool).read(text, "requestState"):
                case [str(run_id), int(after)]:
                    return Round(Answer(run_id, after))
                case [str(run_id), int(after), int(number)]:
                    return Round(Answer(run_id, after), number)
                case _:
                    pass
        except InvalidArgumentError:
            pass
    raise RpcError(INVALID_PARAMS, f"requestState: expected what a call of {tool[:100]!r} was answered with")


def _states(request: ApiRequest, tool: str) -> ScopedCursors:
    caller = request.caller
    return request.state.host.cursors.scoped("mcp state", [caller.workspace_id, caller.subject, tool])


# -- parameters ------------------------------------------------------------------------------------------


def progress_of(message: RpcMessage) -> RequestId | None:
    """Return the progress token of a request. RpcError for one that is none."""
    token = message.meta.get("progressToken")
    if token is None or _is_token(token):
        return token
    raise RpcError(
        INVALID_PARAMS,
        "_meta.progressToken: expected a whole number of 64 bits, or a text of at most "
        f"{MAX_REPEATED_BYTES} bytes as JSON",
    )


def _is_token(value: Any) -> TypeGuard[RequestId]:
    return isinstance(value, str | int) and not isinstance(value, bool) and is_short(value)


def level_named(value: Any, name: str) -> str:
    """Return a log level. RpcError if it is none."""
    if isinstance(value, str) and value in LEVELS:
        return value
    raise RpcError(INVALID_PARAMS, f"{name}: expected one of {', '.join(LEVELS)}")
