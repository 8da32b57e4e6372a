"""A thousand subscriptions whose clients mostly do not read: memory stays bounded, and nobody waits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect

from hostler.http.limits import MAX_SUBSCRIPTIONS
from support.followed import Seen, ended_runs, iter_seen
from support.server_process import KEY, PLUGINS, HostProcess, config_file

pytestmark = pytest.mark.gate("streams-over-runs")

SECONDS = 400
CONNECTIONS = 10
READING = 2
"""So many of them read; the others take nothing, and are disconnected at last."""
RUNS, DELTAS = 5, 2_000
GROWTH_BYTES = 150 << 20
"""What all subscriptions together would be sent is several times this."""
CONVERSATIONS = 5


async def subscribed(stack: contextlib.AsyncExitStack, host: HostProcess, run_id: str) -> ClientConnection:
    """A connection with as many subscriptions as it may have, of all kinds, each confirmed."""
    address = host.url.replace("http:", "ws:", 1) + "/v1/ws"
    headers = {"authorization": f"Bearer {KEY}"}
    socket = await stack.enter_async_context(
        connect(address, additional_headers=headers, max_size=None, max_queue=1, ping_interval=None)
    )
    kinds: list[dict[str, Any]] = [{}, {"run_id": run_id}]
    kinds += [{"conversation_id": f"c{number}"} for number in range(CONVERSATIONS)]
    for number, kind in zip(range(MAX_SUBSCRIPTIONS), itertools.cycle(kinds), strict=False):
        command = {"type": "subscribe", "id": str(number), "subscription": str(number), **kind}
        await socket.send(json.dumps(command))
    answers = 0
    while answers < MAX_SUBSCRIPTIONS:
        received = json.loads(await socket.recv())
        assert received["type"] in ("hello", "answer", "events", "end"), received
        answers += received["type"] == "answer"
    return socket


class Reader:
    """Reads all that a connection sends, and keeps the cursors of its subscription to the workspace."""

    def __init__(self) -> None:
        self.cursors: list[str] = []
        self._moved = asyncio.Event()

    @classmethod
    def of(cls, socket: ClientConnection) -> tuple[Reader, asyncio.Task[None]]:
        reader = cls()
        return reader, asyncio.create_task(reader._read(socket))

    async def _read(self, socket: ClientConnection) -> None:
        async for text in socket:
            received = json.loads(text)
            if received.get("subscription") == "0":
                self.cursors += [event["cursor"] for event in received.get("events", ())]
                self._moved.set()

    async def until(self, cursor: str) -> None:
        while not self.cursors or self.cursors[-1] != cursor:
            self._moved.clear()
            await self._moved.wait()


@pytest.mark.timeout(SECONDS + 30)
async def test_a_thousand_subscriptions_cost_bounded_memory(tmp_path: Path) -> None:
    config = config_file(
        tmp_path / "config.yaml",
        plugins=[PLUGINS / "puppet"],
        agents=[{"name": "puppet", "runner": "plugin:test/puppet/default"}],
    )
    host = HostProcess(tmp_path / "host", config)
    try:
        async with asyncio.timeout(SECONDS), contextlib.AsyncExitStack() as stack:
            await host.start()
            async with host.client() as client:

                async def say(text: str, conversation: str) -> str:
                    body = {
                        "event_type": "message.received",
                        "agent": "puppet",
                        "conversation_id": conversation,
                        "input": {"text": text},
                    }
                    answer = await client.post("/v1/events?wait=120", json=body)
                    assert answer.json()["status"] == "completed", answer.text
                    found: str = answer.json()["run_id"]
                    return found

                first = await say("say 10", "c0")
                sockets = [await subscribed(stack, host, first) for _ in range(CONNECTIONS)]
                process = psutil.Process(host.pid)
                before = process.memory_info().rss
                whole = await stack.enter_async_context(client.stream("GET", "/v1/stream", timeout=None))
                runs: set[str] = set()
                reading = [Reader.of(one) for one in sockets[:READING]]
                peak = 0
                for number in range(RUNS):
                    runs.add(await say(f"say {DELTAS}", f"c{number % CONVERSATIONS}"))
                    peak = max(peak, process.memory_info().rss)
                seen: list[Seen] = []
                left = set(runs)
                async for event in iter_seen(whole):
                    seen.append(event)
                    left -= ended_runs([event])
                    if not left:
                        break
                for seen_by, task in reading:
                    await seen_by.until(seen[-1].cursor)
                    task.cancel()
                    assert seen_by.cursors == [one.cursor for one in seen]
                peak = max(peak, process.memory_info().rss)
                assert peak - before < GROWTH_BYTES, f"{(peak - before) >> 20} MiB"
                print(f"{(peak - before) >> 20} MiB more")
                for one in sockets:
                    one.transport.abort()
    finally:
        host.end()
