"""One open channel: what comes in, what goes out, and the watch over its lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from hostler.channels.chat_answers import ChatAnswers, Decide
from hostler.channels.files import ChannelFiles
from hostler.channels.ingest import Accept, Ingest
from hostler.channels.outbox import OutboxSender
from hostler.channels.typing_sign import TypingSign
from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import chance, monotonic_clock
from hostler.domain.quotas import WorkspaceQuota
from hostler.domain.record import Record
from hostler.plugins.connection import PluginConnection
from hostler.secrets.stored import Resolve
from hostler.storage.port import Database
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.channel_connections import Connection, Hold
from hostler_protocol.channels import (
    ChannelAbilities,
    ChannelManifest,
    ChannelOpenParams,
    ChannelRequestParams,
    ChannelResponse,
)
from hostler_protocol.errors import HostlerError, StorageError, UnavailableError

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between looks whether a connection is to be opened anew, or whether another host has let go of it."""
BEATS_PER_LEASE = 5
STOP_AFTER = 2 / 3
"""The fraction of a lease without renewal after which the connection is closed."""
GRACE_SECONDS = 4.0
"""How long messages that are being sent may take while a connection is closed in order."""
CLOSE_SECONDS = 2.0
MAX_REQUESTS_AT_ONCE = 32
"""Requests of a platform to one channel that the plugin has not answered."""
UNANSWERED_SECONDS = 600.0
"""After this long such a request counts no more: its plugin may have lost it."""


class ChannelParts(Record):
    """What connections work with. `connect` returns the connection to a plugin, by its key."""

    db: Database
    blobs: BlobFolder
    workspace_id: str
    host_id: str
    connect: Callable[[str], Coroutine[Any, Any, PluginConnection]]
    accept: Accept
    decide: Decide
    resolve: Resolve
    quota_of: Callable[[str], WorkspaceQuota]
    lease_seconds: float = 15.0
    pace: float = 1.0
    """Scales all waits between tries."""
    jitter: Callable[[], float] = chance


class ConnectionLostError(HostlerError):
    """A connection is over, for a reason that people may read. `again_at_once`: without a back-off."""

    def __init__(self, message: str, *, again_at_once: bool = False) -> None:
        super().__init__(message)
        self.again_at_once = again_at_once


class OpenChannel:
    """One open connection: what comes in, what goes out, and the watch over its lease."""

    def __init__(  # noqa: PLR0917
        self,
        parts: ChannelParts,
        entry: ChannelEntry,
        manifest: ChannelManifest,
        connection: PluginConnection,
        hold: Hold,
        row: Connection,
    ) -> None:
        self._parts = parts
        self.entry = entry
        self.manifest = manifest
        self._connection = connection
        self._hold = hold
        self._row = row
        self.lost: asyncio.Future[HostlerError] = asyncio.get_running_loop().create_future()
        """Done, with the reason, once the connection is over."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        files = ChannelFiles(parts.db, parts.blobs, parts.workspace_id, entry, parts.quota_of)
        self._ingest = Ingest(
            parts.db,
            parts.accept,
            entry,
            manifest,
            connection,
            hold,
            files,
            self._spawn,
            self.end,
            ChatAnswers(parts.db, parts.workspace_id, entry.name, parts.decide, self.wake_outbox),
            TypingSign(
                parts.db,
                entry,
                manifest,
                connection.channels,
                self._spawn,
                lambda: self._ingest.connected,
                pace=parts.pace,
            ),
            account=row.account,
        )
        self._sender = OutboxSender(
            parts.db,
            hold,
            parts.host_id,
            entry,
            manifest,
            connection.channels,
            files,
            self._spawn,
            lambda: self._ingest.connected,
            pace=parts.pace,
            jitter=parts.jitter,
        )
        self._ingest.on_connected = self._ingest.pairing.wake = self._sender.wake

    @property
    def abilities(self) -> ChannelAbilities:
        """What the plugin can do with it."""
        return self.manifest.abilities

    def end(self, why: HostlerError) -> None:
        """End the connection, for the first reason that is given."""
        if not self.lost.done():
            self.lost.set_result(why)

    def wake_outbox(self) -> None:
        """Look for messages to be sent at once."""
        self._sender.wake()

    async def request(self, params: ChannelRequestParams, seconds: float) -> ChannelResponse:
        """Give the plugin a request of the platform, and return its answer.

        UnavailableError if too many are with it, or it does not answer in time; such a one counts until it
        does. Raises what the plugin refuses it with.
        """
        if self._requests >= MAX_REQUESTS_AT_ONCE:
            raise UnavailableError(f"{self._requests} requests are with the plugin already")
        answer: asyncio.Future[ChannelResponse] = asyncio.get_running_loop().create_future()
        self._requests += 1
        self._spawn(self._ask(params, answer)).add_done_callback(lambda _: answer.cancel())
        await asyncio.wait([answer], timeout=seconds)
        if not answer.done() or answer.cancelled():
            answer.cancel()
            raise UnavailableError(f"the plugin did not answer within {seconds:g} s")
        return answer.result()

    async def _ask(self, params: ChannelRequestParams, answer: asyncio.Future[ChannelResponse]) -> None:
        try:
            found = await self._connection.channels.ask("channel/request", params, UNANSWERED_SECONDS)
        except HostlerError as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(found)
        finally:
            self._requests -= 1

    @asynccontextmanager
    async def running(self, config: dict[str, Any]) -> AsyncIterator[None]:
        """Open the channel; close it after the block, and end all that was begun for it."""
        entry, channels = self.entry, self._connection.channels
        params = ChannelOpenParams(
            channel_id=entry.name, channel=entry.channel_name, config=config, state=self._row.state
        )
        try:
            await channels.open(params, self._ingest)
            await self._parts.db.write(
                lambda tx: connections.set_opened(tx, self._hold, self.manifest.abilities)
            )
            log.info("channel %s is open in plugin %s", entry.name, entry.plugin_key)
            self._spawn(self._sender.work())
            self._spawn(self._watch())
            yield
        finally:
            await self._close()

    async def _close(self) -> None:
        """Let what is being sent come to its end, close the channel in the plugin, and end all tasks."""
        try:
            await self._sender.stop(GRACE_SECONDS)
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._connection.channels.close(self.entry.name)
        except (HostlerError, TimeoutError) as error:
            log.info("channel %s was not closed in order: %s", self.entry.name, error)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of this connection, which ends with it; a failure ends the connection."""
        task = asyncio.create_task(work, name=f"channel {self.entry.name}")
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("channel %s failed", self.entry.name, exc_info=error)
            self.end(
                ConnectionLostError(f"the host failed in it ({type(error).__name__}); its log says more")
            )

    async def _watch(self) -> None:
        """Renew the lease where there are other hosts, and look whether a new connection is asked for."""
        parts, renewed = self._parts, monotonic_clock()
        every = parts.lease_seconds / BEATS_PER_LEASE if parts.db.shared else LOOK_SECONDS
        while not self.lost.done():
            await asyncio.sleep(every)
            try:
                row = await self._look()
            except (StorageError, TimeoutError) as error:
                log.warning("channel %s: its lease could not be renewed: %s", self.entry.name, error)
                if parts.db.shared and monotonic_clock() - renewed > parts.lease_seconds * STOP_AFTER:
                    self.end(UnavailableError("its lease was not renewed in time"))
                continue
            renewed = monotonic_clock()
            if row is None:
                self.end(UnavailableError("another host has it now"))
            elif row.restarts != self._row.restarts:
                self.end(ConnectionLostError("a new connection was asked for", again_at_once=True))

    async def _look(self) -> Connection | None:
        parts, hold = self._parts, self._hold
        if parts.db.shared:
            lease_ms = int(parts.lease_seconds * 1000)
            async with asyncio.timeout(parts.lease_seconds):
                return await parts.db.write(partial(connections.renew, hold=hold, lease_ms=lease_ms))
        return await parts.db.read(
            lambda tx: connections.find(tx, hold.workspace_id, hold.channel), brief=True
        )
