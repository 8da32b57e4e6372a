"""Which agent takes an event, and why each other one does not; as routing itself decides."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from hostler.domain.agents import Agent
from hostler.domain.bindings import Ambiguous, Binding, FilterOutcome, resolve
from hostler.domain.routing_explanations import explain_routing
from support.grants import Scope, agent_of, event_of

OUTCOMES = {
    "yes": FilterOutcome(True),
    "no": FilterOutcome(False),
    "bad": FilterOutcome(False, "no such field: x"),
    "slow": FilterOutcome.not_evaluated("it took too long"),
}


def why(agents: list[Agent], **event: Any) -> dict[str, str]:
    found = explain_routing(event_of(**event), agents, OUTCOMES.__getitem__)
    return {one.agent: one.why for one in found.agents}


def test_each_agent_has_its_own_reason() -> None:
    agents = [
        agent_of("best", scope=Scope(type="conversation", id="c")),
        agent_of("broad", scope=Scope(type="workspace"), priority=9),
        agent_of("low", scope=Scope(type="conversation", id="c"), priority=-1),
        agent_of("off", enabled=False),
        agent_of("other type", event_types=["group.member_joined"]),
        agent_of("elsewhere", scope=Scope(type="conversation", id="d")),
        agent_of("picky", filters=["yes", "no"]),
        agent_of("broken", filters=["bad"]),
    ]
    found = explain_routing(event_of(conversation_id="c"), agents, OUTCOMES.__getitem__)
    assert (found.outcome, found.agent) == ("agent", "best")
    assert {one.agent: one.why for one in found.agents} == {
        "best": "takes",
        "broad": "narrower",
        "low": "priority",
        "off": "disabled",
        "other type": "event_type",
        "elsewhere": "scope",
        "picky": "filter",
        "broken": "filter",
    }
    by_name = {one.agent: one for one in found.agents}
    assert by_name["broken"].error == "no such field: x"
    assert by_name["broad"].behind == by_name["low"].behind == "best"
    assert by_name["picky"].text == "its filter no does not match"
    assert by_name["other type"].text == "message.received is none of its event types (group.member_joined)"
    assert [one.agent for one in found.agents][:3] == ["best", "low", "broad"], (
        "the nearest misses come first"
    )


def test_an_event_that_names_an_agent_asks_no_filter() -> None:
    agents = [agent_of("a", filters=["none such"]), agent_of("b"), agent_of("off", enabled=False)]
    assert why(agents, agent="a") == {"a": "named", "b": "not_named", "off": "not_named"}
    found = explain_routing(event_of(agent="off"), agents, OUTCOMES.__getitem__)
    assert (found.outcome, found.agent, found.text) == ("disabled_agent", None, "agent 'off' is disabled")
    assert explain_routing(event_of(agent="x"), agents, OUTCOMES.__getitem__).outcome == "unknown_agent"


def test_equal_matches_and_unknown_filters_are_told() -> None:
    assert why([agent_of("a"), agent_of("b"), agent_of("c", priority=-1)]) == {
        "a": "ties",
        "b": "ties",
        "c": "narrower",
    }
    found = explain_routing(event_of(), [agent_of("a", filters=["slow"])], OUTCOMES.__getitem__)
    assert (found.outcome, found.agents[0].why) == ("undecided", "unknown_filter")
    assert "it took too long" in found.agents[0].text
    assert explain_routing(event_of(), [], OUTCOMES.__getitem__).outcome == "none"


@pytest.mark.parametrize("seed", range(4))
def test_it_always_agrees_with_routing(seed: int) -> None:
    chance = random.Random(seed)
    scopes = [
        Scope(type="workspace"),
        Scope(type="conversation", id="c"),
        Scope(type="bot"),
        Scope(type="agent"),
    ]
    for round_ in range(200):
        agents = [
            agent_of(
                name,
                scope=chance.choice(scopes),
                priority=chance.choice([0, 0, 1]),
                filters=chance.sample(sorted(OUTCOMES), chance.choice([0, 0, 1, 2])),
                enabled=chance.random() > 0.2,
            )
            for name in "abcd"
        ]
        event = event_of(conversation_id="c", agent="a" if round_ % 7 == 0 else None)
        resolution = resolve(event, agents, OUTCOMES.__getitem__)
        found = explain_routing(event, agents, OUTCOMES.__getitem__)
        takes = [one.agent for one in found.agents if one.takes]
        if isinstance(resolution, Binding):
            assert takes == [resolution.agent.name] == [found.agent]
        else:
            assert takes == []
        if isinstance(resolution, Ambiguous):
            assert sorted(one.agent for one in found.agents if one.why == "ties") == list(resolution.names)
        assert all(one.text for one in found.agents)
        assert not any(a == b for a, b in itertools.pairwise(sorted(one.agent for one in found.agents)))
