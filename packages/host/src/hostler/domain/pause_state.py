"""The state that a runner saves with an explicit pause, and the continuation that the next attempt gets.

A state is encoded and decoded once before people are asked: a value that does not survive this unchanged is
refused, naming its path.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.pauses import MAX_STATE_BYTES, STATE_FORMAT
from hostler.domain.record import Record
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, StorageError, UnavailableError
from hostler_protocol.ids import canonical_json
from hostler_protocol.pausing import Continuation, Decision

MIGRATIONS: dict[int, Callable[[Any], Any]] = {}
"""Format -> function that converts its state to the next format. Pure; each must have a test."""
MAX_DEPTH = 128
"""Levels of nesting, far fewer than any JSON library can read."""


class EncodedState(Record):
    """The canonical JSON of a state and its SHA-256."""

    data: bytes
    digest: str
    format: int = STATE_FORMAT


def encode_state(state: Any) -> EncodedState:
    """Encode a state and check that it decodes unchanged. InvalidArgumentError, PayloadTooLargeError."""
    wrong = _unfit(state, "state", 0)
    if wrong is not None:
        raise InvalidArgumentError(f"{wrong}: it cannot be kept while the run is paused")
    data = canonical_json(state)
    if len(data) > MAX_STATE_BYTES:
        raise PayloadTooLargeError(
            f"state: {len(data):,} bytes of JSON; at most {MAX_STATE_BYTES:,}", limit=MAX_STATE_BYTES
        )
    if (path := _difference(state, msgspec.json.decode(data), "state")) is not None:
        raise InvalidArgumentError(f"{path} is read back as another value than was stored")
    return EncodedState(data, hashlib.sha256(data).hexdigest())


def decode_state(data: bytes, digest: str, state_format: int) -> Any:
    """Decode a state and migrate it to the current format.

    StorageError if it is damaged; UnavailableError if a newer build wrote it.
    """
    if state_format > STATE_FORMAT:
        raise UnavailableError(
            f"the state of this pause has format {state_format}; this build reads up to {STATE_FORMAT}"
        )
    if hashlib.sha256(data).hexdigest() != digest:
        raise StorageError("the state of this pause does not match its digest: it is damaged")
    state = msgspec.json.decode(data)
    for step in range(state_format, STATE_FORMAT):
        state = MIGRATIONS[step](state)
    return state


def continuation_of(pause: Pause, calls: Sequence[PausedCall], state: Any) -> Continuation:
    """Return the continuation for a resumed attempt: the runner's state and the decisions."""
    decisions = [decision_of(call) for call in calls]
    return Continuation(state=state, decisions=decisions, resumed_by=pause.resumed_by)


def decision_of(call: PausedCall) -> Decision:
    """Return the decision of a settled call for the runner. ValueError if it is undecided."""
    if call.decision == "undecided":
        raise ValueError(f"call {call.call_id} is undecided")
    given = call.given
    return Decision(
        call_id=call.call_id,
        decision=call.decision,
        arguments=call.effective,
        result=given.result if call.decision == "answered" or call.execution == "succeeded" else None,
        values=given.values,
        comment=given.comment,
        decided_by=call.decided_by,
    )


def _unfit(value: Any, path: str, depth: int) -> str | None:
    """Return why a value is not JSON, with its path, or None."""
    if depth > MAX_DEPTH:
        return f"{path} is nested over {MAX_DEPTH} levels deep"
    items: Iterator[tuple[str, Any]] = iter(())
    wrong = None
    match value:
        case None | bool() | int():
            pass
        case str() if _is_cut(value):
            wrong = f"{path} holds half a surrogate pair, which is no text"
        case float() if not math.isfinite(value):
            wrong = f"{path} is {value}, which JSON does not know"
        case str() | float():
            pass
        case list() | tuple():
            items = ((f"{path}[{index}]", item) for index, item in enumerate(value))
        case dict():
            cut = [name for name in value if not isinstance(name, str) or _is_cut(name)]
            wrong = f"{path} has the key {cut[0]!r}, which is no text" if cut else None
            items = ((f"{path}.{name}", item) for name, item in value.items())
        case _:
            wrong = f"{path} is a {type(value).__name__}, which JSON does not know"
    return wrong or next((bad for where, item in items if (bad := _unfit(item, where, depth + 1))), None)


def _is_cut(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _difference(before: Any, after: Any, path: str) -> str | None:
    """Return the path of the first difference, or None."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(f"{path}.{name}", value, after.get(name)) for name, value in before.items()]
        if before.keys() != after.keys():
            return path
    elif isinstance(before, list | tuple) and isinstance(after, list):
        pairs = [(f"{path}[{index}]", *both) for index, both in enumerate(zip(before, after, strict=False))]
        if len(before) != len(after):
            return path
    else:
        return None if type(before) is type(after) and before == after else path
    return next((where for one in pairs if (where := _difference(one[1], one[2], one[0]))), None)
