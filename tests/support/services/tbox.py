"""The API of Tbox, as far as the runner uses it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply, sse

KEY = "tbox-key-0001"
APP = "202500000001"


class FakeTbox(ServiceServer):
    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.conversations: set[str] = set()
        self.uploads: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != self.key:
            return reply({"errorCode": "401", "errorMsg": "invalid authorization"}, 401)
        if asked.path == "/api/file/upload":
            _, files = asked.form
            assert [file.name for file in files] == ["file"]
            id_ = f"file-{len(self.uploads) + 1}"
            self.uploads[id_] = files[0]
            return reply({"errorCode": "0", "errorMsg": "success", "data": id_, "traceId": "t"})
        body = asked.json
        if asked.path != "/api/chat" or body.get("appId") != APP:
            return reply({"errorCode": "404", "errorMsg": "no such app"}, 404)
        known = body.get("conversationId")
        is_wrong = not body.get("userId") or not body.get("query") or body.get("stream") is not True
        if is_wrong or (known is not None and known not in self.conversations):
            return reply({"errorCode": "400", "errorMsg": "bad request"})
        if any(file["fileId"] not in self.uploads for file in body.get("files", [])):
            return reply({"errorCode": "400", "errorMsg": "no such file"})
        self.messages.append(body)
        self.conversations.add("tbox-conversation-1")
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream;charset=UTF-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        return [
            said("meta", conversationId="tbox-conversation-1", messageId="m-1"),
            said("header", mediaType="text", name="answer"),
            *[said("chunk", text=piece) for piece in pieces],
            said("end"),
        ]


def said(kind: str, **payload: Any) -> bytes:
    data = {"type": kind, "lane": "default", "payload": json.dumps(payload, ensure_ascii=False)}
    return sse(data, "message")


def error_event() -> bytes:
    return sse({"errorCode": "500", "description": f"failed for {KEY}"}, "error")
