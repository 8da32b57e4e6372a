"""An event inside the host: checked, with its identity and its workspace."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from hostler.domain.record import Record
from hostler_protocol.events import EventEnvelope


class CallerScope(Record):
    """What a narrow caller reaches: the holder of a front-end token (domain/narrow_callers.py).

    `made_by`: the id of the key that made the token, `counted_by`: the key id under which the rate of that
    key is counted.
    """

    agent: str
    conversation_id: str
    made_by: str
    counted_by: str

    def holds(self, agent: str | None, conversation_id: str | None) -> bool:
        """Whether something of this agent and conversation is within the scope."""
        return agent == self.agent and conversation_id == self.conversation_id


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `rights` as in http/auth; `subject` names a person or program.

    `groups` and `email` (verified) of a member. `credential`: the id of the key, token or session that was
    used, if that is not `key_id`: a member's votes and rates are counted by the member. `scope`: what a
    narrow caller reaches; None is the whole workspace. `answers_only`: it answers questions and client tools
    of its runs, and approves nothing. `address`: that of a narrow caller, by which its messages are counted.
    `person`: of somebody whom a channel brought, `CHANNEL/ID`.
    """

    workspace_id: str
    subject: str
    key_id: str
    roles: frozenset[str] = frozenset()
    rights: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    email: str | None = None
    credential: str = ""
    answers_only: bool = False
    scope: CallerScope | None = None
    address: str = field(default="", compare=False)
    person: str = ""

    @property
    def credential_id(self) -> str:
        """The id of the key, token or session that was used."""
        return self.credential or self.key_id


class Event(msgspec.Struct, frozen=True):
    """The event that `accept` stores. `envelope.event_id` and `envelope.workspace_id` are always set.

    `request_digest` is the digest of the envelope as received, before redaction and before the host fills in
    fields: the same id with another digest is a conflict.
    """

    workspace_id: str
    event_id: str
    envelope: EventEnvelope
    request_digest: str
    content_redacted: bool
    created_at: int
    """UTC epoch milliseconds."""
    requester: str | None = None
    """The authenticated subject that sent it."""
    requester_roles: tuple[str, ...] = ()
    """The roles that its key or member had then."""
