"""Which agent an event is for, case by case; and lanes."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.domain.agents import Agent, OnBusy
from hostler.domain.bindings import (
    Ambiguous,
    Binding,
    DisabledAgent,
    FilterError,
    FilterOutcome,
    Undecided,
    UnknownAgent,
    Unrouted,
    filters_of,
    resolve,
)
from hostler.domain.lanes import MAX_QUEUED_PER_LANE, LaneState, admit, lane_of
from hostler.domain.place import Place
from support.grants import Scope, agent_of, event_of


def no_filters(text: str) -> FilterOutcome:
    raise AssertionError(f"filter {text!r} should not have been asked")


def bound(agents: list[Agent], **event: Any) -> str:
    resolution = resolve(event_of(**event), agents, no_filters)
    assert isinstance(resolution, Binding)
    return resolution.agent.name


SCOPES = [
    agent_of("everywhere", scope=Scope(type="global"), priority=99),
    agent_of("workspace", scope=Scope(type="workspace")),
    agent_of("any-bot", scope=Scope(type="bot"), priority=50),
    agent_of("bot", scope=Scope(type="bot", id="b1")),
    agent_of("channel", scope=Scope(type="channel", id="room")),
    agent_of("conversation", scope=Scope(type="conversation", id="c9")),
    agent_of("on-demand", scope=Scope(type="agent"), priority=99),
]


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({}, "workspace"),
        ({"bot_id": "b1"}, "bot"),
        ({"bot_id": "b2"}, "any-bot"),
        ({"bot_id": "b1", "launcher_id": "room"}, "channel"),
        ({"bot_id": "b1", "launcher_id": "room", "conversation_id": "c9"}, "conversation"),
        ({"agent": "on-demand", "conversation_id": "c9"}, "on-demand"),
    ],
)
def test_the_most_specific_scope_wins(event: dict[str, Any], name: str) -> None:
    assert bound(SCOPES, **event) == name


def test_priority_decides_within_one_scope() -> None:
    assert bound([agent_of("low"), agent_of("high", priority=1)]) == "high"


def test_two_that_match_equally_are_both_named() -> None:
    resolution = resolve(
        event_of(), [agent_of("zoe"), agent_of("amy"), agent_of("low", priority=-1)], no_filters
    )
    assert isinstance(resolution, Ambiguous)
    assert resolution.names == ("amy", "zoe")
    assert "'amy' and 'zoe'" in resolution.error().message


def test_a_named_agent_skips_types_filters_and_scope() -> None:
    quiet = agent_of(
        "quiet", event_types=["schedule.triggered"], filters=["false"], scope=Scope(type="bot", id="x")
    )
    resolution = resolve(event_of(agent="quiet"), [quiet, agent_of("loud")], no_filters)
    assert isinstance(resolution, Binding)
    assert (resolution.agent.name, resolution.scope) == ("quiet", "agent")


def test_named_but_unknown_or_disabled() -> None:
    agents = [agent_of("off", enabled=False)]
    assert isinstance(resolve(event_of(agent="nobody"), agents, no_filters), UnknownAgent)
    assert isinstance(resolve(event_of(agent="off"), agents, no_filters), DisabledAgent)


@pytest.mark.parametrize(
    "agent",
    [
        agent_of(enabled=False),
        agent_of(event_types=["group.member_joined"]),
        agent_of(scope=Scope(type="workspace", id="other")),
        agent_of(workspace_id="other"),
        agent_of(scope=Scope(type="agent")),
        agent_of(scope=Scope(type="conversation", id="c2")),
    ],
)
def test_no_match_is_unrouted(agent: Agent) -> None:
    assert isinstance(resolve(event_of(), [agent], no_filters), Unrouted)


def test_an_absent_bot_is_in_no_bot_scope() -> None:
    assert isinstance(resolve(event_of(), [agent_of(scope=Scope(type="bot"))], no_filters), Unrouted)


def test_filters_all_must_match_and_errors_are_recorded() -> None:
    outcomes = {
        "yes": FilterOutcome(True),
        "no": FilterOutcome(False),
        "bad": FilterOutcome(False, "no such field: x"),
    }
    agents = [
        agent_of("a", filters=["yes", "no"], priority=3),
        agent_of("b", filters=["yes", "bad"], priority=2),
        agent_of("c", filters=["yes"], priority=1),
        agent_of("d", filters=["unasked"], enabled=False),
    ]
    assert filters_of(event_of(), agents) == ["yes", "no", "bad"]
    resolution = resolve(event_of(), agents, outcomes.__getitem__)
    assert isinstance(resolution, Binding)
    assert resolution.agent.name == "c"
    assert resolution.record()["filter_errors"] == [
        {"agent": "b", "filter": "bad", "error": "no such field: x"}
    ]


MAYBE = FilterOutcome.not_evaluated("it took too long")
ASKED = {"yes": FilterOutcome(True), "no": FilterOutcome(False), "maybe": MAYBE}


@pytest.mark.parametrize(
    ("others", "decided"),
    [
        ([], False),
        ([agent_of("b", filters=["yes"], priority=1)], False),  # the other one would win
        ([agent_of("b", filters=["yes"], priority=2)], False),  # both would match
        ([agent_of("b", filters=["yes"], priority=3)], True),
        ([agent_of("b", scope=Scope(type="conversation", id="c"))], True),
    ],
)
def test_an_event_waits_for_a_filter_that_could_not_be_evaluated_where_it_matters(
    others: list[Agent], decided: bool
) -> None:
    maybe = agent_of("a", filters=["yes", "maybe"], priority=2)
    resolution = resolve(event_of(conversation_id="c"), [maybe, *others], ASKED.__getitem__)
    if decided:
        assert isinstance(resolution, Binding)
        assert resolution.agent.name == "b"
    else:
        assert isinstance(resolution, Undecided)
        assert resolution.filter_errors == (FilterError("a", "maybe", "it took too long"),)
        assert resolution.summary() == "a: it took too long"


def test_a_filter_that_does_not_match_rules_its_agent_out_whatever_another_would_say() -> None:
    agents = [agent_of("a", filters=["maybe", "no"])]
    assert isinstance(resolve(event_of(), agents, ASKED.__getitem__), Unrouted)


def test_lanes_tell_every_part_apart() -> None:
    def lane(place: Place, ws: str = "w", agent: str = "a", event: str = "e") -> str:
        return lane_of(workspace_id=ws, agent_id=agent, place=place, event_id=event)

    place, nowhere = Place(conversation_id="c"), Place()
    lanes = [
        lane(place),
        lane(place, ws="x"),
        lane(place, agent="b"),
        lane(place._replace(bot_id="")),
        lane(place._replace(bot_id="b")),
        lane(place._replace(conversation_id="d")),
        lane(place._replace(thread_id="")),
        lane(place._replace(thread_id="t")),
        lane(nowhere),
        lane(nowhere, event="f"),
    ]
    assert len(set(lanes)) == len(lanes)
    assert lane(place) == lane(place, event="another event of the same conversation")


BUSY = LaneState(active_run_id="r1")


@pytest.mark.parametrize(
    ("lane", "on_busy", "answer", "opens", "parallel", "cancels"),
    [
        (LaneState(), "queue", "started", True, False, None),
        (LaneState(), "reject", "started", True, False, None),
        (LaneState(), "parallel", "started", True, True, None),
        (BUSY, "steer", "queued", True, False, None),
        (BUSY, "queue", "queued", True, False, None),
        (BUSY, "reject", "rejected", False, False, None),
        (BUSY, "parallel", "started", True, True, None),
        (BUSY, "interrupt", "started", True, False, "r1"),
        (LaneState(waiting=1), "queue", "queued", True, False, None),
        (LaneState("r1", MAX_QUEUED_PER_LANE), "queue", "rejected", False, False, None),
        (LaneState("r1", MAX_QUEUED_PER_LANE), "interrupt", "rejected", False, False, None),
    ],
)
def test_what_becomes_of_an_event_in_a_busy_lane(
    lane: LaneState, on_busy: OnBusy, answer: str, opens: bool, parallel: bool, cancels: str | None
) -> None:
    admission = admit(lane, on_busy)
    assert (admission.answer, admission.open, admission.parallel, admission.cancel_run_id) == (
        answer,
        opens,
        parallel,
        cancels,
    )
    assert (admission.reason is None) is opens
