"""The tables of lanes, steers and slots: whole, and what the code goes by."""

from __future__ import annotations

from typing import get_args

import pytest

from hostler.domain import lanes, steering
from hostler.domain.agents import OnBusy
from hostler.domain.lanes import ADMISSIONS, BY_PAUSE, LANE_STATUSES, RULES, LaneState, admit
from hostler.domain.pauses import OnMessage
from hostler.domain.slots import Slots, slot_key

LANES: dict[str, LaneState] = {
    "free": LaneState(),
    "waiting": LaneState(waiting=1),
    "busy": LaneState("r1"),
    "paused": LaneState("r1", paused=True),
}
ANSWERS = {
    "start": "started",
    "beside": "started",
    "steer": "queued",
    "queue": "queued",
    "interrupt": "started",
    "reject": "rejected",
}


def test_the_tables_are_whole() -> None:
    assert set(ADMISSIONS) == {(lane, busy) for lane in LANE_STATUSES for busy in get_args(OnBusy)}
    assert set(ADMISSIONS.values()) == set(RULES) == set(get_args(lanes.Rule))
    assert set(BY_PAUSE) == set(get_args(OnMessage))
    assert set(lanes.MEANINGS) == set(LANE_STATUSES) == {lane.status for lane in LANES.values()}
    for status in LANE_STATUSES:
        assert any(before == status for before, _ in lanes.TRANSITIONS)
    assert {status for pair in lanes.TRANSITIONS for status in pair} == set(LANE_STATUSES)
    assert {status for pair in steering.TRANSITIONS for status in pair} == set(steering.STEER_STATUSES)
    assert not any(before in {"requeued", "dropped"} for before, _ in steering.TRANSITIONS)
    assert steering.may_become("queued", "injected")
    assert not steering.may_become("injected", "requeued")


@pytest.mark.parametrize("status", LANE_STATUSES)
@pytest.mark.parametrize("on_busy", get_args(OnBusy))
def test_a_message_is_answered_as_the_table_says(status: str, on_busy: OnBusy) -> None:
    for on_pause in get_args(OnMessage):
        rule = ADMISSIONS[LANES[status].status, on_busy]
        rule = BY_PAUSE[on_pause] if rule == "by_pause" else rule
        admission = admit(LANES[status], on_busy, on_pause)
        assert admission.answer == ANSWERS[rule]
        assert admission.open is (rule != "reject")
        superseded = status == "paused" and on_pause == "supersede" and on_busy != "parallel"
        assert (admission.supersede_run_id == "r1") is superseded


def test_a_message_that_can_be_absorbed_is() -> None:
    assert admit(LaneState("r1", can_steer=True), "steer").answer == "steered"
    assert admit(LaneState(waiting=1, can_steer=True), "steer").answer == "steered"
    assert admit(LaneState("r1", can_steer=True), "queue").answer == "queued"
    assert admit(LaneState("r1", paused=True, can_steer=True), "steer").answer == "queued"


def test_slots_are_taken_by_process_workspace_plugin_and_agent() -> None:
    a1, a2 = (slot_key("w1", "plugin:acme/one/default", agent) for agent in ("a1", "a2"))
    b1 = slot_key("w2", "plugin:acme/one/other", "b1")
    c1 = slot_key("w2", "plugin:acme/two/default", "c1")
    slots = Slots(4, per_workspace=2, per_plugin=2, per_agent={"a1": 1, "idle": 0})
    assert slots.take(a1)
    assert not slots.take(a1), "one of this agent is enough"
    assert slots.full("agent") == ["a1", "idle"]
    assert slots.take(b1)
    assert not slots.take(a2), "the plugin has two"
    assert (slots.full("plugin"), slots.full("workspace")) == (["acme/one"], [])
    assert slots.take(c1)
    assert not slots.take(c1), "the workspace has two"
    assert slots.full("workspace") == ["w2"]
    slots.give_back(b1)
    assert slots.take(a2)
    assert (slots.free, slots.full("workspace")) == (1, ["w1"])
    for place in (a1, a2, c1):
        slots.give_back(place)
    assert (slots.free, slots.taken, dict(slots.counts)) == (4, 0, {})
