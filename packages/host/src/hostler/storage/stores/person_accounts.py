"""All accounts of the person of an event, and what of them a run is given: read when its grant is built."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.domain.accounts import (
    AcrossAccounts,
    Chat,
    Identity,
    PrivateChat,
    across_accounts,
    allowed_across,
)
from hostler.domain.action_actors import channel_of
from hostler.domain.agents import Agent
from hostler.domain.channels import PERSON_PREFIX, person_name, person_of_key
from hostler.domain.child_runs import ParentBounds
from hostler.domain.events import Event
from hostler.storage.port import Tx
from hostler.storage.stores import channel_entries, channel_people, chats, people, readers, settings


def identity_of(tx: Tx, workspace_id: str, channel: str, person_id: str) -> Identity:
    """Return the subject that a person of a channel is, with the platform that it is of."""
    subject = channel_people.subject_of(tx, workspace_id, channel, person_id)
    bound = people.find(tx, workspace_id, channel, person_id)
    was = bound.subject_channel_of if bound is not None and bound.subject == subject else None
    return Identity(subject, was or people.channel_of_person(tx, workspace_id, subject))


def subjects_of(tx: Tx, workspace_id: str, person_id: str) -> list[str]:
    """Return the subjects that whoever has an id is on any channel, or whose state runs for them had."""
    found = set(readers.subjects_of(tx, workspace_id, person_id))
    for setting in settings.page(tx, workspace_id, channel_entries.CHANNEL):
        found.add(PERSON_PREFIX + person_name(setting.name, person_id))
        found.add(channel_people.subject_of(tx, workspace_id, setting.name, person_id))
    return sorted(found)


def across_in(tx: Tx, agent: Agent, event: Event, above: ParentBounds | None) -> AcrossAccounts | None:
    """Return what a run of the agent has of the other accounts of its event's person; None: nothing.

    Only a channel says who a person is: the actor of an event that a key sends is what its sender says.
    """
    allowed = allowed_across(agent.spec, above)
    channel, actor, ws = channel_of(event), event.envelope.actor, event.workspace_id
    if channel is None or actor is None or not actor.actor_id or not any(allowed):
        return None
    identity = identity_of(tx, ws, channel, actor.actor_id)
    own = _own_chat(tx, event, channel, actor.actor_id) if allowed.history else None
    others = [] if own is None else list(_private_chats(tx, ws, agent.agent_id, identity))
    return across_accounts(allowed, identity, own, others)


def _own_chat(tx: Tx, event: Event, channel: str, person_id: str) -> Chat | None:
    """Return the chat of an event if it is this person's private one."""
    conversation_id = event.envelope.conversation_id
    chat = None if conversation_id is None else chats.find(tx, event.workspace_id, conversation_id)
    if chat is None or (chat.channel, chat.person_id) != (channel, person_id):
        return None
    entry = channel_entries.entry_of(tx, event.workspace_id, channel)
    return chat if entry is not None and entry.channel == chat.channel_of else None


def _private_chats(tx: Tx, ws: str, agent_id: str, identity: Identity) -> Iterator[PrivateChat]:
    """Yield the private chats of all accounts of a person with an agent."""
    for channel, person_id in _accounts(tx, ws, identity):
        entry = channel_entries.entry_of(tx, ws, channel)
        if entry is not None:
            yield from chats.private_of(
                tx, ws, channel, person_id, channel_of=entry.channel, agent_id=agent_id
            )


def _accounts(tx: Tx, ws: str, identity: Identity) -> Iterator[tuple[str, str]]:
    """Yield channel and id of the accounts that are a person: what is bound, and the one that names it."""
    named = person_of_key(identity.subject)
    found = {(one.channel, one.person_id) for one in people.page(tx, ws, subject=identity.subject)}
    if named is not None:
        found.add(named)
    for channel, person_id in sorted(found):
        if identity_of(tx, ws, channel, person_id) == identity:
            yield channel, person_id
