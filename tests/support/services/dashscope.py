"""The API of apps of DashScope, as far as the runner uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, ServiceServer, reply, sse

KEY = "sk-dashscope-key-0001"
APP = "app-0001"


class FakeDashScope(ServiceServer):
    """One app. `kind` is its kind."""

    key = KEY

    def __init__(self, kind: str = "agent") -> None:
        super().__init__()
        self.kind = kind
        self.sessions: set[str] = set()
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "InvalidApiKey", "Invalid API-key provided.")
        if asked.path != f"/api/v1/apps/{APP}/completion":
            return _error(400, "InvalidParameter.AppId", "App not found.")
        if asked.headers.get("x-dashscope-sse") != "enable":
            return _error(400, "InvalidParameter", "this fake only streams")
        given, parameters = asked.json["input"], asked.json["parameters"]
        if not given.get("prompt") or parameters.get("incremental_output") is not True:
            return _error(400, "InvalidParameter", "Required parameter prompt missing or invalid.")
        if self.kind == "workflow" and parameters.get("flow_stream_mode") != "message_format":
            return _error(400, "InvalidParameter", "flow_stream_mode")
        known = given.get("session_id")
        if known is not None and known not in self.sessions:
            return _error(400, "InvalidParameter.SessionId", "session not found")
        self.messages.append(given)
        self.sessions.add("dashscope-session-1")
        return self.script.popleft() if self.script else self.good(["ok"])

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream;charset=UTF-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        if self.kind == "workflow":
            sent = [result(workflow_message=node(piece)) for piece in pieces]
            return [*sent, result("stop", text="".join(pieces))]
        return [*[result(text=piece) for piece in pieces], result("stop", text="")]


def result(finish: str = "null", **output: Any) -> bytes:
    usage = {"models": [{"model_id": "qwen-plus", "input_tokens": 11, "output_tokens": 7}]}
    data = {
        "output": {"session_id": "dashscope-session-1", "finish_reason": finish, **output},
        "usage": usage if finish == "stop" else {},
        "request_id": "r-1",
    }
    return sse(data, "result", more="id:1\n:HTTP_STATUS/200\n")


def node(text: str) -> dict[str, Any]:
    return {
        "node_id": "End_1",
        "node_name": "end",
        "node_type": "End",
        "node_status": "executing",
        "node_is_completed": False,
        "node_msg_seq_id": 0,
        "message": {"role": "assistant", "content": text},
    }


def error_event() -> bytes:
    data = {"code": "Throttling.RateQuota", "message": f"limit of {KEY}", "request_id": "r-1"}
    return sse(data, "error", more="id:1\n:HTTP_STATUS/429\n")


def _error(status: int, code: str, text: str) -> Answer:
    return reply({"code": code, "message": text, "request_id": "r-1"}, status)
