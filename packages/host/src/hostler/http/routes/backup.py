"""The last backup of this host."""

from __future__ import annotations

import asyncio

from hostler.host.last_backup import find_backup
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler_protocol._base import Strict


class BackupRecord(Strict):
    """When `hostler backup` last copied the data directory, in UTC epoch seconds; null: none is known.

    `version`: of Hostler; `blobs` and `blob_bytes`: how many files it holds beside the database.
    """

    created_at: float | None
    version: str | None = None
    blobs: int | None = None
    blob_bytes: int | None = None


@endpoint("GET", "/v1/backup", right="installation", tag="operations")
async def get_last_backup(request: ApiRequest) -> BackupRecord:
    """Tell when this host was last backed up by `hostler backup`.

    Other ways leave no word of it: pg_dump, copies of the disk.
    """
    found = await asyncio.to_thread(find_backup, request.state.host.settings.data_dir)
    if found is None:
        return BackupRecord(created_at=None)
    return BackupRecord(
        created_at=found.created_at, version=found.version, blobs=found.blobs, blob_bytes=found.blob_bytes
    )
