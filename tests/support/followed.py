"""Clients of streams over many runs: what they saw, from any cursor, over connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass(frozen=True)
class Seen:
    """One event of a stream over runs."""

    cursor: str
    type: str
    data: dict[str, Any]


async def iter_seen(answer: httpx.Response, marks: list[str] | None = None) -> AsyncIterator[Seen]:
    """The events of a stream as they come. `marks` gets the cursors of events without data."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            yield Seen(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
        elif "id" in fields and marks is not None:
            marks.append(fields["id"])
        fields = {}


@contextlib.asynccontextmanager
async def opened(
    client: httpx.AsyncClient, path: str, cursor: str | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[Seen]]:
    """An open stream; it has begun, so that what is sent from now on is in it."""
    headers = {} if cursor is None else {"last-event-id": cursor}
    params = {name.rstrip("_"): value for name, value in query.items()}
    async with client.stream("GET", path, params=params, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield iter_seen(answer)


async def take(events: AsyncIterator[Seen], until: Any, seconds: float = 60) -> list[Seen]:
    """The next events, up to the first one for which `until` is true."""
    found: list[Seen] = []
    async with asyncio.timeout(seconds):
        async for event in events:
            found.append(event)
            if until(event):
                return found
    raise AssertionError(f"the stream ended after {[event.type for event in found]}")


def ends(*run_ids: str) -> Any:
    """Whether all of these runs have ended, seen event by event."""
    left = set(run_ids)

    def ended(event: Seen) -> bool:
        if event.type == "run.status" and event.data["status"] in ("completed", "failed", "cancelled"):
            left.discard(event.data["run_id"])
        return not left

    return ended


@dataclass
class Follower:
    """A client that follows a stream over every loss of its host, by its cursor."""

    hosts: list[Any]
    """HostProcess; it goes on at the next one when it loses one."""
    path: str
    seen: list[Seen] = field(default_factory=list)
    cursor: str | None = None
    resumed: int = 0
    began: asyncio.Event = field(default_factory=asyncio.Event)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Follow until cancelled."""
        for host in itertools.cycle(self.hosts):
            if len(self.hosts) == 1:
                await host.up.wait()
            elif not host.up.is_set():
                await asyncio.sleep(0.05)
                continue
            with contextlib.suppress(httpx.TransportError, AssertionError):
                await self._follow_at(host)
            await asyncio.sleep(0.02)

    async def _follow_at(self, host: Any) -> None:
        headers = {} if self.cursor is None else {"last-event-id": self.cursor}
        marks: list[str] = []
        async with (
            host.client() as client,
            client.stream("GET", self.path, headers=headers, timeout=None) as answer,
        ):
            if answer.status_code != 200:
                problem = await answer.aread()
                assert answer.status_code in (401, 503), problem  # another host at our port, or one that ends
                return
            self.resumed += self.cursor is not None
            self.began.set()
            async for event in iter_seen(answer, marks):
                if event.type == "problem":
                    return
                self.seen.append(event)
                self.cursor = event.cursor
                self._moved.set()

    async def until(self, done: Callable[[list[Seen]], bool]) -> None:
        """Wait until what was seen is enough."""
        while not done(self.seen):
            self._moved.clear()
            await self._moved.wait()


@contextlib.asynccontextmanager
async def following(*followers: Follower) -> AsyncIterator[None]:
    """Let clients follow while the block runs."""
    tasks = [asyncio.create_task(one.follow()) for one in followers]
    try:
        for one in followers:
            await one.began.wait()
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def ended_runs(seen: list[Seen]) -> set[str]:
    """The runs whose end was seen."""
    over = ("completed", "failed", "cancelled", "timeout")
    return {one.data["run_id"] for one in seen if one.type == "run.status" and one.data["status"] in over}


def results_by_run(seen: list[Seen]) -> dict[str, list[dict[str, Any]]]:
    """The results of each run, in the order in which they were seen."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in seen:
        if "sequence" in one.data:
            found.setdefault(one.data["run_id"], []).append(one.data)
    return found
