"""Encryption at rest of content: on where a master key is configured (docs/encryption.md).

The master key comes from the configuration, the erasure key from a file, by default in the data directory.
Database and blob folder are switched together: to sealing, or locked if one of the keys cannot be read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hostler.domain.type_fit import convert
from hostler.host.config_entries import POLICY, KeyReferences
from hostler.host.data_directory import DEFAULT_WORKSPACE
from hostler.secrets.key_ring import KeyRing, KeyRingError, LiveKeyRing, Locked, open_key_ring
from hostler.storage.port import Database, Tx
from hostler.storage.sealing.blob_keys import LockedBlobKeys, SealedBlobKeys
from hostler.storage.sealing.erasing import ERASURE_KEY, Eraser
from hostler.storage.sealing.erasure_key import FILE_NAME, ErasureKey
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sealing.tx import has_sealed, locked, sealing, workspace_key_uses
from hostler.storage.sql.database import open_tx
from hostler.storage.sql.session import OpenTx
from hostler.storage.stores import installation, settings
from hostler.storage.stores.blobs import BlobFolder
from hostler_protocol.errors import HostlerError, InvalidArgumentError

log = logging.getLogger(__name__)

ERASURE_KEY_VARIABLE = "HOSTLER_ERASURE_KEY"
"""Names the files of the erasure key, separated as in PATH."""
LOOKS = 3
"""How often file and database are compared. Another host may replace the erasure key between the two looks.
It has written the file by the time the database notes the key."""
NOT_NAMED = (
    f"content is not encrypted: hosts that share a database need one erasure key; name its file with "
    f"{ERASURE_KEY_VARIABLE}, on a folder that all of them have"
)
NO_MASTER_KEY = "no master key is configured: put `master_key` back"


class SealableDatabase(Database, Protocol):
    """A database whose transactions can be switched."""

    def transact_by(self, open_tx: OpenTx) -> None:
        """Make all transactions from now on with `open_tx`."""


def named_files(environment: Mapping[str, str] | None = None) -> list[Path]:
    """Return the files of the erasure key that the environment names."""
    named = (os.environ if environment is None else environment).get(ERASURE_KEY_VARIABLE, "")
    return [Path(path).expanduser() for path in named.split(os.pathsep) if path]


class ContentSealing:
    """Switches a database and its blobs as the keys are now.

    `files`: of the erasure key; none: one in the data directory, unless other hosts share the database.
    `creates`: it may make the first erasure key.
    """

    def __init__(
        self,
        database: SealableDatabase,
        blobs: BlobFolder | None,
        key_ring: LiveKeyRing,
        data_dir: Path,
        files: Sequence[Path],
        *,
        creates: bool = True,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._key_ring = key_ring
        self._creates = creates
        self._is_named = bool(files) or not database.shared
        self.erasure_key = ErasureKey(files or [data_dir / FILE_NAME])
        self.eraser: Eraser | None = None
        """What erases, while content is sealed and its keys are there."""
        self.problem: str | None = None
        """Why sealed content cannot be read; None if it can, or nothing is sealed."""
        self.warning: str | None = None
        """Why content is not sealed although there is a master key."""
        self.changed = asyncio.Event()
        """Set after each switch."""

    async def follow(self) -> str | None:
        """Switch to what the key ring allows now. Return why nothing can be opened, or None."""
        self.problem, self.eraser, self.warning = await self._problem(), None, None
        if self.problem is not None:
            self._switch(locked(self.problem), LockedBlobKeys(self.problem))
            log.error("content is sealed: %s", self.problem)
        elif self._key_ring.ring is None:
            self._switch(open_tx, None)
        elif not self._is_named:
            self.warning = NOT_NAMED
            self._switch(open_tx, None)
        else:
            sealer = Sealer(self._master, self.erasure_key, shared=self._database.shared)
            self.eraser = Eraser(self._database, sealer)
            self._switch(sealing(sealer), SealedBlobKeys(self._database, sealer))
        self.changed.set()
        return self.problem

    async def rewrap(self) -> None:
        """Wrap the keys of workspaces with the current master key, if they can be opened."""
        if self.eraser is not None:
            await self.eraser.rewrap()

    def _switch(self, transactions: OpenTx, keys: SealedBlobKeys | LockedBlobKeys | None) -> None:
        self._database.transact_by(transactions)
        if self._blobs is not None:
            self._blobs.keys = keys

    def _master(self) -> KeyRing:
        ring = self._key_ring.ring
        if ring is None:
            raise KeyRingError(NO_MASTER_KEY)
        return ring

    async def _problem(self) -> str | None:
        """Return why content cannot be sealed and opened, though it has to be; None if all is well."""
        if self._key_ring.locked is not None:
            return f"the master key cannot be read: {self._key_ring.locked}"
        is_sealed, ring = await self._database.read(has_sealed), self._key_ring.ring
        if ring is None:
            return NO_MASTER_KEY if is_sealed else None
        if not self._is_named:
            why = f"its erasure key is not named: name its file with {ERASURE_KEY_VARIABLE}"
            return why if is_sealed else None
        if missing := set(await self._database.read(workspace_key_uses)) - set(ring.ids):
            return f"it is under master key {', '.join(sorted(missing))}, which is not configured"
        return await self._problem_of_erasure_key(is_sealed=is_sealed)

    async def _problem_of_erasure_key(self, *, is_sealed: bool) -> str | None:
        known: str | None = None
        for _ in range(LOOKS):
            try:
                await asyncio.to_thread(self._open_erasure_key, is_sealed)
                ring = self.erasure_key.reread()
            except HostlerError as error:
                return error.message
            known = await self._noted(ring.current_id)
            if known in (None, *ring.ids):
                return None
        names = ", ".join(map(str, self.erasure_key.paths))
        return (
            f"the erasure key in {names} is not the one of this database ({known}): name its file with "
            f"{ERASURE_KEY_VARIABLE}, or restore an older backup with --keys"
        )

    def _open_erasure_key(self, is_sealed: bool) -> None:
        if self._creates and not is_sealed:
            self.erasure_key.create()
        if self._creates:
            self.erasure_key.copy()

    async def _noted(self, current: str) -> str | None:
        """Return the id of the erasure key that the database notes, after noting the first one."""

        def note(tx: Tx) -> bytes | None:
            installation.add(tx, ERASURE_KEY, current.encode())
            return installation.find(tx, ERASURE_KEY)

        if self._creates:
            known = await self._database.write(note)
        else:
            known = await self._database.read(lambda tx: installation.find(tx, ERASURE_KEY))
        return None if known is None else known.decode()


async def open_content(database: SealableDatabase, data_dir: Path) -> None:
    """Give a command that works beside a host the keys of what is sealed: those that the entry names.

    Whatever does not open raises SealedError when it is read.
    """
    if not await database.read(has_sealed):
        return
    entry = await database.read(lambda tx: settings.find(tx, DEFAULT_WORKSPACE, "master_key", POLICY))
    ring = LiveKeyRing()
    try:
        keys = [] if entry is None else convert(entry.spec, KeyReferences, "master_key").keys
        ring.replace(await asyncio.to_thread(open_key_ring, keys))
    except InvalidArgumentError as error:
        ring.replace(Locked(error.message.removeprefix("master_key: ")))
    await ContentSealing(database, None, ring, data_dir, named_files(), creates=False).follow()
