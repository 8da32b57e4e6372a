"""Reasoning, in the words of each interface: before the message, and no part of it."""

from __future__ import annotations

import json
from typing import Any

from hostler.http.dialect_table import FOLDS, ShownRun, frames_as
from hostler_protocol.content import Message, MessageChunk
from hostler_protocol.results import MessageCompleted, MessageDelta, RunCompleted
from hostler_protocol.runs import RunRecord
from support.dialects.plain import delta, stored

RUN = RunRecord(
    run_id="r",
    agent="a",
    agent_version=1,
    runner_id="plugin:test/player/default",
    status="completed",
    attempt=1,
    created_at=1.0,
    conversation_id="c",
)


def thought(text: str) -> MessageDelta:
    return MessageDelta(chunk=MessageChunk(role="assistant", content="", reasoning=text))


def shown_as(name: str) -> list[dict[str, Any]]:
    said = Message(role="assistant", content="4", message_id="m", reasoning="Two and two.")
    results = stored(
        thought("Two "), thought("and"), delta("4"), MessageCompleted(message=said), RunCompleted()
    )
    whole = b"".join(frames_as(name, ShownRun(RUN, frozenset(), "http://host"), results)).decode()
    data = [line.removeprefix("data: ") for line in whole.splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in data if one not in ("", "[DONE]")]


def test_every_interface_is_tried_here() -> None:
    assert {"a2a", "ag-ui", "ai-sdk", "chat-completions", "langgraph", "mcp", "responses"} == set(FOLDS)


def test_a2a_has_passing_statuses_of_it() -> None:
    events = [event["statusUpdate"]["status"] for event in shown_as("a2a") if "statusUpdate" in event]
    parts = [part for status in events if "message" in status for part in status["message"]["parts"]]
    assert all(part["metadata"]["hostler"]["thought"] for part in parts)
    assert "".join(part["text"] for part in parts) == "Two and two."


def test_ag_ui_has_spans_of_it() -> None:
    events = [event for event in shown_as("ag-ui") if "REASONING" in event["type"]]
    assert [event["type"].removeprefix("REASONING_") for event in events] == [
        *("START", "MESSAGE_START", "MESSAGE_CONTENT", "MESSAGE_CONTENT", "MESSAGE_END", "END"),
        *("START", "MESSAGE_START", "MESSAGE_CONTENT", "MESSAGE_END", "END"),
    ]
    assert "".join(event.get("delta", "") for event in events) == "Two and two."
    assert len({event["messageId"] for event in events}) == 2


def test_responses_have_items_of_it() -> None:
    events = shown_as("responses")
    items = events[-1]["response"]["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "reasoning"]
    texts = [item["content"][0]["text"] for item in items]
    assert texts == ["Two and", "4", " two."]
    deltas = [one["delta"] for one in events if one["type"] == "response.reasoning_text.delta"]
    assert deltas == ["Two ", "and", " two."]


def test_mcp_logs_it() -> None:
    logs = [one["params"] for one in shown_as("mcp") if one.get("method") == "notifications/message"]
    assert {log["level"] for log in logs} == {"debug"}
    assert "".join(log["data"]["reasoning"] for log in logs) == "Two and two."
    assert shown_as("mcp")[-1]["result"]["content"] == [{"type": "text", "text": "4"}]


def test_chat_completions_have_a_field_that_clients_know() -> None:
    deltas = [choice["delta"] for chunk in shown_as("chat-completions") for choice in chunk["choices"]]
    assert "".join(one.get("reasoning_content") or "" for one in deltas) == "Two and two."
    assert "".join(one.get("content") or "" for one in deltas) == "4"


def test_langgraph_has_it_beside_the_content() -> None:
    told: list[Any] = [*shown_as("langgraph")]
    chunks = [one[0] for one in told if isinstance(one, list)]
    assert "".join(one["additional_kwargs"].get("reasoning_content", "") for one in chunks) == "Two and two."
    assert "".join(one["content"] for one in chunks) == "4"
    (message,) = [one for one in told if isinstance(one, dict) and "messages" in one][-1]["messages"]
    assert (message["content"], message["additional_kwargs"]) == ("4", {"reasoning_content": "Two and two."})
