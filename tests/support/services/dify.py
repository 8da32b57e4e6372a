"""Dify's API, as far as the runner uses it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply, sse

KEY = "app-dify-key-0001"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "latency": 0.9, "currency": "USD"}
TASK = "task-1"


class FakeDify(ServiceServer):
    """One app. `kind` is that of the app behind the key."""

    key = KEY

    def __init__(self, kind: str = "chat") -> None:
        super().__init__()
        self.kind = kind
        self.conversations: set[str] = set()
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base + "/v1"

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "unauthorized", "Access token is invalid")
        if asked.path == "/v1/files/upload":
            return self._upload(asked)
        if found := re.fullmatch(r"/v1/(?:chat-messages|workflows/tasks)/([^/]+)/stop", asked.path):
            if not asked.json.get("user"):
                return _error(400, "invalid_param", "user is required")
            self.stopped.append(found[1])
            return reply({"result": "success"})
        if asked.path == "/v1/workflows/run":
            return self._workflow(asked)
        if asked.path == "/v1/chat-messages":
            return self._chat(asked)
        return _error(404, "not_found", "The requested URL was not found on the server.")

    def _upload(self, asked: Asked) -> Answer:
        fields, files = asked.form
        if not fields.get("user") or [file.name for file in files] != ["file"]:
            return _error(400, "no_file_uploaded", "Please upload your file.")
        id_ = f"upload-{len(self.uploads) + 1}"
        self.uploads[id_] = files[0]
        return reply(
            {"id": id_, "name": files[0].file_name, "size": len(files[0].data), "extension": "x"}, 201
        )

    def _chat(self, asked: Asked) -> Answer:
        if self.kind == "workflow":
            return _error(400, "not_chat_app", "Please check if your app mode matches the right API route.")
        body = asked.json
        if problem := self._problem(body, "inputs", "query", "user"):
            return problem
        if (known := body.get("conversation_id")) and known not in self.conversations:
            return _error(404, "not_found", "Conversation Not Exists.")
        self.messages.append(body)
        self.conversations.add(known or "dify-conversation-1")
        return self.script.popleft() if self.script else self.good(["ok"])

    def _workflow(self, asked: Asked) -> Answer:
        if self.kind != "workflow":
            return _error(
                400, "not_workflow_app", "Please check if your app mode matches the right API route."
            )
        if problem := self._problem(asked.json, "inputs", "user"):
            return problem
        self.messages.append(asked.json)
        return self.script.popleft() if self.script else self.good(["ok"])

    def _problem(self, body: dict[str, Any], *required: str) -> Answer | None:
        for name in required:
            if body.get(name) is None:
                return _error(400, "invalid_param", f"{name} is required in input form")
        if body.get("response_mode") != "streaming":
            return _error(400, "invalid_param", "Agent Chat App does not support blocking mode")
        for file in body.get("files", []):
            place = "url" if file["transfer_method"] == "remote_url" else "upload_file_id"
            if not file.get(place) or (place == "upload_file_id" and file[place] not in self.uploads):
                return _error(400, "invalid_param", "Invalid upload file")
        return None

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream; charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        if self.kind == "workflow":
            return workflow(pieces)
        name = "agent_message" if self.kind == "agent" else "message"
        sent = [sse("", "ping").replace(b"data: \n", b"")]
        sent += [sse(chat(name, answer=piece)) for piece in pieces]
        return [*sent, sse(chat("message_end", metadata={"usage": USAGE, "retriever_resources": []}))]


def chat(event: str, **fields: Any) -> dict[str, Any]:
    """One event of a chat."""
    return {
        "event": event,
        "task_id": TASK,
        "message_id": "m-1",
        "conversation_id": "dify-conversation-1",
        "created_at": 1705395332,
        **fields,
    }


def workflow(
    pieces: Iterable[str], outputs: dict[str, Any] | None = None, status: str = "succeeded", error: Any = None
) -> list[bytes]:
    def event(name: str, data: dict[str, Any]) -> bytes:
        return sse({"event": name, "task_id": TASK, "workflow_run_id": "w-1", "data": data})

    pieces = list(pieces)
    finished = {
        "id": "w-1",
        "status": status,
        "outputs": {"text": "".join(pieces)} if outputs is None else outputs,
        "error": error,
        "elapsed_time": 1.2,
        "total_tokens": 18,
        "total_steps": 2,
    }
    return [
        event("workflow_started", {"id": "w-1", "workflow_id": "f-1"}),
        event("node_started", {"node_id": "n-1", "node_type": "llm"}),
        *[
            event("text_chunk", {"text": piece, "from_variable_selector": ["n-1", "text"]})
            for piece in pieces
        ],
        event("node_finished", {"node_id": "n-1", "status": "succeeded", "outputs": {"text": "x"}}),
        event("workflow_finished", finished),
    ]


def error_event() -> bytes:
    fields = {"status": 400, "code": "provider_quota_exceeded", "message": f"no quota for {KEY}"}
    return sse(chat("error", **fields))


def _error(status: int, code: str, text: str) -> Answer:
    return reply({"code": code, "message": text, "status": status}, status)
