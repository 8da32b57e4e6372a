"""Upkeep of encryption at rest: rewrap keys after a change of the master key, finish erasures, seal what was
stored before. A worker of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hostler.domain.config_changes import ConfigProblem
from hostler.host.config_entries import POLICY
from hostler.host.content_sealing import ContentSealing
from hostler.storage.port import Database
from hostler.storage.sealing import old_rows
from hostler.storage.sealing.blob_keys import SealedBlobKeys
from hostler.storage.sealing.erasing import Eraser
from hostler.storage.stores import installation
from hostler.storage.stores.blobs import BlobFolder
from hostler_protocol.errors import StorageError

log = logging.getLogger(__name__)

DAY_SECONDS = 86_400.0
RETRY_SECONDS = 60.0
LEARN_SECONDS = 6.0
"""Other hosts of a database look for changes every two seconds: they know a new master key before anything is
under it alone."""
DONE = "content is sealed"
"""The name under which the database notes that nothing plain is left."""
Phase = Literal["off", "waiting", "sealing", "done"]


@dataclass(slots=True)
class SealingProgress:
    """How far sealing has come. `rewrapped`: keys of workspaces since the start of the host."""

    phase: Phase = "off"
    sealed_rows: int = 0
    sealed_blobs: int = 0
    rewrapped: int = 0


class SealingUpkeep:
    """Does what is due after each change of the keys, and once a day."""

    def __init__(self, database: Database, blobs: BlobFolder, sealing: ContentSealing) -> None:
        self._database = database
        self._blobs = blobs
        self._sealing = sealing
        self.progress = SealingProgress()
        self._looked = False

    async def keep(self, succeeded: Callable[[], None]) -> None:
        """Work until cancelled."""
        while True:
            self._sealing.changed.clear()
            wait = DAY_SECONDS
            if self._database.shared:
                await asyncio.sleep(LEARN_SECONDS)
            try:
                if not await self.look():
                    wait = RETRY_SECONDS  # what was put into the clear just before may be named only now
            except StorageError as error:
                log.warning("upkeep of encryption at rest failed, and is tried again: %s", error.message)
                wait = RETRY_SECONDS
            else:
                succeeded()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._sealing.changed.wait()

    async def look(self) -> bool:
        """Do what is due; return whether nothing is left that was stored in the clear.

        StorageError: the rest is done the next time.
        """
        eraser = self._sealing.eraser
        if eraser is None:
            self.progress.phase = "off" if self._sealing.problem is None else "waiting"
            self._looked = False
            return True
        self.progress.phase = "sealing"
        rewrapped = await eraser.rewrap()
        if rewrapped:
            self.progress.rewrapped += rewrapped
            log.info("%d keys of workspaces are now under the current master key", rewrapped)
        is_done = await self._seal_old()
        await self._erase_unused(eraser)
        self.progress.phase = "done"
        return is_done

    async def _erase_unused(self, eraser: Eraser) -> None:
        """Destroy the keys of data that retention deleted, or whose deletion was interrupted."""
        destroyed = await eraser.destroy_all_unused()
        if await eraser.erase() is not None:
            log.info("erased: %d data keys, and every older erasure key", destroyed)

    async def _seal_old(self) -> bool:
        """Seal what is in the clear; return whether it was looked for twice, the second time in vain."""
        if await self._database.read(lambda tx: installation.find(tx, DONE)) is not None:
            return True
        self.progress.sealed_rows += (rows := await old_rows.seal_rows(self._database))
        blobs = 0
        if isinstance(self._blobs.keys, SealedBlobKeys):
            blobs = await old_rows.seal_blobs(self._database, self._blobs, self._blobs.keys)
        self.progress.sealed_blobs += blobs
        if rows or blobs:
            log.info("sealed what was stored before: %d rows, %d files", rows, blobs)
        looked, self._looked = self._looked, True
        if rows or blobs or not looked:
            return False
        await self._database.write(lambda tx: installation.add(tx, DONE, b"1"))
        return True

    async def problems(self) -> list[ConfigProblem]:
        """Return what an operator should know: rows from before that are not sealed yet."""
        if self._sealing.warning is not None:
            return [_warning(self._sealing.warning)]
        if self._sealing.eraser is None or self.progress.phase == "done":
            return []
        if await self._database.read(lambda tx: installation.find(tx, DONE)) is not None:
            return []
        left = await self._database.read(old_rows.count_plain)
        if not left:
            return []
        many = f"{left:,}" if left < old_rows.MAX_COUNTED else f"{left:,} or more"
        text = f"{many} rows from before it was configured are in the clear: a host seals them while it runs"
        return [_warning(text)]


def _warning(text: str) -> ConfigProblem:
    return ConfigProblem(kind="master_key", name=POLICY, problem=text, severity="warning")
