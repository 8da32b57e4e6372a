"""Debounce: messages that one author sends in quick succession become the input of one run, in order."""

from __future__ import annotations

import msgspec

from hostler.domain.agents import MAX_DEBOUNCE_SECONDS
from hostler.domain.caller_tools import all_of
from hostler.domain.events import Event
from hostler.storage.port import Tx
from hostler.storage.stores import debounce as turns
from hostler.storage.stores.debounce import Joined
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import NewRun, Run
from hostler_protocol.events import Input
from hostler_protocol.ids import digest

LONGEST = 10
"""A turn begins after at most this many times the debounce time, however steadily its author writes."""


def author_of(event: Event) -> str:
    """Return a digest of who sent the event: its subject with roles, and actor and sender as stated."""
    envelope = event.envelope
    actor = envelope.actor
    who = None if actor is None else [actor.actor_type, actor.actor_id]
    known = {"requester": event.requester, "roles": list(event.requester_roles)}
    return digest({**known, "sender": envelope.sender_id, "actor": who})


def size_of(event: Event) -> int:
    """Return the size of the event's input in bytes of JSON."""
    return len(msgspec.json.encode(event.envelope.input))


def held(run: NewRun, event: Event, debounce: float, now: int) -> NewRun:
    """Return the run of a first message, which has no delay of its own: it waits for more until `not_before`.

    `debounce` in seconds, `now` in UTC epoch milliseconds.
    """
    wait = int(min(debounce, MAX_DEBOUNCE_SECONDS) * 1000)
    begins = now + wait
    return msgspec.structs.replace(
        run,
        not_before=begins,
        gathering=author_of(event),
        gather_until=begins + (LONGEST - 1) * wait,
        gathered_bytes=size_of(event),
    )


def begin(tx: Tx, run: NewRun, event: Event) -> None:
    """Store the first message of a turn, whose run was just opened."""
    turns.begin(tx, run.workspace_id, run.run_id, event.event_id)


def join(tx: Tx, lane: str, event: Event, debounce: float) -> Joined | None:
    """Add the event to the turn that its author has begun in the lane; None if there is no such turn."""
    return turns.join(
        tx,
        event.workspace_id,
        lane,
        author_of(event),
        event_id=event.event_id,
        size=size_of(event),
        not_before=tx.now + int(debounce * 1000),
    )


def whole(tx: Tx, run: Run, event: StoredEvent) -> tuple[StoredEvent, str]:
    """Return the event of a run with the input of its whole turn, and the id of the turn's first event.

    `contents`, `attachments` and `tools` of all messages in order, of tools with one name the newest; `text`
    joined by line ends. Messages whose content
    was deleted are left out.
    """
    if run.gathered < 2 or event.envelope is None:
        return event, event.event_id
    parts = turns.of_run(tx, run.workspace_id, run.run_id)
    given = [part.envelope.input for part in parts if part.envelope is not None]
    joined = Input(
        text="\n".join(one.text for one in given if one.text) or None,
        contents=[element for one in given for element in one.contents],
        attachments=[ref for one in given for ref in one.attachments],
        tools=all_of(one.tools for one in given),
    )
    envelope = msgspec.structs.replace(event.envelope, input=joined)
    return msgspec.structs.replace(event, envelope=envelope), parts[0].event_id if parts else event.event_id
