"""The wire form of each result function."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from hostler_protocol.content import Usage
from hostler_protocol.results import RESULT_TYPES, decode_data
from hostler_sdk import (
    Result,
    action,
    artifact,
    completed,
    delta,
    failed,
    log,
    message,
    paused,
    state_updated,
    tool_completed,
    tool_started,
)

CASES: list[tuple[Result, str, dict[str, Any]]] = [
    (delta("a"), "message.delta", {"chunk": {"role": "assistant", "content": "a"}}),
    (
        delta("a", message_id="m"),
        "message.delta",
        {"chunk": {"role": "assistant", "content": "a", "message_id": "m"}},
    ),
    (
        message("whole", artifact_refs=["a1", {"artifact_id": "a2", "name": "n"}]),
        "message.completed",
        {
            "message": {
                "role": "assistant",
                "content": "whole",
                "artifact_refs": [{"artifact_id": "a1"}, {"artifact_id": "a2", "name": "n"}],
            }
        },
    ),
    (
        message([{"type": "text", "text": "t"}]),
        "message.completed",
        {"message": {"role": "assistant", "content": [{"type": "text", "text": "t"}]}},
    ),
    (
        tool_started("c1", "shop.book", {"seat": "1A"}),
        "tool.call.started",
        {"tool_call_id": "c1", "tool_name": "shop.book", "parameters": {"seat": "1A"}},
    ),
    (
        tool_completed("c1", "shop.book", result=[1]),
        "tool.call.completed",
        {"tool_call_id": "c1", "tool_name": "shop.book", "result": [1], "error": None},
    ),
    (
        artifact("file", content=b"\x00\xff", name="x.bin"),
        "artifact.created",
        {"artifact_type": "file", "name": "x.bin", "content_base64": base64.b64encode(b"\x00\xff").decode()},
    ),
    (
        artifact("file", content="é"),
        "artifact.created",
        {"artifact_type": "file", "mime_type": "text/plain; charset=utf-8", "content_base64": "w6k="},
    ),
    (
        state_updated("actor", "name", None),
        "state.updated",
        {"scope": "actor", "key": "name", "value": None},
    ),
    (
        action("chat.mute", "u1", {"s": 1}),
        "action.requested",
        {"action": "chat.mute", "target": "u1", "payload": {"s": 1}},
    ),
    (log("x", "warning"), "log", {"level": "warning", "text": "x"}),
    (
        paused([{"tool_name": "t", "arguments": {}, "kind": "approval"}], state={"a": 1}, expires_in=60),
        "run.paused",
        {
            "pending": [
                {"tool_name": "t", "arguments": {}, "kind": "approval", "title": "", "editable": False}
            ],
            "state": {"a": 1},
            "expires_in": 60,
        },
    ),
    (
        completed("length", "bye"),
        "run.completed",
        {"finish_reason": "length", "message": {"role": "assistant", "content": "bye"}},
    ),
    (failed("x.y", "why", True), "run.failed", {"code": "x.y", "error": "why", "retryable": True}),
]


@pytest.mark.parametrize(("result", "kind", "data"), CASES, ids=[case[1] for case in CASES])
def test_a_result_is_what_the_protocol_says(result: Result, kind: str, data: dict[str, Any]) -> None:
    assert result.type == kind
    encoded = msgspec.json.encode(result.data)
    assert msgspec.json.decode(encoded) == data
    assert decode_data(kind, encoded) == result.data  # the host's strict decoder takes it


def test_every_result_a_runner_may_send_has_a_function() -> None:
    made_by_the_host = {"attempt.started", "interaction.requested"}
    assert {kind for _, kind, _ in CASES} == set(RESULT_TYPES) - made_by_the_host


@pytest.mark.parametrize("seconds", [59, 2_592_001, 0, float("nan")])
def test_a_pause_cannot_wait_too_short_or_too_long(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"paused\(\): expires_in is .*1 minute to 30 days"):
        paused([{"tool_name": "t", "arguments": {}, "kind": "approval"}], expires_in=seconds)


def test_usage_goes_with_messages_and_endings() -> None:
    for result in (message("x", usage={"input_tokens": 3}), completed(usage={"input_tokens": 3})):
        assert result.usage is not None
        assert result.usage.input_tokens == 3
        assert result.usage.output_tokens is None  # unknown, not zero


def test_usage_of_a_service_may_hold_more_than_the_protocol_knows() -> None:
    with pytest.warns(RuntimeWarning, match=r"usage: 'dollars', 'tier' are left out; known are input_tokens"):
        result = message("x", usage={"input_tokens": 3, "dollars": 1, "tier": 2})
    assert result.usage == Usage(input_tokens=3)


loose_delta: Any = delta  # called below as someone without a type checker would
loose_message: Any = message


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: loose_delta(7), "delta() takes text or a list of content elements, not int 7"),
        (lambda: loose_message(None), "message() takes text"),
        (lambda: loose_message(b"bytes"), "message() takes text"),
        (lambda: message([{"type": "video"}]), "Invalid value 'video'"),
        (lambda: artifact("file"), "artifact() needs content"),
        (lambda: paused([{"tool_name": "t"}]), "missing required field"),
        (lambda: message("x", usage={"input_tokens": -1}), "usage: Expected `int` >= 0"),
    ],
)
def test_a_wrong_value_is_named_where_it_is_made(make: Any, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert says in str(caught.value)
