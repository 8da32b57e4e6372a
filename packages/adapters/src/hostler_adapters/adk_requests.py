"""Requests of Google's ADK to a model, in the form of OpenAI's chat completions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pydantic

_SAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
"""Settings with the same name and meaning in chat completions."""
_RENAMED = {"max_output_tokens": "max_completion_tokens", "stop_sequences": "stop"}
_ELSEWHERE = frozenset({"system_instruction", "tools", "tool_config", "candidate_count"})
_ANSWERS = frozenset({"response_mime_type", "response_schema", "response_json_schema"})
_OF_THE_CLIENT = frozenset(
    {"http_options", "should_return_http_response", "labels", "automatic_function_calling"}
)
"""Settings of Google's own client, which change no answer."""
_CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}


def chat_messages(request: Any) -> list[dict[str, Any]]:
    """Return the messages of a request: its instruction first, then its contents.

    Raises ValueError for content that chat completions have no form for.
    """
    instruction = request.config.system_instruction if request.config else None
    messages: list[dict[str, Any]] = []
    if instruction:
        messages.append({"role": "system", "content": str(instruction)})
    for content in request.contents:
        messages += _of_assistant(content) if content.role == "model" else _of_user(content)
    return messages


def _of_user(content: Any) -> list[dict[str, Any]]:
    results, parts = [], []
    for part in content.parts or ():
        if (result := part.function_response) is not None:
            results.append(
                {
                    "role": "tool",
                    "tool_call_id": result.id or result.name,
                    "content": _result(result.response),
                }
            )
        elif part.text:
            parts.append({"type": "text", "text": part.text})
        elif part.inline_data is not None:
            data = base64.b64encode(part.inline_data.data).decode()
            url = f"data:{part.inline_data.mime_type};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        elif part.file_data is not None:
            parts.append({"type": "image_url", "image_url": {"url": part.file_data.file_uri}})
        else:
            raise ValueError(
                "a part of a message is no text, image or result of a function: it cannot be sent"
            )
    if not parts:
        return results
    plain = len(parts) == 1 and "text" in parts[0]
    return [*results, {"role": "user", "content": parts[0]["text"] if plain else parts}]


def _of_assistant(content: Any) -> list[dict[str, Any]]:
    parts = [part for part in content.parts or () if not part.thought]
    text = "".join(part.text or "" for part in parts)
    calls = [
        {
            "id": part.function_call.id or part.function_call.name,
            "type": "function",
            "function": {
                "name": part.function_call.name,
                "arguments": json.dumps(part.function_call.args or {}, ensure_ascii=False),
            },
        }
        for part in parts
        if part.function_call is not None
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    return [message | ({"tool_calls": calls} if calls else {})] if text or calls else []


def _result(response: Any) -> str:
    """Return a function's response as text; one that has nothing but `result` is that."""
    if isinstance(response, dict) and set(response) == {"result"}:
        response = response["result"]
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False, default=str)


def functions_of(request: Any) -> list[dict[str, Any]]:
    """Return the functions that a request offers. Raises ValueError for tools of other kinds."""
    functions = []
    for tool in (request.config.tools if request.config else None) or ():
        declared = getattr(tool, "function_declarations", None)
        if declared is None:
            raise ValueError(f"the tool {tool!r:.80} is none of functions: the model door has no form for it")
        for one in declared:
            if one.parameters_json_schema is not None:
                schema = one.parameters_json_schema
            elif one.parameters is not None:
                schema = _lower(one.parameters.model_dump(mode="json", exclude_none=True))
            else:
                schema = {"type": "object", "properties": {}}
            function = {"name": one.name, "description": one.description or "", "parameters": schema}
            functions.append({"type": "function", "function": function})
    return functions


def _lower(schema: Any) -> Any:
    """Return a schema of Gemini's as JSON Schema, whose types are written small."""
    if isinstance(schema, list):
        return [_lower(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _lower(value)
        for key, value in schema.items()
    }


def settings_of(request: Any) -> dict[str, Any]:
    """Return the settings of a request, from an agent's `generate_content_config` and `output_schema`.

    Raises ValueError for one that chat completions have no form for: leaving it out would change the answer.
    """
    if request.config is None:
        return {}
    given = {name: value for name, value in request.config if value not in (None, [], {})}
    if given.get("candidate_count", 1) != 1:
        raise ValueError("candidate_count: a model is asked for one answer")
    known = {*_SAME, *_RENAMED, *_ELSEWHERE, *_ANSWERS, *_OF_THE_CLIENT}
    if others := ", ".join(sorted(given.keys() - known)):
        raise ValueError(f"the model door has no form for these settings of the agent: {others}")
    settings = {name: given[name] for name in _SAME if name in given}
    settings |= {other: given[name] for name, other in _RENAMED.items() if name in given}
    if (form := _response_format(given)) is not None:
        settings["response_format"] = form
    if (calling := getattr(given.get("tool_config"), "function_calling_config", None)) is not None:
        settings["tool_choice"] = _tool_choice(calling)
    return settings


def _response_format(given: dict[str, Any]) -> dict[str, Any] | None:
    schema = given.get("response_json_schema")
    if schema is None and (wanted := given.get("response_schema")) is not None:
        schema = _json_schema(wanted)
    if schema is not None:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    kind = given.get("response_mime_type", "text/plain")
    if kind not in ("text/plain", "application/json"):
        raise ValueError(f"response_mime_type: {kind}; the model door has text/plain and application/json")
    return {"type": "json_object"} if kind == "application/json" else None


def _json_schema(wanted: Any) -> Any:
    if isinstance(wanted, dict):
        return _lower(wanted)
    if isinstance(wanted, pydantic.BaseModel):  # a schema of Gemini's
        return _lower(wanted.model_dump(mode="json", exclude_none=True))
    return pydantic.TypeAdapter(wanted).json_schema()


def _tool_choice(calling: Any) -> Any:
    mode = getattr(calling.mode, "value", calling.mode) or "AUTO"
    if mode not in _CHOICES:
        raise ValueError(f"tool_config: the model door has no form for the mode {mode}")
    names = calling.allowed_function_names or []
    if not names or mode == "NONE":
        return _CHOICES[mode]
    if mode == "ANY" and len(names) == 1:
        return {"type": "function", "function": {"name": names[0]}}
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": _CHOICES[mode], "tools": tools}}
