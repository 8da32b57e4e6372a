"""Coze's API, as far as the runner uses it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply, sse

KEY = "pat_coze_key_0001"
BOT = "7000000000000000001"


class FakeCoze(ServiceServer):
    """One bot."""

    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.conversations: set[str] = set()
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return reply({"code": 4100, "msg": "authentication is invalid"}, 401)
        match asked.path:
            case "/v1/files/upload":
                _, files = asked.form
                if [file.name for file in files] != ["file"]:
                    return reply({"code": 4000, "msg": "Request parameter error"})
                id_ = f"file-{len(self.uploads) + 1}"
                self.uploads[id_] = files[0]
                return reply({"code": 0, "msg": "", "data": {"id": id_, "bytes": len(files[0].data)}})
            case "/v3/chat/cancel":
                body = asked.json
                if body.get("conversation_id") not in self.conversations:
                    return reply({"code": 4000, "msg": "Request parameter error"})
                self.stopped.append(body["chat_id"])
                return reply({"code": 0, "msg": "", "data": {"id": body["chat_id"], "status": "canceled"}})
            case "/v3/chat":
                return self._chat(asked)
        return reply({"code": 4200, "msg": "not found"}, 404)

    def _chat(self, asked: Asked) -> Answer:
        body = asked.json
        if body.get("bot_id") != BOT:
            return reply({"code": 4015, "msg": "The bot_id is not published", "detail": {"logid": "l-1"}})
        if not body.get("user_id") or body.get("stream") is not True:
            return reply({"code": 4000, "msg": "Request parameter error"})
        for message in body["additional_messages"]:
            if message["role"] != "user" or not message["content"]:
                return reply({"code": 4000, "msg": "Request parameter error"})
            if message["content_type"] == "object_string":
                parts = json.loads(message["content"])
                if any(
                    part.get("file_id", "file-1") not in self.uploads for part in parts if "file_id" in part
                ):
                    return reply({"code": 4000, "msg": "invalid file_id"})
        known = asked.query.get("conversation_id")
        if known is not None and known not in self.conversations:
            return reply({"code": 4200, "msg": "conversation not found"})
        self.messages.append(body | {"conversation_id": known})
        self.conversations.add("coze-conversation-1")
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream;charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        return [
            created(),
            chat("in_progress", status="in_progress"),
            *[said("delta", content=piece) for piece in pieces],
            said("completed", content="".join(pieces)),
            said("completed", type="verbose", content='{"msg_type":"generate_answer_finish"}', id="m-2"),
            said("completed", type="follow_up", content="And then?", id="m-3"),
            chat(
                "completed",
                status="completed",
                usage={"token_count": 18, "output_count": 7, "input_count": 11},
            ),
            sse('"[DONE]"', "done"),
        ]


def created() -> bytes:
    return chat("created", status="created")


def chat(name: str, **fields: Any) -> bytes:
    data = {"id": "task-1", "conversation_id": "coze-conversation-1", "bot_id": BOT, **fields}
    return sse(data, f"conversation.chat.{name}")


def said(name: str, **fields: Any) -> bytes:
    data = {
        "id": "m-1",
        "conversation_id": "coze-conversation-1",
        "bot_id": BOT,
        "role": "assistant",
        "type": "answer",
        "content_type": "text",
        "chat_id": "task-1",
        **fields,
    }
    return sse(data, f"conversation.message.{name}")


def error_event() -> bytes:
    return sse({"code": 5000, "msg": f"internal error for {KEY}"}, "error")
