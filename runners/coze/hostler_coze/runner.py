"""The runner: uploads the files, sends the message, and passes the answer on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler_coze.stream import CozeStream, coze_error
from hostler_sdk.services import InputFile, Request, ServiceFailure, ServiceRunner, Turn, number_in, text_in
from hostler_sdk.services.http import ServiceHttp

KEY_PLACE = "create an access token in Coze, and set it as env:NAME or file:PATH"


class Coze(ServiceRunner):
    """Coze

    Answers with a bot of Coze.
    """

    service = "coze"
    title = "Coze"

    async def serve(self, turn: Turn) -> None:
        """Serve one message."""
        form = turn.form
        key = form.header("api-key", KEY_PLACE)
        bot = form.required("bot-id", "it is the number behind /bot/ in the address of the bot's page")
        base = form.url("api-base", "https://api.coze.cn")
        http = await turn.http(
            base, headers={"authorization": f"Bearer {key}"}, secrets=[key], setting="api-base"
        )
        files = await turn.files()
        text = turn.ctx.input.text.strip() if files else await turn.text()
        parts = [await _part(http, file) for file in files]
        body: dict[str, Any] = {
            "bot_id": bot,
            "user_id": turn.user,
            "stream": True,
            "auto_save_history": form.flag("auto-save-history", True),
            "additional_messages": [_question(text, parts)],
        }
        if assets := turn.assets():
            body["custom_variables"] = assets
        known = turn.session("conversation_id")
        request = Request("/v3/chat", json=body, query={"conversation_id": known} if known else {})
        await turn.send(http, request, CozeStream(), stop=_stop)


def _question(text: str, parts: list[dict[str, str]]) -> dict[str, str]:
    """Return the message of the user. One with files is a JSON text of its parts."""
    if not parts:
        return {"role": "user", "type": "question", "content_type": "text", "content": text}
    said = [{"type": "text", "text": text}] if text else []
    content = msgspec.json.encode([*said, *parts]).decode()
    return {"role": "user", "type": "question", "content_type": "object_string", "content": content}


async def _part(http: ServiceHttp, file: InputFile) -> dict[str, str]:
    kind = file.kind if file.kind in ("image", "audio") else "file"
    if file.url is not None:
        return {"type": kind, "file_url": file.url}
    answer = await http.json(Request("/v1/files/upload", files=[("file", file)]))
    if number_in(answer, "code") != 0:
        raise coze_error(answer)
    id_ = text_in(answer, "data", "id")
    if not id_:
        raise ServiceFailure("response_invalid", f"Coze took the file {file.name} and gave it no id")
    return {"type": kind, "file_id": id_}


def _stop(task: str, sessions: Mapping[str, str]) -> Request:
    return Request(
        "/v3/chat/cancel", json={"chat_id": task, "conversation_id": sessions.get("conversation_id", "")}
    )
