"""A conversation with an agent of a server: what is said, and the runs it starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hostler.cli.client import Api, segment
from hostler.feed import StoredResult
from hostler_protocol.errors import HostlerError, NotFoundError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.ids import new_id


class NoRunError(HostlerError):
    """The event was taken, and started no run."""


class Talk:
    """One conversation. `running` are the ids of the runs that are not over yet, oldest first."""

    def __init__(self, api: Api, agent: str, conversation_id: str | None = None) -> None:
        self.api = api
        self.agent = agent
        self.conversation_id = conversation_id or new_id()
        self.running: list[str] = []

    async def send(self, text: str) -> str:
        """Say something; the id of the run it starts. NoRunError where it starts none."""
        envelope = EventEnvelope(
            event_type="message.received",
            input=Input(text=text),
            agent=self.agent,
            conversation_id=self.conversation_id,
            source="api",
        )
        accepted = await self.api.post("/v1/events", envelope)
        if accepted["run"] is None:
            raise NoRunError(f"the agent took no run: {accepted['outcome']}")
        run_id: str = accepted["run"]["run_id"]
        return run_id

    async def say(self, text: str) -> AsyncIterator[StoredResult]:
        """Say something; the results of its run, until its end."""
        run_id = await self.send(text)
        self.running.append(run_id)
        try:
            async for result in self.api.results(run_id):
                yield result
        finally:
            self.running.remove(run_id)

    async def cancel(self) -> int:
        """Cancel what runs; how many runs that were."""
        running = list(self.running)
        for run_id in running:
            await self.api.post(f"/v1/runs/{segment(run_id)}/cancel", {"reason": "cancelled in the chat"})
        return len(running)

    async def history(self, limit: int) -> list[dict[str, Any]]:
        """What was said, oldest first, the last `limit` messages."""
        path = f"/v1/conversations/{segment(self.conversation_id)}/history"
        try:
            found = await self.api.items(path, limit=limit, cursor="before")
        except NotFoundError:
            return []
        return list(reversed(found))

    async def state(self) -> list[dict[str, Any]]:
        """The values kept for this conversation."""
        path = f"/v1/conversations/{segment(self.conversation_id)}/state"
        try:
            return await self.api.items(path, limit=1000)
        except NotFoundError:
            return []
