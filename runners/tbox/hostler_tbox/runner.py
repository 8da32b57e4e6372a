"""The runner: uploads the files, sends the message, and passes the answer on."""

from __future__ import annotations

from typing import Any

from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn, text_in
from hostler_sdk.services.http import ServiceHttp
from hostler_tbox.stream import SUCCESS, TboxStream, tbox_error

KEY_PLACE = "copy it from the Tbox console, and set it as env:NAME or file:PATH"
_KINDS = {"image": "IMAGE", "audio": "AUDIO", "video": "VIDEO"}


class Tbox(ServiceRunner):
    """Tbox

    Answers with an app of Tbox.
    """

    service = "tbox"
    title = "Tbox"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        key = form.header("api-key", KEY_PLACE)
        app = form.required("app-id", "copy it from the app's page in Tbox")
        base = form.url("base-url", "https://api.tbox.cn")
        headers = {"authorization": key, "source": "AGENT_SDK"}
        http = await turn.http(base, headers=headers, secrets=[key])
        body: dict[str, Any] = {
            "appId": app,
            "query": await turn.text(),
            "userId": turn.user,
            "stream": True,
            "searchEngine": form.flag("search-engine"),
        }
        if files := await turn.files():
            body["files"] = [await _sent(http, file) for file in files]
        if known := turn.session("conversation_id"):
            body["conversationId"] = known
        if assets := turn.assets():
            body["clientProperties"] = assets
        await turn.send(http, Request("/api/chat", json=body), TboxStream())


async def _sent(http: ServiceHttp, file: InputFile) -> dict[str, str]:
    if file.url is not None:
        raise ServiceFailure(
            "file_invalid", f"{file.name:.200}: Tbox takes files as bytes, not by their address"
        )
    answer = await http.json(Request("/api/file/upload", files=[("file", file)]))
    if answer.get("errorCode") not in SUCCESS:
        raise tbox_error(answer)
    id_ = text_in(answer, "data")
    if not id_:
        raise ServiceFailure("response_invalid", f"Tbox took the file {file.name} and gave it no id")
    return {"fileId": id_, "type": _KINDS.get(file.kind, "FILE")}
