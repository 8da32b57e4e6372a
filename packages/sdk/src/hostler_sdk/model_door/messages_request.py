"""Requests to `/messages`, Anthropic's interface, as parameters of host calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler_protocol.content import FunctionCall, FunctionSpec, ModelMessage, TextElement, ToolCall, text_of
from hostler_sdk.model_door.messages_content import BLOCK_FIELDS, blocks_in, elements_of, system_text
from hostler_sdk.model_door.problems import invalid, unsupported
from hostler_sdk.model_door.reading import Json, check_known, flag_in, object_in, objects_in, text_in

IGNORED = frozenset({"metadata", "service_tier", "cache_control", "inference_geo", "speed"})
"""Fields that are left out: they name people, or say where, how fast and how cheaply a service works."""
_PASSED = frozenset({"temperature", "top_p", "top_k"})
_OWN = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "stop_sequences", "stream", "tools", "tool_choice"),
        *("thinking", "output_config", "output_format", "context_management"),
    }
)
_OF_MESSAGES = frozenset({"role", "content", "output_config", "cache_control", "id"})
_OF_TOOLS = frozenset(
    {
        *("name", "description", "input_schema", "type", "strict", "cache_control", "defer_loading"),
        *("eager_input_streaming", "input_examples"),
    }
)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_HARMLESS_EDITS = "clear_thinking_"
"""Edits of this type clear thoughts of earlier answers, which the door does not send as text."""


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A request, translated. `thinks`: the client wants to see what the model thinks."""

    model: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = field(default_factory=list)
    extra_args: Json = field(default_factory=dict)
    stream: bool = False
    thinks: bool = False

    @property
    def call_ids(self) -> list[str]:
        """The ids of the calls in its messages."""
        return [call.id for message in self.messages for call in message.tool_calls]


def read_messages(body: Json) -> MessagesRequest:
    """Translate a request. DoorError names the place of what is wrong or cannot be passed on."""
    _check_supported(body)
    given = objects_in(body.get("messages"), "messages")
    if not given:
        raise invalid("messages is empty; a model needs at least one message", "messages")
    messages = [one for number, message in enumerate(given) for one in _message(message, number)]
    if system := system_text(body.get("system"), "system"):
        messages.insert(0, ModelMessage(role="system", content=system))
    tools = _tools(body, given)
    return MessagesRequest(
        model=text_in(body, "model"),
        messages=messages,
        tools=tools,
        extra_args=_extra_args(body, offers=bool(tools)),
        stream=flag_in(body, "stream"),
        thinks=_thinks(body),
    )


def asked_again(body: Json) -> Json:
    """Return what of a request is the same when a resumed program asks it again."""
    return {name: value for name, value in body.items() if name not in IGNORED}


def _check_supported(body: Json) -> None:
    edits = object_in(body, "context_management").get("edits") if "context_management" in body else None
    for number, edit in enumerate(objects_in([] if edits is None else edits, "context_management.edits")):
        kind = text_in(edit, "type", f"context_management.edits[{number}].")
        if not kind.startswith(_HARMLESS_EDITS):
            raise unsupported(
                f"context_management.edits[{number}].type",
                f"{kind!r:.60} would leave messages out; send less",
            )
    check_known(body, _OWN | _PASSED | IGNORED, "")


def _thinks(body: Json) -> bool:
    thinking = object_in(body, "thinking") if "thinking" in body else {"type": "disabled"}
    return text_in(thinking, "type", "thinking.") != "disabled" and thinking.get("display") != "omitted"


def _extra_args(body: Json, *, offers: bool) -> Json:
    extra = {name: body[name] for name in _PASSED if name in body}
    limit = body.get("max_tokens")
    if limit is not None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise invalid(f"max_tokens is {limit!r:.40}; a number from 1 on is possible", "max_tokens")
        extra["max_completion_tokens"] = limit
    if body.get("stop_sequences"):
        extra["stop"] = body["stop_sequences"]
    output = object_in(body, "output_config") if "output_config" in body else {}
    check_known(output, frozenset({"effort", "format"}), "output_config.")
    if output.get("effort") is not None:
        extra["reasoning_effort"] = text_in(output, "effort", "output_config.")
    place = "output_config.format" if output.get("format") else "output_format"
    wanted = output.get("format") or body.get("output_format")
    if wanted is not None:
        extra["response_format"] = _response_format(wanted, place)
    return extra | _choice(body, offers=offers)


def _response_format(wanted: Any, place: str) -> Json:
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        raise unsupported(f"{place}.type", "json_schema is known")
    schema = object_in(wanted, "schema", f"{place}.")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def _choice(body: Json, *, offers: bool) -> Json:
    if "tool_choice" not in body:
        return {}
    choice = object_in(body, "tool_choice")
    kind = text_in(choice, "type", "tool_choice.")
    if kind == "tool":
        name = text_in(choice, "name", "tool_choice.")
        chosen: Any = {"type": "function", "function": {"name": name}}
    elif kind in _CHOICES:
        chosen = _CHOICES[kind]
    else:
        raise invalid(
            f"tool_choice.type is {kind!r:.40}; auto, any, tool and none are known", "tool_choice.type"
        )
    if not offers and kind in ("auto", "none"):
        return {}  # services refuse it without tools
    return {"tool_choice": chosen} | (
        {"parallel_tool_calls": False} if flag_in(choice, "disable_parallel_tool_use") else {}
    )


def _tools(body: Json, messages: list[Json]) -> list[FunctionSpec]:
    """Return the functions. One that is deferred is offered once a result of a tool refers to it."""
    named = set(_references(messages))
    tools = []
    for number, tool in enumerate(objects_in(body.get("tools", []), "tools")):
        place = f"tools[{number}]."
        if tool.get("type", "custom") not in (None, "custom"):
            raise unsupported(
                f"{place}type",
                f"it is {tool['type']!r:.40}; offer functions, and answer their calls in the program",
            )
        check_known(tool, _OF_TOOLS, place)
        name = text_in(tool, "name", place)
        if flag_in(tool, "defer_loading") and name not in named:
            continue
        tools.append(
            FunctionSpec(
                name=name,
                description="" if tool.get("description") is None else text_in(tool, "description", place),
                parameters=object_in(tool, "input_schema", place),
                strict=flag_in(tool, "strict") or None,
            )
        )
    return tools


def _references(messages: list[Json]) -> Iterator[Any]:
    for message in messages:
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            parts = block.get("content") if isinstance(block, dict) else None
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and part.get("type") == "tool_reference":
                    yield part.get("tool_name")


# -- messages -------------------------------------------------------------------------------------


def _message(given: Json, number: int) -> list[ModelMessage]:
    place = f"messages[{number}]."
    check_known(given, _OF_MESSAGES, place)
    match text_in(given, "role", place):
        case "user":
            return _of_user(given.get("content"), f"{place}content")
        case "assistant":
            return [_of_assistant(given.get("content"), f"{place}content")]
        case "system":
            return [ModelMessage(role="system", content=system_text(given.get("content"), f"{place}content"))]
        case role:
            raise invalid(
                f"{place}role is {role!r:.40}; user, assistant and system are known", f"{place}role"
            )


def _of_user(content: Any, place: str) -> list[ModelMessage]:
    """Return the results of tools, which answer the message before, and then what the user says."""
    if isinstance(content, str):
        return [ModelMessage(role="user", content=content)]
    results: list[ModelMessage] = []
    said = []
    for where, block in blocks_in(content, place):
        if block["type"] == "tool_result":
            results.append(_result(block, where))
        else:
            said += elements_of(block, where)
    if said or not results:
        results.append(ModelMessage(role="user", content=said))
    return results


def _result(block: Json, place: str) -> ModelMessage:
    check_known(block, BLOCK_FIELDS | {"tool_use_id", "content", "is_error"}, place)
    content = block.get("content", "")
    if not isinstance(content, str):
        parts = [
            one for where, part in blocks_in(content, f"{place}content") for one in elements_of(part, where)
        ]
        only_text = all(isinstance(part, TextElement) for part in parts)
        content = text_of(parts) if only_text else parts
    if flag_in(block, "is_error"):
        marked = TextElement(text="error:")
        content = f"error: {content}" if isinstance(content, str) else [marked, *content]
    return ModelMessage(role="tool", content=content, tool_call_id=text_in(block, "tool_use_id", place))


def _of_assistant(content: Any, place: str) -> ModelMessage:
    """Return an answer. Its thoughts are left out: answer_memory.py adds what the model's service needs."""
    if isinstance(content, str):
        return ModelMessage(role="assistant", content=content)
    texts, calls = [], []
    for where, block in blocks_in(content, place):
        match block["type"]:
            case "text":
                check_known(block, BLOCK_FIELDS | {"text", "citations"}, where)
                texts.append(text_in(block, "text", where))
            case "tool_use":
                check_known(block, BLOCK_FIELDS | {"id", "name", "input", "caller"}, where)
                arguments = msgspec.json.encode(object_in(block, "input", where)).decode()
                function = FunctionCall(name=text_in(block, "name", where), arguments=arguments)
                calls.append(ToolCall(id=text_in(block, "id", where), function=function))
            case "thinking" | "redacted_thinking":
                pass
            case kind:
                raise unsupported(f"{where}type", f"blocks of the type {kind!r:.60} are not known in answers")
    return ModelMessage(role="assistant", content="".join(texts) or None, tool_calls=calls)
