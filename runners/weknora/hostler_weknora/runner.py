"""The runner: begins a session, sends the message, and passes the answer on."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn, text_in
from hostler_sdk.services.http import ServiceHttp
from hostler_weknora.stream import WeKnoraStream

KEY_PLACE = "copy an API key from the settings of WeKnora, and set it as env:NAME or file:PATH"
SESSION = "session_id"


class WeKnora(ServiceRunner):
    """WeKnora

    Answers with an agent or the knowledge bases of WeKnora.
    """

    service = "weknora"
    title = "WeKnora"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        kind = form.choice("app-type", ("agent", "chat"), "agent")
        key = form.header("api-key", KEY_PLACE)
        base = form.url("base-url", "http://localhost:8080/api/v1")
        body: dict[str, Any] = {
            "query": await turn.text(form.text("base-prompt")),
            "agent_enabled": kind == "agent",
            "web_search_enabled": form.flag("web-search-enabled"),
            "channel": "im",
            "disable_title": True,
        }
        if agent := form.text("agent-id"):
            body["agent_id"] = agent
        if bases := form.texts("knowledge-base-ids"):
            body["knowledge_base_ids"] = bases
        if assets := turn.assets():
            body["mcp_metadata"] = assets
        body |= _files(await turn.files())
        http = await turn.http(base, headers={"x-api-key": key}, secrets=[key])
        known = turn.session(SESSION)
        session = known or await _begun(http, turn)
        place = quote(session, safe="")
        request = Request(f"/{'agent' if kind == 'agent' else 'knowledge'}-chat/{place}", json=body)
        try:
            await turn.send(http, request, WeKnoraStream(), stop=_stop(place))
            await turn.discard(http, Request(f"/sessions/{place}", method="DELETE"))
        except ServiceFailure as failure:
            if known and failure.status == 404:
                raise await turn.lost_session(SESSION, failure) from None
            raise


async def _begun(http: ServiceHttp, turn: Turn) -> str:
    """Begin a session, and return its id."""
    request = Request("/sessions", json={"title": "", "description": ""}, accepted=(200, 201))
    session = text_in(await http.json(request), "data", "id")
    if not session:
        raise ServiceFailure("response_invalid", "WeKnora began a session and gave it no id")
    await turn.keep_session(SESSION, session)
    return session


def _files(files: list[InputFile]) -> dict[str, list[dict[str, Any]]]:
    """Return the files as parts of the message: pictures by themselves, the others with their names."""
    images, others = [], []
    for file in files:
        if file.url is not None:
            raise ServiceFailure(
                "file_invalid", f"{file.name:.200}: WeKnora takes files as bytes, not by their address"
            )
        data = base64.b64encode(file.data).decode()
        if file.kind == "image":
            images.append({"data": f"data:{file.mime_type};base64,{data}"})
        else:
            others.append({"data": data, "file_name": file.name, "file_size": len(file.data)})
    return ({"images": images} if images else {}) | ({"attachment_uploads": others} if others else {})


def _stop(place: str) -> Any:
    def request(task: str, _: Mapping[str, str]) -> Request:
        return Request(f"/sessions/{place}/stop", json={"message_id": task})

    return request
