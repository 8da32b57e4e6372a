"""Requests to people in the words of each interface: more budget, and calls in doubt after an approval."""

from __future__ import annotations

import re

import pytest

from hostler.domain.run_events import Asked
from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.extensions import request_parts
from hostler.http.a2a.fold import TaskFacts, TaskFold
from hostler.http.dialect_table import FOLDS, ShownRun
from hostler.http.dialects.fold import Answer, fold_all
from hostler.http.mcp.elicitation import form_of
from hostler_protocol.results import (
    AttemptStarted,
    InteractionRequested,
    ResultData,
    RunPaused,
    ToolCallStarted,
)
from hostler_protocol.runs import RunRecord
from support.dialects.plain import stored

RUN = RunRecord(
    run_id="r",
    agent="a",
    agent_version=1,
    runner_id="plugin:test/player/default",
    status="paused",
    attempt=1,
    created_at=1.0,
    conversation_id="c",
)
BUDGET = InteractionRequested(
    call_id="b",
    kind="budget",
    title="May this run use more of its budget of calls?",
    arguments={"limit": 2, "top_up": {"calls": 7}},
    args_hash="h",
)
ORDER = ToolCallStarted(tool_call_id="o", tool_name="order", parameters={"thing": "lamp"})
APPROVAL = InteractionRequested(
    call_id="k", kind="approval", title="May it?", tool_name="order", tool_call_id="o",
    arguments={"thing": "lamp"}, args_hash="h",
)  # fmt: skip
DOUBT = InteractionRequested(
    call_id="k", kind="in_doubt", title="Did order do its work?", tool_name="order", tool_call_id="o",
    arguments={"thing": "lamp"}, args_hash="h",
)  # fmt: skip
PARKED = RunPaused(pending=[])


def shown_as(name: str, *data: ResultData, after: int = 0) -> str:
    fold = FOLDS[name](ShownRun(RUN, frozenset(), "http://host"))
    return b"".join(fold_all(fold, Answer("r", after), stored(*data), None)).decode()


@pytest.mark.parametrize("name", FOLDS)
def test_who_is_asked_for_more_budget_sees_how_much(name: str) -> None:
    said = shown_as(name, BUDGET, PARKED)
    assert "top_up" in said
    assert "May this run use more" in said


def test_texts_of_more_budget_say_how_much() -> None:
    assert "top_up" in form_of(Asked(None, BUDGET))["message"]
    assert "top_up" in (request_parts("r", [Asked(None, BUDGET)])[0].text or "")


@pytest.mark.parametrize("name", FOLDS)
def test_a_call_in_doubt_after_its_approval_is_told_of_in_the_answer_that_goes_on(name: str) -> None:
    resumed = AttemptStarted(attempt=2, cause="decided", discard_after=3)
    said = shown_as(name, ORDER, APPROVAL, PARKED, resumed, DOUBT, PARKED, after=2)
    assert "Did order do its work?" in said


def test_a_subscriber_of_a2a_is_not_told_that_a_run_works_once_it_is_parked() -> None:
    fold = TaskFold(TaskFacts("r", "c"), HTTP_JSON_EVENTS, stays=True)
    frames = list(fold_all(fold, Answer("r"), stored(ORDER, APPROVAL, PARKED), None))
    states = [state for frame in frames for state in re.findall(r"TASK_STATE_(\w+)", frame.decode())]
    assert states == ["WORKING", "INPUT_REQUIRED"]
