"""Copies of messages and files in other conversations: whose originals they are.

A copy belongs to its own conversation, and is deleted with it. It is deleted with the data of the person,
too, whose message or run its original was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load

_q = load(__file__)
ITEM, FILE = "item", "file"


MAX_PLACES = 1_000
"""Conversations with copies of one person's messages that are returned at once."""


class People(NamedTuple):
    """Whose data a copy is: who sent the original, or what it answers, and whom that was about."""

    actor_type: str | None = None
    actor_id: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None


class Origin(Record):
    """The event or run to which the original of a copy belongs. `people`: of a copy of a copy.

    The event of an original may be emptied before the copy: whose it was is noted with that.
    """

    event_id: str | None
    run_id: str | None
    people: People | None = None


class Copy(Record):
    """A copy: a message by its sequence, or a file by its id, and the conversation that it is in."""

    conversation_id: str
    seq: int | None = None
    artifact_id: str | None = None


def add_item(tx: Tx, ws: str, seq: int, conversation_id: str, origin: Origin) -> None:
    """Note a copied message."""
    _add(tx, ws, f"{ITEM}:{seq}", conversation_id, origin)


def add_file(tx: Tx, ws: str, artifact_id: str, conversation_id: str, origin: Origin) -> None:
    """Note a copied file."""
    _add(tx, ws, f"{FILE}:{artifact_id}", conversation_id, origin)


def origin_of_item(tx: Tx, ws: str, seq: int) -> Origin | None:
    """Return where a message was copied from; None if it is no copy."""
    return _origin(tx, ws, f"{ITEM}:{seq}")


def origin_of_file(tx: Tx, ws: str, artifact_id: str) -> Origin | None:
    """Return where a file was copied from; None if it is no copy."""
    return _origin(tx, ws, f"{FILE}:{artifact_id}")


def forget_item(tx: Tx, ws: str, seq: int) -> None:
    """Forget a message that is deleted."""
    tx.run(_q.delete, ws=ws, name=f"{ITEM}:{seq}")


def forget_file(tx: Tx, ws: str, artifact_id: str) -> None:
    """Forget a file that is deleted."""
    tx.run(_q.delete, ws=ws, name=f"{FILE}:{artifact_id}")


def of_event(tx: Tx, ws: str, event_id: str, limit: int) -> list[Copy]:
    """Return copies of what an event brought."""
    return [_copy(row) for row in tx.all(_q.of_event, ws=ws, event_id=event_id, limit=limit)]


def of_run(tx: Tx, ws: str, run_id: str, limit: int) -> list[Copy]:
    """Return copies of what a run said and made."""
    return [_copy(row) for row in tx.all(_q.of_run, ws=ws, run_id=run_id, limit=limit)]


def of_person(
    tx: Tx, ws: str, actor_id: str, actor_type: str | None, *, places: Sequence[str], limit: int
) -> list[Copy]:
    """Return copies, in these conversations, of a person's data, or of what is about them.

    `actor_type` None means any type.
    """
    names = msgspec.json.encode(places).decode()
    rows = tx.all(_q.of_person, ws=ws, actor_id=actor_id, actor_type=actor_type, places=names, limit=limit)
    return [_copy(row) for row in rows]


def places_of_person(tx: Tx, ws: str, actor_id: str, actor_type: str | None) -> list[str]:
    """Return conversations with such copies, at most MAX_PLACES: others once those are deleted."""
    rows = tx.all(_q.places_of_person, ws=ws, actor_id=actor_id, actor_type=actor_type, limit=MAX_PLACES)
    return [row["conversation_id"] for row in rows]


def _add(tx: Tx, ws: str, name: str, conversation_id: str, origin: Origin) -> None:
    of = {"event_id": origin.event_id, "run_id": origin.run_id}
    people = origin.people
    if people is None:
        row = tx.one(_q.people, ws=ws, **of)
        people = People() if row is None else _people(row)
    tx.run(_q.insert, ws=ws, name=name, conversation_id=conversation_id, **of, **people._asdict())


def _origin(tx: Tx, ws: str, name: str) -> Origin | None:
    row = tx.one(_q.origin, ws=ws, name=name)
    return None if row is None else Origin(row["event_id"], row["run_id"], _people(row))


def _people(row: Row) -> People:
    return People(*(row[name] for name in People._fields))


def _copy(row: Row) -> Copy:
    kind, _, name = row["name"].partition(":")
    if kind == ITEM:
        return Copy(row["conversation_id"], seq=int(name))
    return Copy(row["conversation_id"], artifact_id=name)
