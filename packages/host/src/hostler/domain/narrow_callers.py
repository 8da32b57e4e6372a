"""Narrow callers: the holders of front-end tokens, who reach one agent and one conversation. Pure.

A token is made by a key and never has more than that key. Its holder is somebody at a browser: what a message
says of its sender, its bot or its destination is refused, since agents trust these fields when servers send
them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from hostler.domain.channels import SUBJECT_PREFIX as CHANNEL_PREFIX
from hostler.domain.events import Caller, CallerScope
from hostler.domain.members import PERSON_PREFIX
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.events import Actor, EventEnvelope
from hostler_protocol.ids import digest

TOKEN_RIGHTS = (
    "events:write",
    "runs:read",
    "runs:write",
    "conversations:read",
    "pauses:read",
    "pauses:write",
    "artifacts:read",
    "artifacts:write",
)
"""What a front end does: send, follow and cancel, show history, decide, and exchange files."""
KEY_PREFIX = "token:"
SUBJECT_PREFIX = "front-end:"
"""Begins the subjects of tokens that name nobody, and of nobody else."""
RESERVED_PREFIXES = (PERSON_PREFIX, SUBJECT_PREFIX, CHANNEL_PREFIX)
MAX_SUBJECT_CHARS = 100
"""Subject and digest are in one index entry with the ids of a pause, which has to stay below 2,700 bytes."""
MESSAGE = "message.received"
_SAID_BY_SERVERS = (
    "bot_id",
    "launcher_type",
    "launcher_id",
    "sender_id",
    "session_id",
    "subject",
    "raw_ref",
)


def subject_of_conversation(conversation_id: str) -> str:
    """Return the subject of tokens that name nobody: the same for all of a conversation."""
    name = conversation_id
    if len(SUBJECT_PREFIX + name) > MAX_SUBJECT_CHARS:
        name = hashlib.sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()
    return SUBJECT_PREFIX + name


def narrow_caller(
    workspace_id: str,
    *,
    subject: str,
    token_id: str,
    rights: frozenset[str],
    scope: CallerScope,
    answers_only: bool = False,
) -> Caller:
    """Return the caller of a token.

    Votes, and answers to repeated requests, belong to the subject in its conversation and not to the token,
    so that they outlast it: a page gets a new one every few minutes.
    """
    place = digest([scope.agent, scope.conversation_id])[:16]
    key_id = f"{KEY_PREFIX}{scope.made_by}:{place}:{subject}"
    return Caller(
        workspace_id,
        subject,
        key_id,
        rights=rights,
        credential=token_id,
        answers_only=answers_only,
        scope=scope,
    )


def sees_work(caller: Caller) -> bool:
    """Whether the caller may see what tools returned and what agents keep. A narrow one needs `runs:read`."""
    return caller.scope is None or "runs:read" in caller.rights


def maker_and_subject(key_id: str) -> tuple[str, str] | None:
    """Return the key that made a token and the token's subject, from the id under which votes are counted.

    None for the id of anything else.
    """
    if not key_id.startswith(KEY_PREFIX):
        return None
    made_by, _, rest = key_id.removeprefix(KEY_PREFIX).partition(":")
    return made_by, rest.partition(":")[2]


def within_scope(envelope: EventEnvelope, caller: Caller) -> EventEnvelope:
    """Return the event as a narrow caller may send it: with its agent and conversation filled in.

    The event of any other caller is returned as it is. NotFoundError if it names another agent or
    conversation; UnauthorizedError for what only servers may say; InvalidArgumentError for no message.
    """
    scope = caller.scope
    if scope is None:
        return envelope
    check_agent(caller, envelope.agent or scope.agent)
    check_conversation(caller, envelope.conversation_id or scope.conversation_id)
    if envelope.event_type != MESSAGE:
        raise InvalidArgumentError(
            f"a front-end token sends messages: expected event_type {MESSAGE}, not "
            f"{envelope.event_type!r:.80}"
        )
    said = [name for name in _SAID_BY_SERVERS if getattr(envelope, name) is not None]
    if envelope.delivery is not None and envelope.delivery.reply_target is not None:
        said.append("delivery.reply_target")
    if envelope.metadata:
        said.append("metadata")
    if said:
        raise UnauthorizedError(f"a front-end token does not say {', '.join(said)}: leave that out")
    return msgspec.structs.replace(
        envelope,
        agent=scope.agent,
        conversation_id=scope.conversation_id,
        actor=_actor(envelope.actor, caller),
        event_id=_event_id(envelope, caller),
    )


def _actor(actor: Actor | None, caller: Caller) -> Actor | None:
    """Return who sent the message: the subject of the token, whose state an agent may keep."""
    own = Actor(actor_id=caller.subject)
    if actor is None:
        return own
    if actor.actor_id not in (None, caller.subject) or actor.actor_type != own.actor_type or actor.metadata:
        raise UnauthorizedError(
            f"a front-end token sends as {caller.subject!r}: leave actor out, but for its actor_name"
        )
    return msgspec.structs.replace(own, actor_name=actor.actor_name)


def _event_id(envelope: EventEnvelope, caller: Caller) -> str | None:
    if envelope.event_id is None and envelope.source_event_id is not None:
        return stored_event_id(caller, f"source:{envelope.source_event_id}")
    return None if envelope.event_id is None else stored_event_id(caller, envelope.event_id)


def stored_event_id(caller: Caller, event_id: str) -> str:
    """Return the id under which an event of the caller is stored.

    Ids are unique in a workspace. That of a narrow caller is unique in its conversation: else it would tell
    whether an event of a neighbour has it. One that begins with its `place_of_ids` already is.
    """
    scope = caller.scope
    if scope is None or event_id.startswith(place_of_ids(caller)):
        return event_id
    return f"front-end-{digest([scope.agent, scope.conversation_id, event_id])}"


def place_of_ids(caller: Caller) -> str:
    """Return what ids of events begin with that no other conversation has; "" for any other caller.

    It is of another form than the ids that `stored_event_id` makes.
    """
    scope = caller.scope
    return "" if scope is None else f"front-end-{digest([scope.agent, scope.conversation_id])[:32]}-"


def check_agent(caller: Caller, name: str) -> None:
    """Raise NotFoundError if the caller does not reach this agent. The words are those of an unknown one."""
    if caller.scope is not None and caller.scope.agent != name:
        raise NotFoundError(f"there is no agent {name!r}")


def check_conversation(caller: Caller, conversation_id: str) -> None:
    """Raise NotFoundError if the caller does not reach this conversation."""
    if caller.scope is not None and caller.scope.conversation_id != conversation_id:
        raise NotFoundError(f"there is no conversation {conversation_id!r}")


def filled_in(caller: Caller, fields: dict[str, Any]) -> dict[str, str]:
    """Return the agent and the conversation of a narrow caller for fields of these names that are None.

    NotFoundError if one has another value.
    """
    scope = caller.scope
    if scope is None:
        return {}
    check_agent(caller, fields.get("agent") or scope.agent)
    check_conversation(caller, fields.get("conversation_id") or scope.conversation_id)
    own = {"agent": scope.agent, "conversation_id": scope.conversation_id}
    return {name: own[name] for name in fields}
