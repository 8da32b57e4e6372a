"""The master key of an installation: opens the key ring that the entry `master_key` names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from hostler.domain.config_changes import ConfigProblem
from hostler.domain.record import Record
from hostler.host.config_entries import POLICY
from hostler.host.stored_config import StoredConfig
from hostler.secrets.key_command import PREFIX, named
from hostler.secrets.key_ring import KeyRing, KeyRingError, LiveKeyRing, Locked, open_key_ring
from hostler.storage.port import Database, Tx
from hostler.storage.sealing.tx import workspace_key_uses
from hostler.storage.stores import secrets, written_keys
from hostler_protocol.errors import InvalidArgumentError, StorageError

log = logging.getLogger(__name__)

KEY_USES: Mapping[str, Callable[[Tx], Mapping[str, int]]] = {
    "secrets": secrets.key_uses,
    "keys of content": workspace_key_uses,
    "keys of written-out secrets": written_keys.key_uses,
}
"""What is wrapped by master keys: its name -> how many of it are under each key, by the key's id."""


class KeyStatus(Record):
    """A master key. `reference` None: it is not configured, so what is under it cannot be opened."""

    key_id: str
    reference: str | None
    is_current: bool
    uses: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How much is wrapped by it, by what it is."""


async def _nothing() -> None:
    """Follow no change."""


class MasterKey:
    """Keeps the key ring as configured.

    `on_changed` is awaited after each reading of it, and returns a problem. `movers` wrap with the current
    key what is under older ones.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.key_ring = LiveKeyRing()
        self.on_changed: Callable[[], Awaitable[str | None]] = _nothing
        self.movers: Sequence[Callable[[], Awaitable[object]]] = ()
        self._references: Sequence[str] = ()

    async def configure(self, stored: StoredConfig) -> list[ConfigProblem]:
        """Read the keys anew, and return the problems with them and with what follows them."""
        problems = await self._read(stored)
        problem = await self.on_changed()
        if problem is not None and not problems and self.key_ring.locked is None:
            problems = [
                ConfigProblem(kind="master_key", name=POLICY, problem=f"content is sealed: {problem}")
            ]
        return problems

    async def _read(self, stored: StoredConfig) -> list[ConfigProblem]:
        """Read the keys anew, and return the problem with them.

        If keys that were read before cannot be read now (a key management service that does not answer), the
        ring stays as it is.
        """
        if (unreadable := stored.unreadable("master_key")) is not None:
            self._references = ()
            self.key_ring.replace(Locked(unreadable))
            return []
        references = stored.config.master_key
        same, self._references = references == self._references, references
        try:
            ring = await asyncio.to_thread(open_key_ring, references)
        except InvalidArgumentError as error:
            if not same or self.key_ring.locked is not None:
                self.key_ring.replace(Locked(error.message.removeprefix("master_key: ")))
            else:
                log.warning("%s; the keys that were read before stay in use", error.message)
            return [ConfigProblem(kind="master_key", name=POLICY, problem=error.message)]
        if ring is not None:
            await self._move(ring)
        self.key_ring.replace(ring)
        return []

    async def _move(self, ring: KeyRing) -> None:
        """Wrap anew what is under keys that leave the ring, before they are forgotten.

        What cannot be moved now is a problem afterwards (`problems`), and opens once its key is back.
        """
        old = None if self.key_ring.locked is not None else self.key_ring.ring
        leaving = set() if old is None else {*old.ids} - {*ring.ids}
        if old is None or not leaving:
            return
        used = await self._db.read(lambda tx: {key for uses in KEY_USES.values() for key in uses(tx)})
        if not leaving & used:
            return
        self.key_ring.replace(ring.with_older(old))
        for move in self.movers:
            try:
                await move()
            except StorageError as error:
                log.warning("what is under a master key that is removed cannot be moved: %s", error.message)

    @staticmethod
    async def opened(references: Sequence[str]) -> LiveKeyRing:
        """Return the ring of references that are not in effect yet."""
        ring = LiveKeyRing()
        try:
            ring.replace(await asyncio.to_thread(open_key_ring, references))
        except InvalidArgumentError as error:
            ring.replace(Locked(error.message.removeprefix("master_key: ")))
        return ring

    async def keys(self) -> list[KeyStatus]:
        """Return the keys that are configured, the current one first, and others that are still in use.

        Without the configured ones if these cannot be read.
        """
        found = await self._db.read(lambda tx: {what: uses(tx) for what, uses in KEY_USES.items()})
        uses: dict[str, dict[str, int]] = {}
        for what, by_key in found.items():
            for key_id, number in by_key.items():
                uses.setdefault(key_id, {})[what] = number
        try:
            ring = self.key_ring.ring
        except KeyRingError:
            ring = None
        ids = [] if ring is None else list(ring.ids)
        shown = [named(one) if one.startswith(PREFIX) else one for one in self._references]
        keys = [
            KeyStatus(key_id, reference, number == 0, uses.pop(key_id, {}))
            for number, (key_id, reference) in enumerate(zip(ids, shown, strict=False))
        ]
        return keys + [KeyStatus(key_id, None, False, uses[key_id]) for key_id in sorted(uses)]

    async def problems(self) -> list[ConfigProblem]:
        """Return the keys that are in use and not configured, and older ones that must stay configured."""
        if self.key_ring.locked is not None:
            return []  # that is a problem already
        keys = await self.keys()
        older = [
            ConfigProblem(
                kind="master_key",
                name=POLICY,
                problem=f"{amount(key)} are still under the older key {key.key_id} ({key.reference}): "
                "leave it in `master_key` until nothing is; a running host moves them within seconds",
                severity="warning",
            )
            for key in keys
            if key.reference is not None and not key.is_current and key.uses
        ]
        return older + [
            ConfigProblem(
                kind="master_key",
                name=POLICY,
                problem=f"{amount(key)} cannot be opened: they are "
                f"under key {key.key_id}, which is not configured; add it to `master_key`",
            )
            for key in keys
            if key.reference is None
        ]


def amount(key: KeyStatus) -> str:
    """Return what is under a key, for people."""
    return " and ".join(f"{number:,} {what}" for what, number in key.uses.items()) or "nothing"
