"""A LangGraph server with one graph, as langgraph-api 0.16.7 answers."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

from support.services.langgraph_wire import RUN, ai, chunk, event, metadata
from support.services.server import Answer, Asked, Sent, ServiceServer, reply

KEY = "lsv2_langgraph_key_0001"
GRAPH = "agent"
THREAD = "01a22193-afab-7492-b4f6-228667a64e98"


class FakeLangGraph(ServiceServer):
    key = KEY

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()
        self.uploads: dict[str, Any] = {}
        self.stopped: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.statuses: list[str] = []
        """What a run is said to be, look by look; otherwise by its stream."""
        self._last = Answer()

    @property
    def address(self) -> str:
        return self.base

    def respond(self, asked: Asked) -> Answer:
        if asked.headers.get("x-api-key") != self.key:
            return reply({"detail": "Invalid API key"}, 403)
        if asked.path == "/threads":
            self.threads.add(THREAD)
            return reply({"thread_id": THREAD, "status": "idle", "values": None, "metadata": {}})
        found = re.fullmatch(r"/threads/([^/]+)(?:/(.+))?", asked.path)
        if found is None or found[1] not in self.threads:
            return reply({"detail": "Thread or assistant not found."}, 404)
        if asked.method == "DELETE":
            self.threads.remove(found[1])
            return Answer(status=204)
        if found[2] == "runs/stream":
            return self._run(asked.json, found[1])
        if found[2] == f"runs/{RUN}/cancel":
            self.stopped.append(RUN)
            return Answer(status=202)
        assert (asked.method, found[2]) == ("GET", f"runs/{RUN}"), asked
        return reply({"run_id": RUN, "thread_id": found[1], "status": self._status()})

    def _run(self, body: dict[str, Any], thread: str) -> Answer:
        if body.get("assistant_id") != GRAPH:
            valid = "Must be either:\n- A valid assistant UUID, or\n- One of the registered graphs: agent"
            return reply({"detail": f"Invalid assistant: '{body.get('assistant_id')}'. {valid}"}, 422)
        assert ("input" in body) != ("command" in body)
        for message in body.get("input", {}).get("messages", []):
            for part in message["content"] if isinstance(message["content"], list) else []:
                self._keep(part)
        self.messages.append(body | {"thread": thread})
        self._last = self.script.popleft() if self.script else self.good(["ok"])
        return self._last

    def _keep(self, part: dict[str, Any]) -> None:
        url = part.get("image_url", {}).get("url", "")
        if url.startswith("data:"):
            head, _, data = url.partition(";base64,")
            self.uploads["image"] = Sent("", "", head[5:], base64.b64decode(data, validate=True))
        elif part["type"] == "file" and "base64" in part:
            name = part["extras"]["filename"]
            data = base64.b64decode(part["base64"], validate=True)
            self.uploads[name] = Sent("", name, part["mime_type"], data)

    def _status(self) -> str:
        if self.statuses:
            return self.statuses.pop(0)
        body = self._last.body
        sent = body if isinstance(body, bytes) else b"".join(one for one in body if isinstance(one, bytes))
        return "success" if b"event: updates" in sent else "error"

    def good(self, pieces: Iterable[str]) -> Answer:
        return events(*self.stream(pieces))

    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        pieces = list(pieces)
        return [metadata(), *map(chunk, pieces), updates(messages=[ai("".join(pieces))])]


def events(*pieces: bytes) -> Answer:
    return Answer([*pieces], content_type="text/event-stream; charset=utf-8")


def updates(node: str = "agent", **values: Any) -> bytes:
    return event("updates", {node: values})


def interrupted(*values: Any) -> bytes:
    """Each value by an interrupt of its own, with an id as the server makes it."""
    waits = [
        {"value": value, "id": f"{n:032x}", "response_schema": None} for n, value in enumerate(values, 1)
    ]
    return event("updates", {"__interrupt__": waits})


def error_event() -> bytes:
    return event("error", {"error": "AuthenticationError", "message": f"the model refused {KEY}"})
