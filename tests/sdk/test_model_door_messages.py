"""Anthropic's interface at the model door: what requests become, and what their clients get."""

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
from hostler_sdk.model_door.messages_request import IGNORED, read_messages
from hostler_sdk.model_door.problems import DoorError

USER = {"role": "user", "content": "hi"}
ASK: dict[str, Any] = {"model": "default", "max_tokens": 99, "messages": [USER]}
ADD = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
CALLED = ToolCall(id="c1", function=FunctionCall(name="add", arguments='{"a":1}'))
PICTURE = {"type": "base64", "media_type": "image/png", "data": "AA=="}


def read(**body: Any) -> Any:
    return read_messages(ASK | body)


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


MESSAGES: list[tuple[dict[str, Any], list[ModelMessage]]] = [
    (USER, [ModelMessage(role="user", content="hi")]),
    (
        {"role": "user", "content": [text("see", cache_control={"type": "ephemeral"})]},
        [ModelMessage(role="user", content=[TextElement(text="see")])],
    ),
    (
        {"role": "system", "content": [text("now"), text("brief")]},
        [ModelMessage(role="system", content="now\n\nbrief")],
    ),
    ({"role": "assistant", "content": "b"}, [ModelMessage(role="assistant", content="b")]),
    (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                text("so", citations=None),
                text("me"),
                USE,
            ],
        },
        [ModelMessage(role="assistant", content="some", tool_calls=[CALLED])],
    ),
    (
        {
            "role": "user",
            "content": [
                text("and?"),
                {"type": "tool_result", "tool_use_id": "c1", "content": [text("3"), text("4")]},
                {"type": "tool_result", "tool_use_id": "c2", "content": "gone", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c3"},
                {
                    "type": "tool_result",
                    "tool_use_id": "c4",
                    "is_error": True,
                    "content": [{"type": "image", "source": PICTURE}],
                },
            ],
        },
        [
            ModelMessage(role="tool", content="3\n4", tool_call_id="c1"),
            ModelMessage(role="tool", content="error: gone", tool_call_id="c2"),
            ModelMessage(role="tool", content="", tool_call_id="c3"),
            ModelMessage(
                role="tool",
                content=[
                    TextElement(text="error:"),
                    ImageUrlElement(image_url=ImageUrl(url="data:image/png;base64,AA==")),
                ],
                tool_call_id="c4",
            ),
            ModelMessage(role="user", content=[TextElement(text="and?")]),
        ],
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {
                    "type": "document",
                    "title": "a.pdf",
                    "context": "a bill",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
                    "citations": {"enabled": False},
                },
                {"type": "document", "source": {"type": "url", "url": "https://example.com/b.pdf"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "c"}},
                {"type": "document", "source": {"type": "content", "content": [text("d")]}},
                {"type": "search_result", "source": "https://e", "title": "E", "content": [text("found")]},
            ],
        },
        [
            ModelMessage(
                role="user",
                content=[
                    ImageUrlElement(image_url=ImageUrl(url="https://example.com/a.png")),
                    TextElement(text="a bill"),
                    FileBase64Element(file_base64="AA==", mime_type="application/pdf", file_name="a.pdf"),
                    FileUrlElement(file_url="https://example.com/b.pdf"),
                    TextElement(text="c"),
                    TextElement(text="d"),
                    TextElement(text="E (https://e)"),
                    TextElement(text="found"),
                ],
            )
        ],
    ),
]


@pytest.mark.parametrize(("given", "expected"), MESSAGES)
def test_messages_are_those_of_the_protocol(given: dict[str, Any], expected: list[ModelMessage]) -> None:
    assert read(messages=[given]).messages == expected


def test_instructions_come_first_and_without_what_is_said_to_anthropic() -> None:
    billing = text("x-anthropic-billing-header: cc_version=1.2.3;")
    first, _ = read(system=[billing, text("be"), text("brief", cache_control={"type": "ephemeral"})]).messages
    assert first == ModelMessage(role="system", content="be\n\nbrief")
    assert read(system="be").messages[0].content == "be"
    assert [one.role for one in read(system=[billing]).messages] == ["user"]


def test_options_have_the_names_of_chat_completions() -> None:
    found = read(
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END"],
        thinking={"type": "enabled", "budget_tokens": 2048},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        **dict.fromkeys(IGNORED, "x"),
    )
    assert found.extra_args == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop": ["END"],
        "max_completion_tokens": 99,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
    }
    assert (found.model, found.thinks, found.stream) == ("default", True, False)
    assert not read(thinking={"type": "adaptive", "display": "omitted"}).thinks
    assert not read(thinking={"type": "disabled"}).thinks
    assert not read().thinks


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
            {
                "tool_choice": {"type": "function", "function": {"name": "add"}},
                "parallel_tool_calls": False,
            },
        ),
    ],
)
def test_tools_and_their_choice(choice: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read(tools=[ADD | {"type": "custom", "strict": True}], tool_choice=choice)
    assert found.tools == [
        FunctionSpec(name="add", description="Adds.", parameters={"type": "object"}, strict=True)
    ]
    assert found.extra_args == {"max_completion_tokens": 99} | expected
    assert read(tools=[], tool_choice={"type": "auto"}).extra_args == {"max_completion_tokens": 99}


def test_a_deferred_tool_is_offered_once_a_result_refers_to_it() -> None:
    later = ADD | {"name": "later", "defer_loading": True}
    assert [tool.name for tool in read(tools=[ADD, later]).tools] == ["add"]
    found = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "tool_reference", "tool_name": "later"}],
    }
    asked = read(tools=[ADD, later], messages=[USER, {"role": "user", "content": [found]}])
    assert [tool.name for tool in asked.tools] == ["add", "later"]
    assert asked.messages[1].content == "later"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "hi"}, "messages", "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "invalid_value"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type", "invalid_value"),
        ({"messages": [USER | {"prefix": 1}]}, "messages[0].prefix", "unsupported_parameter"),
        (
            {"messages": [{"role": "user", "content": [{"type": "container_upload"}]}]},
            "messages[0].content[0].type",
            "unsupported_parameter",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
            "messages[0].content[0].type",
            "unsupported_parameter",
        ),
        (
            {"messages": [{"role": "assistant", "content": [USE | {"input": "{}"}]}]},
            "messages[0].content[0].input",
            "invalid_value",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
            "messages[0].content[0].tool_use_id",
            "invalid_value",
        ),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": True}, "max_tokens", "invalid_value"),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools[0].type", "unsupported_parameter"),
        ({"tools": [{"name": "add"}]}, "tools[0].input_schema", "invalid_value"),
        ({"tools": [ADD], "tool_choice": {"type": "odd"}}, "tool_choice.type", "invalid_value"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers", "unsupported_parameter"),
        ({"container": "c"}, "container", "unsupported_parameter"),
        (
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "context_management.edits[0].type",
            "unsupported_parameter",
        ),
        (
            {"output_config": {"format": {"type": "text"}}},
            "output_config.format.type",
            "unsupported_parameter",
        ),
        ({"system": [{"type": "image"}]}, "system[0].type", "unsupported_parameter"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "document", "citations": {"enabled": True}, "source": {}}],
                    }
                ]
            },
            "messages[0].content[0].citations",
            "unsupported_parameter",
        ),
    ],
)
def test_what_cannot_be_passed_on_is_refused_and_named(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(DoorError) as caught:
        read(**body)
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)
