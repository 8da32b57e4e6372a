"""What a run asks as chunks of a message: also of calls that an earlier answer, or another message, has."""

from __future__ import annotations

import json
from typing import Any

from hostler.domain.run_events import Asked
from hostler.http.ai_sdk.message_facts import MessageFacts
from hostler.http.ai_sdk.message_fold import MessageFold
from hostler.http.dialects.answers import answer_id
from hostler.http.dialects.fold import Answer, fold_all
from hostler_protocol.results import (
    AttemptStarted,
    InteractionRequested,
    ResultData,
    RunCompleted,
    RunPaused,
    ToolCallCompleted,
    ToolCallStarted,
)
from support.dialects.plain import asked, said, stored

OVER = RunCompleted()
PARKED = RunPaused(pending=[])
RESUMED = AttemptStarted(attempt=2, cause="decided", discard_after=3)
ORDER = ToolCallStarted(tool_call_id="o", tool_name="order", parameters={"thing": "lamp"})
ORDERED = ToolCallCompleted(tool_call_id="o", tool_name="order", result="ordered")
DOUBT = InteractionRequested(
    call_id="k", kind="in_doubt", title="Did it?", tool_name="order", arguments={"thing": "lamp"}
)
BEGUN = Answer("r")
"""The answer with which the message of these tests begins."""


def approval(**fields: Any) -> InteractionRequested:
    shown: dict[str, Any] = {"tool_call_id": "o", "args_hash": "h1", "arguments": {"thing": "lamp"}, **fields}
    return InteractionRequested(call_id="k", kind="approval", title="May it?", tool_name="order", **shown)


def budget(number: int = 1) -> InteractionRequested:
    return InteractionRequested(
        call_id=f"b{number}",
        kind="budget",
        title="May this run use more of its budget of calls?",
        description="the budget of 2 calls of this run is used up",
        arguments={"limit": 2, "top_up": {"calls": number}},
        args_hash=f"hash{number}",
    )


def chunks(
    *data: ResultData, after: int = 0, of: Answer | None = None, tools: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """The chunks of an answer, without those that frame each."""
    answer = Answer("r", after)
    facts = MessageFacts(answer, answer_id("msg", of or answer), "c", tools, of)
    frames = list(fold_all(MessageFold(facts), answer, stored(*data), None))
    found = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]
    return [one for one in found if one["type"] not in {"start", "finish", "abort"}]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [one["type"] for one in found]


# -- more budget ------------------------------------------------------------------------------------------


def test_a_request_for_more_budget_is_a_call_that_is_approved() -> None:
    found = chunks(ORDER, budget(), PARKED)
    assert kinds(found) == [
        *("start-step", "tool-input-available", "finish-step"),
        # in a step of its own: clients wait for the outcomes of all calls of the last one
        *("start-step", "tool-input-available", "tool-approval-request", "finish-step"),
    ]
    call, request = found[-3:-1]
    assert (call["toolName"], call["dynamic"], call["providerExecuted"]) == ("budget", True, True)
    assert call["input"] == {"limit": 2, "top_up": {"calls": 1}}
    assert (request["toolCallId"], request["approvalId"]) == (call["toolCallId"], "call_r_b1.hash1")
    assert request["approvalDescriptor"]["argsHash"] == "hash1"
    assert request["reason"] == (
        "May this run use more of its budget of calls?\nthe budget of 2 calls of this run is used up"
    )


def test_requests_for_more_budget_at_once_are_in_one_step() -> None:
    found = chunks(budget(1), budget(2), PARKED)
    assert kinds(found).count("start-step") == 1
    assert kinds(found).count("tool-approval-request") == 2


def test_a_budget_that_was_decided_about_has_an_output_and_one_that_waits_has_none() -> None:
    run = (ORDER, budget(1), PARKED, RESUMED, budget(2), PARKED, RESUMED, ORDERED, said("Done."), OVER)
    second = chunks(*run, after=2, of=BEGUN)
    outputs = [one for one in second if one["type"] == "tool-output-available"]
    assert [(one["toolCallId"], one["output"]) for one in outputs] == [("call_r_b1", None)]
    assert [one["approvalId"] for one in second if one["type"] == "tool-approval-request"] == [
        "call_r_b2.hash2"
    ]
    third = chunks(*run, after=5, of=BEGUN)
    named = [one["toolCallId"] for one in third if one["type"] == "tool-output-available"]
    assert named == ["o", "call_r_b1", "call_r_b2"]


# -- asked again ------------------------------------------------------------------------------------------

AGAIN = (ORDER, approval(), PARKED, RESUMED)


BELOW = ["tool-output-error", "start-step", "tool-input-available", "tool-approval-request", "finish-step"]
"""Its part before has ended, and it has another one in a step of its own."""


def test_a_call_that_is_asked_again_in_a_later_answer_is_approved_there() -> None:
    found = chunks(*AGAIN, approval(expires_at=9.0), PARKED, after=2, of=BEGUN)
    assert kinds(found) == BELOW
    ended, _, call, request, _ = found
    assert (ended["toolCallId"], call["toolCallId"], request["toolCallId"]) == ("o", "o", "o")
    assert (ended["errorText"], call["input"]) == ("this call goes on below", {"thing": "lamp"})
    assert request["approvalId"] == "call_r_k.h1"
    assert request["approvalDescriptor"]["expiresAt"] == 9.0


def test_an_approval_after_more_budget_is_asked_in_the_last_step() -> None:
    run = (ORDER, budget(), PARKED, RESUMED, approval(), PARKED)
    assert kinds(chunks(*run, after=2, of=BEGUN)) == [*BELOW[:-1], "tool-output-available", BELOW[-1]]


def test_a_call_that_is_asked_again_with_other_arguments_shows_these() -> None:
    edited = approval(arguments={"thing": "sofa"}, args_hash="h2")
    found = chunks(*AGAIN, edited, PARKED, after=2, of=BEGUN)
    assert kinds(found) == BELOW
    assert (found[2]["toolCallId"], found[2]["input"]) == ("o", {"thing": "sofa"})
    assert found[3]["approvalDescriptor"]["argsHash"] == "h2"
    reported = ToolCallStarted(tool_call_id="o", tool_name="order", parameters={"thing": "la..."})
    first = chunks(reported, approval(), PARKED)
    assert kinds(first) == ["start-step", *["tool-input-available"] * 2, *BELOW[-2:]]
    assert first[2]["input"] == {"thing": "lamp"}


def test_a_call_in_doubt_after_an_approval_is_no_question() -> None:
    for after, of in ((2, BEGUN), (0, None)):
        run = (*AGAIN, DOUBT, PARKED) if after else (ORDER, DOUBT, PARKED)
        found = chunks(*run, after=after, of=of)
        (doubt,) = [one for one in found if one["type"] == "data-in-doubt"]
        assert (doubt["id"], doubt["data"]["kind"]) == ("k", "in_doubt")
        (text,) = [one["delta"] for one in found if one["type"] == "text-delta"]
        assert "order: " in text
        assert "hostler pauses list --run r" in text
        assert not [one for one in found if one.get("toolName") == "question"]


def test_a_call_of_another_message_is_shown_where_it_is_asked_about() -> None:
    """A message that was sent meanwhile has an answer of its own: there the client knows no such call."""
    run = (ORDER, said("Hm.", "m1"), approval(), PARKED, RESUMED, ORDERED, said("Done.", "m2"), OVER)
    found = chunks(*run, after=2)
    assert kinds(found) == [
        *("start-step", "tool-input-available", "tool-approval-request", "finish-step"),
    ]
    assert (found[1]["toolCallId"], found[1]["input"]) == ("o", {"thing": "lamp"})
    rest = chunks(*run, after=3, of=Answer("r", 2))
    assert [one["toolCallId"] for one in rest if one["type"] == "tool-output-available"] == ["o"]
    unasked = chunks(ORDER, said("Hm.", "m1"), ORDERED, said("Done.", "m2"), OVER, after=2)
    assert "tool-output-available" not in kinds(unasked)


def test_a_tool_of_the_client_that_is_asked_for_in_a_later_answer_is_the_clients() -> None:
    scan = ToolCallStarted(tool_call_id="s", tool_name="scan", parameters={})
    run = (scan, approval(), PARKED, RESUMED, asked("q", tool_call_id="s"), PARKED)
    (call,) = chunks(*run, after=2, of=BEGUN, tools=frozenset({"scan"}))
    assert (call["type"], call["toolCallId"], call["toolName"]) == ("tool-input-available", "s", "scan")
    assert "providerExecuted" not in call
    assert call["toolMetadata"]["hostler"]["callId"] == "call_r_q"


def test_a_question_that_is_asked_again_is_not_shown_twice() -> None:
    ask = InteractionRequested(call_id="q", kind="form", title="Which size?")
    assert kinds(chunks(ask, PARKED)) == ["start-step", "tool-input-available", "finish-step"]
    later = InteractionRequested(call_id="q", kind="form", title="Which size?", expires_at=9.0)
    assert chunks(ask, DOUBT, PARKED, RESUMED, later, PARKED, after=2, of=BEGUN) == []


# -- decisions that clients send for ever -----------------------------------------------------------------


def test_an_answer_that_has_nothing_to_add_begins_another_step() -> None:
    """Clients send a message by themselves as long as all calls of its last step are decided."""
    assert kinds(chunks(*AGAIN, ORDERED, OVER, after=2, of=BEGUN)) == [
        "tool-output-available",
        "start-step",
        "finish-step",
    ]


def test_what_still_waits_after_some_decisions_is_asked_in_another_step() -> None:
    waiting, other = Asked("o", approval()), Asked(None, budget())
    frames = MessageFold(MessageFacts(BEGUN, "msg_r", "c")).still_asked([waiting], [other], {"o"}, None)
    found = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]
    assert kinds(found)[:5] == ["start", *BELOW[:-1]]
    assert {one["toolCallId"] for one in found if "toolCallId" in one} == {"o"}
    (text,) = [one["delta"] for one in found if one["type"] == "text-delta"]
    assert "used up" in text
    scan = Asked("s", asked("q"))
    nothing = MessageFold(MessageFacts(BEGUN, "msg_r", "c")).still_asked([], [scan], {"s"}, None)
    assert [json.loads(frame.removeprefix(b"data: "))["type"] for frame in nothing[:-1]] == [
        *("start", "start-step", "finish-step", "finish"),
    ]
