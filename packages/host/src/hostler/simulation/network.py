"""The network of a simulated world: names, addresses, and connections between machines.

The host's own HTTP clients work over it, down to their pools of connections and their parsers. TLS is left
out: what a client encrypts is passed on as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from typing import Any

from hostler.domain.record import Record
from hostler.egress.addresses import IPAddress
from hostler.simulation.entropy import Chance
from hostler.simulation.latency import Latency
from hostler.simulation.loop import SimulatedLoop, SimulatedProcess, current_process
from hostler.simulation.wire import Stream

FIRST_ADDRESS = IPv4Address("93.184.215.1")
"""A public one, since others are refused."""
NETWORK_SCALE = 10.0
"""Between two machines a message takes so much longer than between two processes of one."""
UNANSWERED_SECONDS = 60.0
"""A connection that nobody answers is given up after this time, unless its client says otherwise."""


class Listener(Record):
    """Where connections to a name arrive. `ill`: "down" (refused), "silent" (never answered), or None."""

    name: str
    process: SimulatedProcess
    accept: Callable[[ServerEnd], None]
    ill: Callable[[], str | None]


class SimulatedNetwork:
    """See `hostler.egress.Network`. `listen` lets a process of the world serve a name."""

    def __init__(self, loop: SimulatedLoop, chance: Chance) -> None:
        self.loop = loop
        self.chance = chance
        self.latency = Latency(chance.stream("connections"))
        self._listeners: dict[str, Listener] = {}
        self._addresses: dict[str, IPAddress] = {}

    def listen(
        self,
        name: str,
        process: SimulatedProcess,
        accept: Callable[[ServerEnd], None],
        ill: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Let connections to a name arrive at a process. See `Listener`."""
        address = FIRST_ADDRESS + len(self._addresses)
        self._addresses[name] = address
        self._listeners[str(address)] = Listener(name, process, accept, ill)

    async def resolve(self, host: str, port: int) -> Sequence[IPAddress]:
        """See `Network`."""
        await asyncio.sleep(self.latency.network())
        if host not in self._addresses:
            raise OSError(f"there is no name {host}:{port}")
        return [self._addresses[host]]

    def backend(self, core: Any) -> Any:
        """See `Network`."""
        return _Backend(self, core)

    def listener(self, address: str) -> Listener:
        """Return who listens at an address."""
        return self._listeners[address]


class _Backend(Record):
    """What httpcore connects with. `core`: the module whose errors it knows."""

    network: SimulatedNetwork
    core: Any

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *_: Any) -> Any:  # noqa: ASYNC109  httpcore's own signature
        await asyncio.sleep(self.network.latency.network())
        listener = self.network.listener(host)
        match listener.ill():
            case "down":
                raise self.core.ConnectError("connection refused")
            case "silent":
                await asyncio.sleep(UNANSWERED_SECONDS if timeout is None else timeout)
                raise self.core.ConnectTimeout
        return ClientEnd(self.network, self.core, listener)


class ClientEnd:
    """The end of the process that connected; its operating system closes it when the process is killed."""

    def __init__(self, network: SimulatedNetwork, core: Any, listener: Listener) -> None:
        process = current_process()
        if process is None:
            raise RuntimeError("a connection is made by a simulated process")
        self.process = process
        self._core = core
        self._chance = network.chance.stream(f"connections of {process.name}")
        self.sent_at = 0.0
        """When it last sent something."""
        self._unread = bytearray()
        self._over: str | None = None
        """Why nothing more arrives: "ended" or "reset"."""
        self._closed = False
        self._arrived = asyncio.Event()
        latency = Latency(self._chance, NETWORK_SCALE)
        self.server = ServerEnd(self, self._chance)
        self._out = Stream(
            network.loop, listener.process, latency, self.server.arrives, self.server.client_left
        )
        self.server.out = Stream(network.loop, process, latency, self._arrives, self._ends)
        process.at_death.append(self._die)
        network.loop.call_soon(listener.accept, self.server, context=listener.process.context())

    def _arrives(self, data: bytes) -> None:
        self._unread += data
        self._arrived.set()

    def _ends(self) -> None:
        self._over = "reset" if self.server.was_reset else "ended"
        self._arrived.set()

    def _die(self) -> None:
        self._out.cut(self._chance)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  httpcore's
        """Return what has arrived, or wait for it; nothing at the end."""
        try:
            async with asyncio.timeout(timeout):
                while not self._unread and self._over is None:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise self._core.ReadTimeout from None
        if not self._unread and self._over == "reset":
            raise self._core.ReadError("connection reset by peer")
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  httpcore's
        """Send bytes."""
        if self._closed or self._over == "reset":
            raise self._core.WriteError("broken pipe")
        self.sent_at = self.process.loop.time()
        self._out.write(buffer, self._chance)

    async def aclose(self) -> None:
        """Close the connection: the server sees its end."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(ValueError):
                self.process.at_death.remove(self._die)
            self._out.close()

    async def start_tls(self, *_: Any, **__: Any) -> ClientEnd:
        """Return itself: nobody listens in."""
        return self

    def get_extra_info(self, info: str) -> Any:
        """Say whether something has arrived; nothing else is known."""
        return bool(self._unread or self._over) if info == "is_readable" else None


class ServerEnd:
    """The end of the process that listens. Set `received` and `left` when it is accepted."""

    def __init__(self, client: ClientEnd, chance: Any) -> None:
        self.client = client
        self.was_reset = False
        self.out: Stream
        self.received: Callable[[bytes], None] = lambda _: None
        self.left: Callable[[], None] = lambda: None
        """Called when the client has closed its end, or is gone."""
        self._chance = chance

    def arrives(self, data: bytes) -> None:
        """Take what the client sent."""
        self.received(data)

    def client_left(self) -> None:
        """Take note that the client has left."""
        self.left()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.out.write(data, self._chance)

    def close(self) -> None:
        """Close the connection after what was sent."""
        self.out.close()

    def reset(self) -> None:
        """Break the connection; some of what was sent last may be lost."""
        self.was_reset = True
        self.out.cut(self._chance)
