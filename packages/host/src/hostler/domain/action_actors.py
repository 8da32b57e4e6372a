"""Who may cause an action: the subjects of an agent's `action_actors`, and who caused an event. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.domain.events import Event
from hostler.domain.record import Record

CHANNEL_SUBJECT = "channel:"
"""The requester of an event that a channel brought is this and the channel's name."""
ANYBODY = "*"
_NAMING = ("user", "role", "person")


class Causer(Record):
    """Who caused an event, as authentication and the connections of channels know it.

    `subjects`: who sent it, and what a person's account is bound to. `roles`: of the key or member that sent
    it, or those that a channel's entry gives to the person. `person`: `CHANNEL/ID` of a channel's person.
    """

    subjects: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    person: str | None = None

    def is_among(self, actors: Iterable[str]) -> bool:
        """Whether one of the subjects of a rule is this one."""
        own = {ANYBODY, *(f"user:{name}" for name in self.subjects), *(f"role:{name}" for name in self.roles)}
        if self.person is not None:
            own.add(f"person:{self.person}")
        return not own.isdisjoint(actors)


def channel_of(event: Event) -> str | None:
    """Return the channel that brought an event, or None."""
    requester = event.requester or ""
    return requester.removeprefix(CHANNEL_SUBJECT) if requester.startswith(CHANNEL_SUBJECT) else None


def causer_of(event: Event, *, bound_to: str | None = None, roles: Iterable[str] = ()) -> Causer:
    """Return who caused an event. `bound_to`, `roles`: of the person, if a channel brought it."""
    channel, actor = channel_of(event), event.envelope.actor
    sent = frozenset() if event.requester is None else frozenset({event.requester})
    if channel is None:  # the actor is what the sender says
        return Causer(sent, frozenset(event.requester_roles))
    if actor is None or not actor.actor_id:
        return Causer(sent)
    bound = frozenset() if bound_to is None else frozenset({bound_to})
    return Causer(sent | bound, frozenset(roles), f"{channel}/{actor.actor_id}")


def actor_mistake(subject: str) -> str | None:
    """Return why a subject of `action_actors` is nobody, or None."""
    if subject == ANYBODY:
        return None
    kind, _, name = subject.partition(":")
    expected = "expected *, user:NAME, role:NAME or person:CHANNEL/ID"
    if kind in {"requester", "group", "member"}:
        return f"{subject!r:.100} is for approvals alone: {expected}"
    if kind not in _NAMING or not name or name != name.strip():
        return f"{subject!r:.100} is nobody: {expected}"
    if kind == "person" and not all(name.partition("/")):
        return f"{subject!r:.100} is nobody: write person:CHANNEL/ID, with the platform's own id"
    return None
