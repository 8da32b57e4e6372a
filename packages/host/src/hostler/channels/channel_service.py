"""The channels of a host: for each enabled entry one connection, held by exactly one host of the database.

A connection is opened in the plugin that offers the channel, and opened again, after a back-off, when the
plugin has ended or was replaced, when the entry or its secrets changed, or when an operator asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from hostler.channels.open_channel import (
    CLOSE_SECONDS,
    GRACE_SECONDS,
    LOOK_SECONDS,
    ChannelParts,
    ConnectionLostError,
    OpenChannel,
)
from hostler.domain.back_off import back_off
from hostler.domain.channels import ChannelEntry, secret_references
from hostler.domain.clock import monotonic_clock
from hostler.domain.config_checks import with_defaults
from hostler.secrets.known_values import redact
from hostler.storage.port import Tx
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import outbox, outbox_upkeep, pairing_codes, people, settings
from hostler.storage.stores.action_outcomes import give_up_channel
from hostler.storage.stores.channel_connections import Connection, Hold
from hostler.storage.stores.channel_entries import CHANNEL
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.errors import HostlerError, NotFoundError, StorageError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 1.0
LAST_WAIT_SECONDS = 60.0
"""Between tries to open a connection: whoever mends a plugin or a token sees it within a minute."""
STABLE_SECONDS = 60.0
"""A connection that lasted for so long worked: the next back-off begins anew."""
_FOREVER = 2**53


class ChannelService:
    """Keeps the connections of the configured channels while `work` runs."""

    def __init__(self, parts: ChannelParts) -> None:
        self._parts = parts
        self._entries: dict[str, ChannelEntry] = {}
        self._names: frozenset[str] | None = None
        """Of all entries, also of disabled ones; None: they are not known yet."""
        self._tidy = False
        """Whether nothing is left of entries that were removed."""
        self._keepers: dict[str, tuple[ChannelEntry, asyncio.Task[None]]] = {}
        self._open: dict[str, OpenChannel] = {}
        self._changed = asyncio.Event()
        self._failures: list[Exception] = []

    def configure(self, entries: Iterable[ChannelEntry]) -> None:
        """Use these entries from now on. A connection whose entry is another is opened anew."""
        known = list(entries)
        self._names = frozenset(entry.name for entry in known)
        self._entries = {entry.name: entry for entry in known if entry.enabled}
        self._tidy = False
        self._changed.set()

    def renew(self, references: Iterable[str]) -> None:
        """Open the connections anew whose secrets, given by their references, have changed."""
        changed = set(references)
        for name, opened in self._open.items():
            if not changed.isdisjoint(
                map(str, self._entries[name].config.values()) if name in self._entries else ()
            ):
                opened.end(ConnectionLostError("a secret of it has changed", again_at_once=True))

    def hurry(self, pace: float) -> None:
        """Scale the waits between tries of connections that are opened from now on."""
        self._parts = replace(self._parts, pace=pace)

    def wake_outbox(self) -> None:
        """Look for messages to be sent at once."""
        for opened in self._open.values():
            opened.wake_outbox()

    @property
    def has_entries(self) -> bool:
        """Whether a channel is enabled."""
        return bool(self._entries)

    @property
    def open_names(self) -> list[str]:
        """The channels that are open on this host."""
        return sorted(self._open)

    def find_open(self, name: str) -> OpenChannel | None:
        """Return a channel that is open on this host, or None."""
        return self._open.get(name)

    def is_configured(self, name: str) -> bool:
        """Whether there is an entry of this name; it may be disabled."""
        return self._names is not None and name in self._names

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Keep all connections. A worker of the host; call `close` after it."""
        while True:
            self._changed.clear()
            if self._failures:
                failures, self._failures = self._failures, []
                raise ExceptionGroup("channels failed", failures)
            await self._follow()
            succeeded()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Close all connections, and let go of them."""
        await self._end(list(self._keepers))

    async def _follow(self) -> None:
        outdated = [
            name
            for name, (entry, task) in self._keepers.items()
            if task.done() or self._entries.get(name) != entry
        ]
        await self._end(outdated)
        if not self._tidy and self._names is not None:
            self._tidy = await self._forget_removed(self._names)
        for name, entry in self._entries.items():
            if name not in self._keepers:
                task = asyncio.create_task(self._keep(entry), name=f"channel {name}")
                self._keepers[name] = (entry, task)
                task.add_done_callback(self._keeper_ended)

    async def _forget_removed(self, names: frozenset[str]) -> bool:
        """Give up what waits for channels that are gone; return whether nothing is left of them."""
        ws = self._parts.workspace_id

        def look(tx: Tx) -> set[str]:
            known = set(outbox_upkeep.channels_waiting(tx, ws))
            known |= {row.channel for row in connections.page(tx, ws)}
            known |= {*people.channels(tx, ws), *pairing_codes.channels(tx, ws)}
            # an entry that this version cannot read is not removed
            return {name for name in known - names if settings.find(tx, ws, CHANNEL, name) is None}

        async def forget(name: str) -> None:
            db = self._parts.db
            while await db.write(lambda tx: give_up_channel(tx, ws, name, "the channel was removed")):
                pass
            while await db.write(lambda tx: people.drop_of_channel(tx, ws, name)):
                pass
            await db.write(lambda tx: pairing_codes.drop_of_channel(tx, ws, name))
            await db.write(lambda tx: connections.forget(tx, ws, name, alone=not db.shared))

        try:
            if gone := await self._parts.db.read(look):
                for name in gone:
                    await forget(name)
                return not await self._parts.db.read(look)
        except StorageError as error:
            log.warning("what is left of removed channels cannot be read: %s", error)
            return False
        return True

    async def _end(self, names: list[str]) -> None:
        tasks = [self._keepers.pop(name)[1] for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_SECONDS + 2 * CLOSE_SECONDS)

    def _keeper_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            error.add_note(f"in {task.get_name()}")
            self._failures.append(error)
        self._changed.set()

    # -- one entry --------------------------------------------------------------------------------

    async def _keep(self, entry: ChannelEntry) -> None:
        """Hold and keep open one connection, until this is cancelled."""
        parts, failures = self._parts, 0
        while True:
            hold = Hold(parts.workspace_id, entry.name, new_id())
            began = monotonic_clock()
            try:
                row = await self._acquire(hold)
                await self._serve(entry, hold, row)
            except HostlerError as error:
                lost = error
            lasted = monotonic_clock() - began
            failures = 1 if lasted > STABLE_SECONDS * parts.pace else failures + 1
            wait = (
                back_off(failures, FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS)
                * (0.5 + parts.jitter())
                * parts.pace
            )
            if isinstance(lost, ConnectionLostError) and lost.again_at_once:
                log.info("channel %s is opened again: %s", entry.name, lost.message)
                failures = 0
                continue
            log.warning("channel %s: %s; opened again in %.0f s", entry.name, redact(lost.message), wait)
            await self._note_failure(hold, lost)
            await asyncio.sleep(wait)

    async def _acquire(self, hold: Hold) -> Connection:
        """Wait until this host holds the connection. StorageError."""
        parts = self._parts
        lease_ms = int(parts.lease_seconds * 1000) if parts.db.shared else _FOREVER

        def acquire(tx: Tx) -> Connection | None:
            row = connections.acquire(tx, hold, parts.host_id, lease_ms, alone=not parts.db.shared)
            if row is not None:  # the process that had them is gone
                outbox.release(tx, hold.workspace_id, hold.channel, parts.host_id)
            return row

        while True:
            if (row := await parts.db.write(acquire)) is not None:
                return row
            await asyncio.sleep(LOOK_SECONDS)

    async def _note_failure(self, hold: Hold, error: HostlerError) -> None:
        reason = redact(error.message)
        try:
            await self._parts.db.write(lambda tx: connections.set_health(tx, hold, "failed", reason))
        except StorageError as broken:
            log.warning("channel %s: %s", hold.channel, broken.message)

    async def _serve(self, entry: ChannelEntry, hold: Hold, row: Connection) -> None:
        """Open the connection and keep it until it is lost. Raises why that is."""
        try:
            connection = await self._parts.connect(entry.plugin_key)
            manifest = connection.channel_manifests.get(entry.channel_name)
            if manifest is None:
                offered = ", ".join(sorted(connection.channel_manifests)) or "none"
                raise NotFoundError(
                    f"plugin {entry.plugin_key} has no channel {entry.channel_name!r}; it has: {offered}"
                )
            config = await asyncio.to_thread(self._config_of, manifest, entry)
            opened = OpenChannel(self._parts, entry, manifest, connection, hold, row)
            async with opened.running(config):
                self._open[entry.name] = opened
                raise await opened.lost
        finally:
            self._open.pop(entry.name, None)
            await self._release(hold)

    async def _release(self, hold: Hold) -> None:
        try:
            await self._parts.db.write(lambda tx: connections.release(tx, hold))
        except StorageError as error:
            log.warning("channel %s could not be released: %s; its lease ends by itself", hold.channel, error)

    def _config_of(self, manifest: ChannelManifest, entry: ChannelEntry) -> dict[str, Any]:
        """Return the form's values with the secrets in their places. SecretUnreadableError. Blocks."""
        values = with_defaults(manifest.config_schema, entry.config)
        for name, reference in secret_references(manifest, entry).items():
            values[name] = self._parts.resolve(reference, f"channel {entry.name}")
        return values
