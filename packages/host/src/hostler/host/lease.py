"""The lease of a host that shares a database, and the take-over of runs of hosts that lost theirs.

The lease is renewed five times per its length. A host that could not renew it for two thirds of its length
stops before another one may take over: it claims nothing, ends its attempts, informs its plugins, and joins
again in a new epoch once they have left the runs of the old one. That alone is not safe, since a suspended
host may resume at any point: claims and writes also check the lease in their own transaction
(`hosts.holds`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hostler.domain.clock import monotonic_clock
from hostler.storage.port import Database
from hostler.storage.stores import hosts
from hostler.storage.stores.hosts import Membership
from hostler_protocol.errors import StorageError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)
BEATS_PER_LEASE = 5
"""Renewals per length of a lease."""
STOP_AFTER = 2 / 3
"""The fraction of a lease without renewal after which the host stops. In the rest of it runners end."""
RETRY_SECONDS = 0.5
"""Wait before the next try if the database does not respond."""


@dataclass(eq=False)
class LeaseHeartbeat:
    """The lease of one host.

    `address`: shown to operators. `recover` takes over the runs of lost hosts. `end_work` is called with the
    reason after the lease was lost, and returns once no run is active here; `joined` is called after the host
    has joined again.
    """

    db: Database
    host_id: str
    address: str
    seconds: float
    recover: Callable[[], Awaitable[Any]]
    end_work: Callable[[str], Awaitable[None]]
    joined: Callable[[], None]
    clock: Callable[[], float] = monotonic_clock
    member: Membership | None = None
    """The current membership; None: the lease is lost, and the host claims nothing."""
    lost_because: str | None = None
    _renewed_at: float = 0.0
    """When the last successful renewal was started, by `clock`."""
    _check: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when runs may have been lost."""
    _joined: bool = False

    async def begin(self) -> None:
        """Acquire the lease; `keep` and `watch_others` have to run from now on. StorageError."""
        await self._join()

    async def end(self) -> None:
        """Release the lease, so that other hosts need not wait for its end."""
        member, self.member = self.member, None
        if member is None or not self._joined:
            return
        try:
            await self.db.write(lambda tx: hosts.leave(tx, member))
        except StorageError as error:
            log.warning("the lease could not be released: %s; it ends by itself", error)

    async def _join(self) -> None:
        started_at = self.clock()
        self.member = await self.db.write(
            lambda tx: hosts.join(tx, self.host_id, self.address, int(self.seconds * 1000))
        )
        self._renewed_at = started_at
        self.lost_because = None
        self._joined = True

    async def keep(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Renew the lease, and join again after it was lost. A worker of the host."""
        while True:
            if self.member is not None:
                self.lost_because = await self._renew_until_lost(self.member, succeeded)
                log.error("%s: this host ends its attempts, and joins again", self.lost_because)
                self.member = None
            await self._rejoin(self.lost_because or "the lease was lost")

    async def _renew_until_lost(self, member: Membership, succeeded: Callable[[], None]) -> str:
        """Renew the lease until it is lost; return the reason."""
        renew = partial(hosts.renew, member=member, lease_ms=int(self.seconds * 1000))
        while True:
            left = self._renewed_at + self.seconds * STOP_AFTER - self.clock()
            if left <= 0:
                return f"the lease was not renewed for {self.clock() - self._renewed_at:.1f} s"
            try:
                async with asyncio.timeout(left):
                    started_at = self.clock()
                    if await self.db.write(renew) is None:
                        return "the lease was over"
                    self._renewed_at = started_at
                    succeeded()
                    await asyncio.sleep(self.seconds / BEATS_PER_LEASE)
            except TimeoutError:
                continue  # the deadline has passed: the next round returns
            except StorageError as error:
                log.warning("the lease could not be renewed: %s", error)
                await asyncio.sleep(min(RETRY_SECONDS, left))

    async def _rejoin(self, why: str) -> None:
        """End all work, then join. After a StorageError it waits; `keep` calls it again."""
        try:
            await self.end_work(why)
            await self._join()
        except StorageError as error:
            log.warning("this host cannot join again: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            log.warning("this host works again")
            self._check.set()  # runs of the lost epoch have to be recovered
            self.joined()

    async def watch_others(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Recover the runs of lost hosts. A worker of the host."""
        while True:
            try:
                async with asyncio.timeout(self.seconds / BEATS_PER_LEASE):
                    await self._check.wait()
            except TimeoutError:
                pass
            self._check.clear()
            try:
                await self._recover_lost()
            except StorageError as error:
                log.warning("runs of lost hosts cannot be recovered now: %s", error)
            else:
                succeeded()

    async def _recover_lost(self) -> None:
        if ended := await self.db.read(hosts.end_stalled):
            log.warning("%d stalled transactions of other hosts were ended", ended)
        if self.member is not None:
            await self.recover()


def host_id_of(data_dir: Path) -> str:
    """Return this host's id, created once per data directory, whose lock keeps it unique."""
    path = data_dir / "host_id"
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        host_id = new_id()
        path.write_text(host_id, "ascii")
        return host_id
