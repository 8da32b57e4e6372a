"""Routes deferred events: those whose filters could not be evaluated when they came.

A deferred event waits in the database until it is routed or has failed, whatever happens to the host that
accepted it. Several hosts may try the same event; one of them routes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hostler.domain.bindings import Undecided
from hostler.domain.deferral import next_delay
from hostler.domain.events import Event
from hostler.runs.admission import fail_deferred
from hostler.runs.orchestrator import Orchestrator
from hostler.runs.routing import EventRouter
from hostler.storage.port import Database
from hostler.storage.stores import deferred, events
from hostler.storage.stores.deferred import Deferred
from hostler_protocol.errors import HostlerError, StorageError

log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0
"""Interval of the search for events that another host deferred, or this one before a restart."""
LATER_SECONDS = 5.0
"""Delay before the next try of an event whose agent is known but cannot take it now (its queue is full)."""
RETRY_SECONDS = 1.0
"""Back-off after the database did not answer."""
DELETED = "the event's content was deleted before its filters could be evaluated"


@dataclass(eq=False)
class Rerouter:
    """The worker that routes deferred events."""

    db: Database
    event_router: EventRouter
    orchestrator: Orchestrator
    failed: int = 0
    """Events that this process has failed."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look for the next due event again: one was deferred."""
        self._wake.set()

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Route events that are due, until cancelled. A worker of the host."""
        while True:
            wait = RETRY_SECONDS
            try:
                while self.orchestrator.accepting and (due := await self.db.write(deferred.claim)):
                    for one in due:
                        await self._try(one)
                wait = await self._pause()
                succeeded()
            except StorageError as error:
                log.warning("deferred events cannot be tried now: %s", error)
            await self._sleep(wait)

    async def _pause(self) -> float:
        due = await self.db.read(deferred.next_due)
        return LOOK_SECONDS if due is None else min(LOOK_SECONDS, max(0.05, due / 1000 - time.time()))

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _try(self, one: Deferred) -> None:
        ws, event_id = one.workspace_id, one.event_id
        record = await self.db.read(lambda tx: events.find(tx, ws, event_id))
        event = None if record is None else record.event()
        if event is None:
            await self._fail(ws, event_id, {"reason": DELETED}, DELETED)
            return
        try:
            resolution = await self.event_router.resolve(event)
            if isinstance(resolution, Undecided):
                await self._again(event, resolution, one.tries + 1)
                return
            opened = await self.orchestrator.route(event, resolution, one.not_before)
            if opened.refused is not None:
                raise opened.refused
        except StorageError:
            raise
        except HostlerError as error:
            log.warning("event %s: not routed now: %s", event_id, error)
            await self.db.write(lambda tx: deferred.postpone(tx, ws, event_id, LATER_SECONDS))
        else:
            log.info("event %s: routed after %d tries", event_id, one.tries + 1)

    async def _again(self, event: Event, resolution: Undecided, tries: int) -> None:
        ws, event_id, delay = event.workspace_id, event.event_id, next_delay(tries)
        if delay is None:
            why = f"filters could not be evaluated in {tries} tries: {resolution.summary()}"
            await self._fail(ws, event_id, {**resolution.record(), "tries": tries}, why)
            return
        log.warning("event %s: its filters could not be evaluated: %s", event_id, resolution.summary())
        await self.db.write(lambda tx: deferred.retry(tx, ws, event_id, delay))

    async def _fail(self, ws: str, event_id: str, routing: dict[str, Any], why: str) -> None:
        fail = partial(fail_deferred, workspace_id=ws, event_id=event_id, routing=routing)
        if await self.db.write(fail):
            self.failed += 1
            log.error("event %s was given to no agent: %s", event_id, why)
