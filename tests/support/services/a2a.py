"""An agent that speaks A2A by JSON-RPC, of version 1.0 or 0.3 of the protocol."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, Sent, ServiceServer, reply, sse

KEY = "a2a-agent-key-0001"
TASK = "task-1"
CONTEXT = "a2a-context-1"


class FakeA2A(ServiceServer):
    key = KEY

    def __init__(self, version: str = "1.0", *, streams: bool = True) -> None:
        super().__init__()
        self.is_old = version.startswith("0.")
        self.version = version
        self.streams = streams
        self.card: dict[str, Any] = {}
        """What its card has besides."""
        self.key_header = "authorization"
        self.tasks: set[str] = set()
        self.looks: list[dict[str, Any]] = []
        """The task, look by look."""
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.path == "/.well-known/agent-card.json":
            return reply(self._card())
        if asked.path != "/a2a":
            return reply({"detail": "Not Found"}, 404)
        bearer = "Bearer " if self.key_header == "authorization" else ""
        if asked.headers.get(self.key_header) != bearer + self.key:
            return reply({"error": "unauthorized", "message": "Invalid token"}, 401)
        method, params = asked.json["method"], asked.json["params"]
        match {"message/stream": "SendStreamingMessage", "tasks/cancel": "CancelTask"}.get(method, method):
            case "SendStreamingMessage" | "SendMessage" as sent:
                assert (sent == "SendStreamingMessage") is self.streams
                assert asked.headers.get("a2a-version", "0.3") == self.version or self.is_old
                return self._send(params["message"])
            case "CancelTask":
                self.stopped.append(params["id"])
                return answered(status("CANCELED")["statusUpdate"] | {"id": params["id"]})
            case "GetTask":
                assert params["id"] == TASK
                return answered(self.looks.pop(0))
        return answered_error(-32601, "Method not found")

    def _card(self) -> dict[str, Any]:
        where = {"url": f"{self.base}/a2a", "protocolVersion": self.version}
        interface = {**where, "protocolBinding": "JSONRPC"}
        named: dict[str, Any] = {"supportedInterfaces": [interface]}
        if self.is_old:
            named = {**where, "preferredTransport": "JSONRPC"}
        modes = {"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": []}
        about = {
            "name": "Help",
            "description": "Helps.",
            "version": "1",
            "capabilities": {"streaming": self.streams},
        }
        return {**about, **modes, **named, **self.card}

    def _send(self, message: dict[str, Any]) -> Answer:
        assert message["role"] == ("user" if self.is_old else "ROLE_USER")
        if (task := message.get("taskId")) and task not in self.tasks:
            return answered_error(-32001, "Task not found")
        for part in message["parts"]:
            if "raw" in part:
                data = base64.b64decode(part["raw"], validate=True)
                self.uploads[part["filename"]] = Sent("", part["filename"], part["mediaType"], data)
        self.tasks.add(TASK)
        self.messages.append(message)
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        if not self.streams:
            return answered({"task": task("COMPLETED", "".join(pieces))})
        return events(*self.stream(pieces))

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        if self.is_old:
            return [sse(_result(event)) for event in _old(pieces)]
        return [
            said({"task": task("SUBMITTED")}),
            *[said(artifact(piece, append=n > 0)) for n, piece in enumerate(pieces)],
            said(status("WORKING")),
            said(status("COMPLETED")),
        ]


def events(*pieces: bytes) -> Answer:
    return Answer([*pieces], content_type="text/event-stream; charset=utf-8")


def said(event: dict[str, Any]) -> bytes:
    return sse(_result(event))


def answered(result: dict[str, Any]) -> Answer:
    return reply(_result(result))


def answered_error(code: int, message: str) -> Answer:
    return reply({"jsonrpc": "2.0", "id": "1", "error": {"code": code, "message": message}})


def task(state: str, *texts: str) -> dict[str, Any]:
    made = [{"artifactId": f"x-{n}", "parts": [{"text": text}]} for n, text in enumerate(texts)]
    return {"id": TASK, "contextId": CONTEXT, "status": {"state": f"TASK_STATE_{state}"}, "artifacts": made}


def status(state: str, text: str = "") -> dict[str, Any]:
    message = {"messageId": "m-1", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    now = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-01T00:00:00Z"}
    update = now | ({"message": message} if text else {})
    return {"statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": update}}


def artifact(text: str, name: str = "x-0", *, append: bool = False, **part: Any) -> dict[str, Any]:
    made = {"artifactId": name, "parts": [part or {"text": text}]}
    return {"artifactUpdate": {"taskId": TASK, "contextId": CONTEXT, "artifact": made, "append": append}}


def error_event() -> bytes:
    error = {"code": -32603, "message": f"the model refused {KEY}"}
    return sse({"jsonrpc": "2.0", "id": "1", "error": error})


def _result(result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "result": result}


def _old(pieces: Iterable[str]) -> list[dict[str, Any]]:
    named = {"taskId": TASK, "contextId": CONTEXT}
    begun = {"kind": "task", "id": TASK, "contextId": CONTEXT, "status": {"state": "submitted"}}
    done = {"kind": "status-update", **named, "status": {"state": "completed"}, "final": True}
    texts = [{"artifactId": "x-0", "parts": [{"kind": "text", "text": piece}]} for piece in pieces]
    made = [
        {"kind": "artifact-update", **named, "artifact": text, "append": n > 0}
        for n, text in enumerate(texts)
    ]
    return [begun, *made, done]
