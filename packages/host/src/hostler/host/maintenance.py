"""What a running host tidies up by itself: what expired, what nothing uses any more, and what is old."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hostler.domain.retention import Retention, RetentionPolicy
from hostler.domain.working_folders import FolderOwner
from hostler.host.lock import RemovalGate
from hostler.storage.port import Database, Tx
from hostler.storage.stores import blobs, deletion, working_folders
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.deletion import DeletionReceipt
from hostler.storage.stores.retention import Collected, collect
from hostler.tools.workspaces.folders import Swept, WorkingFolders
from hostler_protocol.errors import StorageError, UnavailableError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostData:
    """All that a data directory holds."""

    db: Database
    blobs: BlobFolder
    folders: WorkingFolders
    gate: RemovalGate


async def collect_all(data: HostData, policy_of: Callable[[str], RetentionPolicy]) -> Collected:
    """Collect what is no longer kept. `policy_of` a workspace."""
    collected = await collect(data.db, data.blobs, policy_of)
    swept = await sweep_folders(data.db, data.folders)
    counts = {**collected.counts, "working_folders": swept.folders}
    return Collected(counts, collected.freed_bytes + swept.size_bytes)


async def sweep_folders(db: Database, folders: WorkingFolders) -> Swept:
    """Remove working folders that were not used for long, or that nobody can come back to."""

    async def is_orphan(owner: FolderOwner) -> bool:
        return await db.read(lambda tx: working_folders.is_orphan(tx, owner))

    return await folders.sweep(is_orphan)


async def delete_conversation(data: HostData, ws: str, conversation_id: str, *, by: str) -> DeletionReceipt:
    """Delete all that is kept of a conversation; with its receipt it is gone, its files too.

    ConflictError while a run of it is active, UnavailableError while a backup is being made, StorageError
    where files cannot be removed. Asking again goes on with what is left.
    """

    async def folders() -> None:
        await sweep_folders(data.db, data.folders)  # whose conversation is gone now

    async with data.gate.open():
        return await deletion.delete_conversation(
            data.db, data.blobs, ws, conversation_id, by=by, elsewhere=folders
        )


async def delete_actor(
    data: HostData, ws: str, actor_id: str, *, by: str, actor_type: str | None
) -> DeletionReceipt:
    """Delete a person's data; the rest as for a conversation."""

    async with data.gate.open():
        theirs = await folders_with(data, ws, actor_id, actor_type)

        async def folders() -> None:
            for key in theirs:  # runs wrote there what was said
                await data.folders.remove(key)

        return await deletion.delete_actor(
            data.db, data.blobs, ws, actor_id, by=by, actor_type=actor_type, elsewhere=folders
        )


async def folders_with(data: HostData, workspace_id: str, actor_id: str, actor_type: str | None) -> list[str]:
    """The keys of the working folders of conversations that a person took part in."""

    def found(tx: Tx, owner: FolderOwner) -> bool:
        return working_folders.took_part(tx, owner, actor_id, actor_type)

    owners = [one.owner for one in await data.folders.found()]
    theirs = [one for one in owners if one is not None and one.workspace_id == workspace_id]
    return [one.key for one in theirs if await data.db.read(lambda tx, one=one: found(tx, one))]  # type: ignore[misc]


async def keep_tidy(
    data: HostData,
    retention: Callable[[], Awaitable[Retention]],
    every_seconds: float,
    succeeded: Callable[[], None] = lambda: None,
) -> None:
    """Collect every so often. A backup goes first: that round is left out. A worker of the host.

    At once those bytes go that a deletion let go of before a host before this one ended.
    """
    try:
        async with data.gate.open():
            await blobs.collect(data.db, data.blobs)
    except (UnavailableError, StorageError) as error:
        log.warning("files of what was deleted are still there, until they are collected: %s", error)
    while True:
        await asyncio.sleep(every_seconds)
        try:
            async with data.gate.open(wait_seconds=0):
                collected = await collect_all(data, (await retention()).of)
        except UnavailableError as error:
            log.info("nothing is collected now: %s", error)
        except StorageError as error:
            log.warning("what is no longer kept could not be collected: %s", error)
        else:
            succeeded()
            gone = ", ".join(f"{count:,} {kind}" for kind, count in collected.counts.items() if count)
            if gone:
                log.info("collected: %s", gone)
