"""Requests of Google's ADK to a model, in the form of OpenAI's chat completions."""

from __future__ import annotations

import base64
import json
from typing import Any


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
