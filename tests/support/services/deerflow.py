"""The gateway of DeerFlow, as far as the runner uses it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from support.services.langgraph_wire import ai, chunk, event, human, metadata, values
from support.services.server import Answer, Asked, ServiceServer, reply

KEY = "dfp_deerflow_key_0001"
THREAD = "deerflow-thread-1"


class FakeDeerFlow(ServiceServer):
    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()
        self.refused = ""
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return reply({"detail": {"code": "token_invalid", "message": "Invalid token"}}, 401)
        if asked.path == "/api/langgraph/threads":
            assert asked.json == {"metadata": {}}
            self.threads.add(THREAD)
            return reply({"thread_id": THREAD, "metadata": {}, "status": "idle", "values": {}})
        if asked.method == "DELETE":
            self.threads.remove(asked.path.removeprefix("/api/threads/"))
            return reply({"success": True, "message": "Deleted"})
        found = re.fullmatch(r"/api/(?:langgraph/)?threads/([^/]+)/(.+)", asked.path)
        if found is None or found[1] not in self.threads:
            return reply({"detail": f"Thread {found and found[1]} not found"}, 404)
        if found[2] == "uploads":
            return self._upload(asked)
        if run := re.fullmatch(r"runs/([^/]+)/cancel", found[2]):
            self.stopped.append(run[1])
            return Answer(status=202)
        return self._run(asked.json, found[1])

    def _upload(self, asked: Asked) -> Answer:
        _, files = asked.form
        assert {file.name for file in files} == {"files"}
        taken: list[dict[str, Any]] = []
        if self.refused:
            return reply({"success": True, "files": [], "message": self.refused})
        for file in files:
            self.uploads[file.file_name] = file
            where = f"/mnt/user-data/uploads/{file.file_name}"
            taken.append({"filename": file.file_name, "size": len(file.data), "virtual_path": where})
        return reply({"success": True, "files": taken, "message": f"uploaded {len(files)} file(s)"})

    def _run(self, body: dict[str, Any], thread: str) -> Answer:
        (message,) = body["input"]["messages"]
        if body.get("assistant_id") != "lead_agent" or message["role"] != "user" or not message["content"]:
            return reply({"detail": "Invalid message at input.messages[0]"}, 400)
        if not set(body["stream_mode"]) <= {"values", "messages-tuple", "custom", "updates"}:
            return reply({"detail": "unsupported stream mode"}, 422)
        assert body["config"]["configurable"]["thread_id"] == thread
        self.messages.append(body | {"thread": thread})
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream; charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        return [
            metadata(),
            values(human()),
            *map(chunk, pieces),
            values(human(), ai("".join(pieces))),
            event("end", None),
        ]


def error_event() -> bytes:
    return event("error", {"message": f"the model refused {KEY}", "name": "AuthenticationError"})
