"""Pieces of text, which are nearly all results of most runs: known at a glance, kept as they came."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import MAX_RESULT_BYTES
from hostler_protocol.results import MessageDelta

_decode_delta = msgspec.json.Decoder(MessageDelta).decode


def plain_delta(arrived: ResultArrived, run_id: str) -> bytes | None:
    """The payload of a delta of text and nothing more, of this run; None for anything else."""
    result = arrived.result
    if result.type != "message.delta" or result.usage is not None or result.timestamp is not None:
        return None
    if result.run_id != run_id or arrived.size > MAX_RESULT_BYTES:
        return None
    payload = bytes(result.data)
    try:
        delta = _decode_delta(payload)
    except DECODE_ERRORS:
        return None
    # of text alone it cannot be deep
    one_line = b"\n" not in payload and b"\r" not in payload
    return payload if one_line and isinstance(delta.chunk.content, str) else None


def plain_deltas(arrived: Sequence[ResultArrived], start: int, run_id: str) -> list[bytes]:
    """The payloads of those that follow one another from `start` on."""
    payloads: list[bytes] = []
    for index in range(start, len(arrived)):
        payload = plain_delta(arrived[index], run_id)
        if payload is None:
            break
        payloads.append(payload)
    return payloads


__all__ = ["plain_deltas"]
