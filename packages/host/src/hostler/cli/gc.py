"""`hostler gc`: delete expired and unused data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from hostler.cli.options import DatabaseOption, DataOption, JsonOption, NoKeyOption, NoUrlOption
from hostler.cli.output import note, write_json
from hostler.cli.tables import write_table
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.database import StorageLocation
    from hostler.storage.stores.retention import Collected

Days = Annotated[float | None, typer.Option(metavar="DAYS", min=0.0, help="Delete those that are older.")]


def gc(
    ctx: typer.Context,
    events: Days = None,
    transcripts: Days = None,
    journals: Days = None,
    deltas: Days = None,
    artifacts: Days = None,
    states: Days = None,
    workspace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Delete by age only in this workspace.")
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Delete expired artifacts, unfinished uploads, unused files and working folders, and old data by age.

    Deletes by age in all workspaces, unless --workspace names one. A server
    may run meanwhile; it applies `retention` of its configuration by itself.
    Counters of quotas that differ from what is stored are mended.
    Deleted events lose their content, but keep their place in the hash chain.
    """
    from hostler.cli.database import open_storage, with_storage
    from hostler.domain.retention import RetentionPolicy
    from hostler.host.lock import RemovalGate
    from hostler.host.maintenance import HostData, collect_all
    from hostler.storage.stores.retention import workspaces
    from hostler.tools.workspaces.folders import WorkingFolders

    policy = RetentionPolicy(
        events=events,
        transcripts=transcripts,
        journals=journals,
        deltas=deltas,
        artifacts=artifacts,
        states=states,
    )

    def policy_of(name: str) -> RetentionPolicy:
        return policy if workspace in (None, name) else RetentionPolicy()

    async def work(location: StorageLocation) -> Collected:
        from hostler.domain.suggestions import did_you_mean
        from hostler.host.config import Settings
        from hostler.storage.stores.blobs import BlobFolder
        from hostler.storage.stores.quotas import mend_all
        from hostler.storage.stores.working_folders import configured
        from hostler_protocol.errors import InvalidArgumentError

        data_dir = location.data_dir
        own = Settings(data_dir=data_dir).workspace
        async with open_storage(location, content=True) as opened:
            blobs = BlobFolder(data_dir / "blobs")
            settings = await opened.read(lambda tx: configured(tx, own))
            folders = WorkingFolders(data_dir / "workspaces", settings)
            try:
                host_data = HostData(opened, blobs, folders, RemovalGate(data_dir))
                if workspace is not None and workspace not in (known := await workspaces(opened)):
                    raise InvalidArgumentError(
                        f"unknown workspace {workspace!r}: {did_you_mean(workspace, known)}"
                    )
                with out().status("collecting"):
                    async with host_data.gate.open(wait_seconds=0):
                        collected = await collect_all(host_data, policy_of)
                    mended = {"counters_mended": await mend_all(opened)}
                    return replace(collected, counts={**collected.counts, **mended})
            finally:
                blobs.close()
                folders.close()

    del key
    found = with_storage(ctx, data, database, url, work)
    if as_json:
        write_json({**found.counts, "freed_bytes": found.freed_bytes})
        return
    removed = [(kind.replace("_", " "), f"{count:,}") for kind, count in found.counts.items() if count]
    write_table(("removed", "count"), removed, none="nothing to delete")
    if found.freed_bytes:
        note(f"freed {found.freed_bytes:,} bytes")
