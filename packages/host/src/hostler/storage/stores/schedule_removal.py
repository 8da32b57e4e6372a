"""Removal of schedules that would bring back what is deleted on request (a conversation or a person), and of
those that runs of a deleted agent made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hostler.storage.port import Tx
from hostler.storage.stores import audit, reminders, schedules
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol.events import Actor


def drop_of_conversation(tx: Tx, ws: str, conversation_id: str, by: str) -> int:
    """Remove and audit the next schedules of a conversation; return their number. `by`: who asked."""

    def is_of(stored: StoredSchedule, spec: dict[str, Any]) -> bool:
        return conversation_id in (stored.conversation_id, spec.get("conversation_id"))

    return _drop(tx, ws, is_of, by)


def drop_of_actor(tx: Tx, ws: str, actor_id: str, actor_type: str | None, by: str) -> int:
    """Remove and audit the next schedules whose events are a person's; return their number.

    `actor_type` None means any type.
    """

    def is_of(_: StoredSchedule, spec: dict[str, Any]) -> bool:
        actor = spec.get("actor")
        if not isinstance(actor, dict) or actor.get("actor_id") != actor_id:
            return False
        return actor_type in (None, actor.get("actor_type", Actor().actor_type))

    return _drop(tx, ws, is_of, by)


def drop_of_agent(tx: Tx, ws: str, agent_id: str, agent: str, by: str) -> None:
    """Remove and audit the schedules that runs of a deleted agent made. `agent`: its name."""
    for name in reminders.names_of_agent(tx, ws, agent_id):
        schedules.delete(tx, ws, name)
        audit.record(tx, ws, by, "schedule.removed", name, {"cause": "agent removed", "agent": agent})


def _drop(tx: Tx, ws: str, is_of: Callable[[StoredSchedule, dict[str, Any]], bool], by: str) -> int:
    """Go through the schedules by name. An entry that this version cannot read is judged by its text."""
    after, dropped = "", 0
    while rows := schedules.page(tx, ws, after=after, limit=STEP_ROWS):
        for stored in rows:
            if is_of(stored, _spec(stored.text) | _spec(stored.content or "{}")):
                schedules.delete(tx, ws, stored.name)
                audit.record(tx, ws, by, "schedule.removed", stored.name, {"cause": "deletion"})
                dropped += 1
        if dropped:
            return dropped
        after = rows[-1].name
    return dropped


def _spec(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
