"""The runner: uploads the files, sends the message, and passes the answer on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hostler_dify.stream import DifyStream
from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn, text_in
from hostler_sdk.services.http import ServiceHttp

KEY_PLACE = "copy the app's key from API Access in Dify, and set it as env:NAME or file:PATH"


class Dify(ServiceRunner):
    """Dify

    Answers with a chat app, an agent or a workflow of Dify.
    """

    service = "dify"
    title = "Dify"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        kind = form.choice("app-type", ("chat", "agent", "workflow"), "chat")
        key = form.header("api-key", KEY_PLACE)
        base = form.url("base-url", "https://api.dify.ai/v1")
        http = await turn.http(base, headers={"authorization": f"Bearer {key}"}, secrets=[key])
        text = await turn.text(form.text("base-prompt"))
        files = [await _sent(http, turn, file) for file in await turn.files()]
        inputs = form.object("inputs") | turn.assets()
        if kind == "workflow":
            await self._workflow(turn, http, inputs, text, files)
            return
        body: dict[str, Any] = {
            "inputs": inputs,
            "query": text,
            "user": turn.user,
            "response_mode": "streaming",
            "conversation_id": turn.session("conversation_id") or "",
            "auto_generate_name": False,
        }
        request = Request("/chat-messages", json=body | ({"files": files} if files else {}))
        try:
            await turn.send(http, request, DifyStream(), stop=_stop("/chat-messages/{}/stop", turn))
        except ServiceFailure as failure:
            if body["conversation_id"] and failure.status == 404:
                raise await turn.lost_session("conversation_id", failure) from None
            raise

    async def _workflow(
        self, turn: Turn, http: ServiceHttp, inputs: dict[str, Any], text: str, files: list[dict[str, str]]
    ) -> None:
        body = {
            "inputs": {turn.form.text("workflow-input") or "query": text} | inputs,
            "user": turn.user,
            "response_mode": "streaming",
        }
        parser = DifyStream(is_workflow=True, output=turn.form.text("workflow-output"))
        request = Request("/workflows/run", json=body | ({"files": files} if files else {}))
        await turn.send(http, request, parser, stop=_stop("/workflows/tasks/{}/stop", turn))


async def _sent(http: ServiceHttp, turn: Turn, file: InputFile) -> dict[str, str]:
    """Return how a request names a file. One without an address of its own is uploaded first."""
    if file.url is not None:
        return {"type": file.kind, "transfer_method": "remote_url", "url": file.url}
    upload = Request("/files/upload", fields={"user": turn.user}, files=[("file", file)], accepted=(200, 201))
    id_ = text_in(await http.json(upload), "id")
    if not id_:
        raise ServiceFailure("response_invalid", f"Dify took the file {file.name} and gave it no id")
    return {"type": file.kind, "transfer_method": "local_file", "upload_file_id": id_}


def _stop(path: str, turn: Turn) -> Any:
    def request(task: str, _: Mapping[str, str]) -> Request:
        return Request(path.format(quote(task, safe="")), json={"user": turn.user})

    return request
