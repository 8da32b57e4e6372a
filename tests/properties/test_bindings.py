"""Resolution does not depend on the order of agents, and always says the best or names the best."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.agents import Agent, Scope, ScopeType
from hostler.domain.bindings import (
    Ambiguous,
    Binding,
    FilterOutcome,
    Resolution,
    Undecided,
    Unrouted,
    in_scope,
    resolve,
)
from hostler.domain.events import Event
from support.examples import examples
from support.grants import agent_of, event_of

ids = st.sampled_from([None, "a", "b"])
scope_types: st.SearchStrategy[ScopeType] = st.sampled_from(
    ["agent", "bot", "workspace", "channel", "conversation", "global"]
)


@st.composite
def agents_of(draw: st.DrawFn) -> list[Agent]:
    return [
        agent_of(
            f"agent-{number}",
            scope=Scope(type=draw(scope_types), id=draw(ids)),
            priority=draw(st.integers(0, 2)),
            enabled=draw(st.booleans()) or draw(st.booleans()),
            event_types=draw(
                st.sampled_from([["message.received"], ["other"], ["other", "message.received"]])
            ),
            filters=draw(st.lists(st.sampled_from(["yes", "no", "bad"]), max_size=2)),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


@st.composite
def events(draw: st.DrawFn) -> Event:
    return event_of(
        workspace_id="main",
        bot_id=draw(ids),
        launcher_id=draw(ids),
        conversation_id=draw(ids),
    )


OUTCOMES = {"yes": FilterOutcome(True), "no": FilterOutcome(False), "bad": FilterOutcome(True, "an error")}


def fits(event: Event, agent: Agent) -> bool:
    spec = agent.spec
    return (
        spec.enabled
        and event.envelope.event_type in spec.event_types
        and in_scope(event, spec.scope)
        and all(text == "yes" for text in spec.filters)
    )


@given(events(), agents_of())
@settings(max_examples=examples(130, 2_000), deadline=None)
def test_resolution(event: Event, agents: list[Agent]) -> None:
    resolution = resolve(event, agents, OUTCOMES.__getitem__)
    shuffled = sorted(agents, key=lambda agent: agent.name, reverse=True)
    again = resolve(event, shuffled, OUTCOMES.__getitem__)
    fitting = [agent for agent in agents if fits(event, agent)]
    match resolution:
        case Unrouted():
            assert fitting == []
            assert isinstance(again, Unrouted)
        case Binding(agent=agent):
            assert agent in fitting
            assert isinstance(again, Binding)
            assert again.agent == agent
            for other in fitting:
                if other.spec.scope == agent.spec.scope and other is not agent:
                    assert other.spec.priority < agent.spec.priority
        case Ambiguous(names=names):
            assert len(names) > 1
            assert set(names) <= {agent.name for agent in fitting}
            assert isinstance(again, Ambiguous)
            assert again.names == names
        case _:
            raise AssertionError(resolution)


MAYBE = FilterOutcome.not_evaluated("it took too long")


@given(events(), agents_of())
@settings(max_examples=examples(130, 2_000), deadline=None)
def test_a_filter_that_could_not_be_evaluated_never_changes_who_gets_an_event(
    event: Event, agents: list[Agent]
) -> None:
    """Decided only where every answer would have given the same; undecided only where it matters."""

    def chosen(answer: FilterOutcome) -> Resolution:
        return resolve(event, agents, (OUTCOMES | {"bad": answer}).__getitem__)

    def told(resolution: Resolution) -> object:
        match resolution:
            case Binding(agent=agent):
                return agent.name
            case Ambiguous(names=names):
                return names
        return type(resolution)

    unknown = chosen(MAYBE)
    if isinstance(unknown, Undecided):
        assert unknown.filter_errors
    else:
        assert told(unknown) == told(chosen(FilterOutcome(True))) == told(chosen(FilterOutcome(False)))
