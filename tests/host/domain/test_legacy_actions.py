"""Decisions in the forms of older clients, AG-UI and OpenAI become the same actions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.domain.legacy_actions import OlderActions, actions_of, waiting_for
from hostler.domain.pause_actions import Action, StaleViewError, UnprocessableError
from hostler.domain.pause_views import CallView, PauseView
from hostler_protocol.errors import InvalidArgumentError
from support.call_views import call


def pause(*calls: CallView, status: str = "open", pause_id: str = "p") -> PauseView:
    return PauseView(
        id=pause_id,
        run_id="r",
        segment=1,
        revision=3,
        status=status,
        form="implicit",
        agent="a",
        conversation_id="c",
        requester="ann",
        created_at=0.0,
        expires_at=None,
        calls=list(calls),
    )


WAITING = pause(
    call("yes", tool_call_id="call_0"),
    call("tool", "client_tool", tool_call_id="call_1"),
    call("ask", "question"),
)


def older(**fields: Any) -> OlderActions:
    return msgspec.convert({"conversation_id": "c", **fields}, OlderActions)


def test_tool_actions_decide_on_the_digest_that_they_name() -> None:
    given = older(
        tool_actions=[
            {
                "call_id": "yes",
                "decision": "approved",
                "comment": "fine",
                "edited_args": {"n": 2},
                "args_hash": "what was shown",
            },
            {"call_id": "call_1", "result": None},
            {"call_id": "ask", "values": {"a": 1}},
        ]
    )
    assert given.names() == ["yes", "call_1", "ask"]
    assert actions_of(given, WAITING) == [
        Action(
            call_id="yes",
            type="approve",
            args_hash="what was shown",
            comment="fine",
            edited_args={"n": 2},
        ),
        Action(call_id="tool", type="result", result=None),
        Action(call_id="ask", type="answer", values={"a": 1}),
    ]
    denied = older(tool_actions=[{"call_id": "yes", "decision": "denied", "comment": "no"}])
    assert actions_of(denied, WAITING) == [Action(call_id="yes", type="deny", args_hash=None, comment="no")]


@pytest.mark.parametrize(
    ("call_id", "status", "payload", "expected"),
    [
        ("yes", "resolved", {"approved": True, "argsHash": "d"}, {"type": "approve", "args_hash": "d"}),
        ("yes", "resolved", {"approved": True, "argsHash": 7}, {"type": "approve"}),
        ("yes", "resolved", {"approved": True}, {"type": "approve"}),
        ("yes", "resolved", True, {"type": "approve"}),
        ("yes", "resolved", {"approved": "yes", "argsHash": "d"}, {"type": "deny", "args_hash": "d"}),
        ("yes", "resolved", None, {"type": "deny"}),
        (
            "yes",
            "resolved",
            {"approved": True, "editedArgs": {"n": 5}},
            {"type": "approve", "edited_args": {"n": 5}},
        ),
        ("yes", "cancelled", {"approved": True}, {"type": "deny"}),
        ("tool", "resolved", {"x": 1}, {"type": "result", "result": {"x": 1}}),
        ("tool", "cancelled", None, {"type": "error", "error": "cancelled by the client"}),
        ("ask", "resolved", {"size": "xl"}, {"type": "answer", "values": {"size": "xl"}}),
    ],
)
def test_nothing_but_a_plain_yes_of_ag_ui_is_an_approval(
    call_id: str, status: str, payload: Any, expected: dict[str, Any]
) -> None:
    given = older(resume=[{"interruptId": call_id, "status": status, "payload": payload, "new": 1}])
    assert actions_of(given, WAITING) == [Action(call_id=call_id, **expected)]


@pytest.mark.parametrize(
    ("content", "result"), [('{"a": 1}', {"a": 1}), ("it rains", "it rains"), ([1], [1])]
)
def test_tool_messages_are_results(content: Any, result: Any) -> None:
    given = older(messages=[{"role": "tool", "tool_call_id": "call_1", "content": content}])
    assert actions_of(given, WAITING) == [Action(call_id="tool", type="result", result=result)]


def test_the_pause_that_waits_goes_before_one_that_is_over() -> None:
    over = pause(call("x", tool_call_id="call_0"), status="resumed", pause_id="over")
    assert waiting_for([over, WAITING], ["call_0"]) is WAITING
    assert waiting_for([over], ["call_0"]) is over, "a late one is told that it is late"
    assert waiting_for([over, WAITING], ["call_0", "nothing"]) is None


def test_the_model_s_id_names_a_call_only_where_it_is_one() -> None:
    twice = pause(call("a", tool_call_id="call_0"), call("b", tool_call_id="call_0"))
    assert waiting_for([twice], ["call_0"]) is None
    with pytest.raises(UnprocessableError, match="no call 'call_0'"):
        actions_of(older(tool_actions=[{"call_id": "call_0", "decision": "approved"}]), twice)


def test_an_action_that_says_nothing_is_refused() -> None:
    with pytest.raises(UnprocessableError) as error:
        actions_of(older(tool_actions=[{"call_id": "yes"}]), WAITING)
    assert error.value.details["reason"] == "schema"


@pytest.mark.parametrize(
    "fields", [{}, {"tool_actions": [{"call_id": "a"}], "messages": [{"tool_call_id": "a", "content": ""}]}]
)
def test_exactly_one_form_is_given(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="exactly one of"):
        older(**fields).names()


@pytest.mark.parametrize("approval", [{"tool_actions": [{"call_id": "yes", "decision": "approved"}]}, {}])
def test_an_approval_of_a_changed_tool_names_what_it_was_shown(approval: dict[str, Any]) -> None:
    changed = pause(call("yes", args_hash="digest of arguments and tool", tool_changed=True))
    given = approval or {"resume": [{"interruptId": "yes", "payload": True}]}
    with pytest.raises(StaleViewError, match="the tool of 'yes' has changed"):
        actions_of(older(**given), changed)
    denied = older(tool_actions=[{"call_id": "yes", "decision": "denied"}])
    assert actions_of(denied, changed) == [Action(call_id="yes", type="deny")]
