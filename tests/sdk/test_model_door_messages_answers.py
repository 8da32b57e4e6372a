"""Anthropic's Messages at the model door: answers, streams, errors and tokens, as its clients read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.calls import ModelChunk, ModelDelta, ModelReply, ToolCallDelta
from hostler_protocol.content import (
    FunctionCall,
    ModelMessage,
    ProviderData,
    ToolCall,
    Usage,
)
from hostler_sdk import InvalidArgument, RateLimited, RuntimeFailure, Unauthorized
from hostler_sdk.errors import HostError
from hostler_sdk.model_door.chat_answer import AnswerHead
from hostler_sdk.model_door.messages_answer import CallIds, MessageEvents
from support.doors import Client, at_door, sent

USER = {"role": "user", "content": "hi"}
ASK: dict[str, Any] = {"model": "default", "max_tokens": 99, "messages": [USER]}
ADD = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
CALLED = ToolCall(id="c1", function=FunctionCall(name="add", arguments='{"a":1}'))
USAGE = Usage(input_tokens=5, output_tokens=7, cached_tokens=2)
CALLING = ModelReply(
    message=ModelMessage(role="assistant", content="Well,", reasoning="hm", tool_calls=[CALLED]),
    finish_reason="tool_calls",
    usage=USAGE,
)
THINK = {"thinking": {"type": "adaptive"}}


each_way = pytest.mark.parametrize("memory", [False, True], ids=["socket", "memory"])


@each_way
def test_a_whole_answer(memory: bool) -> None:
    async def use(client: Client) -> None:
        answer = await client.post("/messages?beta=true", **ASK | THINK)
        assert answer["id"].startswith("msg_")
        thought, said, use = answer.pop("content")
        assert thought == {"type": "thinking", "thinking": "hm", "signature": answer.pop("id")}
        assert (said["type"], said["text"], use) == ("text", "Well,", USE)
        assert answer == {
            "type": "message",
            "role": "assistant",
            "model": "main",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 3,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 0,
                "output_tokens": 7,
            },
        }
        unasked = await client.post("/messages", **ASK)
        assert [block["type"] for block in unasked["content"]] == ["text", "tool_use"]

    driven = at_door(use, memory=memory, models={"main": CALLING})
    assert [call.method for call in driven.calls] == ["model.invoke"] * 2


@each_way
def test_a_stream(memory: bool) -> None:
    async def use(client: Client) -> None:
        events = await client.events("/messages", **ASK | THINK)
        assert [event["type"] for event in events] == [
            "message_start",
            *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
            *("content_block_start", "content_block_delta", "content_block_stop") * 2,
            "message_delta",
            "message_stop",
        ]
        assert events[0]["message"]["content"] == []
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        assert deltas == [
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": events[0]["message"]["id"]},
            {"type": "text_delta", "text": "Well,"},
            {"type": "input_json_delta", "partial_json": '{"a":1}'},
        ]
        assert [e["index"] for e in events if e["type"] == "content_block_start"] == [0, 1, 2]
        assert events[-2]["delta"]["stop_reason"] == "tool_use"
        assert events[-2]["usage"]["output_tokens"] == 7

    driven = at_door(use, memory=memory, models={"main": CALLING})
    assert [call.method for call in driven.calls] == ["model.stream"]


def streamed(*deltas: ModelDelta, reply: ModelReply = CALLING) -> list[dict[str, Any]]:
    """The blocks that a client has at the end of a stream; every event is checked for its order."""
    events = MessageEvents(AnswerHead("msg_1", 0, "m"), thinks=True, ids=CallIds())
    data = (
        events.first() + b"".join(events.piece(ModelChunk(delta=one)) for one in deltas) + events.last(reply)
    )
    blocks: list[dict[str, Any]] = []
    is_open = False
    for line in data.decode().splitlines():
        found: dict[str, Any] = json.loads(line[6:]) if line.startswith("data: ") else {"type": ""}
        match found["type"]:
            case "content_block_start":
                assert (is_open, found["index"]) == (False, len(blocks))
                blocks.append({**found["content_block"], "pieces": []})
                is_open = True
            case "content_block_delta":
                assert (is_open, found["index"]) == (True, len(blocks) - 1)
                blocks[-1]["pieces"] += [v for k, v in found["delta"].items() if k != "type"]
            case "content_block_stop":
                assert (is_open, found["index"]) == (True, len(blocks) - 1)
                is_open = False
    assert not is_open
    return blocks


def part(index: int, arguments: str, name: str | None = None) -> ModelDelta:
    id_ = None if name is None else f"c{index}"
    return ModelDelta(tool_calls=[ToolCallDelta(index=index, id=id_, name=name, arguments=arguments)])


def test_calls_that_are_written_by_turns_come_one_after_the_other() -> None:
    blocks = streamed(
        ModelDelta(content="a"),
        part(0, '{"a"', "add"),
        part(1, '{"b"', "sub"),
        part(0, ":1}"),
        ModelDelta(content="late"),
        part(1, ":2}"),
    )
    assert [(one["type"], one.get("id"), "".join(one["pieces"])) for one in blocks] == [
        ("text", None, "a"),
        ("tool_use", "c0", '{"a":1}'),
        ("tool_use", "c1", '{"b":2}'),
        ("text", None, "late"),
    ]
    nameless = streamed(part(0, "", None))
    assert (nameless[0]["id"], nameless[0]["pieces"]) == ("call_0", [])


def test_arguments_that_are_no_object_are_an_error_in_both_forms() -> None:
    wrong = ToolCall(id="c1", function=FunctionCall(name="add", arguments='{"a":'))
    reply = ModelReply(message=ModelMessage(role="assistant", tool_calls=[wrong]), finish_reason="tool_calls")

    async def use(client: Client) -> None:
        status, error = await client.refused("/messages", **ASK)
        assert (status, error["type"], error["code"]) == (502, "api_error", "model_failed")
        *_, last = await client.events("/messages", **ASK)
        assert (last["type"], last["error"]["message"]) == ("error", error["message"])
        assert "the model called 'add' with arguments that are no JSON object" in error["message"]

    at_door(use, models={"main": reply})


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "end_turn")],
)
def test_why_an_answer_ended(finish_reason: str, expected: str) -> None:
    reply = ModelReply(message=ModelMessage(role="assistant", content="a"), finish_reason=finish_reason)

    async def use(client: Client) -> None:
        assert (await client.post("/messages", **ASK))["stop_reason"] == expected
        events = await client.events("/messages", **ASK)
        assert events[-2]["delta"]["stop_reason"] == expected

    at_door(use, models={"main": reply})


def test_a_call_has_an_id_that_no_other_call_of_the_conversation_has() -> None:
    twice = ModelMessage(role="assistant", tool_calls=[CALLED, CALLED])

    async def use(client: Client) -> None:
        said = {"role": "assistant", "content": [USE]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]}
        body = ASK | {"messages": [USER, said, result]}
        whole = await client.post("/messages", **body)
        assert [block["id"] for block in whole["content"]] == ["c1_2", "c1_3"]
        events = await client.events("/messages", **body)
        begun = [event["content_block"]["id"] for event in events if event["type"] == "content_block_start"]
        assert begun == ["c1_2", "c1_3"]

    at_door(use, models={"main": twice})


def test_what_the_service_needs_back_is_added_to_its_own_answers() -> None:
    data = ProviderData(source="s", fields={"thinking_blocks": [1]})
    thought = ModelMessage(
        role="assistant", content="Well,", reasoning="hm", tool_calls=[CALLED], provider_data=data
    )

    async def use(client: Client) -> None:
        first = await client.post("/messages", **ASK | THINK)
        said = {"role": "assistant", "content": first["content"]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]}
        await client.post("/messages", **ASK | THINK | {"messages": [USER, said, result]})

    driven = at_door(use, models={"main": [thought, "done"]})
    assistant = sent(driven).messages[1]
    assert (assistant.provider_data, assistant.reasoning) == (data, "hm")


def test_ids_do_not_depend_on_what_names_a_process() -> None:
    seen: list[str] = []

    async def use(client: Client) -> None:
        answer = await client.post("/messages", **ASK | {"metadata": {"user_id": f"session {len(seen)}"}})
        seen.append(answer["id"])

    for _ in range(2):
        at_door(use, models="x", context={"run_id": "r1", "trigger": {"timestamp": 5.0}})
    assert seen[0] == seen[1]


def test_tokens_are_counted_and_models_listed_as_anthropic_does() -> None:
    async def use(client: Client) -> None:
        counted = await client.post(
            "/messages/count_tokens", model="default", system="be brief", messages=[USER]
        )
        assert counted == {"input_tokens": 3}
        version = {"anthropic-version": "2023-06-01", "x-api-key": client.ctx.models.openai_key}
        del client.http.headers["authorization"]
        listed = (await client.http.get("/models", headers=version)).json()
        assert [one["id"] for one in listed["data"]] == ["main", "default"]
        assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("main", "default", False)
        assert (await client.http.get("/models/main", headers=version)).json()["type"] == "model"
        answer = await client.http.get("/models/other", headers=version)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
        wrong = await client.http.post("/messages", json=ASK, headers={"x-api-key": "hostler_door_guess"})
        assert (wrong.status_code, wrong.json()["error"]["type"]) == (401, "authentication_error")
        assert (await client.http.get("/messages", headers=version)).status_code == 405

    driven = at_door(use, models={"main": "x"})
    assert [call.method for call in driven.calls] == ["model.count_tokens"]


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry"),
    [
        (Unauthorized("used up", details={"budget": "cost"}), 403, "permission_error", None),
        (InvalidArgument("long", details={"reason": "context_overflow"}), 400, "invalid_request_error", None),
        (RateLimited("slow", details={"retry_after": 2.2}), 429, "rate_limit_error", "true"),
        (RateLimited("tomorrow", details={"retry_after": 9000}), 429, "rate_limit_error", "false"),
        (RuntimeFailure("broken"), 502, "api_error", "false"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_those_that_clients_know(
    error: HostError, status: int, kind: str, retry: str | None, stream: bool
) -> None:
    async def use(client: Client) -> None:
        answer = await client.http.post("/messages", json=ASK | {"stream": stream})
        found = answer.json()
        assert (answer.status_code, found["type"]) == (status, "error")
        assert (found["error"]["type"], found["error"]["message"]) == (kind, error.message)
        assert answer.headers.get("x-should-retry") == retry

    at_door(use, models={"main": error})
