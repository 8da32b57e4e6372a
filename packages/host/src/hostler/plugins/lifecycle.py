"""The lifecycle of one plugin: started on demand, monitored, restarted with back-off, drained at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Coroutine
from typing import Any

from hostler.domain.breaker import CLOSED, Breaker
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import PluginContext, RunningPlugin
from hostler.plugins.source import Folder, PluginSource, Remote, SingleFile, fingerprint
from hostler.plugins.status import PluginStatus
from hostler.sandbox.port import Violation
from hostler_protocol.errors import HostlerError, PluginError, PluginStartError, UnavailableError

MAX_REASON_CHARS = 600

_log = logging.getLogger(__name__)


class PluginLifecycle:
    """One plugin; `connection` gives access to its process, starting it if necessary."""

    def __init__(self, key: str, source: PluginSource, context: PluginContext) -> None:
        self.key = key
        self.source = source
        self.context = context
        self.breaker: Breaker = CLOSED
        self.restarts = 0
        self.keep_running = False
        self.is_connecting = False
        """A remote process is in its handshake."""
        self._current: RunningPlugin | None = None
        self._joined = asyncio.Event()
        self._away_since = context.clock()
        """Clock time since when a remote plugin has had no process."""
        self._starting: asyncio.Task[PluginConnection] | None = None
        self._starting_since = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._failed_files: tuple[object, ...] | None = None
        self._leaving: set[RunningPlugin] = set()
        """Processes that were replaced, or are to be once another one has started."""
        self._background: set[asyncio.Task[None]] = set()
        self._closing = False
        self._warnings: tuple[str, ...] = ()
        self._last_version = ""

    # -- starting ---------------------------------------------------------------------------------

    @property
    def ready(self) -> PluginConnection | None:
        """The connection to start runs on, if there is one at once."""
        current = self._current
        return current.connection if current is not None and current.connection.is_ready else None

    async def connection(self) -> PluginConnection:
        """Return the connection to start runs on; start the process if there is none.

        Raises PluginStartError with the reason; at once while the breaker is open.
        """
        if (ready := self.ready) is not None:
            return ready
        if self._closing:
            raise UnavailableError(f"plugin {self.key} is being ended; try again")
        if isinstance(self.source, Remote):
            return await self._rejoined()
        if self._starting is None:
            self._starting_since = self.context.clock()
            self._starting = asyncio.get_running_loop().create_task(self._start(self.source))
            self._starting.add_done_callback(self._start_over)
        starting = self._starting
        await asyncio.wait([starting])  # many may wait for one start: cancelling a waiter does not end it
        if starting.cancelled():
            raise UnavailableError(f"plugin {self.key} was replaced or removed while it started; try again")
        return starting.result()

    def _start_over(self, task: asyncio.Task[PluginConnection]) -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is not None and self.keep_running:
            self._restart_later()

    async def _start(self, source: Folder | SingleFile) -> PluginConnection:
        await self._may_start()
        began = self.context.clock()
        try:
            running = await self.context.start(
                self.key, source, self.context, spawn=self._spawn, on_violation=self._on_violation
            )
        except HostlerError as error:
            costly = self.context.clock() - began >= self.context.start_limits.costly_seconds
            lasting = costly or (isinstance(error, PluginError) and bool(error.details.get("lasting")))
            raise self._start_failed(error.message, lasting=lasting) from error
        except Exception as error:
            # any error caused by a plugin's files: this plugin does not start, and the host continues
            _log.exception("plugin %s: its start failed unexpectedly", self.key)
            text = f"its start failed unexpectedly ({type(error).__name__}: {error})"
            raise self._start_failed(text[:MAX_REASON_CHARS], lasting=True) from error
        connection = running.connection
        self._last_version = connection.version
        self._warnings = (*running.warnings, *connection.warnings)
        self._take(running)
        if running.log is not None and running.process is not None:
            running.log.note(f"started as process {running.process.pid}")
        return connection

    async def _may_start(self) -> None:
        now = self.context.clock()
        if self.breaker.is_open and self._failed_files != fingerprint(self.source):
            self.breaker = CLOSED  # the plugin's files have changed since
        if self.breaker.refuses(now):
            rest = self.breaker.wait_seconds(now)
            raise PluginStartError(
                f"plugin {self.key} is not started, it failed before: {self.breaker.reason} "
                f"(next try in {rest:.0f} s, or when its files change)"
            )
        if wait := self.breaker.wait_seconds(now):
            await asyncio.sleep(wait)

    def _on_violation(self, violation: Violation) -> None:
        _log.warning("plugin %s: %s: %s", self.key, violation.kind, violation.text)
        self.context.notice(violation.kind, self.key, violation.text)

    def _take(self, running: RunningPlugin) -> None:
        self._current = running
        connection = running.connection
        self._teach(connection)
        self.context.notice("started", self.key, f"version {connection.version}")
        connection.closed.add_done_callback(lambda future: self._ended(running, future.result()))

    def _teach(self, connection: PluginConnection) -> None:
        self.context.catalog.learn(
            self.key,
            connection.runners,
            connection.tools,
            connection.channel_manifests,
            connection.version,
        )

    def join(self, context: PluginContext) -> None:
        """Serve this plugin, which discovery has started."""
        self.context = context
        if self._current is not None:
            connection = self._current.connection
            self._teach(connection)
            context.notice("started", self.key, f"version {connection.version}")

    # -- failing ----------------------------------------------------------------------------------

    def _start_failed(self, reason: str, *, lasting: bool) -> PluginStartError:
        """Record the failure; return the error for those who wait for the start."""
        self.breaker = self.breaker.failed(self.context.clock(), reason, lasting=lasting)
        self._failed_files = fingerprint(self.source)
        self.context.notice("start_failed", self.key, reason)
        _log.warning("plugin %s cannot be started: %s", self.key, reason)
        return PluginStartError(f"plugin {self.key} cannot be started: {reason}")

    def _ended(self, running: RunningPlugin, error: PluginError) -> None:
        if self._current is running:
            self._current = None
            self._joined.clear()
            self._away_since = self.context.clock()
        if running.leaving or self._closing:
            self.context.notice("stopped", self.key, error.message)
            return
        now = self.context.clock()
        _log.warning("plugin %s: %s", self.key, error.message)
        if running.log is not None:
            running.log.note(f"failed: {error.message}")
        self.context.notice("crashed", self.key, error.message)
        limits, lived = self.context.start_limits, now - running.started_at
        if isinstance(self.source, Remote):
            stayed = lived >= limits.stable_seconds
            self.breaker = CLOSED if stayed else self.breaker.failed(now, error.message)
            return
        if lived >= limits.forget_seconds:
            self.breaker = CLOSED
        self.breaker = self.breaker.failed(now, error.message, worked=lived >= limits.stable_seconds)
        self._failed_files = fingerprint(self.source)
        self.restarts += 1
        if self.keep_running:
            self._restart_later()

    def _restart_later(self) -> None:
        if self._restart is None and not self._closing:
            wait = self.breaker.wait_seconds(self.context.clock())
            self._restart = asyncio.get_running_loop().call_later(wait, self._start_in_background)

    def _start_in_background(self) -> None:
        self._restart = None
        if self._starting is None and self._current is None and not self._closing:
            self._spawn(self._start_quietly())

    async def _start_quietly(self) -> None:
        try:
            await self.connection()
        except (PluginError, UnavailableError) as error:
            _log.debug("plugin %s: %s", self.key, error.message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("plugin %s: work in the background failed", self.key, exc_info=error)

    async def _rejoined(self) -> PluginConnection:
        wait = self._away_since + self.context.start_limits.rejoin_seconds - self.context.clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, wait)):
                await self._joined.wait()
        current = self._current
        if current is None or not current.connection.is_ready:
            raise PluginStartError(f"the remote plugin {self.key} is not connected")
        return current.connection

    # -- remote -----------------------------------------------------------------------------------

    def connect_failed(self, reason: str) -> None:
        """Note that a remote process did not get through its handshake."""
        self.breaker = self.breaker.failed(self.context.clock(), reason)

    def connect_wait_seconds(self) -> float:
        """Return for how long no remote process may connect: each handshake costs this host some work."""
        now = self.context.clock()
        return self.breaker.wait_seconds(now) if self.breaker.refuses(now) else 0.0

    def attach(self, running: RunningPlugin) -> None:
        """Take over the connection of a remote plugin process after its handshake.

        Its earlier failures are forgotten once it has stayed for a while: see `_ended`.
        """
        self._last_version = running.connection.version
        self._warnings = tuple(running.connection.warnings)
        self._take(running)
        self._joined.set()

    @property
    def is_connected(self) -> bool:
        """Whether there is a process."""
        return self._current is not None

    # -- ending -----------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Start a new process from the current files; the old one finishes its runs, then ends.

        Raises PluginStartError if the new one does not start; the old one then stays in use. A restart that
        has begun is finished even if the caller is cancelled.
        """
        task = asyncio.get_running_loop().create_task(self._restart_now())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.shield(task)

    async def _restart_now(self) -> None:
        old, self._current = self._current, None
        self.breaker = CLOSED
        if old is not None:
            self._leaving.add(old)
        try:
            await self.connection()
        except (PluginError, UnavailableError):
            if old is not None and old.connection.is_ready and not self._closing:
                self._leaving.discard(old)
                self._current = old
            elif old is not None:
                self._spawn(self._drain(old, self.context.start_limits.drain_seconds))
            raise
        if old is not None:
            self._spawn(self._drain(old, self.context.start_limits.drain_seconds))

    def replace(self, connection: PluginConnection, why: str) -> None:
        """Start later runs on another process; this one finishes its runs, then ends.

        No effect if it was replaced already. A remote process is disconnected, and dials in again.
        """
        current = self._current
        if current is None or current.connection is not connection:
            return
        _log.warning("plugin %s: its process is replaced: %s", self.key, why)
        if current.log is not None:
            current.log.note(f"replaced: {why}")
        if isinstance(self.source, Remote):
            connection.abort(why)
            return
        self._current = None
        self._spawn(self._drain(current, self.context.start_limits.drain_seconds))

    async def wait_free(self, run_ids: Collection[str], seconds: float) -> None:
        """Wait until no process of this plugin works on these runs, which the host has ended.

        A process that still does after `seconds` is ended with all its runs.
        """
        everything = [*self._leaving, *([] if self._current is None else [self._current])]
        await asyncio.gather(*(self._freed(running, run_ids, seconds) for running in everything))

    async def _freed(self, running: RunningPlugin, run_ids: Collection[str], seconds: float) -> None:
        left = await running.connection.wait_free(run_ids, seconds)
        if left:
            why = f"it still works on runs that were ended {seconds:g} s ago: {', '.join(left[:5])}"
            _log.warning("plugin %s: %s", self.key, why)
            if running.log is not None:
                running.log.note(f"ended: {why}")
            running.connection.abort(why)
            if running.process is not None:
                await running.process.wait_gone()

    async def stop(self, drain_seconds: float) -> None:
        """End the process after its runs. The next `connection` starts it again."""
        current, self._current = self._current, None
        if current is not None:
            await self._drain(current, drain_seconds)

    async def close(self, drain_seconds: float) -> None:
        """End all processes for good."""
        self._closing = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._restart is not None:
            self._restart.cancel()
        before = list(self._leaving)  # replaced earlier, and still finishing their runs
        await asyncio.gather(self.stop(drain_seconds), *(self._end_by(r, drain_seconds) for r in before))
        if self._background:
            await asyncio.wait(list(self._background), timeout=self.context.process_limits.kill_seconds)

    async def _drain(self, running: RunningPlugin, drain_seconds: float) -> None:
        """Let a process finish its runs and exit; kill it if it does not."""
        connection = running.connection
        running.leaving = True
        self._leaving.add(running)
        try:
            if not connection.closed.done():
                try:
                    async with asyncio.timeout(drain_seconds):
                        await connection.shut_down()
                        await asyncio.shield(connection.closed)
                except TimeoutError:
                    if drain_seconds:
                        _log.info("plugin %s has not finished within %g s", self.key, drain_seconds)
            running.transport.close_sending()
            await self._end_by(running, min(drain_seconds, self.context.start_limits.exit_seconds))
        finally:
            self._leaving.discard(running)

    async def _end_by(self, running: RunningPlugin, seconds: float) -> None:
        connection = running.connection
        if not connection.closed.done():
            await asyncio.wait([connection.closed], timeout=seconds)
        connection.abort("the plugin was stopped")
        if running.process is not None:
            await running.process.wait_gone()

    # -- status -----------------------------------------------------------------------------------

    def status(self) -> PluginStatus:
        """Return the current status."""
        current = self._current
        now = self.context.clock()
        process = None if current is None else current.process
        author, _, name = self.key.partition("/")
        log_path = self.context.log_folder / author / f"{name}.log"
        failed = current is None and self.breaker.failures > 0
        return PluginStatus(
            key=self.key,
            source=self.source,
            state=self._state(now),
            version=self._last_version,
            pid=None if process is None else process.pid,
            runners=tuple(sorted(self.context.catalog.of_plugin(self.key))),
            tools=tuple(sorted(self.context.catalog.tools().get(self.key, ()))),
            active_runs=0 if current is None else len(current.connection.active_runs),
            restarts=self.restarts,
            reason=self.breaker.reason if failed else self._slowness(now),
            retry_in_seconds=self.breaker.wait_seconds(now) if failed else None,
            containment=None if current is None else current.containment,
            log_path=log_path if log_path.exists() else None,
            started_at=None if current is None else time.time() - (now - current.started_at),
            warnings=self._warnings,
        )

    def _slowness(self, now: float) -> str | None:
        """Return a message about a slow start, or None."""
        seconds = now - self._starting_since
        if self._starting is None or seconds < self.context.start_limits.slow_seconds:
            return None
        return f"it is still starting, after {seconds:.0f} s"

    def _state(self, now: float) -> str:
        if self._current is not None:
            return "ready"
        if isinstance(self.source, Remote):
            return "disconnected"
        if self.breaker.refuses(now):
            return "failed"
        if self._starting is not None:
            return "starting"
        return "waiting" if self.breaker.failures else "stopped"
