"""A channel of a platform at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import pytest

from support.channel_desk import ChannelDesk, OpenChannel

CHANNELS = Path(__file__).parents[2] / "channels"


class Server(Protocol):
    """A server that speaks as a platform does."""

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Listen no more."""
        ...


P = ParamSpec("P")
S = TypeVar("S", bound=Server)


async def _ready(_: object) -> None:
    """Return at once: the channel is ready when it says so."""


def desk_of(folder: Path) -> Any:
    """Return the fixture `desk` of a platform: a process of the channel in a folder."""

    @pytest.fixture(scope="module", name="desk")
    def started() -> Iterator[ChannelDesk]:
        found = ChannelDesk(folder, folder.name)
        yield found
        found.close()

    return started


@dataclass(frozen=True, slots=True)
class PlatformDesk(Generic[P, S]):
    """How channels of a platform are tested.

    `make` makes its server; `config_of` gives the settings of a channel on it. `ready` waits for what a
    channel does once it says that it is connected.
    """

    make: Callable[P, S]
    config_of: Callable[..., dict[str, Any]]
    ready: Callable[[S], Awaitable[None]] = _ready

    @asynccontextmanager
    async def serving(self, *args: P.args, **options: P.kwargs) -> AsyncIterator[S]:
        """A running server."""
        async with _running(self.make(*args, **options)) as server:
            yield server

    def connected(
        self,
        desk: ChannelDesk,
        body: Callable[[OpenChannel, S], Awaitable[None]],
        *,
        server: S | None = None,
        state: Any = None,
        prepare: Callable[[S], None] = lambda _: None,
        **settings: Any,
    ) -> None:
        """Run a test on a channel that is connected. `prepare`: what happened on the server before."""

        async def whole() -> None:
            async with _running(server or self.make()) as running:  # type: ignore[call-arg] # all have defaults
                prepare(running)
                named = {name.replace("_", "-"): value for name, value in settings.items()}
                async with desk.opened(self.config_of(running, **named), state=state) as channel:
                    await channel.until_health("connected")
                    await self.ready(running)
                    await body(channel, running)

        desk.run(whole)


@asynccontextmanager
async def _running(server: S) -> AsyncIterator[S]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
