"""Decode payloads to wire types."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.calls import CallParams

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a wire type; each is built once."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def typed(kind: Any, params: Any, payload: msgspec.Raw) -> Any:
    """Return the parameters of our own message as `kind`, whether given as that struct, a mapping or JSON."""
    return params if isinstance(params, kind) else decoder(kind).decode(payload)


class _RunIdOnly(msgspec.Struct):
    run_id: str | None = None


def run_id_in(params: msgspec.Raw) -> str | None:
    """Return the `run_id` of parameters that may otherwise be invalid, or None."""
    try:
        only: _RunIdOnly = decoder(_RunIdOnly).decode(params)
        return only.run_id
    except DECODE_ERRORS:
        return None


def run_id_of(params: Any, payload: msgspec.Raw) -> str | None:
    """Return the `run_id` of our own parameters, or None; `payload` is their JSON."""
    if isinstance(params, dict) and isinstance(run_id := params.get("run_id"), str):
        return run_id
    return params.run_id if isinstance(params, CallParams) else run_id_in(payload)
