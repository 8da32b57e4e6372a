"""What requests to the model door become: parameters of host calls, or a refusal that names the place."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.content import (
    FileBase64Element,
    FileUrlElement,
    FunctionCall,
    FunctionSpec,
    ImageUrl,
    ImageUrlElement,
    ModelMessage,
    TextElement,
    ToolCall,
)
from hostler_sdk.model_door.chat_request import IGNORED, read_chat
from hostler_sdk.model_door.embeddings import read_embeddings
from hostler_sdk.model_door.problems import DoorError
from hostler_sdk.model_door.reading import decode_body
from hostler_sdk.model_door.response_request import read_response

USER = {"role": "user", "content": "hi"}
ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
CALLED = ToolCall(id="c1", function=FunctionCall(name="add", arguments='{"a":1}'))


def chat(**body: Any) -> Any:
    return read_chat({"model": "m", "messages": [USER]} | body)


def respond(**body: Any) -> Any:
    return read_response({"model": "m", "input": "hi"} | body, lambda _: None)


def refused(read: Any, **body: Any) -> DoorError:
    with pytest.raises(DoorError) as caught:
        read(**body)
    return caught.value


MESSAGES: list[tuple[dict[str, Any], ModelMessage]] = [
    ({"role": "system", "content": "be"}, ModelMessage(role="system", content="be")),
    ({"role": "developer", "content": "be"}, ModelMessage(role="developer", content="be")),
    ({"role": "user", "content": "a", "name": "ada"}, ModelMessage(role="user", content="a", name="ada")),
    ({"role": "assistant", "content": "b"}, ModelMessage(role="assistant", content="b")),
    ({"role": "assistant", "content": None, "refusal": "no"}, ModelMessage(role="assistant", content="no")),
    (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        ModelMessage(role="assistant", tool_calls=[CALLED]),
    ),
    (
        {"role": "assistant", "content": "b", "reasoning_content": "hm", "annotations": [], "audio": None},
        ModelMessage(role="assistant", content="b", reasoning="hm"),
    ),
    (
        {"role": "tool", "content": [{"type": "text", "text": "3"}], "tool_call_id": "c1"},
        ModelMessage(role="tool", content=[TextElement(text="3")], tool_call_id="c1"),
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                },
            ],
        },
        ModelMessage(
            role="user",
            content=[
                TextElement(text="see"),
                ImageUrlElement(image_url=ImageUrl(url="data:image/png;base64,AA==", detail="low")),
                FileBase64Element(file_base64="AA==", mime_type="audio/wav"),
                FileBase64Element(file_base64="data:application/pdf;base64,AA==", file_name="a.pdf"),
            ],
        ),
    ),
]


@pytest.mark.parametrize(("given", "expected"), MESSAGES)
def test_messages_are_those_of_the_protocol(given: dict[str, Any], expected: ModelMessage) -> None:
    assert chat(messages=[given]).messages == [expected]


def test_what_is_for_the_service_is_passed_on_and_what_names_people_is_not() -> None:
    options = {"temperature": 0.5, "response_format": {"type": "json_object"}, "seed": 1, "top_k": 3}
    options |= {"max_completion_tokens": 9, "stop": ["x"], "reasoning_effort": "low", "logit_bias": {"1": 2}}
    left_out = dict.fromkeys(IGNORED, "x")
    read = chat(**options, **left_out, n=1, logprobs=False, modalities=["text"])
    assert read.extra_args == options
    assert (read.model, read.stream, read.include_usage, read.functions) == ("m", False, False, False)
    streamed = chat(stream=True, stream_options={"include_usage": True, "include_obfuscation": False})
    assert (streamed.stream, streamed.include_usage, streamed.extra_args) == (True, True, {})


def test_tools_and_their_choice() -> None:
    choice = {"type": "function", "function": {"name": "add"}}
    read = chat(tools=[{"type": "function", "function": ADD | {"strict": True}}], tool_choice=choice)
    assert read.tools == [
        FunctionSpec(name="add", description="Adds.", parameters={"type": "object"}, strict=True)
    ]
    assert read.extra_args == {"tool_choice": choice}
    assert chat(tools=[], tool_choice="auto").extra_args == {}


def test_the_older_form_of_tools_becomes_the_present_one() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": "{}"}},
        {"role": "function", "name": "add", "content": "3"},
    ]
    read = chat(functions=[ADD], function_call={"name": "add"}, messages=messages)
    assert read.functions
    assert read.tools == [FunctionSpec(name="add", description="Adds.", parameters={"type": "object"})]
    assert read.extra_args == {
        "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "function": {"name": "add"}},
    }
    _, called, result = read.messages
    assert called.tool_calls[0].id == result.tool_call_id
    assert (result.role, result.content) == ("tool", "3")
    assert "was not called" in refused(chat, messages=messages[::2]).message


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"top_logprobs": 2}, "top_logprobs", "unsupported_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"audio": {"voice": "x"}}, "modalities", "unsupported_parameter"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type", "unsupported_parameter"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "invalid_value"),
        ({"tools": "x"}, "tools", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "hi"}, "messages", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].", "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id", "invalid_value"),
        ({"messages": [USER | {"prefix": True}]}, "messages[0].prefix", "unsupported_parameter"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            "messages[0].content[0].type",
            "unsupported_parameter",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}]}]},
            "messages[0].content[0].file.file_id",
            "unsupported_parameter",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALL | {"type": "custom"}]}]},
            "messages[0].tool_calls[0].type",
            "unsupported_parameter",
        ),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"stream_options": []}, "stream_options", "invalid_value"),
        ({"model": None}, "model", "invalid_value"),
    ],
)
def test_what_cannot_be_passed_on_is_refused_by_its_place(
    body: dict[str, Any], param: str, code: str
) -> None:
    error = refused(chat, **body)
    assert (error.status, error.param, error.code) == (400, param, code)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"a": NaN}', b"\xff", b'{"a":' * 200 + b"1" + b"}" * 200]
)
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(DoorError) as caught:
        decode_body(body)
    assert caught.value.status == 400


def test_what_is_null_is_as_if_it_were_left_out() -> None:
    assert decode_body(b'{"a": null, "b": 1}') == {"b": 1}


# -- responses --------------------------------------------------------------------------------------


def test_a_response_s_input_becomes_messages() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "see"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I call."}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "http://x/1.png"}]},
        {"role": "user", "content": [{"type": "input_file", "file_url": "http://x/a.pdf"}]},
    ]
    read = respond(input=items, instructions="be brief")
    assert read.instructions == [ModelMessage(role="system", content="be brief")]
    second = ToolCall(id="c2", function=FunctionCall(name="add", arguments="{}"))
    assert read.messages == [
        ModelMessage(role="user", content=[TextElement(text="see")]),
        ModelMessage(role="assistant", content="I call.", tool_calls=[CALLED, second]),
        ModelMessage(role="tool", content="3", tool_call_id="c1"),
        ModelMessage(role="user", content=[ImageUrlElement(image_url=ImageUrl(url="http://x/1.png"))]),
        ModelMessage(role="user", content=[FileUrlElement(file_url="http://x/a.pdf")]),
    ]
    assert respond(input="hi").messages == [ModelMessage(role="user", content="hi")]


def test_a_response_s_options_are_those_of_chat_completions() -> None:
    read = respond(
        tools=[{"type": "function", **ADD, "strict": False}],
        tool_choice={"type": "function", "name": "add"},
        parallel_tool_calls=False,
        text={
            "format": {"type": "json_schema", "name": "s", "schema": {}, "strict": True},
            "verbosity": "low",
        },
        reasoning={"effort": "high", "summary": "auto"},
        max_output_tokens=7,
        temperature=1,
        store=True,
        include=["reasoning.encrypted_content"],
        user="u",
        prompt_cache_key="random",
        truncation="disabled",
        metadata={"a": "b"},
    )
    assert read.tools[0].strict is False
    assert read.extra_args == {
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "s", "schema": {}, "strict": True},
        },
        "verbosity": "low",
        "reasoning_effort": "high",
        "max_completion_tokens": 7,
        "temperature": 1,
    }
    assert read.echo["metadata"] == {"a": "b"}
    assert respond(tool_choice="auto", parallel_tool_calls=True).extra_args == {}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"type": "item_reference", "id": "msg_x"}]}, "input[0].id"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_what_a_response_cannot_be_is_refused_by_its_place(body: dict[str, Any], param: str) -> None:
    error = refused(respond, **body)
    assert (error.status, error.param) == (400, param)


# -- embeddings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        ("a", [["a"]]),
        (["a", "b"], [["a", "b"]]),
        ([1, 2], [[[1, 2]]]),
        ([[1], [2]], [[[1], [2]]]),
        (["x"] * 130, [["x"] * 64, ["x"] * 64, ["x"] * 2]),
    ],
)
def test_inputs_of_embeddings(given: Any, batches: list[Any]) -> None:
    assert read_embeddings({"model": "m", "input": given}).batches == batches


@pytest.mark.parametrize(
    "body",
    [
        {"input": []},
        {"input": ["x"] * 2049},
        {"input": {"a": 1}},
        {"input": [1.5]},
        {"input": [True]},
        {"input": "a", "dimensions": "4"},
        {"input": "a", "encoding_format": "hex"},
        {"input": "a", "input_type": "query"},
    ],
)
def test_embeddings_that_are_none_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(DoorError):
        read_embeddings({"model": "m", **body})
