"""All plugins of one host: added, started on demand, watched and ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from hostler.plugins.catalog import Catalog
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import PluginContext
from hostler.plugins.discovery import Discovery
from hostler.plugins.environment import Environments
from hostler.plugins.lifecycle import PluginLifecycle, Running
from hostler.plugins.limits import (
    DEFAULT_CONNECTION_LIMITS,
    DEFAULT_PROCESS_LIMITS,
    DEFAULT_START_LIMITS,
    ConnectionLimits,
    ProcessLimits,
    StartLimits,
)
from hostler.plugins.orphans import Register
from hostler.plugins.remote import Channel, RemoteTransport
from hostler.plugins.sandbox_spec import sweep_workspaces
from hostler.plugins.source import PluginSource, Remote, identity_of, is_same_place, place_of
from hostler.plugins.status import PluginStatus
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.probe import find_sandbox
from hostler_protocol.errors import ConflictError, HostlerError, NotFoundError, PluginError, PluginStartError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest

log = logging.getLogger(__name__)


SWEEP_SECONDS = 5.0
"""How long a start waits until the workspaces of plugins that are gone are removed."""


def environments_folder(data_dir: Path) -> Path:
    """Where the Python environments of a data directory's plugins lie."""
    return data_dir / "plugins" / "environments"


async def _start_error(start: asyncio.Future[PluginConnection], seconds: float | None) -> PluginError | None:
    """Why a start that was waited for came to nothing; one that goes on is not waited for any more."""
    if not start.done():
        start.cancel()  # the waiting alone: the start itself goes on
        await asyncio.wait([start])
        return PluginStartError(f"it is still starting after {seconds:g} s; the others go on without it")
    error = start.exception()
    if error is None or isinstance(error, PluginError):
        return error
    if isinstance(error, HostlerError):
        return PluginStartError(error.message)
    raise error


def _no_notice(kind: str, plugin_key: str, text: str) -> None:
    pass


class Supervisor:
    """One process per plugin, each known by its key `author/name`.

    `data_dir` holds `plugins/` (environments, the register of processes) and `logs/plugins/`; `environments`
    is another folder for the former. `command_prefix` executes every trusted plugin's command; `sandbox` is
    where the others start.
    `notice` is told of what an operator wants to know: `(kind, plugin key, text)`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        containment: str = "auto",
        connection_limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
        process_limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
        start_limits: StartLimits = DEFAULT_START_LIMITS,
        clock: Callable[[], float] = time.monotonic,
        notice: Callable[[str, str, str], None] = _no_notice,
        environments: Path | None = None,
        command_prefix: tuple[str, ...] = (),
        sandbox: Callable[[], Awaitable[MachineSandbox]] = find_sandbox,
    ) -> None:
        self.catalog = Catalog(data_dir / "plugins" / "runners.json")
        self._around = PluginContext(
            log_folder=data_dir / "logs" / "plugins",
            register=Register(data_dir / "plugins" / "processes"),
            environments=Environments(environments or environments_folder(data_dir), start_limits),
            catalog=self.catalog,
            containment=containment,
            connection_limits=connection_limits,
            process_limits=process_limits,
            start_limits=start_limits,
            clock=clock,
            notice=notice,
            data_dir=data_dir.resolve(),
            sandbox=sandbox,
            command_prefix=command_prefix,
        )
        self.discovery = Discovery(self._around)
        self._plugins: dict[str, PluginLifecycle] = {}
        self._leaving: dict[asyncio.Task[None], PluginLifecycle] = {}
        """Plugins that were replaced or removed, and still finish their runs."""
        self._unexpected: set[str] = set()
        """Remote plugins that are forgotten once their connection ends."""

    def sweep_orphans(self) -> list[int]:
        """Kill plugin processes that a dead host left behind; call it once, before the first start."""
        self.discovery.sweep()
        return self._around.register.sweep()

    def add(self, source: PluginSource) -> str:
        """Make a plugin known; its key. A folder that is known already keeps the settings that it has.

        PluginStartError where its manifest is wrong; ConflictError where another place has the key.
        """
        key = identity_of(source).key
        known = self._plugins.get(key)
        if known is None or isinstance(known.source, Remote):
            self.put(key, source)
        elif not is_same_place(known.source, source):
            raise ConflictError(
                f"plugin {key} is served from {place_of(known.source)}, and {place_of(source)} says that it "
                f"is {key} too: give one of them another name in its hostler.yaml, or remove the first with "
                f"`hostler plugins remove {key}`"
            )
        return key

    def put(self, plugin_key: str, source: PluginSource) -> None:
        """Serve a plugin from `source` from here on.

        Runs at work finish on the process that they have; the next ones start on a new one. It is not started
        before it is needed, or `start_all` is called.
        """
        known = self._plugins.get(plugin_key)
        if known is not None and known.source == source:
            return
        if known is not None:
            self._retire(known)
        taken = self.discovery.take(plugin_key, source)
        self._plugins[plugin_key] = taken or PluginLifecycle(plugin_key, source, self._around)

    def source_of(self, plugin_key: str) -> PluginSource | None:
        """Where a plugin is served from; None where it is not known."""
        life = self._plugins.get(plugin_key)
        return None if life is None else life.source

    def expect(self, plugin_key: str) -> None:
        """A remote process of this plugin may dial in; changes nothing for a plugin that is known."""
        self._unexpected.discard(plugin_key)
        if plugin_key not in self._plugins:
            self.add(Remote(plugin_key))

    def discard(self, plugin_key: str) -> None:
        """Forget a plugin. Runs at work finish on the process that they have, which then ends."""
        life = self._plugins.pop(plugin_key, None)
        if life is not None:
            self._retire(life)
            self.catalog.forget(plugin_key)

    def forget_remote(self, plugin_key: str) -> None:
        """Expect no remote process of this plugin any more; one that is connected stays until it leaves."""
        life = self._plugins.get(plugin_key)
        if life is None or not isinstance(life.source, Remote):
            return
        if life.is_connected or life.is_connecting:
            self._unexpected.add(plugin_key)
        else:
            self.discard(plugin_key)

    async def remove(self, plugin_key: str) -> None:
        """Forget a plugin, and wait until it has finished its runs and is gone. NotFoundError."""
        life = self._life(plugin_key)
        self.discard(plugin_key)
        await asyncio.wait([task for task, leaving in self._leaving.items() if leaving is life])

    def _retire(self, life: PluginLifecycle) -> None:
        closing = life.close(self._around.start_limits.drain_seconds)
        task = asyncio.get_running_loop().create_task(closing, name=f"plugin {life.key} leaves")
        self._leaving[task] = life
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        life = self._leaving.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("plugin %s was not ended in order", life.key, exc_info=error)

    def __contains__(self, plugin_key: str) -> bool:
        return plugin_key in self._plugins

    async def connection(self, plugin_key: str) -> PluginConnection:
        """The connection to start runs on. NotFoundError; PluginStartError with the reason."""
        return await self._life(plugin_key).connection()

    async def start_all(self, seconds: float | None = None) -> dict[str, PluginError | None]:
        """Start every plugin and keep it running from here on; by key, why one does not run yet.

        `seconds`: how long to wait. What takes longer goes on starting, and is told of as such.
        """
        for life in self._plugins.values():
            life.keep_running = not isinstance(life.source, Remote)
        local = [life for life in self._plugins.values() if life.keep_running]
        used = frozenset([*self._plugins, *(life.key for life in self._leaving.values())])
        sweep = asyncio.ensure_future(asyncio.to_thread(sweep_workspaces, self._around.workspaces, used))
        await asyncio.wait([sweep], timeout=SWEEP_SECONDS)  # much of it is removed while others start
        starts = {asyncio.ensure_future(life.connection()): life.key for life in local}
        if starts:
            await asyncio.wait(starts, timeout=seconds)
        return {key: await _start_error(start, seconds) for start, key in starts.items()}

    async def restart(self, plugin_key: str) -> None:
        """Replace a plugin's process by one from the files as they are now.

        PluginStartError where that does not come up; the old one then goes on.
        """
        await self._life(plugin_key).restart()

    def replace(self, connection: PluginConnection, why: str) -> None:
        """Start the next runs of a plugin on another process than this one, which does not end a run."""
        life = self._plugins.get(connection.expected_key)
        if life is not None:
            life.replace(connection, why)

    async def wait_free(self, run_ids: Collection[str]) -> None:
        """Wait until no plugin works on these runs, which the host has ended; end a process that does."""
        seconds = self._around.connection_limits.leave_seconds
        await asyncio.gather(*(life.wait_free(run_ids, seconds) for life in self._plugins.values()))

    async def manifest(self, runner_id: str) -> AgentRunnerManifest:
        """What a runner says of itself; starts its plugin where it was never seen.

        NotFoundError, naming what there is; PluginStartError.
        """
        known = self.catalog.find(runner_id)
        if known is not None:
            return known
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError as error:
            raise NotFoundError(str(error)) from error
        runners = (await self.connection(plugin_key)).runners
        if name not in runners:
            offered = ", ".join(sorted(runners)) or "none"
            raise NotFoundError(f"plugin {plugin_key} has no runner {name!r}; its runners are: {offered}")
        return runners[name]

    def status(self) -> list[PluginStatus]:
        """How each plugin stands, by key."""
        return [self._plugins[key].status() for key in sorted(self._plugins)]

    async def serve_remote(self, plugin_key: str, channel: Channel) -> None:
        """Speak with a remote plugin process until it is gone. `plugin_key` is what its token is bound to.

        ConflictError for a second connection of the same plugin; PluginStartError where the handshake fails.
        """
        self.expect(plugin_key)
        life = self._life(plugin_key)
        if not isinstance(life.source, Remote):
            raise ConflictError(f"plugin {plugin_key} runs on this host; it cannot connect from elsewhere")
        if life.is_connected or life.is_connecting:
            raise ConflictError(f"plugin {plugin_key} is already connected; one connection is allowed")
        connection = PluginConnection(plugin_key, limits=self._around.connection_limits)
        transport = RemoteTransport(channel, connection)
        life.is_connecting = True
        try:
            async with transport.running():
                await connection.open(transport)
                if self._plugins.get(plugin_key) is not life:
                    raise ConflictError(f"plugin {plugin_key} was replaced or removed while it connected")
                life.attach(Running(connection, transport, self._around.clock()))
                life.is_connecting = False
                await asyncio.shield(connection.closed)
        finally:
            life.is_connecting = False
            connection.abort("the connection was closed")
            if plugin_key in self._unexpected:
                self._unexpected.discard(plugin_key)
                self.forget_remote(plugin_key)

    async def close(self, drain_seconds: float | None = None) -> None:
        """End all plugins: they may finish their runs for so long, then nothing of them is left."""
        seconds = self._around.start_limits.drain_seconds if drain_seconds is None else drain_seconds
        await self.discovery.close()
        lives, leaving = [*self._plugins.values(), *self._leaving.values()], list(self._leaving)
        await asyncio.gather(*(life.close(seconds) for life in lives))
        if leaving:
            await asyncio.wait(leaving)

    def _life(self, plugin_key: str) -> PluginLifecycle:
        life = self._plugins.get(plugin_key)
        if life is None:
            known = ", ".join(sorted(self._plugins)) or "none"
            raise NotFoundError(f"there is no plugin {plugin_key}; known are: {known}")
        return life
