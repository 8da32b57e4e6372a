"""A world of one seed: machines with disks, and hosts on them that can be killed, frozen and asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import msgspec.structs

from hostler.host.config import Settings
from hostler.host.host import Host
from hostler.host.machine import THIS_MACHINE, Machine
from hostler.simulation.database import SimulatedDatabase
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.entropy import Chance, simulated_machine
from hostler.simulation.filters import SimulatedFilters
from hostler.simulation.latency import Latency
from hostler.simulation.loop import Clock, SimulatedLoop, SimulatedProcess, current_process
from hostler.simulation.plugins import LoadPlugin, SimulatedPlugins
from hostler_protocol.errors import UnavailableError

T = TypeVar("T")


class HostGoneError(UnavailableError):
    """The host did not answer: it was killed, or is not up. Whether it did what was asked is unknown."""


class World:
    """Everything of one life. Use `run`.

    `tell` is called with the name of a host and what happened to it. `machine`: the parts of all hosts; each
    has a database and plugins of its own.
    """

    def __init__(
        self,
        seed: str,
        load: LoadPlugin,
        tell: Callable[[str, str], None] = lambda _host, _what: None,
        *,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self.tell = tell
        self.machine = machine
        self.chance = Chance(seed)
        self.loop = SimulatedLoop(lambda process: self._latency(process).thread())
        self.plugins = SimulatedPlugins(self.loop, self.chance, self.process, load)
        self.processes: list[SimulatedProcess] = []
        self.filters_broken = False
        """Whether no process can evaluate a filter now."""
        self._latencies: dict[str, Latency] = {}

    def process(self, name: str, clock: Clock | None = None) -> SimulatedProcess:
        """Start an empty process, on a machine of its own unless a clock is given."""
        process = SimulatedProcess(self.loop, name, clock)
        self.processes.append(process)
        return process

    def _latency(self, process: SimulatedProcess) -> Latency:
        found = self._latencies.get(process.name)
        if found is None:
            found = self._latencies[process.name] = Latency(self.chance.stream(f"speed of {process.name}"))
        return found

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Live until `work`, which belongs to no process, has ended."""
        with simulated_machine(self.loop, self.chance):
            asyncio.events.set_event_loop(self.loop)
            try:
                return self.loop.run_until_complete(work)
            finally:
                asyncio.events.set_event_loop(None)


class SimulatedHost:
    """One host: its data directory and its disk outlive its processes."""

    def __init__(
        self, world: World, name: str, settings: Settings, disk: SimulatedDisk, *, shared: bool
    ) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.disk = disk
        self.shared = shared
        self.clock = Clock()
        self.process: SimulatedProcess | None = None
        self.host: Host | None = None
        self.failed: BaseException | None = None
        """Why the last process ended, if it did so by itself with an error."""
        self.starts = 0
        self.at_commit: list[Callable[[], None]] = []
        """Called after each of its commits, before it hears of it itself: the moment to kill it."""
        self._stop = asyncio.Event()

    @property
    def up(self) -> bool:
        """Whether it accepts requests, frozen or not."""
        return self.process is not None and self.process.alive and self.host is not None

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end in order, and still lives."""
        return self.up and self._stop.is_set()

    def start(self) -> None:
        """Start a process, unless one lives."""
        if self.process is not None and self.process.alive:
            return
        self.starts += 1
        self._stop = asyncio.Event()
        self.host, self.failed = None, None
        self.world.tell(self.name, "starts")
        self.process = self.world.process(f"{self.name}.{self.starts}", self.clock)
        self.process.spawn(self._main(self.process))

    async def _main(self, process: SimulatedProcess) -> None:
        latency = Latency(self.world.chance.stream(f"database of {process.name}"))

        def open_database(_: str) -> SimulatedDatabase:
            return SimulatedDatabase(self.disk, latency, shared=self.shared, on_commit=self._committed)

        machine = msgspec.structs.replace(
            self.world.machine,
            open_database=open_database,
            start_plugin=self.world.plugins.start,
            open_filters=lambda: SimulatedFilters(
                Latency(self.world.chance.stream(f"filters of {process.name}")),
                lambda: self.world.filters_broken,
            ),
        )
        try:
            async with Host.open(self.settings, machine=machine) as host:
                self.host = host
                self.world.tell(self.name, "is up")
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001  what ends a process: kept for the judges
            self.failed = error
            self.world.tell(self.name, f"ended by itself: {type(error).__name__}: {error}")
        else:
            self.world.tell(self.name, "has stopped in order")
        self.host = None
        process.kill()

    def _committed(self) -> None:
        for call in list(self.at_commit):
            call()

    def stop(self) -> None:
        """Ask it to end in order."""
        self._stop.set()

    def kill(self) -> None:
        """End its process and those of its plugins at once."""
        if self.process is not None and self.process.alive:
            self.process.kill()
            self.world.tell(self.name, "is killed")
        self.host = None

    def lose_power(self) -> int:
        """Kill it, and lose commits that were not synced; return how many."""
        self.kill()
        lost = self.disk.lose_power(self.world.chance.stream(f"power of {self.name}"))
        self.world.tell(self.name, f"lost power, and the newest {lost} commits that were not synced")
        return lost

    def freeze(self) -> None:
        """Stop its process; its plugins go on."""
        if self.process is not None:
            self.process.freeze()
            self.world.tell(self.name, "is frozen")

    def thaw(self) -> None:
        """Let its process go on."""
        if self.process is not None and self.process.frozen:
            self.world.tell(self.name, "is thawed")
            self.process.thaw()

    async def ask(self, work: Callable[[Host], Awaitable[T]], seconds: float = 30.0) -> T:
        """Have the host do something, as a request over a network does; HostGoneError if no answer comes."""
        process = self.process
        if process is None or not self.up:
            raise HostGoneError(f"{self.name} is not up")
        request = _Request(self, process, work)
        process.at_death.append(request.host_died)
        try:
            async with asyncio.timeout(seconds):
                return await request.answer
        except TimeoutError:
            request.hang_up()
            raise HostGoneError(f"{self.name} did not answer within {seconds:g} s") from None
        finally:
            with contextlib.suppress(ValueError):
                process.at_death.remove(request.host_died)


class _Request(Generic[T]):
    """A request on its way, at work in the host's process, or answered."""

    def __init__(
        self, host: SimulatedHost, process: SimulatedProcess, work: Callable[[Host], Awaitable[T]]
    ) -> None:
        self.answer: asyncio.Future[T] = host.world.loop.create_future()
        self._host = host
        self._work = work
        self._handler: asyncio.Task[T] | None = None
        self._loop = host.world.loop
        self._latency = Latency(host.world.chance.stream("network"))
        self._asker = (current_process() or self._loop.outside).context()
        self._process = process
        self._loop.call_later(self._latency.network(), self._arrive, context=process.context())

    def _arrive(self) -> None:
        self._handler = self._loop.create_task(self._handle())
        self._handler.add_done_callback(self._done)

    async def _handle(self) -> T:
        host = self._host.host
        if host is None:
            raise HostGoneError(f"{self._host.name} is not up")
        return await self._work(host)

    def _done(self, handler: asyncio.Task[T]) -> None:
        self._loop.call_later(self._latency.network(), self._settle, handler, context=self._asker)

    def _settle(self, handler: asyncio.Task[T]) -> None:
        if self.answer.done():
            return
        if handler.cancelled():
            self.answer.set_exception(HostGoneError(f"{self._host.name} gave the request up"))
        elif (error := handler.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(handler.result())

    def host_died(self) -> None:
        """Let the asker notice, after a while, that its connection is gone."""
        self._loop.call_later(self._latency.network(), self._gone, context=self._asker)

    def _gone(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(HostGoneError(f"{self._host.name} is gone"))

    def hang_up(self) -> None:
        """Close the connection: the host notices, and cancels its handler."""
        if self._handler is not None:
            self._loop.call_later(
                self._latency.network(), self._handler.cancel, context=self._process.context()
            )
