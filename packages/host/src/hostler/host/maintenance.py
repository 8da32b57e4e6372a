"""Maintenance by a running host: collect expired, unused and old data, and delete on request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from hostler.domain.record import Record
from hostler.domain.retention import Retention, RetentionPolicy
from hostler.domain.working_folders import FolderOwner
from hostler.host.lock import RemovalGate
from hostler.storage.port import Database, Tx
from hostler.storage.sealing.erasing import Eraser
from hostler.storage.stores import blobs, deletion, working_folders
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler.storage.stores.retention import Collected, collect
from hostler.tools.workspaces.folders import Swept, WorkingFolders
from hostler_protocol.errors import ConflictError, StorageError, UnavailableError

log = logging.getLogger(__name__)


class HostData(Record):
    """The data of a data directory, and the gate in front of its removal."""

    db: Database
    blobs: BlobFolder
    folders: WorkingFolders
    gate: RemovalGate
    eraser: Callable[[], Eraser | None] = lambda: None
    """Returns what erases where content is sealed, as of now."""


async def collect_all(data: HostData, policy_of: Callable[[str], RetentionPolicy]) -> Collected:
    """Remove data by the retention policies and all unused files. `policy_of`: workspace -> its policy."""
    collected = await collect(data.db, data.blobs, policy_of)
    swept = await sweep_folders(data.db, data.folders)
    counts = {**collected.counts, "working_folders": swept.folders}
    return Collected(counts, collected.freed_bytes + swept.size_bytes)


async def sweep_folders(db: Database, folders: WorkingFolders) -> Swept:
    """Remove working folders that expired, or whose owner no longer exists."""

    async def is_orphan(owner: FolderOwner) -> bool:
        return await db.read(lambda tx: working_folders.is_orphan(tx, owner))

    return await folders.sweep(is_orphan)


async def delete_conversation(data: HostData, ws: str, conversation_id: str, *, by: str) -> DeletionReceipt:
    """Delete all data of a conversation, including files, and return a receipt.

    ConflictError while a run of it is active, UnavailableError while a backup is being made, StorageError if
    files cannot be removed: calling it again continues with the rest.
    """

    keys = [
        one.key
        for one in await data.folders.found()
        if one.owner is not None
        and (one.owner.workspace_id, one.owner.conversation_id) == (ws, conversation_id)
    ]

    async def folders() -> None:
        await _remove_folders(data, keys)

    async with data.gate.open():
        return await deletion.delete_conversation(
            data.db, data.blobs, ws, conversation_id, by=by, elsewhere=folders, eraser=data.eraser()
        )


async def delete_run(
    data: HostData, ws: str, run_id: str, *, conversation_id: str | None, by: str
) -> DeletionReceipt:
    """Delete what one run heard, said and did, and return a receipt. Errors as `delete_conversation`."""
    async with data.gate.open():
        return await deletion.delete_run(
            data.db,
            data.blobs,
            ws,
            run_id,
            conversation_id=conversation_id,
            by=by,
            eraser=data.eraser(),
        )


async def delete_actor(
    data: HostData, ws: str, actor_id: str, *, by: str, actor_type: str | None
) -> DeletionReceipt:
    """Delete a person's data and return a receipt. Errors as `delete_conversation`."""
    async with data.gate.open():
        keys = await folders_with(data, ws, actor_id, actor_type)

        async def folders() -> None:
            await _remove_folders(data, keys)  # runs may have written messages of the person there

        return await deletion.delete_actor(
            data.db,
            data.blobs,
            ws,
            actor_id,
            by=by,
            actor_type=actor_type,
            elsewhere=folders,
            eraser=data.eraser(),
        )


async def _remove_folders(data: HostData, keys: Collection[str]) -> None:
    """Remove working folders on request. ConflictError if one is in use by a run that began meanwhile."""
    left = {key for key in keys if not (await data.folders.remove(key)).folders}
    if left and left.intersection(one.key for one in await data.folders.found()):
        raise ConflictError("a run uses a working folder that is to be deleted: cancel it, then ask again")


async def folders_with(data: HostData, workspace_id: str, actor_id: str, actor_type: str | None) -> list[str]:
    """Return the keys of the working folders of conversations that a person took part in."""

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
    """Collect every `every_seconds`; skip a round while a backup is in progress. A worker of the host.

    It first removes the files of deletions that an earlier host did not finish.
    """
    try:
        async with data.gate.open():
            await blobs.collect(data.db, data.blobs)
    except (UnavailableError, StorageError) as error:
        log.warning("files of deleted data remain until the next collection: %s", error)
    while True:
        await asyncio.sleep(every_seconds)
        try:
            async with data.gate.open(wait_seconds=0):
                collected = await collect_all(data, (await retention()).of)
        except UnavailableError as error:
            log.info("this collection is skipped: %s", error)
        except StorageError as error:
            log.warning("the collection of expired data failed: %s", error)
        else:
            succeeded()
            removed = ", ".join(f"{count:,} {kind}" for kind, count in collected.counts.items() if count)
            if removed:
                log.info("collected: %s", removed)
