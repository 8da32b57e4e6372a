"""Pins of server tools: the definition that the operator approved, and the one seen last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.domain.tool_pins import ListedTool, PinChange, StoredPin, pin_changes
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit
from hostler_protocol.ids import canonical_json

MAX_PINS = 10_000
"""Stored tools of one server; further new ones are ignored."""

_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])


def of_owner(tx: Tx, workspace_id: str, owner: str) -> dict[str, StoredPin]:
    """Return the pins of a server's tools, by name."""
    rows = tx.all(_q.of_owner, workspace_id=workspace_id, owner=owner, limit=MAX_PINS)
    return {row["tool"]: _pin(row) for row in rows}


def see(tx: Tx, workspace_id: str, owner: str, seen: Mapping[str, ListedTool]) -> dict[str, StoredPin]:
    """Record a new list of a server's tools and return all pins. Each change is audited."""
    known = of_owner(tx, workspace_id, owner)
    for change in pin_changes(known, seen):
        if change.pin.tool not in known and len(known) >= MAX_PINS:
            continue
        _put(tx, workspace_id, owner, change)
        known[change.pin.tool] = change.pin
    return known


def approve(tx: Tx, workspace_id: str, owner: str, tool: str, *, digest: str, actor: str) -> bool:
    """Approve a tool as it was last seen; return False if it is unknown or was seen with another digest."""
    done = tx.run(
        _q.approve, workspace_id=workspace_id, owner=owner, tool=tool, digest=digest, actor=actor, now=tx.now
    )
    if done:
        _audit(tx, workspace_id, actor, "tool.approved", owner, tool, digest)
    return done == 1


def record_refusal(tx: Tx, workspace_id: str, tool_id: str, *, digest: str, reason: str) -> None:
    """Audit that a call was refused because its tool may not be used."""
    body = {"digest": digest, "reason": reason}
    audit.record(tx, workspace_id, actor="host", action="tool.refused", target=tool_id, body=body)


def _put(tx: Tx, workspace_id: str, owner: str, change: PinChange) -> None:
    pin = change.pin
    approved = pin.digest is not None
    tx.run(
        _q.put,
        workspace_id=workspace_id,
        owner=owner,
        tool=pin.tool,
        digest=pin.digest,
        definition=None if pin.definition is None else canonical_json(pin.definition).decode(),
        seen_digest=pin.seen_digest,
        seen_definition=canonical_json(pin.seen_definition).decode(),
        approved_by="configuration" if approved else None,
        approved_at=tx.now if approved else None,
        now=tx.now,
    )
    _audit(tx, workspace_id, "host", change.action, owner, pin.tool, pin.seen_digest)


def _audit(  # noqa: PLR0917
    tx: Tx, workspace_id: str, actor: str, action: str, owner: str, tool: str, digest: str
) -> None:
    audit.record(
        tx, workspace_id, actor=actor, action=action, target=f"{owner}#{tool}", body={"digest": digest}
    )


def _pin(row: Row) -> StoredPin:
    definition = row["definition"]
    return StoredPin(
        tool=row["tool"],
        digest=row["digest"],
        definition=None if definition is None else _objects.decode(definition),
        seen_digest=row["seen_digest"],
        seen_definition=_objects.decode(row["seen_definition"]),
    )
