"""The Responses API of OpenAI, as far as the runner uses it."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from typing import Any

from support.services.server import Answer, Asked, Sent, ServiceServer, reply, sse

KEY = "sk-openai-key-0001"
MODEL = "gpt-5"
FIRST = "resp_1"
USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 18,
}


class FakeOpenAI(ServiceServer):
    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.responses: set[str] = {FIRST}
        self.uploads: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return self.base + "/v1"

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "invalid_api_key", "Incorrect API key provided")
        if (asked.method, asked.path) != ("POST", "/v1/responses"):
            return _error(404, "unknown_url", f"Unknown request URL: {asked.method} {asked.path}")
        body = asked.json
        if body.get("model") != MODEL:
            return _error(404, "model_not_found", "The requested model does not exist.")
        if body.get("stream") is not True or not body.get("input"):
            return _error(400, "missing_required_parameter", "Missing required parameter: 'input'.")
        known = body.get("previous_response_id")
        if known is not None and known not in self.responses:
            return _error(
                400, "previous_response_not_found", f"Previous response with id '{known}' not found."
            )
        for item in body["input"]:
            self._keep(item.get("content"))
        self.messages.append(body)
        return self.script.popleft() if self.script else self.good(["ok"])

    def _keep(self, content: Any) -> None:
        for part in content if isinstance(content, list) else []:
            if part["type"] not in ("input_image", "input_file"):
                continue
            where = part.get("image_url") or part.get("file_url") or part["file_data"]
            if where.startswith("data:"):
                head, _, data = where.partition(";base64,")
                file = Sent("", part.get("filename", ""), head[5:], base64.b64decode(data, validate=True))
                self.uploads[str(len(self.uploads))] = file

    def good(self, pieces: Iterable[str]) -> Answer:
        return Answer(self.stream(pieces), content_type="text/event-stream; charset=utf-8")

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        return numbered(
            created(),
            *[text(piece) for piece in pieces],
            item("done", message("".join(pieces))),
            completed(message("".join(pieces))),
        )


Event = dict[str, Any]


def numbered(*events: Event) -> list[bytes]:
    """The bytes of events, as they are numbered."""
    count = itertools.count()
    return [sse({**event, "sequence_number": next(count)}, f" {event['type']}") for event in events]


def response(status: str, *output: Event, **more: Any) -> Event:
    return {"id": FIRST, "object": "response", "status": status, "model": MODEL, "output": [*output], **more}


def created() -> Event:
    return {"type": "response.created", "response": response("in_progress", usage=None)}


def completed(*output: Event) -> Event:
    return {"type": "response.completed", "response": response("completed", *output, usage=USAGE)}


def message(said: str) -> Event:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def text(piece: str, output: int = 0) -> Event:
    place = {"item_id": "msg_1", "output_index": output, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": piece}


def item(what: str, output: Event) -> Event:
    return {"type": f"response.output_item.{what}", "output_index": 0, "item": output}


def approval(id_: str = "mcpr_1", arguments: str = '{"path": "文件"}') -> Event:
    named = {"server_label": "files", "name": "delete"}
    return {"id": id_, "type": "mcp_approval_request", **named, "arguments": arguments}


def error_event() -> bytes:
    return numbered({"type": "error", "code": "server_error", "message": f"failed for {KEY}", "param": None})[
        0
    ]


def _error(status: int, code: str, said: str) -> Answer:
    return reply({"error": {"message": said, "type": "invalid_request_error", "code": code}}, status)
