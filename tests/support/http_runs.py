"""Runs over HTTP, as a client sees them: send an event, follow its run, look at how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, NamedTuple

import httpx

from hostler_protocol.runs import TERMINAL_STATUSES
from support.server_process import LOOK_SECONDS, HostProcess
from support.wire_client import Seen, ask, stream


class Sent(NamedTuple):
    """An accepted event and its run."""

    event_id: str
    run_id: str


class Results(list[Seen]):
    """The results of a run."""

    @property
    def types(self) -> list[str]:
        """The type of each."""
        return [result.type for result in self]

    @property
    def ending(self) -> tuple[str, str | None]:
        """Type and code of the last one."""
        return self[-1].type, self.data(-1).get("code")

    @property
    def text(self) -> str:
        """The first completed message."""
        return str(self.data(self.types.index("message.completed"))["message"]["content"])

    def data(self, index: int) -> dict[str, Any]:
        """The payload of one."""
        found: dict[str, Any] = json.loads(self[index].data)["data"]
        return found


async def send(host: HostProcess, agent: str, text: str, conversation_id: str | None = None) -> Sent:
    """Send a message to an agent, in a conversation of its own where none is named."""
    event = {"event_type": "message.received", "agent": agent, "input": {"text": text}}
    if conversation_id is not None:
        event["conversation_id"] = conversation_id
    answer = await ask(host.url, "POST", "/v1/events", event)
    assert answer.status == 202, answer
    accepted = answer.json()
    return Sent(accepted["event_id"], accepted["run"]["run_id"])


async def follow(host: HostProcess, run_id: str) -> Results:
    """All results of a run, once it is over."""
    return Results([result async for seen in stream(host.url, run_id) for result in seen])


async def begin(host: HostProcess, agent: str, text: str, conversation_id: str | None = None) -> Sent:
    """Send, and wait for the run's first result."""
    sent = await send(host, agent, text, conversation_id)
    async with contextlib.aclosing(stream(host.url, sent.run_id)) as pieces:
        async for _ in pieces:
            return sent
    raise AssertionError(f"run {sent.run_id} said nothing")


async def perform(host: HostProcess, agent: str, text: str, conversation_id: str | None = None) -> Results:
    """Send, and follow to the end."""
    return await follow(host, (await send(host, agent, text, conversation_id)).run_id)


async def cancel(host: HostProcess, run_id: str) -> Results:
    """Ask for the end of a run; all its results."""
    answer = await ask(host.url, "POST", f"/v1/runs/{run_id}/cancel", {"reason": "the test asked"})
    assert answer.status == 200, answer
    return await follow(host, run_id)


async def record(host: HostProcess, run_id: str) -> Any:
    """The run as it stands."""
    return (await ask(host.url, "GET", f"/v1/runs/{run_id}")).json()


async def pause_of(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """What a run waits for, once it does."""
    while True:
        items = (await client.get("/v1/pauses", params={"run_id": run_id})).json()["items"]
        if items:
            found: dict[str, Any] = (await client.get(f"/v1/pauses/{items[0]['id']}")).json()
            return found
        await asyncio.sleep(LOOK_SECONDS)


async def ended(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    """A run, once it is over."""
    while True:
        found: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
        if found["status"] in TERMINAL_STATUSES:
            return found
        await asyncio.sleep(LOOK_SECONDS)
