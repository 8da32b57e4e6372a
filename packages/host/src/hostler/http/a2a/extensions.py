"""What Hostler adds to A2A, as extensions that its cards name: requests to people, and tools of the client.

A task that needs input says in its status what it asks: in text, and in a data part for each request. A
message of the task answers by a data part with the request's `id`, or in text where that is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.run_events import Asked
from hostler.http.a2a.wire import Part
from hostler.http.dialects.notices import name_of_arguments
from hostler.http.dialects.requests import answer_schema, expiry_of, request_id, shown_digest
from hostler_protocol.events import CallerTool
from hostler_protocol.results import InteractionRequested

REQUESTS = "urn:hostler:a2a:requests:1"
"""The extension by which a task asks for approvals, answers and results of tools."""
TOOLS = "urn:hostler:a2a:tools:1"
"""The extension by which a client lends its tools, and is told which tools the agent calls."""
MAX_ARGUMENTS_SHOWN = 2_000
"""Characters of a call's arguments in the text; the data part has all of them."""
ANSWERS = "approved, result, error, values, action and happened"


class Lent(msgspec.Struct):
    """The tools that a client lends with a message: the value of its metadata under TOOLS."""

    tools: list[CallerTool] = []


def extensions() -> list[dict[str, Any]]:
    """Return the extensions as a card names them."""
    return [
        {
            "uri": REQUESTS,
            "description": (
                "A task in TASK_STATE_INPUT_REQUIRED names each thing that it waits for in a data part of "
                "its status: {id, kind, title, description, toolName, arguments, argsHash, schema, actions, "
                "expiresAt}. Answer with a message of the same task that has a data part {id, ...} for each: "
                "{approved, comment, editedArgs} for kind approval or budget, {values, action} for form, "
                "confirmation or choice, {result} or {error} for client_tool, {happened, result} for "
                "in_doubt. As text: 'approve CODE' or 'deny CODE', with the code from the status, or the "
                "answer to the only question."
            ),
        },
        {
            "uri": TOOLS,
            "description": (
                "Tools of the client: metadata of a message has under this URI {tools: [{name, description, "
                "parameters}]}, with parameters as JSON Schema. A call of one is a request of kind "
                "client_tool. A client that activates it is told by status updates which tools the agent "
                "calls."
            ),
        },
    ]


def request_parts(run_id: str, asked: Sequence[Asked]) -> list[Part]:
    """Return what a task asks: a text, and a data part for each request."""
    texts = "\n\n".join(_text(one.request) for one in asked)
    return [Part(text=texts), *(Part(data=_data(run_id, one.request)) for one in asked)]


def _data(run_id: str, request: InteractionRequested) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": request_id(run_id, request),
        "kind": request.kind,
        "title": request.title,
        "description": request.description,
        "toolName": request.tool_name,
        "argsHash": request.args_hash,
        "expiresAt": expiry_of(request),
    }
    if name_of_arguments(request) is not None:
        found["arguments"] = request.arguments
    if request.kind != "client_tool":
        found["schema"] = answer_schema(request)
    if request.actions:
        found["actions"] = msgspec.to_builtins(request.actions)
    return {name: value for name, value in found.items() if value is not None}


def _text(request: InteractionRequested) -> str:
    lines = [request.fallback_text or request.title or f"Waiting for a decision ({request.kind})"]
    if request.description and not request.fallback_text:
        lines.append(request.description)
    if (name := name_of_arguments(request)) is not None:
        arguments = msgspec.json.encode(request.arguments).decode()
        if len(arguments) > MAX_ARGUMENTS_SHOWN:
            arguments = f"{len(arguments):,} characters of arguments"
        lines.append(f"{name}: {arguments}")
    if request.kind in ("approval", "budget"):
        code = shown_digest(request)
        lines.append(f"Answer in this task with: approve {code}, or: deny {code}")
    return "\n".join(lines)
