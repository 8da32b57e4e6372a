"""The runner: sends the message to the flow, and passes the answer on."""

from __future__ import annotations

import re
from urllib.parse import quote

from hostler_langflow.stream import LangflowAnswer
from hostler_sdk.services import Request, ServiceFailure, ServiceRunner, Turn

KEY_PLACE = "create a key in Langflow under Settings, and set it as env:NAME or file:PATH"
_VARIABLE = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Langflow(ServiceRunner):
    """Langflow

    Answers with a flow of Langflow.
    """

    service = "langflow"
    title = "Langflow"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        key = form.header("api-key", KEY_PLACE)
        flow = form.required("flow-id", "copy it from the flow's API access")
        base = form.url("base-url", "http://localhost:7860")
        http = await turn.http(base, headers={"x-api-key": key}, secrets=[key])
        if files := await turn.files():
            raise ServiceFailure(
                "file_invalid",
                f"{', '.join(file.name for file in files):.200}: this runner sends no files to Langflow",
            )
        conversation = turn.ctx.conversation
        body = {
            "input_value": await turn.text(),
            "input_type": form.text("input-type") or "chat",
            "output_type": form.text("output-type") or "chat",
            "tweaks": form.object("tweaks"),
            "session_id": (conversation and conversation.conversation_id) or turn.ctx.run_id,
        }
        path = f"/api/v1/run/{quote(flow, safe='')}"
        request = Request(path, json=body, query={"stream": "true"}, headers=_variables(turn))
        await turn.send(http, request, LangflowAnswer())


def _variables(turn: Turn) -> dict[str, str]:
    """Return the headers by which a request sets global variables of a flow."""
    headers = {}
    for name, value in turn.assets().items():
        if not _VARIABLE.fullmatch(name):
            raise ServiceFailure(
                "config_invalid", f"config `assets-input-name` is {name!r:.80}; it must be a name"
            )
        headers[f"X-LANGFLOW-GLOBAL-VAR-{name.upper()}"] = value
    return headers
