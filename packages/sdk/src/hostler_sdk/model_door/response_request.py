"""Requests to `/responses`, as parameters of host calls. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler_protocol.content import (
    Content,
    FunctionCall,
    FunctionSpec,
    ModelMessage,
    Role,
    ToolCall,
    text_of,
)
from hostler_sdk.model_door.chat_request import IGNORED, function_spec
from hostler_sdk.model_door.content import content_of
from hostler_sdk.model_door.problems import invalid, unsupported
from hostler_sdk.model_door.reading import Json, flag_in, object_in, objects_in, text_in

ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id"),
    *("reasoning", "temperature", "text", "tool_choice", "tools", "top_p", "user"),
)
"""Fields that an answer repeats."""
_PASSED = frozenset({"parallel_tool_calls", "service_tier", "temperature", "top_p"})
_OWN = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "stream"),
        *("previous_response_id", "max_output_tokens", "include", "truncation", "background"),
        *("conversation", "prompt", "top_logprobs"),
    }
)
_WITHOUT_EFFECT = IGNORED | {"stream_options", "max_tool_calls", "client_metadata"}
"""`max_tool_calls` bounds tools that a service runs itself, of which there are none."""
_INCLUDED = frozenset({"reasoning.encrypted_content"})
"""What a client may ask to get and need not: answer_memory.py keeps it and adds it again."""
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """A request, translated. `messages` are the new ones, without the instructions, which hold for one."""

    model: str
    messages: list[ModelMessage]
    instructions: list[ModelMessage]
    tools: list[FunctionSpec]
    extra_args: Json
    stream: bool
    previous: str | None
    echo: Json = field(default_factory=dict)


def read_response(body: Json, find_item: Callable[[str], Json | None]) -> ResponseRequest:
    """Translate a request. `find_item` returns an item of an earlier answer by its id.

    DoorError names the place of what is wrong or cannot be passed on.
    """
    _check_supported(body)
    previous = text_in(body, "previous_response_id") if "previous_response_id" in body else None
    instructions = content_of(body.get("instructions"), "instructions")
    return ResponseRequest(
        model=text_in(body, "model"),
        messages=_messages(body.get("input"), find_item),
        instructions=[ModelMessage(role="system", content=instructions)] if instructions else [],
        tools=_tools(body),
        extra_args=_extra_args(body),
        stream=flag_in(body, "stream"),
        previous=previous,
        echo={name: body[name] for name in ECHOED if name in body},
    )


def _check_supported(body: Json) -> None:
    for name, why in (
        ("background", "answers come within the run"),
        ("conversation", "continue an answer with previous_response_id, or send the messages"),
        ("prompt", "a service's stored prompts are not known to the run"),
        ("top_logprobs", "answers of host calls carry no probabilities"),
    ):
        if body.get(name):
            raise unsupported(name, why)
    if body.get("truncation", "disabled") != "disabled":
        raise unsupported("truncation", "nothing is left out of a request; send less")
    include = body.get("include", [])
    wanted = set(include if isinstance(include, list) else [include]) - _INCLUDED
    if wanted:
        raise unsupported("include", f"{', '.join(sorted(map(str, wanted)))} is not among what answers hold")
    for name, value in body.items():
        if name not in _OWN | _PASSED | _WITHOUT_EFFECT and value not in ("", [], {}, False):
            raise unsupported(name, "it cannot be passed on to the model")


def _extra_args(body: Json) -> Json:
    extra = {name: body[name] for name in _PASSED if name in body}
    if "max_output_tokens" in body:
        extra["max_completion_tokens"] = body["max_output_tokens"]
    effort = object_in(body, "reasoning").get("effort") if "reasoning" in body else None
    if effort is not None:
        extra["reasoning_effort"] = effort
    extra |= _text_options(object_in(body, "text") if "text" in body else {})
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type") != "function":
            raise unsupported("tool_choice.type", "the choice of a function is known")
        choice = {"type": "function", "function": {"name": text_in(choice, "name", "tool_choice.")}}
    if choice is not None and (body.get("tools") or choice not in ("auto", "none")):
        extra["tool_choice"] = choice
    if not body.get("tools"):
        extra.pop("parallel_tool_calls", None)  # services refuse it without tools
    return extra


def _text_options(text: Json) -> Json:
    options: Json = {} if text.get("verbosity") is None else {"verbosity": text["verbosity"]}
    wanted = text.get("format") or {"type": "text"}
    kind = text_in(wanted, "type", "text.format.")
    if kind == "json_object":
        options["response_format"] = {"type": kind}
    elif kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
        options["response_format"] = {"type": kind, "json_schema": schema}
    elif kind != "text":
        raise unsupported(
            "text.format.type", f"it is {kind!r:.40}; text, json_object and json_schema are known"
        )
    return options


def _tools(body: Json) -> list[FunctionSpec]:
    tools = []
    for number, tool in enumerate(objects_in(body.get("tools", []), "tools")):
        if tool.get("type") != "function":
            raise unsupported(
                f"tools[{number}].type",
                f"it is {tool.get('type')!r:.40}; offer functions, and answer their calls in the program",
            )
        tools.append(function_spec(tool, f"tools[{number}]."))
    return tools


# -- input ----------------------------------------------------------------------------------------


def _messages(value: Any, find_item: Callable[[str], Json | None]) -> list[ModelMessage]:
    if isinstance(value, str):
        return [ModelMessage(role="user", content=value)]
    messages: list[ModelMessage] = []
    for number, item in enumerate(objects_in([] if value is None else value, "input")):
        place = f"input[{number}]."
        if item.get("type") == "item_reference":
            found = find_item(text_in(item, "id", place))
            if found is None:
                raise invalid(f"{place}id names no item of an answer of this run", f"{place}id")
            item = found  # noqa: PLW2901 - it stands for that item
        _add_item(messages, item, place)
    return messages


def _add_item(messages: list[ModelMessage], item: Json, place: str) -> None:
    match item.get("type", "message"):
        case "message":
            role = _ROLES.get(text_in(item, "role", place))
            if role is None:
                raise invalid(
                    f"{place}role is {item['role']!r:.40}; one of {', '.join(_ROLES)} is known", place
                )
            content = content_of(item.get("content"), f"{place}content")
            message = ModelMessage(role=role, content="" if content is None else content)
            if role == "assistant":
                message = msgspec.structs.replace(message, content=text_of(content))
            messages.append(message)
        case "function_call":
            function = FunctionCall(
                name=text_in(item, "name", place), arguments=text_in(item, "arguments", place)
            )
            _add_call(messages, ToolCall(id=text_in(item, "call_id", place), function=function))
        case "function_call_output":
            output: Content | None = content_of(item.get("output"), f"{place}output")
            call_id = text_in(item, "call_id", place)
            messages.append(ModelMessage(role="tool", content=output or "", tool_call_id=call_id))
        case "reasoning":
            pass  # answer_memory.py adds what the model's service needs of it
        case kind:
            raise unsupported(f"{place}type", f"items of the type {kind!r:.60} are not known")


def _add_call(messages: list[ModelMessage], call: ToolCall) -> None:
    """Add a call to the answer before it: text and calls of one answer are items of their own."""
    if messages and messages[-1].role == "assistant":
        last = messages[-1]
        messages[-1] = msgspec.structs.replace(last, tool_calls=[*last.tool_calls, call])
    else:
        messages.append(ModelMessage(role="assistant", tool_calls=[call]))


def joined(before: Sequence[ModelMessage], request: ResponseRequest) -> list[ModelMessage]:
    """Return all messages to send: instructions, what is continued, what is new."""
    messages = [*request.instructions, *before, *request.messages]
    if not messages:
        raise invalid("input is empty; a model needs at least one message", "input")
    return messages
