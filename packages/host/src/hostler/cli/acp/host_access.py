"""The host of `hostler acp`: found when it is first needed, and found again after it was lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hostler.cli.acp.limits import PATIENCE_SECONDS, RETRY_SECONDS
from hostler.cli.child_server import ChildServer, ServerDiedError, serving
from hostler.cli.client import AnswerError, Api
from hostler.cli.remote_plugin import serve_plugin
from hostler.cli.server_address import Address, find_server
from hostler.cli.target_agent import target_agent
from hostler.cli.targets import RunTarget
from hostler_protocol.errors import ConflictError, HostlerError, UnauthorizedError, UnavailableError

if TYPE_CHECKING:
    from hostler.journal.feed import StoredResult

T = TypeVar("T")
TOO_MANY = 429
HELD_SECONDS = 5.0
"""A connection that was held that long was one: the host is lost anew after it, not still."""
STARTING_SECONDS = 60.0
"""How long another command may take that is just starting a server on the data directory."""
log = logging.getLogger(__name__)


class HostAccess:
    """The API of the host, and the agent of the command's TARGET.

    With a data directory and no server on it, a server is started, which ends with this command; its runs go
    on when the next one starts. A server that was there and is lost has 60 s to come back before one is
    started in its place: it is being restarted, and its data directory is not to be taken from it.
    """

    def __init__(self, target: RunTarget, url: str | None, key: str | None, data_dir: Path) -> None:
        self._target = target
        self._url = url
        self._key = key
        self._data_dir = data_dir
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._api: Api | None = None
        self._agent: str | None = None
        self._lost_at: float | None = None
        """When a server that this command did not start was lost."""
        self._is_others = False
        self._servers: list[ChildServer] = []

    @property
    def where(self) -> str:
        """The address of the host, for people; empty if none was found yet."""
        return "" if self._api is None else self._api.url

    async def agent(self) -> str:
        """Return the name of the target's agent. UnauthorizedError, UnavailableError, NotFoundError."""
        async with self._lock:
            if self._agent is None:
                api = await self._reach()
                serve = partial(serve_plugin, api, data_dir=self._data_dir)
                entered = target_agent(api, self._target, serve, config={}, model=None, keep=True)
                self._agent = await self._stack.enter_async_context(entered)
            return self._agent

    async def once(self, ask: Callable[[Api], Awaitable[T]]) -> T:
        """Make a request. Raises as `Api`."""
        async with self._lock:
            api = await self._reach()
        return await ask(api)

    async def ask(self, ask: Callable[[Api], Awaitable[T]]) -> T:
        """Make a request that may be repeated, until it is answered or the host is away for 60 s."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await self.once(ask)
            except UnavailableError:
                if time.monotonic() > until:
                    raise
                await self._lost()
            except AnswerError as error:
                if error.status != TOO_MANY or time.monotonic() > until:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def results(self, run_id: str) -> AsyncIterator[StoredResult]:
        """Yield the results of a run, each once, until the terminal one.

        UnavailableError if the host is away for 60 s.
        """
        last, lost_since = 0, None
        while True:
            began = time.monotonic()
            try:
                async with self._lock:
                    api = await self._reach()
                async for result in api.results(run_id, last, patience=0.0):
                    last, lost_since = result.sequence, None
                    yield result
                    if result.terminal:
                        return
            except UnavailableError as error:
                now = time.monotonic()
                if lost_since is None or now - began > HELD_SECONDS:
                    lost_since = now
                if now - lost_since > PATIENCE_SECONDS:
                    raise UnavailableError(
                        f"the host was away for {PATIENCE_SECONDS:.0f} s ({error.message}); the run {run_id} "
                        "may still be active: load the session to see the rest"
                    ) from error
                await self._lost()
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Close the connections, and stop a server that this command started."""
        await self._stack.aclose()

    async def _lost(self) -> None:
        """Look for the host anew, if it may be elsewhere now."""
        async with self._lock:
            if self._url is None and self._api is not None:
                self._api = None
                self._lost_at = time.monotonic() if self._is_others else None

    async def _reach(self) -> Api:
        if self._api is None:
            address = await self._address()
            self._api = Api.at(address.url, address.key)
            self._stack.push_async_callback(self._api.close)
        return self._api

    async def _address(self) -> Address:
        """Return the server's address; start one if there is none. UnauthorizedError without a key."""
        until = time.monotonic() + STARTING_SECONDS
        while True:
            try:
                found = find_server(self._url, self._key, self._data_dir)
                if found is not None:
                    self._is_others = not any(server.address.url == found.url for server in self._servers)
                    return found
                if self._lost_at is not None and time.monotonic() < self._lost_at + PATIENCE_SECONDS:
                    raise UnavailableError(f"the server on {self._data_dir} is gone")
                log.info("no server runs on %s: starting one", self._data_dir)
                server = await self._stack.enter_async_context(serving(self._data_dir))
                self._servers.append(server)
            except (ConflictError, ServerDiedError) as error:
                if time.monotonic() > until or (isinstance(error, ServerDiedError) and not self._is_taken()):
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._is_others = False
                return server.address

    def _is_taken(self) -> bool:
        """Return whether another process has the data directory, so that a start of ours had to fail."""
        from hostler.host.lock import read_holder

        return read_holder(self._data_dir) is not None


async def quietly(asked: Awaitable[T]) -> T | None:
    """Return the answer of a request that only adds to what is shown; log why there is none."""
    try:
        return await asked
    except HostlerError as error:
        log.log(
            logging.INFO if isinstance(error, UnauthorizedError) else logging.WARNING, "%s", error.message
        )
        return None
