"""The push sender: tells receivers of single runs, as A2A's clients ask for, that a run waits or has ended.

Deliveries come from any host, across restarts: a try holds a lease in the database for longer than it can
take. A failed one is repeated as those of webhooks are. Receivers are named by clients, so only public
addresses are reached, and those that a webhook of the workspace lists under its `network`. Addresses, tokens
and responses never reach a log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from hostler.domain.clock import chance
from hostler.domain.webhooks import MAX_ATTEMPTS, wait_seconds
from hostler.egress import Egress, EgressPolicy, Network
from hostler.host.webhooks import LEASE_SECONDS, TRY_SECONDS, UndeliverableError, check_response, post_once
from hostler.storage.port import Database
from hostler.storage.stores import notices, push_receivers
from hostler.storage.stores.push_receivers import ClaimedPush
from hostler.version import VERSION
from hostler_protocol.errors import StorageError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Interval of the search: one look-up in an index of receivers that wait for something."""
MAX_AT_ONCE = 16
"""Notifications that this host sends at once."""
TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105  the name of a header
STATES = {
    "paused": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "cancelled": "TASK_STATE_CANCELED",
}
"""Status of a run -> state of a task. Every other status is a failure."""


class PushSender:
    """Sends due notifications while `work` runs. `pace` scales the waits between tries."""

    def __init__(
        self,
        db: Database,
        *,
        network: Network | None = None,
        try_seconds: float = TRY_SECONDS,
        pace: float = 1.0,
        jitter: Callable[[], float] = chance,
    ) -> None:
        self._db = db
        self._network = network
        self._try_seconds = try_seconds
        self._lease_ms = int(max(LEASE_SECONDS, 3 * try_seconds) * 1000)
        self._jitter = jitter
        self.pace = pace

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Send due notifications. A worker of the host."""
        while True:
            try:
                sent = await self.send_due()
                succeeded()
            except StorageError as error:
                log.warning("receivers of notifications cannot be read: %s", error)
                sent = 0
            if not sent:
                await asyncio.sleep(POLL_SECONDS)

    async def send_due(self) -> int:
        """Try each notification that is due, once; return how many there were, at most MAX_AT_ONCE."""
        if not await self._db.read(push_receivers.is_due):
            return 0  # an idle host writes nothing
        claimed: list[ClaimedPush] = await self._db.write(
            lambda tx: push_receivers.claim(tx, self._lease_ms, MAX_AT_ONCE), synced=False
        )
        async with asyncio.TaskGroup() as group:
            for push in claimed:
                group.create_task(self._deliver(push))
        return len(claimed)

    async def _deliver(self, push: ClaimedPush) -> None:
        try:
            await self._try(push)
        except UndeliverableError as error:
            reason = error.reason
            if error.final or push.attempts >= MAX_ATTEMPTS:
                log.warning("run %s: a receiver is given up: %s", push.run_id, reason)
                await self._db.write(lambda tx: push_receivers.mark_told(tx, push, error=reason))
                return
            wait = wait_seconds(push.attempts, self._jitter(), error.retry_after) * self.pace
            log.info("run %s: a receiver was not reached: %s; again in %.0f s", push.run_id, reason, wait)
            await self._db.write(lambda tx: push_receivers.mark_failed(tx, push, error=reason, again_in=wait))
        else:
            await self._db.write(lambda tx: push_receivers.mark_told(tx, push))

    async def _try(self, push: ClaimedPush) -> None:
        hooks = await self._db.read(lambda tx: notices.webhooks(tx, push.workspace_id))
        allowed = [place for hook in hooks for place in hook.network]
        receiver = push.receiver
        headers = {"content-type": "application/json", "user-agent": f"hostler/{VERSION}"}
        if receiver.token:
            headers[TOKEN_HEADER] = receiver.token
        if receiver.scheme and receiver.credentials:
            headers["authorization"] = f"{receiver.scheme} {receiver.credentials}"
        egress = Egress(EgressPolicy.of(allowed, any_port=True), network=self._network)
        body = msgspec.json.encode(event_of(push))
        check_response(
            await post_once(egress, "the receiver", receiver.url, headers, body, self._try_seconds)
        )


def event_of(push: ClaimedPush) -> dict[str, Any]:
    """Return the event that tells of a state: a status update, whose receiver asks for the task."""
    status: dict[str, Any] = {"state": STATES.get(push.status, "TASK_STATE_FAILED")}
    if push.finished_at is not None:
        at = datetime.fromtimestamp(push.finished_at / 1000, UTC).isoformat(timespec="milliseconds")
        status["timestamp"] = at.replace("+00:00", "Z")
    update = {"taskId": push.run_id, "contextId": push.conversation_id or "", "status": status}
    return {"statusUpdate": update}
