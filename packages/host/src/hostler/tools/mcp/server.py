"""Keep one MCP server connected, with back-off, and list and call its tools. Does not import the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.domain.breaker import CLOSED, Breaker
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.record import Record
from hostler.domain.tool_pins import ListedTool, StoredPin
from hostler.secrets.known_values import redact
from hostler.tools.errors import OutcomeUnknownError
from hostler.tools.mcp.connector import connect
from hostler.tools.mcp.definitions import Definition, UsableTools, read_definitions
from hostler.tools.mcp.port import McpContext
from hostler.tools.port import ToolInvocation
from hostler_protocol.errors import HostlerError, UnavailableError

if TYPE_CHECKING:
    from hostler.tools.mcp.connection import McpConnection

PROGRESS_SECONDS = 1.0
"""Minimum time between two log lines on one call's progress."""
MAX_PROGRESS_CHARS = 200
RENEW_LOOK_SECONDS = 0.1
"""Between two looks whether the last call of a connection that is to be renewed has ended."""
CLOSE_SECONDS = 30.0
"""More than a connection takes to close in order, and then to be cut and its process killed."""
_log = logging.getLogger(__name__)


class McpServerStatus(Record):
    """A server's status. `state`: connecting, ready, down (retried), failed (breaker open)."""

    name: str
    state: str
    reason: str | None
    """Why the server is not ready."""
    last_fault: str | None
    """Why it last failed, even if it is ready again."""
    retry_in_seconds: float | None
    server: str
    """Name and version as the server states them."""
    warnings: tuple[str, ...]
    restarts: int


class McpServer:
    """One server. Its worker connects and reconnects; `pins` are the stored tools, `seen` the last list."""

    def __init__(self, entry: McpEntry, context: McpContext) -> None:
        self.entry = entry
        self.revision = 0
        """Incremented with each change of `pins` and `seen`."""
        self.pins: Mapping[str, StoredPin] = {}
        self.seen: UsableTools | None = None
        """None: not listed since this host started."""
        self.restarts = 0
        self._context = context
        self._limits = context.limits
        self._breaker: Breaker = CLOSED
        self._last_fault: str | None = None
        self._logged = ("", "")
        """The state and the reason that were last logged."""
        self._connection: McpConnection | None = None
        self._attempt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the current attempt to connect, or the next one, has ended."""
        self._listed_at = 0.0
        self._relist_seconds = context.limits.relist_seconds
        self._worker = f"mcp server {entry.name}"
        self._started = False
        self._unanswered = asyncio.Event()
        """Set when a call got no answer in time: the server is probed."""
        self._renewed = asyncio.Event()
        """Set when a secret of the entry changed, or somebody asked: the server is connected anew."""
        self._retry = asyncio.Event()
        """Set when the next attempt to connect need not wait."""

    # -- life cycle -------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load the stored pins, so that tools can be offered before the server is connected."""
        self._set_pins(await self._context.pins.known(self.entry.owner))

    def start(self) -> None:
        """Start the worker that connects and reconnects."""
        if not self._started:
            self._started = True
            self._context.workers.start(self._worker, self._maintain)

    def renew(self) -> None:
        """Connect anew, with the secrets as they are now: calls at work end first, new ones wait for it."""
        if self._connection is not None:
            self._renewed.set()
        else:
            self._breaker = CLOSED  # it may be down for want of the secret

    def reconnect(self) -> None:
        """Connect anew as `renew` does; one that is down is tried at once."""
        self.renew()
        if self._connection is None:
            self._retry.set()

    def close(self) -> Awaitable[None]:
        """End the worker. The result waits until the connection is closed and the process has ended."""
        if not self._attempt.done():
            self._attempt.set_result(None)
        return self._context.workers.end(self._worker, CLOSE_SECONDS)

    async def _maintain(self, succeeded: Callable[[], None]) -> None:
        if self._attempt.done():  # the worker was started again after an unexpected error
            self._attempt = asyncio.get_running_loop().create_future()
        while True:
            connection: McpConnection | None = None
            try:
                connection = await self._connect()
            except HostlerError as error:
                self._failed(error.message, lasting=bool(error.details.get("lasting")))
            except Exception as error:  # noqa: BLE001  the task must go on: it reconnects the server
                self._broken(error)
            self._connection = connection
            if connection is not None:
                succeeded()
                self._log_state("ready")
            self._attempt.set_result(None)
            self._attempt = asyncio.get_running_loop().create_future()
            if connection is not None:
                try:
                    await self._watch(connection)
                except Exception as error:  # noqa: BLE001  as above
                    self._broken(error)
                finally:
                    self._connection = None
                    await connection.close()
            await self._rest()

    async def _rest(self) -> None:
        """Wait until the next attempt to connect is due, or somebody asks for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._breaker.wait_seconds(time.monotonic())):
                await self._retry.wait()
        self._retry.clear()

    async def _connect(self) -> McpConnection:
        self._renewed.clear()
        connection = await connect(self.entry, self._context)
        try:
            await self._list(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    def _failed(self, reason: str, *, lasting: bool = False, worked: bool = False) -> None:
        reason = redact(reason)
        self._breaker = self._breaker.failed(time.monotonic(), reason, lasting=lasting, worked=worked)
        self._last_fault = reason
        self._log_state("failed" if self._breaker.is_open else "down", reason)

    def _log_state(self, state: str, reason: str = "") -> None:
        """Log a change of state; repeated attempts are not logged."""
        if state == self._logged[0] and (state != "failed" or reason == self._logged[1]):
            return
        again = "is ready again" if self._logged[0] else "is ready"
        self._logged = (state, reason)
        if state == "ready":
            _log.info("mcp server %s %s", self.entry.name, again)
        elif state == "failed":
            rest = self._breaker.wait_seconds(time.monotonic())
            _log.warning("mcp server %s: %s; it rests, next try in %.0f s", self.entry.name, reason, rest)
        else:
            _log.warning("mcp server %s: %s; it is tried again", self.entry.name, reason)

    async def _watch(self, connection: McpConnection) -> None:
        """Until the connection ends: list again when needed, reload pins, probe a silent server."""
        began = followed = time.monotonic()
        tick = min(self._limits.follow_seconds, self._limits.idle_seconds)
        while not connection.over.done():
            await self._wait_for_change(connection, RENEW_LOOK_SECONDS if self._renewed.is_set() else tick)
            if self._renewed.is_set():
                if not connection.active:
                    self.restarts += 1
                    return
                continue
            try:
                await self._refresh(connection)
                if time.monotonic() - followed > self._limits.follow_seconds:
                    followed = time.monotonic()
                    await self.load()
            except HostlerError as error:
                connection.give_up(error.message)
            silent = time.monotonic() - connection.heard_at > self._limits.idle_seconds
            if connection.is_open and (self._unanswered.is_set() or (silent and not connection.active)):
                self._unanswered.clear()
                await self._probe(connection)
        lived = time.monotonic() - began
        if lived >= self._limits.forget_seconds:
            self._breaker = CLOSED
        self.restarts += 1
        self._failed(connection.over.result(), worked=lived >= self._limits.stable_seconds)

    async def _refresh(self, connection: McpConnection) -> None:
        """List again if a change was notified or the list is old."""
        since = time.monotonic() - self._listed_at
        wanted = connection.changed.is_set() and since >= self._relist_seconds
        if connection.is_open and (wanted or since > self._limits.refresh_seconds):
            connection.changed.clear()
            await self._list(connection)

    async def _probe(self, connection: McpConnection) -> None:
        reason = await connection.probe(self._limits.probe_seconds)
        if reason is not None:
            connection.give_up(reason)

    async def _wait_for_change(self, connection: McpConnection, seconds: float) -> None:
        """Wait until the connection is over, a probe is due, a changed list may be read, or for `seconds`."""
        due = self._listed_at + self._relist_seconds - time.monotonic()
        if connection.changed.is_set() or due > 0:
            seconds = min(seconds, max(due, 0.0))
        wakes = [asyncio.ensure_future(self._unanswered.wait())]
        if not self._renewed.is_set():
            wakes.append(asyncio.ensure_future(self._renewed.wait()))
        if due <= 0:
            wakes.append(asyncio.ensure_future(connection.changed.wait()))
        ends: list[asyncio.Future[Any]] = [connection.over, *wakes]
        try:
            await asyncio.wait(ends, timeout=seconds, return_when="FIRST_COMPLETED")
        finally:
            for wake in wakes:
                wake.cancel()

    def _broken(self, error: Exception) -> None:
        _log.error("mcp server %s: the host failed", self.entry.name, exc_info=error)
        self._failed(f"the host failed: {type(error).__name__}")

    async def attempted(self) -> None:
        """Wait for the first attempt to connect to end."""
        if self.seen is None and self._last_fault is None:
            await asyncio.shield(self._attempt)

    # -- tools ------------------------------------------------------------------------------------

    async def _list(self, connection: McpConnection) -> None:
        self._listed_at = time.monotonic()
        seen = await asyncio.to_thread(read_definitions, await connection.tools(), self.seen)
        sights = {
            name: ListedTool(name, definition.digest, msgspec.to_builtins(definition))
            for name, definition in seen.tools.items()
        }
        pins = await self._context.pins.see(self.entry.owner, sights)
        is_changed = self.seen is not None and seen.tools != self.seen.tools
        shortest, longest = self._limits.relist_seconds, self._limits.refresh_seconds
        self._relist_seconds = min(longest, self._relist_seconds * 2) if is_changed else shortest
        for warning in seen.warnings if self.seen is None or seen.warnings != self.seen.warnings else ():
            _log.warning("mcp server %s: %s", self.entry.name, warning)
        self.seen = seen
        self.revision += 1
        self._set_pins(pins)

    def _set_pins(self, pins: Mapping[str, StoredPin]) -> None:
        if pins != self.pins:
            self.pins = pins
            self.revision += 1

    def live_digest(self, tool: str) -> str | None:
        """Return the digest of the tool in the last list, or None if it is not listed."""
        definition: Definition | None = None if self.seen is None else self.seen.tools.get(tool)
        return None if definition is None else definition.digest

    # -- calls ------------------------------------------------------------------------------------

    async def connection(self) -> McpConnection:
        """Return the connection; wait for at most one attempt to connect. UnavailableError."""
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
        is_open = current is not None and current.is_open and not self._renewed.is_set()
        return current if is_open else None

    @property
    def _down(self) -> str:
        return (
            f"mcp server {self.entry.name} is down: {self._breaker.reason or 'it is still being connected'}"
        )

    async def call(
        self, connection: McpConnection, tool: str, invocation: ToolInvocation, seconds: float
    ) -> dict[str, Any]:
        """Call a tool on this connection; probe a server that does not answer in time."""
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
            self._unanswered.set()
            raise

    def status(self) -> McpServerStatus:
        """Return the current status."""
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
    """Logs a call's progress, at most once per PROGRESS_SECONDS."""

    def __init__(self, invocation: ToolInvocation) -> None:
        self._invocation = invocation
        self._logged_at = 0.0

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now - self._logged_at < PROGRESS_SECONDS:
            return
        self._logged_at = now
        of = "" if total is None else f" of {total:g}"
        text = "" if message is None else f": {message[:MAX_PROGRESS_CHARS]!r}"
        _log.info("run %s: %s: %g%s%s", self._invocation.run_id, self._invocation.tool_name, done, of, text)
