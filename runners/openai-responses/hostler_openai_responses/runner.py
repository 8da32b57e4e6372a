"""The runner: sends the message or the approvals, and passes the response on."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from hostler_openai_responses.stream import SESSION, ResponseStream
from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn

KEY_PLACE = "create a key in the platform of OpenAI, and set it as env:NAME or file:PATH"
_OWN = ("input", "stream", "model", "previous_response_id", "tools", "instructions", "background")
"""Fields that have settings of their own, or have to be as the runner needs them."""


class OpenAIResponses(ServiceRunner):
    """OpenAI Responses

    Answers with a model and the built-in tools of the OpenAI Responses API.
    """

    service = "openai-responses"
    title = "OpenAI"

    async def serve(self, turn: Turn) -> None:
        """Serve one message, or go on with what people decided."""
        form = turn.form
        key = form.header("api-key", KEY_PLACE)
        model = form.required("model", "it is a name like gpt-5")
        base = form.url("base-url", "https://api.openai.com/v1")
        keeps = form.flag("previous-response", True)
        body: dict[str, Any] = _parameters(turn) | {"model": model, "stream": True}
        if instructions := form.text("instructions"):
            body["instructions"] = instructions
        if tools := _tools(turn):
            body["tools"] = tools
        question = turn.question
        known = turn.session(SESSION) if keeps else None
        if question is not None:
            known = None
            body["previous_response_id"] = question.get(SESSION)
            body["input"] = [_verdict(turn, decision) for decision in turn.decisions]
        else:
            body["input"] = [await _message(turn, form.text("base-prompt"))]
            body |= {"previous_response_id": known} if known else {}
            body |= {} if keeps or "store" in body else {"store": False}
        http = await turn.http(base, headers={"authorization": f"Bearer {key}"}, secrets=[key])
        try:
            await turn.send(http, Request("/responses", json=body), ResponseStream(keeps=keeps))
        except ServiceFailure as failure:
            if known and failure.what == "http_error" and "previous response" in failure.text.lower():
                raise await turn.lost_session(SESSION, failure) from None
            raise


def _parameters(turn: Turn) -> dict[str, Any]:
    given = turn.form.object("parameters")
    if wrong := [name for name in _OWN if name in given]:
        raise ServiceFailure(
            "config_invalid", f"config `parameters` has `{wrong[0]}`, which the runner sets by itself"
        )
    return given


def _tools(turn: Turn) -> list[Any]:
    """Return the tools, with the way back to the run as an MCP server among them."""
    given = turn.form.objects("tools")
    for label, text in turn.assets().items():
        way = msgspec.json.decode(text)
        server = {"type": "mcp", "server_label": label, "require_approval": "never"}
        given = [*given, server | {"server_url": way.get("url"), "authorization": way.get("token")}]
    return given


def _verdict(turn: Turn, decision: Any) -> dict[str, Any]:
    """Return what people decided about a tool: whatever is no approval is none."""
    approved = decision.decision == "approved"
    said = {"type": "mcp_approval_response", "approval_request_id": decision.call_id, "approve": approved}
    why = decision.comment or ("" if approved else f"The approval was {decision.decision}.")
    return said | ({"reason": why} if why else {})


async def _message(turn: Turn, base_prompt: str) -> dict[str, Any]:
    text = await turn.text(base_prompt)
    parts = [_part(file) for file in await turn.files()]
    return {"role": "user", "content": [{"type": "input_text", "text": text}, *parts] if parts else text}


def _part(file: InputFile) -> dict[str, str]:
    if file.kind == "image":
        return {"type": "input_image", "detail": "auto", "image_url": file.url or _data_url(file)}
    if file.url is not None:
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file.name, "file_data": _data_url(file)}


def _data_url(file: InputFile) -> str:
    return f"data:{file.mime_type};base64,{base64.b64encode(file.data).decode()}"
