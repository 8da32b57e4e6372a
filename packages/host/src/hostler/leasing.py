"""A host among others on one database: it renews its lease, and takes over from those that died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.ports import Database, Tx
from hostler.stores import hosts
from hostler_protocol.errors import StorageError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)
BEATS_PER_LEASE = 5
"""A lease is renewed so often before it would end."""


@dataclass(slots=True)
class HostLease:
    """The lease of one host. `address`: where others see that it runs; `recover` takes over from the dead."""

    db: Database
    host_id: str
    address: str
    seconds: float
    recover: Callable[[], Awaitable[Any]]
    _heart: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the lease, and renew it from here on."""
        await self.db.write(self._take)
        self._heart = asyncio.create_task(self._beat(), name="lease")

    async def end(self) -> None:
        """Sign off, so that nobody waits for the lease to end."""
        if self._heart is None:
            return
        self._heart.cancel()
        await asyncio.gather(self._heart, return_exceptions=True)
        try:
            await self.db.write(lambda tx: hosts.leave(tx, self.host_id))
        except StorageError as error:
            log.warning("the host could not sign off: %s; its lease ends by itself", error)

    def _take(self, tx: Tx) -> None:
        """Renew the lease, or take a new one: its runs may be another's then, as their fencing tokens say."""
        lease_ms = int(self.seconds * 1000)
        if hosts.renew(tx, self.host_id, lease_ms) is None:
            hosts.join(tx, self.host_id, self.address, lease_ms)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / BEATS_PER_LEASE)
            try:
                await self.db.write(self._take)
                await self.recover()
            except StorageError as error:
                log.warning("the lease could not be renewed: %s", error)


def host_id_of(data_dir: Path) -> str:
    """This host's id: made once per data directory, whose lock makes sure that only one process has it."""
    path = data_dir / "host_id"
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        made = new_id()
        path.write_text(made, "ascii")
        return made


__all__ = ["HostLease", "host_id_of"]
