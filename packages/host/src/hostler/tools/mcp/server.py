"""One MCP server's life: connected, listed, asked, connected again with back-off. No SDK in here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.domain.breaker import CLOSED, Breaker
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_pins import ListedTool, StoredPin
from hostler.tools.errors import OutcomeUnknownError
from hostler.tools.mcp.connector import connect
from hostler.tools.mcp.definitions import Definition, ToolList, read_definitions
from hostler.tools.mcp.port import McpContext
from hostler.tools.port import ToolInvocation
from hostler_protocol.errors import HostlerError, UnavailableError

if TYPE_CHECKING:
    from hostler.tools.mcp.connection import McpConnection

PROGRESS_SECONDS = 1.0
"""Between two lines of the log about one call's progress."""
MAX_PROGRESS_CHARS = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class McpServerStatus:
    """How a server stands. `state`: connecting, ready, down (retried), failed (given a longer rest)."""

    name: str
    state: str
    reason: str | None
    """Why it is not ready."""
    last_fault: str | None
    """Why it failed last, also where it is ready again."""
    retry_in_seconds: float | None
    server: str
    """What it calls itself."""
    warnings: tuple[str, ...]
    restarts: int


class McpServer:
    """`start` connects and keeps the connection; `pins` and `seen` are what is known of its tools."""

    def __init__(self, entry: McpEntry, around: McpContext) -> None:
        self.entry = entry
        self.revision = 0
        """Rises with each change of `pins` and `seen`."""
        self.pins: Mapping[str, StoredPin] = {}
        self.seen: ToolList | None = None
        """None: it was not listed since this host began."""
        self.restarts = 0
        self._around = around
        self._limits = around.limits
        self._breaker: Breaker = CLOSED
        self._last_fault: str | None = None
        self._told = ("", "")
        """The state and the reason that the log knows."""
        self._connection: McpConnection | None = None
        self._attempt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the current attempt to connect, or the next one, is over."""
        self._listed_at = 0.0
        self._relist_seconds = around.limits.relist_seconds
        self._keeper: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    # -- its life ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read what is stored of its tools: they can be offered before it is connected."""
        self._know(await self._around.pins.known(self.entry.owner))

    def start(self) -> None:
        """Connect, and keep it so from here on."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"keeper of mcp {self.entry.name}")

    async def close(self) -> None:
        """End the connection and the process."""
        tasks = [task for task in (self._keeper, self._probing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if not self._attempt.done():
            self._attempt.set_result(None)

    async def _keep(self) -> None:
        while True:
            connection: McpConnection | None = None
            try:
                connection = await self._connect()
            except HostlerError as error:
                self._failed(error.message, lasting=bool(error.details.get("lasting")))
            except Exception as error:  # noqa: BLE001  the keeper brings the server back: it never ends
                self._broken(error)
            self._connection = connection
            if connection is not None:
                self._tell("ready")
            self._attempt.set_result(None)
            self._attempt = asyncio.get_running_loop().create_future()
            if connection is not None:
                try:
                    await self._look_after(connection)
                except Exception as error:  # noqa: BLE001  as above
                    self._broken(error)
                finally:
                    self._connection = None
                    await connection.close()
            await asyncio.sleep(self._breaker.wait_seconds(time.monotonic()))

    async def _connect(self) -> McpConnection:
        connection = await connect(self.entry, self._around)
        try:
            await self._list(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    def _failed(self, reason: str, *, lasting: bool = False, worked: bool = False) -> None:
        self._breaker = self._breaker.failed(time.monotonic(), reason, lasting=lasting, worked=worked)
        self._last_fault = reason
        self._tell("failed" if self._breaker.is_open else "down", reason)

    def _tell(self, state: str, reason: str = "") -> None:
        """A line of the log where it stands otherwise than before; not one for each try."""
        if state == self._told[0] and (state != "failed" or reason == self._told[1]):
            return
        again = "is ready again" if self._told[0] else "is ready"
        self._told = (state, reason)
        if state == "ready":
            _log.info("mcp server %s %s", self.entry.name, again)
        elif state == "failed":
            rest = self._breaker.wait_seconds(time.monotonic())
            _log.warning("mcp server %s: %s; it rests, next try in %.0f s", self.entry.name, reason, rest)
        else:
            _log.warning("mcp server %s: %s; it is tried again", self.entry.name, reason)

    async def _look_after(self, connection: McpConnection) -> None:
        """List again when the server says so, and from time to time; see that it is still there."""
        began = followed = time.monotonic()
        tick = min(self._limits.follow_seconds, self._limits.idle_seconds)
        while not connection.over.done():
            await self._something(connection, tick)
            try:
                await self._refresh(connection)
                if time.monotonic() - followed > self._limits.follow_seconds:
                    followed = time.monotonic()
                    await self.load()
            except HostlerError as error:
                connection.give_up(error.message)
            silent = time.monotonic() - connection.heard_at > self._limits.idle_seconds
            if silent and connection.is_open and not connection.active:
                await self._probe(connection)
        lived = time.monotonic() - began
        if lived >= self._limits.forget_seconds:
            self._breaker = CLOSED
        self.restarts += 1
        self._failed(connection.over.result(), worked=lived >= self._limits.stable_seconds)

    async def _refresh(self, connection: McpConnection) -> None:
        """List again where it is time to."""
        since = time.monotonic() - self._listed_at
        wanted = connection.changed.is_set() and since >= self._relist_seconds
        if connection.is_open and (wanted or since > self._limits.refresh_seconds):
            connection.changed.clear()
            await self._list(connection)

    async def _probe(self, connection: McpConnection) -> None:
        reason = await connection.probe(self._limits.probe_seconds)
        if reason is not None:
            connection.give_up(reason)

    async def _something(self, connection: McpConnection, seconds: float) -> None:
        """Until the connection is over, its list may be read again since it changed, or so long."""
        due = self._listed_at + self._relist_seconds - time.monotonic()
        if connection.changed.is_set() or due > 0:
            seconds = min(seconds, max(due, 0.0))
        ends: list[asyncio.Future[Any]] = [connection.over]
        change = asyncio.ensure_future(connection.changed.wait())
        if due <= 0:
            ends.append(change)
        try:
            await asyncio.wait(ends, timeout=seconds, return_when="FIRST_COMPLETED")
        finally:
            change.cancel()

    def _broken(self, error: Exception) -> None:
        _log.error("mcp server %s: the host failed", self.entry.name, exc_info=error)
        self._failed(f"the host failed: {type(error).__name__}")

    async def attempted(self) -> None:
        """Wait until an attempt to connect is over, if there was none."""
        if self.seen is None and self._last_fault is None:
            await asyncio.shield(self._attempt)

    # -- its tools --------------------------------------------------------------------------------

    async def _list(self, connection: McpConnection) -> None:
        self._listed_at = time.monotonic()
        seen = await asyncio.to_thread(read_definitions, await connection.tools(), self.seen)
        sights = {
            name: ListedTool(name, definition.digest, msgspec.to_builtins(definition))
            for name, definition in seen.tools.items()
        }
        pins = await self._around.pins.see(self.entry.owner, sights)
        another = self.seen is not None and seen.tools != self.seen.tools
        least, most = self._limits.relist_seconds, self._limits.refresh_seconds
        self._relist_seconds = min(most, self._relist_seconds * 2) if another else least
        for warning in seen.warnings if self.seen is None or seen.warnings != self.seen.warnings else ():
            _log.warning("mcp server %s: %s", self.entry.name, warning)
        self.seen = seen
        self.revision += 1
        self._know(pins)

    def _know(self, pins: Mapping[str, StoredPin]) -> None:
        if pins != self.pins:
            self.pins = pins
            self.revision += 1

    def live_digest(self, tool: str) -> str | None:
        """What the server says the tool is now; None: it is not there, or was not listed yet."""
        definition: Definition | None = None if self.seen is None else self.seen.tools.get(tool)
        return None if definition is None else definition.digest

    # -- asking -----------------------------------------------------------------------------------

    async def connection(self) -> McpConnection:
        """The connection, listed; waits for one attempt to make it. UnavailableError with the reason."""
        self.start()
        if (current := self._open()) is not None:
            return current
        now = time.monotonic()
        if self._breaker.refuses(now):
            rest = self._breaker.wait_seconds(now)
            raise UnavailableError(f"{self._down} (next try in {rest:.0f} s)")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.entry.connect_seconds):
                await asyncio.shield(self._attempt)
        if (current := self._open()) is None:
            raise UnavailableError(self._down)
        return current

    def _open(self) -> McpConnection | None:
        current = self._connection
        return current if current is not None and current.is_open else None

    @property
    def _down(self) -> str:
        return (
            f"mcp server {self.entry.name} is down: {self._breaker.reason or 'it is still being connected'}"
        )

    async def call(
        self, connection: McpConnection, tool: str, invocation: ToolInvocation, seconds: float
    ) -> dict[str, Any]:
        """Ask on this connection; a server that does not answer in time is asked whether it is there."""
        try:
            return await connection.call(
                tool,
                invocation.parameters,
                seconds=seconds,
                effect_key=invocation.effect_key,
                progress=_Progress(invocation),
                confirm=invocation.confirm,
            )
        except OutcomeUnknownError:
            if connection.is_open and self._probing is None:
                self._probing = asyncio.create_task(self._probe(connection))
                self._probing.add_done_callback(self._probed)
            raise

    def _probed(self, task: asyncio.Task[None]) -> None:
        self._probing = None

    def status(self) -> McpServerStatus:
        """How it stands."""
        now = time.monotonic()
        connection = self._open()
        ready = connection is not None
        failed = not ready and self._breaker.failures > 0
        down = "failed" if self._breaker.refuses(now) else "down" if failed else "connecting"
        return McpServerStatus(
            name=self.entry.name,
            state="ready" if ready else down,
            reason=self._breaker.reason if failed else None,
            last_fault=self._last_fault,
            retry_in_seconds=self._breaker.wait_seconds(now) if failed else None,
            server=connection.server if connection is not None else "",
            warnings=() if self.seen is None else self.seen.warnings,
            restarts=self.restarts,
        )


class _Progress:
    """Writes a call's progress into the log, now and then."""

    def __init__(self, invocation: ToolInvocation) -> None:
        self._invocation = invocation
        self._told_at = 0.0

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now - self._told_at < PROGRESS_SECONDS:
            return
        self._told_at = now
        of = "" if total is None else f" of {total:g}"
        said = "" if message is None else f": {message[:MAX_PROGRESS_CHARS]!r}"
        _log.info("run %s: %s: %g%s%s", self._invocation.run_id, self._invocation.tool_name, done, of, said)
