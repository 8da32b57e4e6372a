"""Which agent an event is for: exactly one, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.agents import Agent, Scope, ScopeType
from hostler.domain.events import Event
from hostler_protocol.errors import ConflictError, NotFoundError

SPECIFICITY: dict[ScopeType, int] = {
    "agent": 6,
    "conversation": 5,
    "channel": 4,
    "bot": 3,
    "workspace": 2,
    "global": 1,
}
"""The higher one wins. `agent` is the scope of an event that names its agent."""


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """What one filter said of one event.

    An error of the expression itself, a missing field say, is no match. `unknown`: it could not be evaluated
    (it took too long, its process died), which says nothing of the event.
    """

    matched: bool
    error: str | None = None
    unknown: bool = False

    @classmethod
    def not_evaluated(cls, why: str) -> FilterOutcome:
        """Nobody knows what the filter would have said."""
        return cls(False, why, unknown=True)


FilterResults = Callable[[str], FilterOutcome]
"""Gives the outcome of a filter, by its text, for the event in question."""


@dataclass(frozen=True, slots=True)
class FilterError:
    """A filter that gave no answer, for the event's record."""

    agent: str
    filter: str
    error: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The one agent version, and the scope that it was bound by."""

    agent: Agent
    scope: ScopeType
    filter_errors: tuple[FilterError, ...] = ()

    def record(self) -> dict[str, Any]:
        """What is stored of it with the event and the run."""
        return {
            "agent": self.agent.name,
            "agent_id": self.agent.agent_id,
            "version": self.agent.version,
            "scope": self.scope,
            **_errors(self.filter_errors),
        }


@dataclass(frozen=True, slots=True)
class Unrouted:
    """No agent matches. Recorded on the event; not an error."""

    filter_errors: tuple[FilterError, ...] = ()

    def record(self) -> dict[str, Any]:
        """What is stored of it with the event."""
        return {"reason": "no enabled agent matches", **_errors(self.filter_errors)}


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several agents match equally: the event is stored and refused with their names."""

    names: tuple[str, ...]
    filter_errors: tuple[FilterError, ...] = ()

    def record(self) -> dict[str, Any]:
        """What is stored of it with the event."""
        return {"candidates": list(self.names), **_errors(self.filter_errors)}

    def error(self) -> ConflictError:
        """What the sender is told."""
        names = " and ".join(repr(name) for name in self.names)
        return ConflictError(
            f"agents {names} match this event equally: give one a narrower scope or a higher priority, "
            "or name the agent in the event",
            agents=list(self.names),
        )


@dataclass(frozen=True, slots=True)
class Undecided:
    """Which agent matches depends on filters that could not be evaluated: the event is tried again."""

    filter_errors: tuple[FilterError, ...]

    def record(self) -> dict[str, Any]:
        """What is stored of it with the event."""
        reason = "filters that it depends on could not be evaluated"
        return {"reason": reason, **_errors(self.filter_errors)}

    def summary(self) -> str:
        """Each agent and what became of its filter, for the log."""
        return "; ".join(f"{one.agent}: {one.error}" for one in self.filter_errors)


@dataclass(frozen=True, slots=True)
class UnknownAgent:
    """The event names an agent that does not exist. Nothing is stored."""

    name: str

    def error(self) -> NotFoundError:
        """What the sender is told."""
        return NotFoundError(f"there is no agent {self.name!r}")


@dataclass(frozen=True, slots=True)
class DisabledAgent:
    """The event names an agent that is switched off. Nothing is stored."""

    name: str

    def error(self) -> ConflictError:
        """What the sender is told."""
        return ConflictError(f"agent {self.name!r} is disabled")


Resolution = Binding | Unrouted | Ambiguous | Undecided | UnknownAgent | DisabledAgent


@dataclass(slots=True)
class _Matching:
    agents: list[Agent] = field(default_factory=list)
    possible: list[Agent] = field(default_factory=list)
    """Agents that match if filters do which could not be evaluated."""
    errors: list[FilterError] = field(default_factory=list)

    def decides(self, best: tuple[int, bool, int] | None) -> bool:
        """Whether the result is the same whatever those filters would have said."""
        return not any(best is None or _rank(agent) >= best for agent in self.possible)


def resolve(event: Event, agents: Iterable[Agent], outcome_of: FilterResults) -> Resolution:
    """Find the one agent for an event.

    `agents` are the current versions in the event's workspace, enabled or not. `outcome_of` is asked for the
    filters of `filters_of` and no others.
    """
    named = event.envelope.agent
    if named is not None:
        return _named(named, agents)
    matching = _Matching()
    for agent in candidates(event, agents):
        passes = _passes(agent, outcome_of, matching.errors)
        if passes is None:
            matching.possible.append(agent)
        elif passes:
            matching.agents.append(agent)
    errors = tuple(matching.errors)
    best = max((_rank(agent) for agent in matching.agents), default=None)
    if not matching.decides(best):
        return Undecided(errors)
    if best is None:
        return Unrouted(errors)
    first, *others = [agent for agent in matching.agents if _rank(agent) == best]
    if others:
        return Ambiguous(tuple(sorted(agent.name for agent in (first, *others))), errors)
    return Binding(first, first.spec.scope.type, errors)


def candidates(event: Event, agents: Iterable[Agent]) -> list[Agent]:
    """The agents whose state, event types and scope fit; what is left to ask are their filters."""
    return [
        agent
        for agent in agents
        if agent.workspace_id == event.workspace_id
        and agent.spec.enabled
        and event.envelope.event_type in agent.spec.event_types
        and in_scope(event, agent.spec.scope)
    ]


def filters_of(event: Event, agents: Iterable[Agent]) -> list[str]:
    """The filters that must be evaluated to resolve this event, each once."""
    if event.envelope.agent is not None:
        return []
    return list(dict.fromkeys(text for agent in candidates(event, agents) for text in agent.spec.filters))


def in_scope(event: Event, scope: Scope) -> bool:
    """Whether an event happens where an agent listens. A channel is what `launcher_id` names.

    A scope without an id means every one of its kind; an agent scope hears only events that name it.
    """
    envelope = event.envelope
    match scope.type:
        case "global":
            return True
        case "workspace":
            actual: str | None = event.workspace_id
        case "bot":
            actual = envelope.bot_id
        case "channel":
            actual = envelope.launcher_id
        case "conversation":
            actual = envelope.conversation_id
        case "agent":
            return False
    return actual is not None and scope.id in (None, actual)


def _named(name: str, agents: Iterable[Agent]) -> Resolution:
    found = next((agent for agent in agents if agent.name == name), None)
    if found is None:
        return UnknownAgent(name)
    return Binding(found, "agent") if found.spec.enabled else DisabledAgent(name)


def _passes(agent: Agent, outcome_of: FilterResults, errors: list[FilterError]) -> bool | None:
    """Whether all filters match; None: that depends on some that could not be evaluated."""
    passed, unknown = True, False
    for text in agent.spec.filters:
        outcome = outcome_of(text)
        if outcome.error is not None:
            errors.append(FilterError(agent.name, text, outcome.error))
        if outcome.unknown:
            unknown = True
        else:
            passed &= outcome.matched and outcome.error is None
    return None if passed and unknown else passed


def _rank(agent: Agent) -> tuple[int, bool, int]:
    scope = agent.spec.scope
    # `bot` without an id means any bot: wider than a named one; a workspace is this one, named or not
    narrow = scope.id is not None or scope.type in {"workspace", "global"}
    return SPECIFICITY[scope.type], narrow, agent.spec.priority


def _errors(errors: Sequence[FilterError]) -> dict[str, Any]:
    listed = [{"agent": e.agent, "filter": e.filter, "error": e.error} for e in errors]
    return {"filter_errors": listed} if listed else {}
