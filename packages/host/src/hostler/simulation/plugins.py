"""Plugin processes of a simulated world: the real SDK on one side, the real connection on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import OnViolation, PluginContext, RunningPlugin
from hostler.plugins.source import Folder, SingleFile
from hostler.plugins.stdio import LOW_MARK_BYTES
from hostler.simulation.entropy import Chance
from hostler.simulation.latency import Latency
from hostler.simulation.loop import Clock, SimulatedLoop, SimulatedProcess, current_process
from hostler.simulation.wire import Stream
from hostler_protocol.errors import PluginCrashedError, PluginStartError
from hostler_sdk.client import HostConnection
from hostler_sdk.loading import PluginLoadError
from hostler_sdk.plugin import Plugin
from hostler_sdk.stdio import WRITE_BUFFER_BYTES

LoadPlugin = Callable[[str, Folder | SingleFile], Plugin]
"""Loads the code of a plugin by its key, as a new process would. Raises PluginLoadError."""


class Tap:
    """Sees what hosts and plugins say to each other, and may keep it from them. This one does nothing."""

    def host_sends(self, life: PluginLife, messages: Sequence[bytes]) -> Sequence[bytes]:
        """Return the messages that go on their way to the plugin."""
        return messages

    def plugin_reads(self, life: PluginLife, data: bytes) -> None:
        """Called before the plugin gets bytes, cut anywhere."""

    def plugin_sends(self, life: PluginLife, data: bytes) -> bytes:
        """Return the bytes that go on their way to the host."""
        return data


class _HostEnd:
    """The host's transport. See `hostler.plugins.transport.Transport`."""

    def __init__(self, process: PluginLife, to_plugin: Stream) -> None:
        self._process = process
        self._to_plugin = to_plugin

    @property
    def unsent_bytes(self) -> int:
        return self._to_plugin.unread

    def send(self, messages: Sequence[bytes]) -> None:
        messages = self._process.tap.host_sends(self._process, messages)
        self._to_plugin.write(b"".join(messages), self._process.chance)

    def pause_reading(self) -> None:
        self._process.from_plugin.pause()

    def resume_reading(self) -> None:
        self._process.from_plugin.resume()

    def close_sending(self) -> None:
        self._to_plugin.close()

    def abort(self) -> None:
        self._process.process.kill()


class _PluginEnd:
    """The SDK's transport."""

    def __init__(self, process: PluginLife) -> None:
        self._process = process
        self._room = asyncio.Event()
        self._room.set()

    def write(self, data: bytes) -> None:
        data = self._process.tap.plugin_sends(self._process, data)
        self._process.from_plugin.write(data, self._process.chance)
        if self._process.from_plugin.unread > WRITE_BUFFER_BYTES:
            self._room.clear()

    async def drain(self) -> None:
        await self._room.wait()

    def read(self) -> None:
        if self._process.from_plugin.unread <= WRITE_BUFFER_BYTES // 4:
            self._room.set()


class PluginLife:
    """One process of a plugin, with its two pipes."""

    def __init__(self, plugins: SimulatedPlugins, host: SimulatedProcess, name: str) -> None:
        self._plugins = plugins
        self.process = plugins.processes(name, host.clock)
        self.tap = plugins.tap
        self.chance = plugins.chance.stream(f"pipes of {name}")
        self.connection: PluginConnection | None = None
        self.host = host
        latency = Latency(self.chance)
        loop = self.process.loop
        self._sdk: HostConnection | None = None
        self.to_plugin = Stream(loop, self.process, latency, self._plugin_reads, self._host_left)
        self.from_plugin = Stream(loop, host, latency, self._host_reads, self.left)
        self.to_plugin.on_read = self._sent_some
        self.process.at_death.append(lambda: self.from_plugin.cut(self.chance))
        host.at_death.append(self.process.kill)

    def serve(self, plugin: Plugin) -> None:
        """Run the plugin's code; called in its process."""
        end = _PluginEnd(self)
        self.from_plugin.on_read = end.read
        self._sdk = HostConnection(plugin, end)
        self.process.spawn(self._until_closed(self._sdk))

    async def _until_closed(self, sdk: HostConnection) -> None:
        await sdk.closed.wait()
        await sdk.stopped(1.0)
        self.from_plugin.close()
        self.process.kill()

    def disconnect(self) -> None:
        """Close both pipes; what is on its way may be lost."""
        self.to_plugin.cut(self.chance)
        self.from_plugin.cut(self.chance)

    def _plugin_reads(self, data: bytes) -> None:
        if self._sdk is not None:
            self.tap.plugin_reads(self, data)
            self._sdk.received(data)
        self._plugins.was_read(self)

    def _host_left(self) -> None:
        if self._sdk is not None:
            self._sdk.lost("the host closed standard input")

    def _host_reads(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.bytes_received(data)
        self._plugins.was_read(self)

    def left(self) -> None:
        """Tell the host that the process has ended."""
        if self.connection is not None:
            self.connection.lost(PluginCrashedError("the process ended"))

    def _sent_some(self) -> None:
        if self.connection is not None and self.to_plugin.unread <= LOW_MARK_BYTES:
            connection = self.connection
            self.process.loop.call_soon(connection.sent_some, context=self.host.context())


@dataclass(eq=False)
class SimulatedPlugins:
    """Starts plugins. `processes` makes a simulated process of a name; `lives`: all that were started."""

    loop: SimulatedLoop
    chance: Chance
    processes: Callable[[str, Clock | None], SimulatedProcess]
    load: LoadPlugin
    lives: list[PluginLife] = field(default_factory=list)
    tap: Tap = field(default_factory=Tap)
    at_piece: list[Callable[[PluginLife], None]] = field(default_factory=list)
    """Called after a piece of a stream was read by a plugin or its host."""
    at_start: list[Callable[[PluginLife], None]] = field(default_factory=list)
    """Called when a process is about to be started."""

    def was_read(self, life: PluginLife) -> None:
        """Report that a plugin or its host has read a piece."""
        for call in list(self.at_piece):
            call(life)

    async def start(
        self,
        key: str,
        source: Folder | SingleFile,
        context: PluginContext,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_violation: OnViolation,
    ) -> RunningPlugin:
        """See `hostler.plugins.context.StartPlugin`."""
        host = current_process()
        if host is None:
            raise RuntimeError("a plugin is started by a simulated host")
        life = PluginLife(self, host, f"{host.name}/{key}/{len(self.lives) + 1}")
        self.lives.append(life)
        for call in list(self.at_start):
            call(life)
        await asyncio.sleep(Latency(life.chance).start())
        try:
            plugin = self.load(key, source)
        except PluginLoadError as error:
            raise PluginStartError(str(error), lasting=True) from error
        connection = life.connection = PluginConnection(key, limits=context.connection_limits)
        transport = _HostEnd(life, life.to_plugin)
        if not life.process.alive:  # killed while it started
            life.process.loop.call_soon(life.left, context=host.context())
        life.process.loop.call_soon(life.serve, plugin, context=life.process.context())
        await connection.open(transport)
        return RunningPlugin(connection, transport, context.clock())
