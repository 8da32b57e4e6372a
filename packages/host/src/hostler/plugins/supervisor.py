"""All plugins of one host: added, started on demand, monitored and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import msgspec.structs

from hostler.domain.clock import monotonic_clock
from hostler.plugins.catalog import PluginCatalog
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import PluginContext, RunningPlugin, StartPlugin
from hostler.plugins.discovery import Discovery
from hostler.plugins.environment import Environments
from hostler.plugins.lifecycle import PluginLifecycle
from hostler.plugins.limits import (
    DEFAULT_CONNECTION_LIMITS,
    DEFAULT_PROCESS_LIMITS,
    DEFAULT_START_LIMITS,
    ConnectionLimits,
    ProcessLimits,
    StartLimits,
)
from hostler.plugins.orphans import Register
from hostler.plugins.pins import PluginPins
from hostler.plugins.remote import Channel, RemoteTransport
from hostler.plugins.sandbox_spec import sweep_workspaces
from hostler.plugins.source import (
    Folder,
    PluginSource,
    Remote,
    identity_of,
    is_same_place,
    launch_of,
    place_of,
)
from hostler.plugins.startup import record_pin, start_plugin
from hostler.plugins.status import PluginStatus
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.probe import find_sandbox
from hostler_protocol.errors import ConflictError, HostlerError, NotFoundError, PluginError, PluginStartError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest

log = logging.getLogger(__name__)


FindSandbox = Callable[[], Awaitable[MachineSandbox]]
SWEEP_SECONDS = 5.0
"""How long a start waits for the removal of the workspaces of former plugins."""


def environments_folder(data_dir: Path) -> Path:
    """Return the folder of the Python environments of a data directory's plugins."""
    return data_dir / "plugins" / "environments"


async def _start_error(start: asyncio.Future[PluginConnection], seconds: float | None) -> PluginError | None:
    """Return why a start failed; a start still in progress is not waited for any longer."""
    if not start.done():
        start.cancel()  # only the wait: the start itself continues
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
    """One process per plugin, identified by its key `author/name`.

    `data_dir` holds `plugins/` (environments, records of processes) and `logs/plugins/`; `environments` is
    another folder for the former. `command_prefix` executes every trusted plugin's command; `sandbox` returns
    the sandbox of the others. `pins` knows how the folders of entries were confirmed. `on_demand` returns
    the source of a plugin that nobody added, by its key: it is served once it is needed. `notice` is called
    with (kind, plugin key, text) for the operator.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        containment: str = "auto",
        connection_limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
        process_limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
        start_limits: StartLimits = DEFAULT_START_LIMITS,
        clock: Callable[[], float] = monotonic_clock,
        notice: Callable[[str, str, str], None] = _no_notice,
        environments: Path | None = None,
        command_prefix: tuple[str, ...] = (),
        sandbox: FindSandbox = find_sandbox,
        start: StartPlugin = start_plugin,
        pins: PluginPins | None = None,
        on_demand: Callable[[str], PluginSource | None] = lambda _: None,
    ) -> None:
        self.catalog = PluginCatalog(data_dir / "plugins")
        self._context = PluginContext(
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
            start=start,
            command_prefix=command_prefix,
            pins=pins,
        )
        self.discovery = Discovery(self._context)
        self._on_demand = on_demand
        self._plugins: dict[str, PluginLifecycle] = {}
        self._leaving: dict[asyncio.Task[None], PluginLifecycle] = {}
        """Plugins that were replaced or removed and are finishing their runs."""
        self.on_restart: Callable[[str], None] = lambda _: None
        """Called with the key of a plugin whose processes are to be replaced."""
        self._unexpected: set[str] = set()
        """Remote plugins to forget once their connection ends."""

    def sweep_orphans(self) -> list[int]:
        """Kill plugin processes left by a dead host; call it once, before the first start."""
        self.discovery.sweep()
        return self._context.register.sweep()

    def add(self, source: PluginSource) -> str:
        """Add a plugin; return its key. A folder that is known already keeps its settings.

        Raises PluginStartError if its manifest is wrong, ConflictError if another place has the key.
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
        """Serve a plugin from `source` from now on.

        Active runs finish on their process; later ones start on a new one. It is started when it is needed,
        or by `start_all`.
        """
        known = self._plugins.get(plugin_key)
        if known is not None and known.source == source:
            return
        if known is not None:
            self._retire(known)
        taken = self.discovery.take(plugin_key, source)
        self._plugins[plugin_key] = taken or PluginLifecycle(plugin_key, source, self._context)

    def context_for(self, start: StartPlugin, place: str) -> PluginContext:
        """Return the settings for processes of plugins elsewhere; `start` starts one. `place`: for notices.

        What those offer is not learnt: this host knows its plugins by its own processes.
        """

        def notice(kind: str, plugin_key: str, text: str) -> None:
            self._context.notice(kind, plugin_key, f"{place}: {text}")

        return msgspec.structs.replace(self._context, start=start, notice=notice, catalog=PluginCatalog())

    def source_of(self, plugin_key: str) -> PluginSource | None:
        """Return where a plugin is served from, or None if it is unknown."""
        life = self._plugins.get(plugin_key)
        return None if life is None else life.source

    def expect(self, plugin_key: str) -> None:
        """Allow a remote process of this plugin to dial in; no effect for a known plugin."""
        self._unexpected.discard(plugin_key)
        if plugin_key not in self._plugins:
            self.add(Remote(plugin_key))

    def discard(self, plugin_key: str) -> None:
        """Forget a plugin. Active runs finish on their process, which then ends."""
        life = self._plugins.pop(plugin_key, None)
        if life is not None:
            self._retire(life)
            self.catalog.forget(plugin_key)

    def forget_remote(self, plugin_key: str) -> None:
        """Accept no remote process of this plugin any more; one that is connected stays until it leaves."""
        life = self._plugins.get(plugin_key)
        if life is None or not isinstance(life.source, Remote):
            return
        if life.is_connected or life.is_connecting:
            self._unexpected.add(plugin_key)
        else:
            self.discard(plugin_key)

    async def remove(self, plugin_key: str) -> None:
        """Forget a plugin, and wait until it has finished its runs and ended. Raises NotFoundError."""
        life = self._life(plugin_key)
        self.discard(plugin_key)
        await asyncio.wait([task for task, leaving in self._leaving.items() if leaving is life])

    def _retire(self, life: PluginLifecycle) -> None:
        closing = life.close(self._context.start_limits.drain_seconds)
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
        """Return the connection to start runs on. Raises NotFoundError, or PluginStartError with the
        reason."""
        return await self._life(plugin_key).connection()

    def ready_runner(self, runner_id: str) -> AgentRunnerManifest | None:
        """Return the manifest of a runner whose plugin can start a run at once, without waiting for it."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError:
            return None
        life = self._plugins.get(plugin_key)
        ready = None if life is None else life.ready
        return None if ready is None else ready.runners.get(name)

    async def resolve(self, source: Folder) -> str:
        """Return what the requirements of a folder are resolved to now, as uv's plan. PluginStartError."""
        launch = await asyncio.to_thread(launch_of, source)
        return await self._context.environments.resolve(
            launch.requires, base=launch.cwd, allowed=launch.allow_requires
        )

    async def record_pin(self, plugin_key: str) -> None:
        """Record the folder of a running plugin, as the operator named it. PluginStartError if it changed."""
        life = self._plugins.get(plugin_key)
        if life is not None and life.is_connected and isinstance(life.source, Folder):
            await record_pin(plugin_key, life.source, self._context)

    async def start_all(self, seconds: float | None = None) -> dict[str, PluginError | None]:
        """Start every plugin and keep it running. Return by key why a plugin does not run yet, or None.

        Waits up to `seconds`; a start that takes longer continues and is reported as such.
        """
        for life in self._plugins.values():
            life.keep_running = not isinstance(life.source, Remote)
        local = [life for life in self._plugins.values() if life.keep_running]
        used = frozenset([*self._plugins, *(life.key for life in self._leaving.values())])
        sweep = asyncio.ensure_future(asyncio.to_thread(sweep_workspaces, self._context.workspaces, used))
        await asyncio.wait([sweep], timeout=SWEEP_SECONDS)  # the rest is removed while others start
        starts = {asyncio.ensure_future(life.connection()): life.key for life in local}
        if starts:
            await asyncio.wait(starts, timeout=seconds)
        return {key: await _start_error(start, seconds) for start, key in starts.items()}

    async def restart(self, plugin_key: str) -> None:
        """Replace a plugin's process by one from the current files.

        Raises PluginStartError if that does not start; the old one then stays in use.
        """
        self.on_restart(plugin_key)
        await self._life(plugin_key).restart()

    def replace(self, connection: PluginConnection, why: str) -> None:
        """Start later runs of a plugin on another process than this one, which does not end a run."""
        life = self._plugins.get(connection.expected_key)
        if life is not None:
            life.replace(connection, why)

    async def wait_free(self, run_ids: Collection[str]) -> None:
        """Wait until no plugin works on these runs, which the host has ended; end a process that does."""
        seconds = self._context.connection_limits.leave_seconds
        lives = [*self._plugins.values(), *self._leaving.values()]
        await asyncio.gather(*(life.wait_free(run_ids, seconds) for life in lives))

    async def manifest(self, runner_id: str) -> AgentRunnerManifest:
        """Return a runner's manifest; start its plugin if it was never seen.

        Raises NotFoundError, naming the known ones, or PluginStartError.
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
        """Return the status of each plugin, ordered by key."""
        return [self._plugins[key].status() for key in sorted(self._plugins)]

    async def serve_remote(self, plugin_key: str, channel: Channel) -> None:
        """Serve a remote plugin process until it disconnects. Its token is bound to `plugin_key`.

        Raises ConflictError for a second connection of a plugin, and for a while after many that failed or
        left at once; PluginStartError if the handshake fails.
        """
        self.expect(plugin_key)
        life = self._life(plugin_key)
        if not isinstance(life.source, Remote):
            raise ConflictError(f"plugin {plugin_key} runs on this host; it cannot connect from elsewhere")
        if life.is_connected or life.is_connecting:
            raise ConflictError(f"plugin {plugin_key} is already connected; one connection is allowed")
        if (rest := life.connect_wait_seconds()) > 0:
            reason = life.breaker.reason
            raise ConflictError(f"plugin {plugin_key} failed too often ({reason}): try again in {rest:.0f} s")
        connection = PluginConnection(plugin_key, limits=self._context.connection_limits)
        transport = RemoteTransport(channel, connection)
        life.is_connecting = True
        try:
            async with transport.running():
                try:
                    await connection.open(transport)
                except PluginStartError as error:
                    life.connect_failed(error.message)
                    raise
                if self._plugins.get(plugin_key) is not life:
                    raise ConflictError(f"plugin {plugin_key} was replaced or removed while it connected")
                life.attach(RunningPlugin(connection, transport, self._context.clock()))
                life.is_connecting = False
                await asyncio.shield(connection.closed)
        finally:
            life.is_connecting = False
            connection.abort("the connection was closed")
            if plugin_key in self._unexpected:
                self._unexpected.discard(plugin_key)
                self.forget_remote(plugin_key)

    async def close(self, drain_seconds: float | None = None) -> None:
        """End all plugins; let them finish their runs for `drain_seconds`."""
        seconds = self._context.start_limits.drain_seconds if drain_seconds is None else drain_seconds
        await self.discovery.close()
        lives, leaving = [*self._plugins.values(), *self._leaving.values()], list(self._leaving)
        await asyncio.gather(*(life.close(seconds) for life in lives))
        if leaving:
            await asyncio.wait(leaving)

    def _life(self, plugin_key: str) -> PluginLifecycle:
        if plugin_key not in self._plugins and (source := self._on_demand(plugin_key)) is not None:
            self.put(plugin_key, source)
        life = self._plugins.get(plugin_key)
        if life is None:
            known = ", ".join(sorted(self._plugins)) or "none"
            raise NotFoundError(f"there is no plugin {plugin_key}; known are: {known}")
        return life
