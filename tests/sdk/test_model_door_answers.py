"""What clients get at the model door: whole answers, streams, errors, embeddings; what a run remembers."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from hostler_protocol.calls import ModelReply
from hostler_protocol.content import FunctionCall, ModelMessage, ProviderData, ToolCall, Usage
from hostler_protocol.limits import MAX_EMBED_INPUTS
from hostler_sdk import InvalidArgument, RateLimited, RuntimeFailure, Unauthorized
from hostler_sdk.errors import HostError
from hostler_sdk.model_door import limits
from support.doors import ASK, Client, at_door, sent

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
USAGE = Usage(input_tokens=5, output_tokens=7, cached_tokens=2, reasoning_tokens=3)
CALLS = [ToolCall(id=f"c{n}", function=FunctionCall(name="add", arguments=f'{{"a":{n}}}')) for n in range(2)]
SAYS = ModelReply(
    message=ModelMessage(role="assistant", content="Grüß dich"), finish_reason="stop", usage=USAGE
)
CALLING = ModelReply(
    message=ModelMessage(role="assistant", content="", reasoning="hm", tool_calls=CALLS),
    finish_reason="tool_calls",
    usage=USAGE,
)

each_way = pytest.mark.parametrize("memory", [False, True], ids=["socket", "memory"])


@each_way
def test_a_whole_answer(memory: bool) -> None:
    async def use(client: Client) -> None:
        answer = await client.chat(temperature=0.5)
        assert answer["id"].startswith("chatcmpl-")
        assert (answer["object"], answer["model"]) == ("chat.completion", "main")
        assert answer["created"] == int(client.ctx.trigger.timestamp or 0)
        (choice,) = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": "Grüß dich", "refusal": None}
        assert choice["finish_reason"] == "stop"
        assert answer["usage"] == {
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }

    driven = at_door(use, memory=memory, models={"main": SAYS})
    assert [call.method for call in driven.calls] == ["model.invoke"]
    assert (sent(driven).model_id, sent(driven).extra_args) == ("main", {"temperature": 0.5})


@each_way
def test_a_stream_with_tools_reasoning_and_usage(memory: bool) -> None:
    async def use(client: Client) -> None:
        *chunks, last, end = await client.events(
            "/chat/completions", **ASK, tools=[TOOL], stream_options={"include_usage": True}
        )
        assert end == "[DONE]"
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 12)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "hm"},
            *(
                {
                    "tool_calls": [
                        {
                            "index": n,
                            "id": f"c{n}",
                            "type": "function",
                            "function": {"name": "add", "arguments": f'{{"a":{n}}}'},
                        }
                    ]
                }
                for n in range(2)
            ),
            {},
        ]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["tool_calls"]
        assert {chunk["usage"] for chunk in chunks} == {None}
        assert len({chunk["id"] for chunk in chunks}) == 1

    driven = at_door(use, memory=memory, models={"main": CALLING})
    assert [call.method for call in driven.calls] == ["model.stream"]


def test_the_older_form_of_tools_is_answered_in_it() -> None:
    older = {"functions": [{"name": "add"}], "function_call": "auto"}

    async def use(client: Client) -> None:
        (choice,) = (await client.chat(**older))["choices"]
        assert choice["message"]["function_call"] == {"name": "add", "arguments": '{"a":0}'}
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "function_call"
        chunks = (await client.events("/chat/completions", **ASK, **older))[:-1]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[2] == {"function_call": {"name": "add", "arguments": '{"a":0}'}}

    at_door(use, models={"main": CALLING})


RESPONSE_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
    *["response.output_item.added", "response.function_call_arguments.delta"] * 2,
    *["response.function_call_arguments.done", "response.output_item.done"] * 2,
    "response.completed",
]


def test_the_events_of_a_response_are_in_order() -> None:
    async def use(client: Client) -> None:
        events = await client.events("/responses", model="main", input="hi")
        assert [event["type"] for event in events] == RESPONSE_EVENTS
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        whole = events[-1]["response"]
        assert [item["type"] for item in whole["output"]] == ["reasoning", "function_call", "function_call"]
        assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}
        added = {e["item"]["id"]: e["output_index"] for e in events if e["type"].endswith("item.added")}
        assert list(added) == [item["id"] for item in whole["output"]]
        assert {e["item_id"] for e in events if "item_id" in e} == set(added)
        asked = await client.post("/responses", model="main", input="hi")
        assert [i | {"id": ""} for i in asked["output"]] == [i | {"id": ""} for i in whole["output"]]

    at_door(use, models={"main": CALLING})


def test_a_response_of_text_and_one_that_is_cut_off() -> None:
    cut = ModelReply(message=ModelMessage(role="assistant", content="a b"), finish_reason="length")

    async def use(client: Client) -> None:
        events = await client.events("/responses", model="main", input="hi")
        kinds = [event["type"] for event in events]
        assert kinds[-1] == "response.incomplete"
        assert [e["delta"] for e in events if e["type"] == "response.output_text.delta"] == ["a ", "b"]
        assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "a b"
        empty = await client.events("/responses", model="empty", input="hi")
        assert empty[-1]["response"]["output"][0]["content"][0]["text"] == ""

    at_door(use, models={"main": cut, "empty": ""})


def test_a_response_is_continued_within_its_run() -> None:
    async def use(client: Client) -> None:
        first = await client.post("/responses", model="main", input="one", instructions="be")
        second = await client.post(
            "/responses", model="main", input="two", previous_response_id=first["id"], instructions="brief"
        )
        assert second["previous_response_id"] == first["id"]
        item = {"type": "item_reference", "id": second["output"][0]["id"]}
        await client.post("/responses", model="main", input=[item, {"role": "user", "content": "three"}])
        got = await client.http.get(f"/responses/{first['id']}")
        assert got.json() == first
        assert (await client.http.get("/responses/resp_other")).status_code == 404
        status, error = await client.refused(
            "/responses", model="main", input="x", previous_response_id="resp_x"
        )
        assert (status, error["code"]) == (400, "previous_response_not_found")

    driven = at_door(use, models={"main": ["1", "2", "3"]})
    said = [[(m.role, m.content) for m in call.params.messages] for call in driven.calls]
    assert said == [
        [("system", "be"), ("user", "one")],
        [("system", "brief"), ("user", "one"), ("assistant", "1"), ("user", "two")],
        [("assistant", "2"), ("user", "three")],
    ]


@pytest.mark.parametrize("interface", ["chat", "responses"])
def test_what_the_service_needs_back_is_added_to_its_own_answers(interface: str) -> None:
    data = ProviderData(source="s", fields={"thinking_blocks": [1]})
    own = [ToolCall(id="c1", function=CALLS[0].function, provider_data=ProviderData(source="s"))]
    thought = ModelMessage(role="assistant", content="", reasoning="hm", tool_calls=own, provider_data=data)

    async def use(client: Client) -> None:
        if interface == "chat":
            (choice,) = (await client.chat(tools=[TOOL]))["choices"]
            function = {"name": "add", "arguments": '{ "a" : 0 }'}  # as another JSON library writes it
            said = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]}
            result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
            assert choice["message"]["reasoning_content"] == "hm"
            await client.chat(messages=[*ASK["messages"], said, result])
        else:
            first = await client.post("/responses", model="main", input="hi")
            output = {"type": "function_call_output", "call_id": "c1", "output": "1"}
            await client.post(
                "/responses",
                model="main",
                input=[{"role": "user", "content": "hi"}, *first["output"], output],
            )

    driven = at_door(use, models={"main": [thought, "done"]})
    assistant = sent(driven).messages[1]
    assert (assistant.provider_data, assistant.reasoning) == (data, "hm")
    assert assistant.tool_calls[0].provider_data == ProviderData(source="s")


def test_ids_are_the_same_in_every_attempt_and_others_for_other_requests() -> None:
    seen: list[list[str]] = []

    async def use(client: Client) -> None:
        bodies = [{}, {}, {"temperature": 1}]
        seen.append([(await client.chat(**body))["id"] for body in bodies])

    for run_id in ("r1", "r1", "r2"):
        at_door(use, models="x", context={"run_id": run_id, "trigger": {"timestamp": 5.0}})
    assert seen[0] == seen[1]
    assert len({*seen[0], *seen[2]}) == 6


# -- models -----------------------------------------------------------------------------------------


def test_the_models_are_those_of_the_run_and_the_default() -> None:
    async def use(client: Client) -> None:
        listed = (await client.http.get("/models")).json()["data"]
        assert [model["id"] for model in listed] == ["a/large", "b", "default"]
        assert (await client.http.get("/models/a/large")).json()["id"] == "a/large"
        answer = await client.http.get("/models/c")
        assert answer.status_code == 404
        assert "a/large, b, default" in answer.json()["error"]["message"]
        status, error = await client.refused("/chat/completions", **ASK | {"model": "gpt-4"})
        assert (status, error["code"]) == (404, "model_not_found")
        assert "the models of this run: a/large, b, default" in error["message"]

    at_door(use, models={"a/large": "x", "b": "y"})


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({}, ["a"]),
        ({"model": "b"}, ["b"]),
        ({"model": {"primary": "b", "fallbacks": ["a"]}}, ["b", "a"]),
        ({"brain": {"primary": "b", "fallbacks": ["gone", "a"]}}, ["b", "a"]),
        ({"model": {"primary": "gone", "fallbacks": "odd"}}, ["a"]),
        ({"model": 3}, ["a"]),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_default_is_what_the_configuration_chooses_with_its_fallbacks(
    config: dict[str, Any], asked: list[str], stream: bool
) -> None:
    async def use(client: Client) -> None:
        answer = await client.http.post("/chat/completions", json=ASK | {"stream": stream})
        assert answer.status_code == 502
        assert answer.json()["error"]["message"] == f"{asked[-1]} fails"

    failing = {name: RuntimeFailure(f"{name} fails") for name in ("a", "b")}
    driven = at_door(use, models=failing, config=config)
    assert [call.params.model_id for call in driven.calls] == asked


def test_a_fallback_answers_in_its_own_name_and_a_named_model_has_none() -> None:
    async def use(client: Client) -> None:
        assert (await client.chat())["model"] == "b"
        chunks = await client.events("/chat/completions", **ASK)
        assert {chunk["model"] for chunk in chunks[:-1]} == {"b"}
        status, _ = await client.refused("/chat/completions", **ASK | {"model": "a"})
        assert status == 502

    config = {"model": {"primary": "a", "fallbacks": ["b"]}}
    at_door(use, models={"a": RuntimeFailure("no"), "b": "yes"}, config=config)


@pytest.mark.parametrize(("operation", "method"), [("stream", "model.stream"), ("invoke", "model.invoke")])
def test_a_model_with_one_of_both_operations_answers_both_kinds(operation: str, method: str) -> None:
    async def use(client: Client) -> None:
        assert (await client.chat())["choices"][0]["message"]["content"] == "a b"
        chunks = await client.events("/chat/completions", **ASK)
        said = [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1]]
        assert "".join(filter(None, said)) == "a b"

    context = {"resources": {"models": [{"model_id": "m", "operations": [operation]}]}}
    driven = at_door(use, models={"m": "a b"}, context=context)
    assert [call.method for call in driven.calls] == [method] * 2


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code", "headers"),
    [
        (Unauthorized("used up", details={"budget": "cost"}), 403, "budget_exceeded", {}),
        (Unauthorized("no"), 403, "permission_denied", {}),
        (InvalidArgument("long", details={"reason": "context_overflow"}), 400, "context_length_exceeded", {}),
        (InvalidArgument("odd"), 400, "invalid_value", {}),
        (
            RateLimited("slow", details={"retry_after": 2.2}),
            429,
            "rate_limit_exceeded",
            {"retry-after": "3", "x-should-retry": "true"},
        ),
        (
            RateLimited("tomorrow", details={"retry_after": 9000}),
            429,
            "rate_limit_exceeded",
            {"retry-after": "9000", "x-should-retry": "false"},
        ),
        (RuntimeFailure("down", retryable=True), 502, "model_failed", {"x-should-retry": "true"}),
        (RuntimeFailure("broken"), 502, "model_failed", {"x-should-retry": "false"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_those_that_clients_know(
    error: HostError, status: int, code: str, headers: dict[str, str], stream: bool
) -> None:
    async def use(client: Client) -> None:
        for path, body in (("/chat/completions", ASK), ("/responses", {"model": "default", "input": "x"})):
            answer = await client.http.post(path, json=body | {"stream": stream})
            found = answer.json()["error"]
            assert (answer.status_code, found["code"], found["message"]) == (status, code, error.message)
            assert set(found) == {"message", "type", "param", "code"}
            for name in ("retry-after", "x-should-retry"):
                assert answer.headers.get(name) == headers.get(name)

    at_door(use, models={"main": error})


# -- embeddings -------------------------------------------------------------------------------------


def test_embeddings_are_made_in_as_many_calls_as_they_need() -> None:
    count = MAX_EMBED_INPUTS + 3

    async def use(client: Client) -> None:
        texts = [f"text {n}" for n in range(count)]
        answer = await client.post("/embeddings", model="default", input=texts, dimensions=4)
        assert [item["index"] for item in answer["data"]] == list(range(count))
        assert answer["usage"] == {"prompt_tokens": 2 * count, "total_tokens": 2 * count}
        packed = await client.post(
            "/embeddings", model="default", input=texts, dimensions=4, encoding_format="base64"
        )
        for plain, one in zip(answer["data"], packed["data"], strict=True):
            assert struct.unpack("<4f", base64.b64decode(one["embedding"])) == pytest.approx(
                plain["embedding"]
            )

    driven = at_door(use, models="x")
    assert [len(call.params.inputs) for call in driven.calls] == [MAX_EMBED_INPUTS, 3] * 2


# -- bounds -----------------------------------------------------------------------------------------


def test_a_run_remembers_so_many_answers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler_sdk.model_door.response_store.MAX_RESPONSES", 3)
    monkeypatch.setattr("hostler_sdk.model_door.answer_memory.MAX_REMEMBERED_ANSWERS", 2)
    answers = [
        ModelMessage(role="assistant", content=f"a{n}", reasoning=f"r{n}") for n in range(limits.MAX_REQUESTS)
    ]

    async def use(client: Client) -> None:
        ids = [(await client.post("/responses", model="main", input="x"))["id"] for _ in range(5)]
        known = [(await client.http.get(f"/responses/{one}")).status_code for one in ids]
        assert known == [404, 404, 200, 200, 200]
        said = [{"role": "assistant", "content": f"a{n}"} for n in range(5)]
        await client.chat(messages=said)

    driven = at_door(use, models={"main": answers})
    assert [message.reasoning for message in sent(driven).messages] == [None, None, None, "r3", "r4"]
