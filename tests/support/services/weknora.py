"""The API of WeKnora, as far as the runner uses it."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, Sent, ServiceServer, reply, sse

KEY = "sk-weknora-key-0001"
SESSION = "weknora-session-1"


class FakeWeKnora(ServiceServer):
    """One tenant. `kind` is the app that is asked."""

    key = KEY

    def __init__(self, kind: str = "agent") -> None:
        super().__init__()
        self.route = "agent-chat" if kind == "agent" else "knowledge-chat"
        self.sessions: set[str] = set()
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base + "/api/v1"

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("x-api-key") != self.key:
            return _error(401, 1001, "Unauthorized: invalid API key")
        path = asked.path.removeprefix("/api/v1")
        if path == "/sessions":
            self.sessions.add(SESSION)
            return reply({"success": True, "data": {"id": SESSION, "tenant_id": 1, "title": ""}}, 201)
        if found := re.fullmatch(r"/sessions/([^/]+)/stop", path):
            if found[1] not in self.sessions or not asked.json.get("message_id"):
                return _error(404, 1003, "Session not found")
            self.stopped.append(asked.json["message_id"])
            return reply({"success": True, "message": "Generation stopped"})
        if asked.method == "DELETE":
            self.sessions.remove(path.removeprefix("/sessions/"))
            return reply({"success": True, "message": "Session deleted successfully"})
        if found := re.fullmatch(rf"/{self.route}/([^/]+)", path):
            return self._chat(asked.json, found[1])
        return _error(404, 1003, "not found")

    def _chat(self, body: dict[str, Any], session: str) -> Answer:
        if session not in self.sessions:
            return _error(404, 1003, "Session not found")
        is_agent = self.route == "agent-chat"
        if not body.get("query") or body.get("agent_enabled") is not is_agent:
            return _error(400, 1000, "Query content cannot be empty")
        for image in body.get("images", []):
            head, _, data = image["data"].partition(",")
            kind = re.fullmatch(r"data:(.+);base64", head)
            assert kind is not None, head
            self._keep("", kind[1], base64.b64decode(data, validate=True))
        for file in body.get("attachment_uploads", []):
            data = base64.b64decode(file["data"], validate=True)
            assert len(data) == file["file_size"]
            kind_of = mimetypes.guess_type(file["file_name"])[0] or ""
            self._keep(file["file_name"], kind_of, data)
        self.messages.append(body | {"session": session})
        return self.script.popleft() if self.script else self.good(["ok"])

    def _keep(self, name: str, kind: str, data: bytes) -> None:
        self.uploads[str(len(self.uploads))] = Sent("", name, kind, data)

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        return [
            said("agent_query", done=True, session_id=SESSION, assistant_message_id="task-1"),
            *[said("answer", piece, data={"event_id": "e-1"}) for piece in pieces],
            said("answer", done=True, data={"event_id": "e-1", "duration_ms": 12}),
            complete("".join(pieces)),
        ]


def said(kind: str, content: str = "", *, done: bool = False, **more: Any) -> bytes:
    data = {"id": "req-1", "response_type": kind, "content": content, "done": done, **more}
    return sse(data, "message")


def complete(text: str) -> bytes:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "cache_reported": False}
    data = {"total_steps": 1, "total_duration_ms": 20, "final_content": text, "usage": usage}
    return said("complete", done=True, data=data, usage=usage)


def error_event() -> bytes:
    text = f"the model refused {KEY}"
    return said("error", text, done=True, data={"stage": "agent_execution", "error": text})


def _error(status: int, code: int, message: str) -> Answer:
    return reply({"success": False, "error": {"code": code, "message": message}}, status)
