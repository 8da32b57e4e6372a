"""A simulated MCP server: streamable HTTP, each request answered with one JSON message."""

from __future__ import annotations

import json
import os
from typing import Any

from hostler.simulation.network import SimulatedNetwork
from simulation.http_service import Answer, Asked, HttpService
from simulation.outside import Outside
from simulation.shop import TEXT, effect_of

NAME = "desk"
URL = f"https://{NAME}.example/mcp"
KEY_NAME = "HOSTLER_SIMULATED_DESK_KEY"
KEY = "the-key-of-the-desk"
os.environ[KEY_NAME] = KEY
EFFECT_KEY = "hostler/effect-key"
ANNOTATIONS = {"see": {"readOnlyHint": True}, "order": {"idempotentHint": True}, "take": {}}
METHOD_NOT_FOUND = -32601


class Desk(HttpService):
    """The same operations as the shop's."""

    def __init__(self, out: Outside, network: SimulatedNetwork) -> None:
        super().__init__(out, network, NAME)

    def answer(self, asked: Asked) -> Answer:
        """Answer one message; there is no stream of the server's own."""
        if asked.method != "POST":
            return Answer(status=200 if asked.method == "DELETE" else 405)
        message = json.loads(asked.body)
        if "id" not in message:
            return Answer(status=202)
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = self._result(message["method"], message.get("params", {}))
        if result is None:
            body["error"] = {"code": METHOD_NOT_FOUND, "message": "no such method"}
        else:
            body["result"] = result
        session = {"mcp-session-id": f"s{asked.number}"} if message["method"] == "initialize" else {}
        return Answer(json.dumps(body).encode(), headers=session)

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "initialize":
                server = {"name": NAME, "version": "1"}
                chosen = {"protocolVersion": params["protocolVersion"], "serverInfo": server}
                return {**chosen, "capabilities": {"tools": {}}}
            case "ping":
                return {}
            case "tools/list":
                tools = [
                    {"name": name, "description": name, "inputSchema": TEXT, "annotations": hints}
                    for name, hints in ANNOTATIONS.items()
                ]
                return {"tools": tools}
            case "tools/call":
                name, text = params["name"], params["arguments"]["text"]
                key = params["_meta"][EFFECT_KEY] if name == "order" else None
                done = effect_of(self.out, name, text, key)
                return {"content": [{"type": "text", "text": json.dumps(done)}], "isError": False}
        return None
