"""Requests to `/chat/completions`, as parameters of host calls. Pure.

What a host call has no place for is refused if it would change the answer. Fields that would not, and that
differ from one execution of a program to the next, are left out: a resumed program makes the same calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hostler_protocol.content import (
    Content,
    FunctionCall,
    FunctionSpec,
    ModelMessage,
    Role,
    ToolCall,
    text_of,
)
from hostler_sdk.model_door.content import content_of
from hostler_sdk.model_door.problems import invalid, unsupported
from hostler_sdk.model_door.reading import Json, check_known, flag_in, object_in, objects_in, text_in

IGNORED = frozenset(
    {
        *("metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("safety_identifier", "store", "user"),
    }
)
"""Fields that are left out: they name people, sessions and stores of a service, and change no answer."""
_OWN = frozenset(
    {
        *("model", "messages", "tools", "functions", "function_call", "stream", "stream_options", "n"),
        *("logprobs", "top_logprobs", "modalities", "audio"),
    }
)
"""Fields that are read here; all others go to the model's service unchanged."""
_OF_MESSAGES = frozenset(
    {
        *("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal"),
        *("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "annotations"),
        *("provider_specific_fields", "citations", "images", "id", "cache_control"),
    }
)
"""Known fields of messages. Those that only answers have are not sent back: answer_memory.py adds what the
model's service needs."""
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request, translated. `functions`: it uses the older form of tools, and so does its answer."""

    model: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = field(default_factory=list)
    extra_args: Json = field(default_factory=dict)
    stream: bool = False
    include_usage: bool = False
    functions: bool = False


def read_chat(body: Json) -> ChatRequest:
    """Translate a request. DoorError names the place of what is wrong or cannot be passed on."""
    _check_one_answer(body)
    options = object_in(body, "stream_options") if "stream_options" in body else {}
    extra = {name: value for name, value in body.items() if name not in _OWN | IGNORED}
    tools = _tools(body)
    functions = bool(body.get("functions"))
    if functions:
        extra |= _older_choice(body)
    if not tools and extra.get("tool_choice") in ("auto", "none"):
        del extra["tool_choice"]  # services refuse it without tools
    return ChatRequest(
        model=text_in(body, "model"),
        messages=_messages(body.get("messages")),
        tools=tools,
        extra_args=extra,
        stream=flag_in(body, "stream"),
        include_usage=flag_in(options, "include_usage"),
        functions=functions,
    )


def _check_one_answer(body: Json) -> None:
    if body.get("n", 1) != 1:
        raise unsupported("n", "a host call has one answer; send as many requests as you want answers")
    if body.get("logprobs") or body.get("top_logprobs"):
        name = "logprobs" if body.get("logprobs") else "top_logprobs"
        raise unsupported(name, "answers of host calls carry no probabilities")
    if body.get("modalities", ["text"]) != ["text"] or body.get("audio"):
        raise unsupported("modalities", "answers of host calls are text")


# -- messages -------------------------------------------------------------------------------------


def _messages(value: Any) -> list[ModelMessage]:
    given = objects_in(value, "messages")
    if not given:
        raise invalid("messages is empty; a model needs at least one message", "messages")
    messages: list[ModelMessage] = []
    for number, message in enumerate(given):
        messages.append(_message(message, f"messages[{number}].", number))
        if message.get("role") == "function":
            messages[-1] = _older_result(messages, messages[-1], text_in(message, "name"))
    return messages


def _message(given: Json, place: str, number: int) -> ModelMessage:
    check_known(given, _OF_MESSAGES, place)
    role = _ROLES.get(text_in(given, "role", place))
    if role is None:
        raise invalid(f"{place}role is {given['role']!r:.40}; one of {', '.join(_ROLES)} is known", place)
    content = content_of(given.get("content"), f"{place}content")
    if role != "assistant":
        name = given.get("name")
        call_id = text_in(given, "tool_call_id", place) if given["role"] == "tool" else None
        return ModelMessage(
            role=role,
            content="" if content is None else content,
            name=name if isinstance(name, str) and role == "user" else None,
            tool_call_id=call_id,
        )
    return ModelMessage(
        role="assistant",
        content=_said(given, content),
        name=given["name"] if isinstance(given.get("name"), str) else None,
        tool_calls=_calls(given, place, number),
        reasoning=_reasoning(given),
    )


def _said(given: Json, content: Content | None) -> Content | None:
    refusal = given.get("refusal")
    return refusal if not content and isinstance(refusal, str) else content


def _reasoning(given: Json) -> str | None:
    found = [given.get(name) for name in ("reasoning_content", "reasoning")]
    return next((text for text in found if isinstance(text, str) and text), None)


def _calls(given: Json, place: str, number: int) -> list[ToolCall]:
    if given.get("function_call"):
        older = object_in(given, "function_call", place)
        return [ToolCall(id=_older_id(number), function=_function(older, f"{place}function_call."))]
    calls = []
    for at, call in enumerate(objects_in(given.get("tool_calls") or [], f"{place}tool_calls")):
        where = f"{place}tool_calls[{at}]."
        if call.get("type", "function") != "function":
            raise unsupported(f"{where}type", "calls of functions are known")
        function = _function(object_in(call, "function", where), f"{where}function.")
        calls.append(ToolCall(id=text_in(call, "id", where), function=function))
    return calls


def _function(given: Json, place: str) -> FunctionCall:
    return FunctionCall(name=text_in(given, "name", place), arguments=text_in(given, "arguments", place))


# -- tools, in the present form and in the one before ---------------------------------------------


def _tools(body: Json) -> list[FunctionSpec]:
    tools = []
    for number, tool in enumerate(objects_in(body.get("tools", []), "tools")):
        place = f"tools[{number}]."
        if tool.get("type", "function") != "function":
            raise unsupported(f"{place}type", f"it is {tool['type']!r:.40}; functions are known")
        tools.append(function_spec(object_in(tool, "function", place), f"{place}function."))
    for number, function in enumerate(objects_in(body.get("functions", []), "functions")):
        tools.append(function_spec(function, f"functions[{number}]."))
    return tools


def function_spec(given: Json, place: str) -> FunctionSpec:
    """Return the description of a function."""
    check_known(given, frozenset({"type", "name", "description", "parameters", "strict"}), place)
    description, parameters = given.get("description"), given.get("parameters")
    strict = given.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise invalid(f"{place}strict must be true or false", f"{place}strict")
    return FunctionSpec(
        name=text_in(given, "name", place),
        description="" if description is None else text_in(given, "description", place),
        parameters={} if parameters is None else object_in(given, "parameters", place),
        strict=strict,
    )


def _older_choice(body: Json) -> Json:
    choice = body.get("function_call", "auto")
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": text_in(choice, "name", "function_call.")}}
    return {"parallel_tool_calls": False} | ({} if choice == "auto" else {"tool_choice": choice})


def _older_id(number: int) -> str:
    """Return the id of the call in a message that has none, by its place."""
    return f"call_{number}"


def _older_result(before: list[ModelMessage], result: ModelMessage, name: str) -> ModelMessage:
    for message in reversed(before[:-1]):
        for call in message.tool_calls:
            if call.function.name == name:
                return ModelMessage(role="tool", content=text_of(result.content), tool_call_id=call.id)
    raise invalid(f"a message of the role function answers {name!r:.60}, which was not called", "messages")
