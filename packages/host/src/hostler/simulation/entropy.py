"""Time, chance and file locks of a simulated world, in place of the operating system's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from hostler.simulation.locks import FileLocks
from hostler.simulation.loop import SimulatedLoop, current_process

EPOCH = 1_790_000_000.0
"""The wall clock at the beginning of each world, in UTC epoch seconds."""
UPTIME = 1_000.0
"""The monotonic clock at the beginning of each world."""


class Chance:
    """Independent streams of random numbers of one seed, by name.

    What one part of a world draws does not change what another one draws.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the stream of a name, the same object each time."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(f"{self.seed}/{name}")  # noqa: S311
        return stream


class _World:
    """Time and chance of a world. Each process draws from its own stream and has its machine's clock."""

    def __init__(self, loop: SimulatedLoop, chance: Chance) -> None:
        self._loop = loop
        self._chance = chance

    def wall(self) -> float:
        process = current_process()
        return EPOCH + self._loop.time() + (0.0 if process is None else process.clock.ahead)

    def monotonic(self) -> float:
        return UPTIME + self._loop.time()

    def urandom(self, size: int) -> bytes:
        process = current_process()
        name = "outside" if process is None else process.name
        return self._chance.stream(f"entropy of {name}").randbytes(size)

    def random(self) -> float:
        return self._chance.stream("random").random()


@contextlib.contextmanager
def simulated_machine(loop: SimulatedLoop, chance: Chance) -> Iterator[None]:
    """Let `time`, `os.urandom`, `random` and `fcntl.flock` of this interpreter be those of a world.

    The host reads them through `hostler.domain.clock`, at each call.
    """
    world = _World(loop, chance)

    def sleep(seconds: float) -> None:
        raise RuntimeError(f"a simulated process blocks its thread for {seconds} s")

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (time, "time", world.wall),
        (time, "time_ns", lambda: round(world.wall() * 1e9)),
        (time, "monotonic", world.monotonic),
        (time, "monotonic_ns", lambda: round(world.monotonic() * 1e9)),
        (time, "perf_counter", world.monotonic),
        (time, "sleep", sleep),
        (os, "urandom", world.urandom),
        (random, "_urandom", world.urandom),
        (random, "random", world.random),
        (fcntl, "flock", FileLocks(fcntl.flock).flock),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, instead in replaced:
        setattr(module, name, instead)
    random.seed(f"{chance.seed}/random")  # the generator behind the other functions of the module
    try:
        yield
    finally:
        for module, name, original in before:
            setattr(module, name, original)
