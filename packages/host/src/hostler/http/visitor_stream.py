"""What the visitor of a widget sees of its conversation while it goes on: entries of the timeline, shortened.

Arguments and results of tools, what models were asked, errors and the names of people stay with the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hostler.http.live.framing import TimelineFraming
from hostler.http.sse import event_name
from hostler.journal.feed import StoredResult

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode
_DELTA = "message.delta"


def _delta(entry: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": entry["run_id"], "text": entry["data"]["chunk"].get("content") or ""}


def _of_run(entry: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": entry["run_id"]}


def _part(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda entry: {name: entry.get(name) for name in names}


_SHOWN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    _DELTA: _delta,
    "message.completed": _of_run,
    "artifact.created": _of_run,
    "event.received": _part("event_id", "at"),
    "run.status": _part("run_id", "event_id", "status", "attempt", "at"),
    "pause.status": _part("pause_id", "run_id", "status", "at"),
    "pause.call": _part("pause_id", "run_id", "decision", "at"),
    "conversation.deleted": _part("at"),
}
VISITOR_TYPES = frozenset(_SHOWN)
VISITOR_EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": sorted(VISITOR_TYPES)},
        "data": {"type": "string"},
    },
}
"""JSON Schema of one event of the stream."""


class VisitorFraming(TimelineFraming):
    """Each entry is one event with what visitors see of it; messages and files are in the history."""

    def _frame(self, entry: StoredResult) -> bytes:
        shown = _SHOWN.get(entry.type)
        if shown is None:
            return self._mark(entry.sequence)
        cursor = self._cursors.issue(entry.sequence).encode()
        data = _encode(shown(_decode(entry.json)))
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor, event_name(entry.type), data)
