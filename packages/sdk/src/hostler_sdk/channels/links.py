"""`Links`: one connection after the other, on platforms that say when they are about to close one.

Nothing is missed if the next one is open before the last is closed; the last is read to its end meanwhile.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from hostler_sdk.channels.channel import Channel, NotSent, UnclearError

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before another link is opened, if the last could not be opened or did not last."""
STEADY_SECONDS = 60.0
"""A link that lasted so long is replaced without a wait."""
LEAVE_SECONDS = 30.0
"""How long a link that is about to be closed is read after another one was opened."""


class Link(Protocol):
    """A connection. `since`: when it was opened, by the loop's clock."""

    @property
    def since(self) -> float:
        """When it was opened."""
        ...


L = TypeVar("L", bound=Link)


class Links(ABC, Generic[L]):
    """Keeps one link open, and tells the host how it stands. Write `connect`, `read` and `disconnect`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._open: set[L] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._wait = 0.0

    @abstractmethod
    async def connect(self) -> L:
        """Make a link. Raises NotSent, UnclearError. What then waits for more holds it first."""

    @abstractmethod
    async def read(self, link: L) -> str | None:
        """Take what comes; return why the link is lost, or None once it is to be replaced before it is."""

    @abstractmethod
    async def disconnect(self, link: L) -> None:
        """Close a link."""

    def is_refusal(self, error: NotSent | UnclearError) -> bool:
        """Whether the platform refuses the account, so that another try makes no sense."""
        return False

    def regained(self) -> None:
        """A gap is over, in which something may have been missed."""

    async def open(self) -> L:
        """Make the first link. Raises NotSent, UnclearError."""
        link = await self.connect()
        self.hold(link)
        return link

    def hold(self, link: L) -> None:
        """Remember a link, so that `close` closes it."""
        self._open.add(link)

    async def drop(self, link: L) -> None:
        """Close a link, and forget it."""
        self._open.discard(link)
        await self.disconnect(link)

    @property
    def count(self) -> int:
        """How many links are open."""
        return len(self._open)

    async def run(self, link: L) -> None:
        """Read links until cancelled. Raises ConnectionError if the platform refuses the account."""
        while True:
            lost = await self.read(link)
            if lost is None:
                task = asyncio.create_task(self._leave(link), name="leave a link")
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
            else:
                self._channel.connecting(lost)
                await self.drop(link)
            link = await self._opened_again(link, is_lost=lost is not None)

    async def close(self) -> None:
        """Close all links."""
        for task in self._leaving:
            task.cancel()
        for link in list(self._open):
            await self.drop(link)

    async def _opened_again(self, before: L, *, is_lost: bool) -> L:
        """Make another link, however often that fails."""
        if asyncio.get_running_loop().time() - before.since >= STEADY_SECONDS:
            self._wait = 0.0
        while True:
            if self._wait:
                await asyncio.sleep(self._wait)
            self._wait = min(max(2 * self._wait, FIRST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
            try:
                link = await self.open()
            except (NotSent, UnclearError) as error:
                if self.is_refusal(error):
                    raise ConnectionError(str(error)) from None
                if isinstance(error, NotSent) and error.retry_after is not None:
                    self._wait = error.retry_after
                self._channel.connecting(str(error))
                is_lost = True
                continue
            if is_lost:
                self._channel.connected()
                self.regained()
            return link

    async def _leave(self, link: L) -> None:
        """Read a link to its end, within a bound; what comes after is sent again through the other one."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while await self.read(link) is None:
                    pass  # the platform says once more that it will close it
        except TimeoutError:
            pass
        await self.drop(link)
