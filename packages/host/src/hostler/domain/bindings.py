"""Resolve which agent an event is for: exactly one, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.agents import Agent, Scope, ScopeType
from hostler.domain.events import Event
from hostler.domain.name_patterns import matches
from hostler.domain.record import Record
from hostler_protocol.errors import ConflictError, NotFoundError

SPECIFICITY: dict[ScopeType, int] = {
    "agent": 6,
    "conversation": 5,
    "channel": 4,
    "bot": 3,
    "workspace": 2,
    "global": 1,
}
"""Precedence of scopes; the highest wins. `agent` is the scope of an event that names its agent."""


class FilterOutcome(Record):
    """The outcome of one filter for one event.

    An error in the expression, such as a missing field, is no match. `unknown`: the filter could not be
    evaluated (timeout, its process died), so whether it matches is not known.
    """

    matched: bool
    error: str | None = None
    unknown: bool = False

    @classmethod
    def not_evaluated(cls, why: str) -> FilterOutcome:
        """The outcome of a filter that could not be evaluated; `why` is the reason."""
        return cls(False, why, unknown=True)


EvaluateFilter = Callable[[str], FilterOutcome]
"""Return the outcome of a filter, given as text, for the event that is being resolved."""


class FilterError(Record):
    """A filter that failed, for the event's record."""

    agent: str
    filter: str
    error: str


class Binding(Record):
    """The agent version that receives the event, and the scope that matched."""

    agent: Agent
    scope: ScopeType
    filter_errors: tuple[FilterError, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the JSON stored with the event and the run."""
        return {
            "agent": self.agent.name,
            "agent_id": self.agent.agent_id,
            "version": self.agent.version,
            "scope": self.scope,
            **_errors(self.filter_errors),
        }


class Unrouted(Record):
    """No agent gets the event. Recorded on the event; not an error. `reason`: why."""

    filter_errors: tuple[FilterError, ...] = ()
    reason: str = "no enabled agent matches"

    def record(self) -> dict[str, Any]:
        """Return the JSON stored with the event."""
        return {"reason": self.reason, **_errors(self.filter_errors)}


class Ambiguous(Record):
    """Several agents match equally: the event is stored and refused with their names."""

    names: tuple[str, ...]
    filter_errors: tuple[FilterError, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the JSON stored with the event."""
        return {"candidates": list(self.names), **_errors(self.filter_errors)}

    def error(self) -> ConflictError:
        """Return the error for the sender."""
        names = " and ".join(repr(name) for name in self.names)
        return ConflictError(
            f"agents {names} match this event equally: give one a narrower scope or a higher priority, "
            "or name the agent in the event",
            agents=list(self.names),
        )


class Undecided(Record):
    """The result depends on filters that could not be evaluated: routing is retried."""

    filter_errors: tuple[FilterError, ...]

    def record(self) -> dict[str, Any]:
        """Return the JSON stored with the event."""
        reason = "filters that it depends on could not be evaluated"
        return {"reason": reason, **_errors(self.filter_errors)}

    def summary(self) -> str:
        """Return each agent with the error of its filter, for the log."""
        return "; ".join(f"{one.agent}: {one.error}" for one in self.filter_errors)


class UnknownAgent(Record):
    """The event names an agent that does not exist. Nothing is stored."""

    name: str

    def error(self) -> NotFoundError:
        """Return the error for the sender."""
        return NotFoundError(f"there is no agent {self.name!r}")


class DisabledAgent(Record):
    """The event names an agent that is disabled. Nothing is stored."""

    name: str

    def error(self) -> ConflictError:
        """Return the error for the sender."""
        return ConflictError(f"agent {self.name!r} is disabled")


Resolution = Binding | Unrouted | Ambiguous | Undecided | UnknownAgent | DisabledAgent


@dataclass(slots=True)
class _Matching:
    agents: list[Agent] = field(default_factory=list)
    possible: list[Agent] = field(default_factory=list)
    """Agents that match if their filters, which could not be evaluated, do."""
    errors: list[FilterError] = field(default_factory=list)

    def decides(self, best: tuple[int, bool, int] | None) -> bool:
        """Whether the filters that could not be evaluated cannot change the result."""
        return not any(best is None or _rank(agent) >= best for agent in self.possible)


def resolve(event: Event, agents: Iterable[Agent], evaluate: EvaluateFilter) -> Resolution:
    """Resolve the agent for an event.

    `agents` are the current versions in the event's workspace, enabled or not. `evaluate` is called
    only for filters that `filters_of` returns.
    """
    named = event.envelope.agent
    if named is not None:
        return _named(named, agents)
    matching = _Matching()
    for agent in candidates(event, agents):
        passes = _passes(agent, evaluate, matching.errors)
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


def takes_type(event_types: Iterable[str], event_type: str) -> bool:
    """Whether a list of event types, and patterns of them (`group.*`), has a type."""
    return any(matches(pattern, event_type) for pattern in event_types)


def candidates(event: Event, agents: Iterable[Agent]) -> list[Agent]:
    """Return the enabled agents whose event types and scope match; their filters are not evaluated."""
    return [
        agent
        for agent in agents
        if agent.workspace_id == event.workspace_id
        and agent.spec.enabled
        and takes_type(agent.spec.event_types, event.envelope.event_type)
        and in_scope(event, agent.spec.scope)
    ]


def filters_of(event: Event, agents: Iterable[Agent]) -> list[str]:
    """The filters that must be evaluated to resolve this event, each once."""
    if event.envelope.agent is not None:
        return []
    return list(dict.fromkeys(text for agent in candidates(event, agents) for text in agent.spec.filters))


def in_scope(event: Event, scope: Scope) -> bool:
    """Whether an event is within an agent's scope. `launcher_id` identifies the channel.

    A scope without an id matches every id of its type; scope `agent` matches only events that name the agent.
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


def _passes(agent: Agent, evaluate: EvaluateFilter, errors: list[FilterError]) -> bool | None:
    """Whether all filters match; None if that depends on some that could not be evaluated."""
    passed, unknown = True, False
    for text in agent.spec.filters:
        outcome = evaluate(text)
        if outcome.error is not None:
            errors.append(FilterError(agent.name, text, outcome.error))
        if outcome.unknown:
            unknown = True
        else:
            passed &= outcome.matched and outcome.error is None
    return None if passed and unknown else passed


def _rank(agent: Agent) -> tuple[int, bool, int]:
    scope = agent.spec.scope
    # `bot` without an id means any bot, wider than a named one; `workspace` means this one, named or not
    narrow = scope.id is not None or scope.type in {"workspace", "global"}
    return SPECIFICITY[scope.type], narrow, agent.spec.priority


def _errors(errors: Sequence[FilterError]) -> dict[str, Any]:
    listed = [{"agent": e.agent, "filter": e.filter, "error": e.error} for e in errors]
    return {"filter_errors": listed} if listed else {}
