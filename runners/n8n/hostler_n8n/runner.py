"""The runner: posts the message to the webhook, and passes the answer on."""

from __future__ import annotations

from typing import Any

from hostler_n8n.authentication import read_authentication
from hostler_n8n.stream import N8nAnswer
from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn


class N8n(ServiceRunner):
    """n8n

    Answers with a workflow of n8n, by its webhook or chat trigger.
    """

    service = "n8n"
    title = "n8n"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        address = form.webhook("webhook-url")
        known = read_authentication(form)
        http = await turn.http(
            address,
            headers=known.headers,
            secrets=known.secrets,
            setting="webhook-url",
            key_setting=known.setting,
        )
        text = await turn.text()
        files = await turn.files()
        request = _request(turn, text, files)
        await turn.send(http, request, N8nAnswer(form.text("output-key", "response") or "response"))


def _request(turn: Turn, text: str, files: list[InputFile]) -> Request:
    """Build the request with the fields of n8n's own chat: `sessionId` names the conversation."""
    conversation, actor = turn.ctx.conversation, turn.ctx.actor
    session = (conversation and conversation.conversation_id) or turn.ctx.run_id
    fields: dict[str, Any] = {
        "action": "sendMessage",
        "sessionId": session,
        "chatInput": text,
        "userId": (actor and actor.actor_id) or "",
        "userName": (actor and actor.actor_name) or "",
        "runId": turn.ctx.run_id,
        **turn.assets(),
    }
    if not files:
        return Request(json=fields)
    if away := [file.name for file in files if file.url is not None]:
        raise ServiceFailure(
            "file_invalid", f"{', '.join(away):.200}: files for n8n are sent as bytes, not by their address"
        )
    return Request(fields=fields, files=[("files", file) for file in files])
