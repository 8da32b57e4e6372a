"""The world outside of the hosts: services that count what is asked of them, and a log of what happened.

A request goes on when its caller is killed: it arrives, has its effect, and nobody hears the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hostler.simulation.latency import Latency
from hostler.simulation.loop import SimulatedLoop, SimulatedProcess, current_process


class ServiceError(Exception):
    """The service answered with an error, or its answer was lost."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One arrival of a tool's request. `made`: it had an effect, rather than the answer of an earlier one."""

    at: float
    serial: int
    tool: str
    key: str
    run: str
    call: str
    text: str
    made: bool


@dataclass(eq=False)
class Outside:
    """The services of one life."""

    loop: SimulatedLoop
    process: SimulatedProcess
    latency: Latency
    effects: list[Effect] = field(default_factory=list)
    notes: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    """(time, kind, data): what clients and runners saw, in order."""
    fault: Callable[[str], str | None] = lambda _: None
    """Kind of request -> "lost" (the answer never comes), "error", "late", or None."""
    watchers: list[Callable[[str, str, SimulatedProcess | None], None]] = field(default_factory=list)
    """Called with the kind of a request, its stage ("asked", "arrived", "done") and who made it."""
    _by_key: dict[str, int] = field(default_factory=dict)

    def note(self, kind: str, **data: Any) -> None:
        """Write a line of the log."""
        self.notes.append((self.loop.time(), kind, data))

    async def effect(self, **request: Any) -> Any:
        """Ask a tool's service to do something; return {"serial": number of the effect}."""
        return await self.ask("tool", lambda: self._effect(**request))

    async def look(self, key: str) -> Any:
        """Return the outcome recorded under an effect key, or None."""
        return await self.ask("look", lambda: None if (s := self._by_key.get(key)) is None else {"serial": s})

    def _effect(self, *, tool: str, key: str, run: str, call: str, text: str, once: bool) -> Any:
        known = self._by_key.get(key) if once else None
        serial = len(self.effects) + 1 if known is None else known
        self.effects.append(Effect(self.loop.time(), serial, tool, key, run, call, text, known is None))
        self._by_key.setdefault(key, serial)
        return {"serial": serial}

    def _reached(self, kind: str, stage: str, caller: SimulatedProcess | None) -> None:
        for watch in list(self.watchers):
            watch(kind, stage, caller)

    async def ask(self, kind: str, work: Callable[[], Any]) -> Any:
        """Have `work` done by a service, after the time of a message there; wait for its answer."""
        caller = current_process()
        here = (caller or self.loop.outside).context()
        answer: asyncio.Future[Any] = self.loop.create_future()
        fault = self.fault(kind)
        self._reached(kind, "asked", caller)

        def settle(value: Any) -> None:
            if not answer.done():
                if isinstance(value, Exception):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)

        def arrive() -> None:
            self._reached(kind, "arrived", caller)
            if fault == "error":
                value: Any = ServiceError("the service refuses")
            else:
                value = work()
            self._reached(kind, "done", caller)
            if fault != "lost":
                wait = self.latency.network() * (1000 if fault == "late" else 1)
                self.loop.call_later(wait, settle, value, context=here)

        self.loop.call_later(self.latency.network(), arrive, context=self.process.context())
        return await answer


_current: list[Outside] = []


def outside() -> Outside:
    """Return the outside of the life that is lived in this interpreter."""
    return _current[-1]


def set_outside(current: Outside) -> None:
    """Begin a life."""
    _current.append(current)
