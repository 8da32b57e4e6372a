"""JSON Schema of the events of streams over many runs."""

from __future__ import annotations

from typing import Any

from hostler.journal.timeline_entries import DATA_OF, ENTRY_TYPES
from hostler_protocol.results import AgentRunResult

DATA_TYPES: tuple[type[Any], ...] = (AgentRunResult, *dict.fromkeys(DATA_OF.values()))
"""What `data` holds, by the type of the event: a result as in the stream of its run, or one of the others."""
TIMELINE_EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "The cursor: opaque, and good for ever."},
        "event": {"type": "string", "enum": list(ENTRY_TYPES)},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in DATA_TYPES]
            },
        },
    },
}
"""JSON Schema of one event, for the OpenAPI document."""
