"""An n8n instance with one webhook."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply

PASSWORD = "n8n-password-0001"


class FakeN8n(ServiceServer):
    """One workflow behind a webhook that checks a header."""

    key = PASSWORD

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.uploads: dict[str, Any] = {}
        self.expected = {"x-key": PASSWORD}

    @property
    def address(self) -> str:
        return self.base + "/webhook/w-1/chat"

    def respond(self, asked: Asked) -> Answer:
        if asked.path != "/webhook/w-1/chat":
            return reply(
                {"code": 404, "message": f'The requested webhook "{asked.path}" is not registered.'}, 404
            )
        if asked.method != "POST":
            return reply({"code": 404, "message": f"This webhook is not registered for {asked.method}"}, 404)
        if any(asked.headers.get(name) != value for name, value in self.expected.items()):
            return Answer(b"Authorization data is wrong!", 403, "text/plain")
        fields: dict[str, Any]
        if asked.is_json:
            fields = asked.json
        else:
            fields, files = asked.form
            assert {file.name for file in files} == {"files"}
            self.uploads |= {file.file_name: file for file in files}
        if not fields.get("sessionId") or "chatInput" not in fields:
            return reply({"code": 0, "message": "No session ID found"}, 500)
        self.messages.append(fields)
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="application/json; charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        return [
            event("begin"),
            *[event("item", content=piece) for piece in pieces],
            event("end"),
        ]


def event(kind: str, node: str = "n-1", **fields: Any) -> bytes:
    """One event, written without anything between it and the next."""
    about = {"nodeId": node, "nodeName": "AI Agent", "itemIndex": 0, "runIndex": 0, "timestamp": 1705395332}
    return json.dumps({"type": kind, **fields, "metadata": about}, ensure_ascii=False).encode()


def error_event() -> bytes:
    return event("error", content=f"the node failed with {PASSWORD}")
