"""People whom channels bring: which subject each of them is, and what they may decide.

This is the one place that turns a person of a platform into a subject. Each is a subject of their own,
`person:CHANNEL/ID`, unless their account is bound to another one.
"""

from __future__ import annotations

from hostler.domain.action_actors import Causer, causer_of, channel_of
from hostler.domain.channels import PERSON_PREFIX, channel_of_subject, may_speak, person_name
from hostler.domain.events import Caller, Event
from hostler.domain.members import is_person
from hostler.storage.port import Tx
from hostler.storage.stores import channel_entries, events, members, people
from hostler.storage.stores.run_rows import Run


def subject_of(tx: Tx, workspace_id: str, channel: str, person_id: str) -> str:
    """Return the subject that a person of a channel is: what their account is bound to, else their own.

    A binding to somebody who signs in ends with the membership.
    """
    own = PERSON_PREFIX + person_name(channel, person_id)
    bound = people.find(tx, workspace_id, channel, person_id)
    if bound is None:
        return own
    if is_person(bound.subject):
        theirs = members.of_subject(tx, bound.subject)
        return bound.subject if any(one.workspace_id == workspace_id for one in theirs) else own
    return bound.subject


def caller_of(tx: Tx, workspace_id: str, channel: str, person_id: str) -> Caller:
    """Return a person of a channel as somebody who decides what waits, by the rules of it."""
    name = person_name(channel, person_id)
    return Caller(
        workspace_id,
        subject_of(tx, workspace_id, channel, person_id),
        PERSON_PREFIX + name,
        rights=frozenset({"pauses:write"}),
        person=name,
    )


def present(tx: Tx, workspace_id: str, channel: str, person_id: str) -> Caller | None:
    """Return a person whose vote still counts; None if they are shut out, or the channel is gone."""
    entry = channel_entries.entry_of(tx, workspace_id, channel)
    if entry is None or not entry.enabled:
        return None
    paired = people.find(tx, workspace_id, channel, person_id) is not None
    if not may_speak(entry, person_id, paired=paired):
        return None
    return caller_of(tx, workspace_id, channel, person_id)


def requester_of(tx: Tx, run: Run) -> str | None:
    """Return the subject for whom a run works: the person whom a channel says, else who sent its event.

    Runs that such a run opened work for the same person.
    """
    channel = channel_of_subject(run.requester)
    if channel is None or run.event_id is None:
        return run.requester
    record = events.find(tx, run.workspace_id, run.event_id)
    event = None if record is None else record.event()
    actor = None if event is None or event.requester != run.requester else event.envelope.actor
    if actor is None or not actor.actor_id:
        return run.requester
    return subject_of(tx, run.workspace_id, channel, actor.actor_id)


def causer_in(tx: Tx, event: Event) -> Causer:
    """Return who caused an event, with what is known by now of a channel's person.

    A member's roles do not come with the account that is bound to the member: an account on a platform is
    guarded by that platform.
    """
    channel, actor = channel_of(event), event.envelope.actor
    if channel is None or actor is None or not actor.actor_id:
        return causer_of(event)
    entry = channel_entries.entry_of(tx, event.workspace_id, channel)
    return causer_of(
        event,
        bound_to=subject_of(tx, event.workspace_id, channel, actor.actor_id),
        roles=frozenset() if entry is None else entry.roles_of(actor.actor_id),
    )
