"""A conversation with an agent of a server: its messages, their runs, and the pauses of these."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from hostler.cli.client import Api
from hostler.cli.routes import route
from hostler.domain.record import Record
from hostler.journal.feed import StoredResult
from hostler_protocol.errors import HostlerError, NotFoundError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_WAITING = 20
"""Pauses of one conversation that are read: one for each active run, of which there are few."""
WAITING = ("open", "needs_review")


class NoRunError(HostlerError):
    """The event was accepted, but started no run."""


class SentMessage(Record):
    """The receipt of a message. `outcome`: started, steered or queued."""

    event_id: str
    outcome: str
    run_id: str


class Talk:
    """One conversation. `running` holds the ids of the active runs, oldest first."""

    def __init__(self, api: Api, agent: str, conversation_id: str | None = None) -> None:
        self.api = api
        self.agent = agent
        self.conversation_id = conversation_id or new_id()
        self.running: list[str] = []

    async def send(self, text: str) -> SentMessage:
        """Send a message. NoRunError if no run takes it."""
        envelope = EventEnvelope(
            event_type="message.received",
            input=Input(text=text),
            agent=self.agent,
            conversation_id=self.conversation_id,
            source="api",
        )
        accepted = await self.api.post("/v1/events", envelope)
        if accepted["run"] is None:
            raise NoRunError(f"the agent started no run: {accepted['outcome']}")
        return SentMessage(accepted["event_id"], accepted["outcome"], accepted["run"]["run_id"])

    async def follow(self, run_id: str) -> AsyncGenerator[StoredResult, None]:
        """Yield the results of a run, until its end."""
        self.running.append(run_id)
        try:
            async for result in self.api.results(run_id):
                yield result
        finally:
            self.running.remove(run_id)

    async def say(self, text: str) -> AsyncGenerator[StoredResult, None]:
        """Send a message, and yield the results of its run, until its end."""
        sent = await self.send(text)
        async for result in self.follow(sent.run_id):
            yield result

    async def receipt(self, event_id: str) -> dict[str, Any]:
        """Return the receipt of a message sent to an active run.

        `status` is injected, requeued, dropped or queued; `next_run_id` is set if another run answers it.
        """
        event = await self.api.get(route("events", event_id))
        found: dict[str, Any] = {**(event.get("steering") or {}), "run_id": event["run_id"]}
        return found

    async def waiting(self) -> list[dict[str, Any]]:
        """Return the pauses of this conversation that wait for people, oldest first."""
        found = await self.api.items("/v1/pauses", limit=MAX_WAITING, conversation_id=self.conversation_id)
        return [pause for pause in reversed(found) if pause["status"] in WAITING]

    async def decide(self, pause: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
        """Send the decision on one call of a pause. Return the server's answer, with `status`."""
        if "outcome" in action:
            body = {name: value for name, value in action.items() if name != "call_id"}
            path = route("pauses", pause["id"], "calls", action["call_id"], "resolve")
            resolved: dict[str, Any] = await self.api.post(path, body)
            return resolved
        answered: dict[str, Any] = await self.api.post(
            route("pauses", pause["id"], "actions"), {"revision": pause["revision"], "actions": [action]}
        )
        return answered

    async def cancel(self) -> int:
        """Cancel the active runs, and return their number."""
        running = list(self.running)
        for run_id in running:
            await self.api.post(route("runs", run_id, "cancel"), {"reason": "cancelled in the chat"})
        return len(running)

    async def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the last `limit` messages, oldest first, then those that wait for a run.

        A waiting message has `waits_for`.
        """
        path = route("conversations", self.conversation_id, "history")
        try:
            page = await self.api.get(path, limit=min(limit, MAX_PAGE_ITEMS))
        except NotFoundError:
            return []
        found: list[dict[str, Any]] = [*reversed(page["items"]), *page.get("waiting", [])]
        return found

    async def state(self) -> list[dict[str, Any]]:
        """Return the state of this conversation: items with `key` and `value`."""
        path = route("conversations", self.conversation_id, "state")
        try:
            return await self.api.items(path, limit=1000)
        except NotFoundError:
            return []
