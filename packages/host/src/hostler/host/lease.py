"""A host among others on one database: it keeps its lease, and takes over from those that lost theirs.

The lease is renewed five times as often as it must be. A host that could not renew it for two thirds of its
length stops by itself, before another one may take over: it claims nothing, ends its attempts, tells its
plugins, and joins again in a new epoch once nothing of the old one goes on here. This is not what keeps a
lost host from doing harm, since a host that was stopped wakes up in the middle of anything: claims and
writes look at the lease in their own transaction (`hosts.holds`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hostler.storage.port import Database
from hostler.storage.stores import hosts
from hostler.storage.stores.hosts import Membership
from hostler_protocol.errors import StorageError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)
BEATS_PER_LEASE = 5
"""A lease is renewed so often before it would end."""
STOP_AFTER = 2 / 3
"""Of a lease without renewal; the rest is what runners get to end before others may begin their runs."""
RETRY_SECONDS = 0.5
"""Back-off where the database does not answer."""


@dataclass(eq=False)
class HostLease:
    """The lease of one host.

    `address`: where others see that it runs. `recover` takes over from hosts that are gone. `end_work` is
    called when the lease was lost, with the reason, and returns when nothing of this host's runs goes on;
    `joined` is called when it is a member again.
    """

    db: Database
    host_id: str
    address: str
    seconds: float
    recover: Callable[[], Awaitable[Any]]
    end_work: Callable[[str], Awaitable[None]]
    joined: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    member: Membership | None = None
    """Who this host is now; None: its lease is lost, and it works on nothing."""
    lost_because: str | None = None
    _renewed_at: float = 0.0
    """When the last renewal that succeeded was asked for, by this host's clock."""
    _look: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when runs may have been lost."""
    _joined: bool = False

    async def begin(self) -> None:
        """Take the lease; `keep` and `watch_others` have to follow. StorageError."""
        await self._join()

    async def end(self) -> None:
        """Sign off, so that nobody waits for the lease to end."""
        member, self.member = self.member, None
        if member is None or not self._joined:
            return
        try:
            await self.db.write(lambda tx: hosts.leave(tx, member))
        except StorageError as error:
            log.warning("the host could not sign off: %s; its lease ends by itself", error)

    async def _join(self) -> None:
        asked = self.clock()
        self.member = await self.db.write(
            lambda tx: hosts.join(tx, self.host_id, self.address, int(self.seconds * 1000))
        )
        self._renewed_at = asked
        self.lost_because = None
        self._joined = True

    async def keep(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Renew the lease, and join again where it was lost. A worker of the host."""
        while True:
            if self.member is not None:
                self.lost_because = await self._hold(self.member, succeeded)
                log.error("%s: this host ends its attempts, and joins again", self.lost_because)
                self.member = None
            await self._rejoin(self.lost_because or "the lease was lost")

    async def _hold(self, member: Membership, succeeded: Callable[[], None]) -> str:
        """Renew the lease until it is lost; why it was."""
        renew = partial(hosts.renew, member=member, lease_ms=int(self.seconds * 1000))
        while True:
            left = self._renewed_at + self.seconds * STOP_AFTER - self.clock()
            if left <= 0:
                return f"the lease was not renewed for {self.clock() - self._renewed_at:.1f} s"
            try:
                async with asyncio.timeout(left):
                    asked = self.clock()
                    if await self.db.write(renew) is None:
                        return "the lease was over"
                    self._renewed_at = asked
                    succeeded()
                    await asyncio.sleep(self.seconds / BEATS_PER_LEASE)
            except TimeoutError:
                continue  # it is too late now, and said so above
            except StorageError as error:
                log.warning("the lease could not be renewed: %s", error)
                await asyncio.sleep(min(RETRY_SECONDS, left))

    async def _rejoin(self, why: str) -> None:
        """End what is under way here, then join; until both are done."""
        try:
            await self.end_work(why)
            await self._join()
        except StorageError as error:
            log.warning("this host cannot join again: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            log.warning("this host works again")
            self._look.set()  # its own runs of before are lost, like those of a host that is gone
            self.joined()

    async def watch_others(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Settle the runs of hosts that are gone. A worker of the host."""
        while True:
            try:
                async with asyncio.timeout(self.seconds / BEATS_PER_LEASE):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            try:
                if ended := await self.db.read(hosts.end_stalled):
                    log.warning("%d transactions of hosts that stopped in them were ended", ended)
                if self.member is not None:
                    await self.recover()
            except StorageError as error:
                log.warning("runs of hosts that are gone cannot be settled now: %s", error)
            else:
                succeeded()


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
