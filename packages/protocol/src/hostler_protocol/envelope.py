"""Decode the envelope of a result leniently: a mistake in `usage` loses only the wrong fields."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.content import Usage
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import Count
from hostler_protocol.results import AgentRunResult

MAX_NAMED_KEYS = 5
"""Keys that one warning names; it counts the others."""
_KNOWN = frozenset(Usage.__struct_fields__)
_RESULT_BEGINS = b'{"jsonrpc":"2.0","method":"run/result","params":'
_PARAMS = slice(len(_RESULT_BEGINS), -1)
_decode_result = msgspec.json.Decoder(AgentRunResult).decode
_decode_count = msgspec.json.Decoder(Count | None).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _UnreadUsage(msgspec.Struct):
    run_id: str
    type: str
    sequence: int
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    timestamp: float | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


_decode_unread = msgspec.json.Decoder(_UnreadUsage).decode


def usual_result(line: bytes, max_bytes: int) -> ResultArrived | None:
    """Decode a `run/result` written as `frames.encode` writes it, with parameters of at most `max_bytes`.

    Return None for any other line: `frames.parse` and `read_result` say what it is, and what is wrong.
    """
    if not line.startswith(_RESULT_BEGINS) or not line.endswith(b"}"):
        return None
    params = line[_PARAMS]  # the line is valid only if this is one JSON object
    if len(params) > max_bytes:
        return None
    try:
        return ResultArrived(_decode_result(params), len(params))
    except DECODE_ERRORS:
        return None


def read_result(params: bytes | msgspec.Raw) -> tuple[AgentRunResult, str | None]:
    """Decode the parameters of a `run/result`. Return the result, and what was dropped from `usage` or None.

    Raises one of DECODE_ERRORS if anything but `usage` is invalid.
    """
    try:
        return _decode_result(params), None
    except DECODE_ERRORS as error:
        wrong = error
    unread = _decode_unread(params)
    usage, reason = usage_of(unread.usage)
    if reason is None:
        raise wrong
    result = AgentRunResult(
        run_id=unread.run_id,
        type=unread.type,
        sequence=unread.sequence,
        timestamp=unread.timestamp,
        usage=usage,
    )
    if isinstance(unread.data, msgspec.Raw):
        result = msgspec.structs.replace(result, data=unread.data)
    return result, reason


def usage_of(raw: bytes | msgspec.Raw) -> tuple[Usage | None, str | None]:
    """Decode a usage key by key. Return the valid part, and a sentence on the keys left out or None.

    A value that is not a whole number from 0 to 2**53 - 1 is unknown, like an absent one.
    """
    try:
        members = _decode_members(raw)
    except DECODE_ERRORS as error:
        return None, f"usage was left out: {error}"
    counts: dict[str, Any] = {}
    wrong: list[str] = []
    for key, value in members.items():
        if key not in _KNOWN:
            wrong.append(f"usage.{key:.40} is not a key of it")
            continue
        try:
            counts[key] = _decode_count(value)
        except DECODE_ERRORS as error:
            wrong.append(f"usage.{key}: {error}")
    return Usage(**counts), _sentence(wrong)


def _sentence(wrong: list[str]) -> str | None:
    if not wrong:
        return None
    more = len(wrong) - MAX_NAMED_KEYS
    named = "; ".join(wrong[:MAX_NAMED_KEYS]) + (f"; and {more:,} more" if more > 0 else "")
    return f"left out: {named}"
