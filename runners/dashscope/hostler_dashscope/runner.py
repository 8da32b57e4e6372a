"""The runner: sends the message, and passes the answer on."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hostler_dashscope.stream import DashScopeStream
from hostler_sdk.services import Request, ServiceFailure, ServiceRunner, Turn

KEY_PLACE = "create a key in Model Studio, and set it as env:NAME or file:PATH"


class DashScope(ServiceRunner):
    """DashScope

    Answers with an app of Alibaba Cloud Model Studio (Bailian).
    """

    service = "dashscope"
    title = "DashScope"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        is_workflow = form.choice("app-type", ("agent", "workflow"), "agent") == "workflow"
        key = form.header("api-key", KEY_PLACE)
        app = form.required("app-id", "copy it from the app's card in Model Studio")
        base = form.url("base-url", "https://dashscope.aliyuncs.com")
        headers = {"authorization": f"Bearer {key}", "x-dashscope-sse": "enable"}
        http = await turn.http(base, headers=headers, secrets=[key])
        given: dict[str, Any] = {"prompt": await turn.text()}
        if pictures := await _pictures(turn):
            given["image_list"] = pictures
        if known := turn.session("session_id"):
            given["session_id"] = known
        if parameters := form.object("biz-params") | turn.assets():
            given["biz_params"] = parameters
        body = {
            "input": given,
            "parameters": {"flow_stream_mode": "message_format", "incremental_output": True}
            if is_workflow
            else {"has_thoughts": True, "incremental_output": True},
            "debug": {},
        }
        request = Request(f"/api/v1/apps/{quote(app, safe='')}/completion", json=body)
        await turn.send(
            http, request, DashScopeStream(references_quote=form.text("references_quote", exact=True))
        )


async def _pictures(turn: Turn) -> list[str]:
    """Return the addresses of the pictures. Raises ServiceFailure for another file: apps take no bytes."""
    files = await turn.files()
    if others := [file.name for file in files if file.url is None or file.kind != "image"]:
        raise ServiceFailure(
            "file_invalid",
            f"{', '.join(others):.200}: an app of DashScope takes pictures by a public address, and "
            "no other files",
        )
    return [file.url for file in files if file.url is not None]
