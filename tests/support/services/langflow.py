"""A Langflow server with one flow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply

KEY = "sk-langflow-key-0001"
FLOW = "flow-1"


class FakeLangflow(ServiceServer):
    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("x-api-key") != self.key:
            return reply({"detail": "Invalid or missing API key"}, 403)
        if asked.path != f"/api/v1/run/{FLOW}" or asked.query != {"stream": "true"}:
            return reply({"detail": f"Flow identifier {asked.path} not found"}, 404)
        body = asked.json
        if body.get("input_type") != "chat" or not isinstance(body.get("tweaks"), dict):
            return reply({"detail": "unprocessable"}, 422)
        prefix = "x-langflow-global-var-"
        named = {n.removeprefix(prefix): v for n, v in asked.headers.items() if n.startswith(prefix)}
        self.messages.append(body | named)
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream; charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        whole = "".join(pieces)
        return [
            event("add_message", sender="User", text="Hello", session_id="c"),
            *[event("token", chunk=piece, id="m-1", timestamp="2026-01-01 00:00:00 UTC") for piece in pieces],
            event("add_message", sender="Machine", text=whole, session_id="c"),
            event("end", result=result(whole)),
        ]


def event(name: str, **data: Any) -> bytes:
    return json.dumps({"event": name, "data": data}, ensure_ascii=False).encode() + b"\n\n"


def result(text: str) -> dict[str, Any]:
    output = {"outputs": {"message": {"message": text, "type": "text"}}, "messages": [{"message": text}]}
    return {"session_id": "c", "outputs": [{"inputs": {"input_value": "Hello"}, "outputs": [output]}]}


def error_event() -> bytes:
    return event("error", error=f"the model refused {KEY}")
