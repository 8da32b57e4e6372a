"""Conversion of rows of pauses and their calls."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.pause_values import DecisionData, DecisionRequest, Pause, PausedCall
from hostler.storage.port import Row
from hostler_protocol.ids import canonical_json


def json_of(value: Any) -> str:
    """Encode canonical JSON for a column."""
    return canonical_json(value).decode()


def pause_of(row: Row) -> Pause:
    """Convert a row of `pauses`."""
    values = {name: row[name] for name in _PAUSE_COLUMNS}
    for name in ("state", "data_key"):
        values[name] = None if row[name] is None else bytes(row[name])
    return Pause(**values)


def call_of(row: Row) -> PausedCall:
    """Convert a row of `pause_calls`."""
    values = {name: row[name] for name in _CALL_COLUMNS}
    asked = values["asked"] = _asked.decode(row["asked"])
    values["effective"] = asked.arguments if row["effective"] is None else _objects.decode(row["effective"])
    values["given"] = DecisionData() if row["given"] is None else _given.decode(row["given"])
    values["handed_over"] = bool(row["handed_over"])
    return PausedCall(**values)


_asked = msgspec.json.Decoder(DecisionRequest)
_given = msgspec.json.Decoder(DecisionData)
_objects = msgspec.json.Decoder(dict[str, Any])
_PAUSE_COLUMNS = tuple(Pause.__struct_fields__)
_CALL_COLUMNS = tuple(PausedCall.__struct_fields__)
