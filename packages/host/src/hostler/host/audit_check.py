"""Verifies the hash chains while the host runs. `hostler audit verify` needs no host."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from hostler.host.anchor_files import AnchorFiles, stored_settings
from hostler.host.audit_heads import FILE_NAME, read_own
from hostler.storage.port import Database
from hostler.storage.stores.verification import ChainReport, Noted, verify_all
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, InvalidArgumentError, StorageError


class Verification(Strict):
    """What a check of the hash chains found. `ok`: no chain is broken, and all that was noted could be read.

    The chains were compared with `heads`, the ends that this host noted in its data directory, and with
    `anchors`, those in the file of `audit_anchors`. `anchor_file`: whether one is configured. `problem`: why
    these could not be read. `began_at`: UTC epoch seconds.
    """

    ok: bool
    began_at: float
    seconds: float
    chains: list[ChainReport]
    heads: int
    anchors: int
    anchor_file: bool
    problem: str | None


@dataclass
class _Noted:
    heads: list[Noted] = field(default_factory=list)
    anchors: list[Noted] = field(default_factory=list)
    problem: str | None = None


class AuditCheck:
    """Checks the chains, once at a time: a check reads every event and every fact."""

    def __init__(self, db: Database, data_dir: Path) -> None:
        self._db, self._data_dir = db, data_dir
        self._lock = asyncio.Lock()

    async def run(self, workspace: str | None) -> Verification:
        """Verify the chains of a workspace; None: of all. ConflictError while another check runs."""
        if self._lock.locked():
            raise ConflictError("the chains are being verified already: wait for the end of that")
        async with self._lock:
            began = time.time()
            settings = await self._db.read(stored_settings)
            files = AnchorFiles(settings, [], None)
            noted = await asyncio.to_thread(self._noted, files)  # before the chains, which grow meanwhile
            if workspace is not None:
                noted = _of_workspace(noted, workspace)
            chains = await verify_all(self._db, [*noted.heads, *noted.anchors], workspace=workspace)
            return Verification(
                ok=noted.problem is None and all(one.broken is None for one in chains),
                began_at=began,
                seconds=round(time.time() - began, 3),
                chains=chains,
                heads=len(noted.heads),
                anchors=len(noted.anchors),
                anchor_file=settings[0] is not None and settings[0].file is not None,
                problem=noted.problem,
            )

    def _noted(self, files: AnchorFiles) -> _Noted:
        found = _Noted()
        try:
            found.heads = read_own(self._data_dir)
            found.anchors = list(files.read())
        except (InvalidArgumentError, StorageError) as error:
            found.problem = error.message
        return found


def _of_workspace(noted: _Noted, workspace: str) -> _Noted:
    """Return what was noted of one workspace, without the names of files, which are the installation's."""
    return _Noted(
        [replace(one, origin=FILE_NAME) for one in noted.heads if one.end.workspace == workspace],
        [replace(one, origin="an anchor") for one in noted.anchors if one.end.workspace == workspace],
        None
        if noted.problem is None
        else "what was noted of the chains cannot be read: ask the administrator",
    )
