"""The AI SDK's own client, unmodified, in Node.js: a front end with chats of one host."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.http_host import ADMIN_KEY, Served
from support.node_clients import Node

CLIENT = Path(__file__).parents[2] / "host/http/ai_sdk/chat.mjs"
AI = "ai@7.0.173"
SCAN = {"name": "scan", "description": "Scans a code.", "parameters": {"type": "object"}}
"""A tool of the front end."""


@dataclass
class Front:
    """A front end with chats of one host."""

    served: Served
    node: Node
    folder: Path

    async def chat(self, *steps: dict[str, Any], **plan: Any) -> dict[str, Any]:
        """Play a chat; its messages, and what the client saw."""
        agent = plan.pop("agent", "player")
        full = {
            "api": f"{self.served.url}/ai-sdk/{agent}",
            "key": ADMIN_KEY,
            "id": "chat",
            "steps": steps,
            **plan,
        }
        found: dict[str, Any] = await asyncio.to_thread(self.node.run, CLIENT, self.folder, json.dumps(full))
        return found

    async def readers(self) -> int:
        """How many streams are open."""
        metrics = (await self.served.client.get("/metrics")).text
        (line,) = [line for line in metrics.splitlines() if line.startswith("hostler_stream_readers ")]
        return int(float(line.split()[1]))

    async def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.served.client.get("/v1/runs")).json()["items"]
        return found


def texts(seen: dict[str, Any], role: str = "assistant") -> list[str]:
    """The texts of the messages of a role."""
    return [
        part["text"]
        for message in seen["messages"]
        if message["role"] == role
        for part in message["parts"]
        if part["type"] == "text"
    ]


def tool_parts(seen: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for message in seen["messages"] for part in message["parts"] if "toolCallId" in part]
