"""The columns that hold content, and the key of each row: what is sealed where a master key is configured.

`tests/journeys/test_sealed_bytes.py` plants canaries everywhere and searches the raw files, so that a new
column with content is found. What is not listed stays in the clear: ids, types, times, statuses, numbers,
names of keys, and configuration (docs/encryption.md says why).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hostler.domain.record import Record
from hostler.storage.sealing.envelope import Way

Kind = Literal[
    "event",
    "run",
    "journal",
    "pause",
    "item",
    "artifact",
    "upload",
    "state",
    "storage",
    "answer",
    "audit",
    "channel",
    "outbox",
    "schedule",
    "document",
]
"""What a data key is for. One of these is destroyed as a whole."""


class Leaf(Record):
    """The data key of rows: its kind, and the columns whose values name it."""

    kind: Kind
    columns: tuple[str, ...]

    def name(self, row: Mapping[str, Any]) -> str | None:
        """Return the key's name for a row, or None if the row does not have these columns."""
        values = [row.get(column) for column in self.columns]
        return None if None in values else name_of(self.kind, *values)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table with content. `leaves`: the first one that a row can name is the row's."""

    name: str
    columns: Mapping[str, Way]
    leaves: tuple[Leaf, ...]
    key: tuple[str, ...]
    """Its primary key."""
    holds: str = "1 = 1"
    """The condition under which a row holds content: an emptied one does not."""

    def leaf_of(self, row: Mapping[str, Any]) -> tuple[Kind, str] | None:
        """Return kind and name of a row's data key."""
        for leaf in self.leaves:
            name = leaf.name(row)
            if name is not None:
                return leaf.kind, name
        return None


TRIVIAL = frozenset({"", "{}", "[]", b""})
"""Values that are not sealed: they say only that there is nothing."""
WORDS_OF_BASE = "knowledge "
"""Begins, in the name of a key for a text index, what stands for a knowledge base, not a conversation."""
SEPARATOR = "\x1f"
"""Between the values in a key's name."""


def name_of(kind: Kind, *values: object) -> str:
    """Return the name of a data key."""
    return f"{kind}:{SEPARATOR.join(map(str, values))}"


def named_by(name: str) -> tuple[str, list[str]]:
    """Return the kind in a data key's name, and the values that name it."""
    kind, _, values = name.partition(":")
    return kind, values.split(SEPARATOR)


def _random(*columns: str) -> dict[str, Way]:
    return dict.fromkeys(columns, "random")


_EVENT, _RUN = Leaf("event", ("event_id",)), Leaf("run", ("run_id",))
_PAUSE, _VERSION = Leaf("pause", ("pause_id",)), Leaf("document", ("version_id",))
_BY_PAUSE = ("workspace_id", "pause_id")

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            "events",
            _random("body", "input_summary", "actor_name", "routing", "steering", "request_digest"),
            (_EVENT,),
            ("workspace_id", "event_id"),
            "body IS NOT NULL",
        ),
        Table(
            "transcripts",
            _random("content", "content_json", "search_text", "artifact_refs", "metadata"),
            (_EVENT, _RUN, Leaf("item", ("seq",))),
            ("workspace_id", "seq"),
        ),
        Table("audit", _random("body"), (Leaf("audit", ("workspace_id",)),), ("workspace_id", "audit_id")),
        Table("waiting_messages", _random("item"), (_EVENT,), ("workspace_id", "event_id")),
        Table(
            "artifacts",
            _random("name", "metadata", "registered_path", "sha256"),
            (_EVENT, _RUN, Leaf("artifact", ("artifact_id",))),
            ("workspace_id", "artifact_id"),
        ),
        Table(
            "upload_parts",
            _random("sha256"),
            (Leaf("upload", ("upload_id",)),),
            ("workspace_id", "upload_id", "part"),
        ),
        Table(
            "states",
            _random("value"),
            (Leaf("state", ("scope_key",)),),
            ("workspace_id", "scope_key", "key"),
        ),
        Table("storage", _random("value"), (Leaf("storage", ("owner",)),), ("workspace_id", "owner", "key")),
        Table("runs", _random("cancel_reason", "binding"), (_RUN,), ("run_id",)),
        Table("push_receivers", _random("receiver"), (_RUN,), ("workspace_id", "run_id", "receiver_id")),
        Table("run_sources", _random("input", "config"), (_RUN,), ("run_id",)),
        Table("journal", _random("data"), (Leaf("journal", ("run_id",)),), ("run_id", "last_position")),
        Table("pauses", _random("state", "state_digest"), (_PAUSE,), _BY_PAUSE),
        Table(
            "pause_calls",
            {**_random("asked", "effective", "given"), "args_hash": "equal"},
            (_PAUSE,),
            (*_BY_PAUSE, "call_id"),
        ),
        Table(
            "decision_votes",
            {**_random("comment"), "args_hash": "equal"},
            (_PAUSE,),
            (*_BY_PAUSE, "call_id", "revision", "args_hash", "subject", "key_id"),
        ),
        Table(
            "action_requests",
            _random("answer", "body_digest"),
            (_PAUSE,),
            (*_BY_PAUSE, "key_id", "request_key"),
        ),
        Table("chat_answers", _random("actor_name"), (_PAUSE,), ("workspace_id", "event_id")),
        Table("approval_rules", _random("arguments", "args_digest"), (_PAUSE,), ("workspace_id", "rule_id")),
        Table(
            "channel_connections",
            _random("state"),
            (Leaf("channel", ("channel",)),),
            ("workspace_id", "channel"),
        ),
        Table(
            "forwarded_requests",
            _random("request", "answer"),
            (Leaf("channel", ("channel",)),),
            ("workspace_id", "request_id"),
        ),
        Table(
            "outbox",
            _random("body", "error", "result"),
            (Leaf("outbox", ("delivery_id",)),),
            ("workspace_id", "delivery_id"),
        ),
        Table(
            "schedules",
            _random("content"),
            (Leaf("schedule", ("schedule_id",)),),
            ("workspace_id", "name"),
        ),
        Table(
            "knowledge_versions",
            _random("metadata", "sha256"),
            (_VERSION,),
            ("workspace_id", "version_id"),
        ),
        Table(
            "knowledge_passages",
            _random("passage", "heading"),
            (_VERSION,),
            ("passage_id",),
        ),
        Table(
            "idempotency",
            _random("answer", "body_digest"),
            (Leaf("answer", ("caller", "key")),),
            ("workspace_id", "caller", "key"),
        ),
    )
}

LABELS: Mapping[str, bytes] = {
    column: column.encode("ascii") for table in TABLES.values() for column in table.columns
}
"""By the name of a sealed column: what its values are bound to, besides their key."""


def bucket_of(kind: str, name: str) -> str:
    """Return the group of a data key that belongs to no conversation: one of sixteen of its kind."""
    return f"{kind}#{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[0]}"


def conversation_group(conversation_id: str) -> str:
    """Return the group of the data keys of a conversation."""
    return f"conversation:{conversation_id}"
