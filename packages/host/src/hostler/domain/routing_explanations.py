"""Explain which agent takes an event, and for each other agent why it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from hostler.domain.agents import Agent, ScopeType
from hostler.domain.bindings import (
    Ambiguous,
    Binding,
    DisabledAgent,
    EvaluateFilter,
    FilterOutcome,
    Resolution,
    Undecided,
    UnknownAgent,
    in_scope,
    resolve,
    takes_type,
)
from hostler.domain.events import Event
from hostler_protocol._base import Strict

RoutingOutcome = Literal["agent", "none", "ambiguous", "undecided", "unknown_agent", "disabled_agent"]
Why = Literal[
    "takes", "ties", "named", "not_named", "disabled", "event_type", "scope", "filter", "unknown_filter",
    "narrower", "priority",
]  # fmt: skip
"""Why an agent takes an event, or does not."""


class RoutedAgent(Strict):
    """One agent, and whether it takes an event.

    `why`: `takes`; `ties`: others match equally; `named`: the event names it; `not_named`: the event names
    another; `disabled`; `event_type`: it does not take events of this type; `scope`: the event is outside of
    its scope; `filter`: `filter` does not match, or fails with `error`; `unknown_filter`: `filter` could not
    be evaluated; `narrower`: `behind` has a narrower scope; `priority`: `behind` has a higher priority.
    `text` says it in a sentence.
    """

    agent: str
    version: int
    takes: bool
    why: Why
    text: str
    scope: ScopeType
    scope_id: str | None
    priority: int
    filter: str | None = None
    error: str | None = None
    behind: str | None = None


class RoutingExplanation(Strict):
    """Which agent takes an event; nothing is stored. `agent` is the one, if there is one. `text` says it in a
    sentence. `agents`: those that take it first, then the nearest misses.
    """

    outcome: RoutingOutcome
    agent: str | None
    text: str
    agents: list[RoutedAgent]


def nearest_miss(event: Event, agents: Iterable[Agent], evaluate: EvaluateFilter) -> str | None:
    """Return the agent that is nearest to an event that nobody takes, with why not; None without agents."""
    rows = explain_routing(event, agents, evaluate).agents
    return f"{rows[0].agent}: {rows[0].text}" if rows else None


def explain_routing(event: Event, agents: Iterable[Agent], evaluate: EvaluateFilter) -> RoutingExplanation:
    """Explain `bindings.resolve` for the same arguments."""
    known = list(agents)
    resolution = resolve(event, known, evaluate)
    rows = [_row(event, agent, resolution, evaluate) for agent in known]
    order = {why: number for number, why in enumerate(_NEAREST)}
    rows.sort(key=lambda row: (order[row.why], row.agent))
    outcome, agent, text = _outcome(event, resolution)
    return RoutingExplanation(outcome=outcome, agent=agent, text=text, agents=rows)


_NEAREST: tuple[Why, ...] = (
    "takes", "named", "ties", "unknown_filter", "priority", "narrower", "filter", "scope", "event_type",
    "disabled", "not_named",
)  # fmt: skip


def _outcome(event: Event, resolution: Resolution) -> tuple[RoutingOutcome, str | None, str]:
    match resolution:
        case Binding():
            name = resolution.agent.name
            named = " because the event names it" if event.envelope.agent is not None else ""
            return "agent", name, f"{name} takes it{named}"
        case Ambiguous():
            return "ambiguous", None, resolution.error().message
        case Undecided():
            return "undecided", None, str(resolution.record()["reason"])
        case UnknownAgent():
            return "unknown_agent", None, resolution.error().message
        case DisabledAgent():
            return "disabled_agent", None, resolution.error().message
        case _:
            return "none", None, str(resolution.record()["reason"])


def _row(event: Event, agent: Agent, resolution: Resolution, evaluate: EvaluateFilter) -> RoutedAgent:
    why, more = _why(event, agent, resolution, evaluate)
    spec = agent.spec
    row = RoutedAgent(
        agent=agent.name,
        version=agent.version,
        takes=why in ("takes", "named"),
        why=why,
        text="",
        scope=spec.scope.type,
        scope_id=spec.scope.id,
        priority=spec.priority,
        **more,
    )
    return msgspec.structs.replace(row, text=_sentence(row, event, spec.event_types))


def _why(
    event: Event, agent: Agent, resolution: Resolution, evaluate: EvaluateFilter
) -> tuple[Why, dict[str, str | None]]:
    """Return why an agent takes an event or does not, with the fields of RoutedAgent that say more."""
    if (unfit := _unfit(event, agent)) is not None:
        return unfit, {}
    if (failed := _failed_filter(agent, evaluate)) is not None:
        text, outcome = failed
        return "unknown_filter" if outcome.unknown else "filter", {"filter": text, "error": outcome.error}
    return _compared(agent, resolution)


def _unfit(event: Event, agent: Agent) -> Why | None:
    """Return what decides without filters; None if nothing does."""
    spec, named = agent.spec, event.envelope.agent
    found: Why | None = None
    if named is not None and named != agent.name:
        found = "not_named"
    elif not spec.enabled:
        found = "disabled"
    elif named is not None:
        found = "named"
    elif not takes_type(spec.event_types, event.envelope.event_type):
        found = "event_type"
    elif not in_scope(event, spec.scope):
        found = "scope"
    return found


def _compared(agent: Agent, resolution: Resolution) -> tuple[Why, dict[str, str | None]]:
    """Compare an agent that matches with those that take the event."""
    match resolution:
        case Binding() if resolution.agent.name == agent.name:
            return "takes", {}
        case Binding(agent=first):
            narrower = _breadth(first) != _breadth(agent)
            return "narrower" if narrower else "priority", {"behind": first.name}
        case Ambiguous() if agent.name in resolution.names:
            return "ties", {"behind": next(name for name in resolution.names if name != agent.name)}
        case Ambiguous():
            return "narrower", {"behind": resolution.names[0]}
        case _:
            return "ties", {}


def _breadth(agent: Agent) -> tuple[ScopeType, bool]:
    return agent.spec.scope.type, agent.spec.scope.id is None


def _failed_filter(agent: Agent, evaluate: EvaluateFilter) -> tuple[str, FilterOutcome] | None:
    """Return the first filter that decides against the agent; one that is not known if there is no other."""
    unknown: tuple[str, FilterOutcome] | None = None
    for text in agent.spec.filters:
        outcome = evaluate(text)
        if outcome.unknown:
            unknown = unknown or (text, outcome)
        elif not outcome.matched or outcome.error is not None:
            return text, outcome
    return unknown


_SENTENCES: Mapping[Why, str] = {
    "takes": "takes the event",
    "named": "the event names it",
    "not_named": "the event names another agent",
    "disabled": "it is disabled",
    "event_type": "{event_type} is none of its event types ({event_types})",
    "scope": "the event is outside of its scope: {scope}",
    "filter": "its filter {row.filter} does not match",
    "unknown_filter": "its filter {row.filter} could not be evaluated: {row.error}",
    "narrower": "it matches, and {row.behind} has a narrower scope",
    "priority": "it matches, and {row.behind} has a higher priority",
    "ties": "it matches exactly like {row.behind}",
}


def _sentence(row: RoutedAgent, event: Event, event_types: list[str]) -> str:
    if row.why == "filter" and row.error is not None:
        return f"its filter {row.filter} fails: {row.error}"
    if row.why == "ties" and row.behind is None:
        return "it matches"
    return _SENTENCES[row.why].format(
        row=row,
        event_type=event.envelope.event_type,
        event_types=", ".join(event_types) or "none: it is reached by name alone",
        scope=row.scope if row.scope_id is None else f"{row.scope} {row.scope_id!r}",
    )
