"""A worker that says what it likes, frame by frame."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hostler.domain.worker_limits import PROTOCOL
from hostler.plugins.remote_workers.wire import piece, read_piece
from support.http_host import Served
from support.remote_worker import socket_url


def hello(**fields: Any) -> dict[str, Any]:
    """A first message."""
    return {
        "type": "hello",
        "protocol": PROTOCOL,
        "worker_id": "bad",
        "process": secrets.token_hex(16),
        "slots": 4,
        "labels": ["gpu"],
        "trusted": ["test/puppet"],
        **fields,
    }


@dataclass
class HostileWorker:
    """A connection to the host's door for workers."""

    socket: ClientConnection
    said: list[dict[str, Any]] = field(default_factory=list)
    """Control messages of the host that were read."""

    async def say(self, message: dict[str, Any] | str | bytes) -> None:
        """Send a frame."""
        await self.socket.send(json.dumps(message) if isinstance(message, dict) else message)

    async def heard(self, kind: str) -> dict[str, Any]:
        """Read up to the next control message of this type."""
        while True:
            frame = await self.socket.recv()
            if isinstance(frame, str):
                self.said.append(json.loads(frame))
                if self.said[-1]["type"] == kind:
                    return self.said[-1]

    async def written(self) -> bytes:
        """Read up to the next piece of a stream; its bytes."""
        while True:
            frame = await self.socket.recv()
            if isinstance(frame, bytes):
                return read_piece(frame)[1]

    async def play(self, stream: int, answers: dict[str, Any], until: str) -> dict[str, Any]:
        """Answer what the host asks the plugin, by its method, up to a certain request; that request."""
        while True:
            for line in (await self.written()).splitlines():
                asked: dict[str, Any] = json.loads(line)
                if "id" in asked and "method" in asked:
                    result = answers.get(asked["method"], {})
                    await self.line(stream, {"jsonrpc": "2.0", "id": asked["id"], "result": result})
                    if asked["method"] == until:
                        return asked

    async def line(self, stream: int, message: dict[str, Any]) -> None:
        """Say something in the name of the plugin."""
        await self.say(piece(stream, json.dumps(message).encode() + b"\n"))

    async def last_words(self) -> str:
        """Read to the end of the connection; why the host ended it."""
        try:
            while True:
                frame = await self.socket.recv()
                if isinstance(frame, str):
                    self.said.append(json.loads(frame))
        except ConnectionClosed as error:
            ends = [one["reason"] for one in self.said if one["type"] == "end"]
            return ends[-1] if ends else str(error.rcvd.reason if error.rcvd is not None else error)


@asynccontextmanager
async def hostile_worker(
    served: Served, *, greets: bool = True, workspace: str = "default", **fields: Any
) -> AsyncIterator[HostileWorker]:
    """A worker that has joined, or (`greets` false) is about to say hello."""
    key = await served.key(workspace, "workers:connect")
    headers = {"authorization": f"Bearer {key}"}
    async with connect(
        socket_url(served.url), additional_headers=headers, compression=None, max_size=None
    ) as socket:
        worker = HostileWorker(socket)
        if greets:
            await worker.say(hello(**fields))
            await worker.heard("welcome")
        yield worker
        await asyncio.wait_for(socket.close(), 10)
