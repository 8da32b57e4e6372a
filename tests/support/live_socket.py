"""A client of `/v1/ws`: requests with their answers, and the events of each subscription."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from support.followed import Seen


class Refused(Exception):
    """A command was refused; `problem` is the document."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


class LiveClient:
    """One connection. Its reader must run while requests are made: `async with live(...)`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.events: dict[str, asyncio.Queue[Seen]] = {}
        self.cursors: dict[str, str | None] = {}
        self.ended: dict[str, asyncio.Future[Any]] = {}
        self.unasked: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    async def read(self) -> None:
        """Read to the end of the connection."""
        async for text in self.socket:
            message = json.loads(text)
            match message["type"]:
                case "hello":
                    self.hello = message
                case "answer" if message["id"] in self.answers:
                    self.answers[message["id"]].set_result(message["result"])
                case "error" if message["id"] in self.answers:
                    self.answers[message["id"]].set_exception(Refused(message["problem"]))
                case "error":
                    self.unasked.append(message["problem"])
                case "events" if message["subscription"] in self.events:
                    name = message["subscription"]
                    for event in message["events"]:
                        self.cursors[name] = event["cursor"]
                        self.events[name].put_nowait(Seen(event["cursor"], event["type"], event["data"]))
                case "cursor":
                    self.cursors[message["subscription"]] = message["cursor"]
                case "end" if message["subscription"] in self.ended:
                    self.ended[message["subscription"]].set_result(message["problem"])

    async def ask(self, command: str, **fields: Any) -> Any:
        """Send a command and return its answer. Refused."""
        request_id = str(next(self._ids))
        answer = self.answers[request_id] = asyncio.get_running_loop().create_future()
        await self.socket.send(json.dumps({"type": command, "id": request_id, **fields}))
        async with asyncio.timeout(60):
            return await answer

    async def follow(self, name: str, **fields: Any) -> AsyncIterator[Seen]:
        """Subscribe; the events as they come."""
        self.events[name] = asyncio.Queue()
        self.ended[name] = asyncio.get_running_loop().create_future()
        answer = await self.ask("subscribe", subscription=name, **fields)
        self.cursors.setdefault(name, answer["cursor"])
        return self.seen(name)

    async def seen(self, name: str) -> AsyncIterator[Seen]:
        while True:
            yield await self.events[name].get()


@contextlib.asynccontextmanager
async def live(url: str, key: str, **options: Any) -> AsyncIterator[LiveClient]:
    """An open connection with a key, and its reader."""
    address = url.replace("http:", "ws:", 1) + "/v1/ws"
    headers = {"authorization": f"Bearer {key}"}
    async with connect(address, additional_headers=headers, max_size=None, **options) as socket:
        client = LiveClient(socket)
        reading = asyncio.create_task(client.read())
        try:
            yield client
        finally:
            await socket.close()
            await asyncio.gather(reading, return_exceptions=True)
