"""What a running host tidies up by itself: expired artifacts, unfinished uploads, unused files, old facts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from hostler.domain.retention import RetentionPolicy
from hostler.lock import maintenance
from hostler.ports import Database
from hostler.stores.blobs import BlobFolder
from hostler.stores.retention import collect
from hostler_protocol.errors import ConflictError, StorageError

log = logging.getLogger(__name__)


async def keep_tidy(
    db: Database,
    blobs: BlobFolder,
    data_dir: Path,
    policy: Callable[[], Awaitable[RetentionPolicy]],
    every_seconds: float,
) -> None:
    """Collect every so often, for as long as the host runs. A backup goes first: that turn is left out."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            with maintenance(data_dir, shared=False):
                collected = await collect(db, blobs, await policy())
        except ConflictError as error:
            log.info("nothing is collected now: %s", error)
        except StorageError as error:
            log.warning("what is no longer kept could not be collected: %s", error)
        else:
            gone = ", ".join(f"{count:,} {kind}" for kind, count in collected.counts.items() if count)
            if gone:
                log.info("collected: %s", gone)
