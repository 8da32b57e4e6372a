"""State scopes of an event: one storage key per scope, or the reason why there is none.

A storage key is the digest of canonical JSON, so no two combinations of names can have the same key. Names
are compared exactly: nothing is trimmed, folded or normalised, since two spellings may be two people.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hostler.domain.accounts import Identity
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.grants import STATE_SCOPES, StateScope
from hostler_protocol.ids import digest

KEY_VERSION = 1
"""Part of every key, so that another way of building keys cannot read values written with this one."""
OF_SUBJECT = "subject"
"""The type of owners that are subjects: their state is that of all their accounts."""


class StateScopes(NamedTuple):
    """The keys of an event, and the reason for each scope without one. Together all four scopes."""

    keys: dict[StateScope, str]
    missing: dict[StateScope, str]


class StateArea(msgspec.Struct, frozen=True):
    """One scope of one binding for the store: the key of its values, and their owner.

    `conversation_id`, `actor_type` and `actor_id` only serve deletion on request; for the subject scope the
    latter two identify the subject, who may be a person as well.
    """

    scope: str
    scope_key: str
    agent_id: str
    conversation_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None


def storage_key(
    scope: StateScope,
    *,
    workspace_id: str,
    bot_id: str | None,
    runner_id: str,
    agent_id: str,
    identity: dict[str, Any],
) -> str:
    """Return the storage key of a scope: 64 hexadecimal digits.

    `agent_id` identifies the binding. `identity` identifies the scope: names to strings or None.
    """
    return digest(
        {
            "version": KEY_VERSION,
            "scope": scope,
            "workspace": workspace_id,
            "bot": bot_id,
            "runner": runner_id,
            "binding": agent_id,
            "identity": identity,
        }
    )


def scopes_for(
    *,
    workspace_id: str,
    runner_id: str,
    agent_id: str,
    envelope: EventEnvelope,
    person: Identity | None = None,
) -> StateScopes:
    """Return the storage keys of an event, and for each other scope what the event lacks.

    Policy is not considered: the grant decides which scopes are open. `person`: whose scope `actor` is, by
    whichever account they write; None: it is that of the actor, as the event names them.
    """
    keys: dict[StateScope, str] = {}
    missing: dict[StateScope, str] = {}
    for scope in STATE_SCOPES:
        whose = person if scope == "actor" else None
        identity = _identity(scope, envelope) if whose is None else _identity_of(whose)
        if isinstance(identity, str):
            missing[scope] = identity
        else:
            keys[scope] = storage_key(
                scope,
                workspace_id=workspace_id,
                bot_id=envelope.bot_id if whose is None else None,
                runner_id=runner_id,
                agent_id=agent_id,
                identity=identity,
            )
    return StateScopes(keys, missing)


def area_of(
    scope: StateScope,
    scope_key: str,
    agent_id: str,
    envelope: EventEnvelope,
    person: Identity | None = None,
) -> StateArea:
    """Return the area of `scope` for the event, and the person, from which `scope_key` was made."""
    match scope:
        case "conversation":
            return StateArea(scope, scope_key, agent_id, conversation_id=envelope.conversation_id)
        case "actor" if person is not None:
            return StateArea(scope, scope_key, agent_id, actor_type=OF_SUBJECT, actor_id=person.subject)
        case "actor" if envelope.actor is not None:
            who = envelope.actor
            return StateArea(scope, scope_key, agent_id, actor_type=who.actor_type, actor_id=who.actor_id)
        case "subject" if envelope.subject is not None:
            what = envelope.subject
            return StateArea(
                scope, scope_key, agent_id, actor_type=what.subject_type, actor_id=what.subject_id
            )
        case "actor" | "subject":
            raise InvalidArgumentError(f"the event has no {scope}, so it has no {scope} state")
        case "runner":
            return StateArea(scope, scope_key, agent_id)


def _identity_of(person: Identity) -> dict[str, Any]:
    """Return the identity of a person's scope: its names are others than those of an actor's."""
    return {"subject": person.subject, "channel_of": person.channel_of}


def _identity(scope: StateScope, envelope: EventEnvelope) -> dict[str, Any] | str:
    """Return the scope's identity, or the reason why there is none. An empty id is no identity."""
    match scope:
        case "conversation":
            if envelope.conversation_id:
                return {"conversation": envelope.conversation_id, "thread": envelope.thread_id}
            lacking = "conversation_id"
        case "actor":
            actor = envelope.actor
            if actor is not None and actor.actor_id:
                return {"type": actor.actor_type, "id": actor.actor_id}
            lacking = "actor" if actor is None else "actor.actor_id"
        case "subject":
            subject = envelope.subject
            if subject is not None and subject.subject_id:
                return {"type": subject.subject_type, "id": subject.subject_id}
            lacking = "subject" if subject is None else "subject.subject_id"
        case "runner":
            return {}
    return f"the event has no {lacking}, so it has no {scope} state"
