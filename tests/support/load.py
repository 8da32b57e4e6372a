"""Customers of a host that is killed under them: they send events, follow the runs, and come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from support.oracle import Oracle
from support.server_process import HostProcess
from support.wire_client import LOST, ask, stream

LOOK_SECONDS = 1.0
"""Nothing came for so long: does the host live?"""
RETRY_SECONDS = 0.01


@dataclass
class Load:
    """So many customers at once. Each sends an event, follows its run to the end, and sends the next one.

    Customers share conversations, so that some runs wait for others.
    """

    host: HostProcess
    oracle: Oracle
    plan: dict[str, Any]
    agents: list[str]
    customers: int = 8
    conversations: int = 5
    results: int = 0
    """Seen by all so far."""
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: bool = False

    @contextlib.asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        """Customers come while the block runs; at its end each one is served."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.customers):
                group.create_task(self._customer(number))
            yield
            self._closing = True

    async def until(self, results: int) -> None:
        """Wait until so many results were seen."""
        while self.results < results:
            self._moved.clear()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._moved.wait()
            except TimeoutError:
                self.host.check()

    async def _customer(self, number: int) -> None:
        count = 0
        while not self._closing:
            event_id = f"e{number}-{count}"
            run_id = await self._send(event_id, number + count)
            await self._follow(run_id)
            count += 1

    async def _send(self, event_id: str, turn: int) -> str:
        event = {
            "event_id": event_id,
            "event_type": "message.received",
            "agent": self.agents[turn % len(self.agents)],
            "conversation_id": f"c{turn % self.conversations}",
            "input": {"text": json.dumps(self.plan)},
        }
        return await sent(self.host, self.oracle, event)

    async def _follow(self, run_id: str) -> None:
        def seen(results: int) -> None:
            self.results += results
            self._moved.set()

        await followed(self.host, self.oracle, run_id, seen)


async def sent(host: HostProcess, oracle: Oracle, event: dict[str, Any]) -> str:
    """Send an event until the host has taken it; its run."""
    while True:
        await host.up.wait()
        try:
            answer = await ask(host.url, "POST", "/v1/events", event)
        except LOST:
            await asyncio.sleep(RETRY_SECONDS)
            continue  # nobody knows whether it was taken: the same event again
        assert answer.status == 202, answer
        return oracle.accept(event["event_id"], answer.json())


async def followed(
    host: HostProcess, oracle: Oracle, run_id: str, saw: Callable[[int], None] = lambda results: None
) -> None:
    """Follow a run to its end, however often the host is lost. `saw`: called with each number of results."""
    first = True
    while True:
        await host.up.wait()
        after = oracle.last(run_id)
        oracle.resumed += not first and after > 0
        with contextlib.suppress(*LOST):
            async with contextlib.aclosing(stream(host.url, run_id, after)) as pieces:
                async for seen in pieces:
                    saw(len(seen))
                    if oracle.see(run_id, seen):
                        return
        await asyncio.sleep(RETRY_SECONDS)
        first = False
