"""The world outside of the hosts: services that count what is asked of them, and a log of what happened.

A request goes on when its caller is killed: it arrives, has its effect, and nobody hears the answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from hostler.simulation.entropy import Chance
from hostler.simulation.latency import Latency
from hostler.simulation.loop import SimulatedLoop, SimulatedProcess, current_process
from simulation.square import Square

HUNG_SECONDS = 60.0
"""After this time a connection whose other side says nothing breaks."""
LATE_SECONDS = (1.0, 30.0)


class ServiceError(Exception):
    """The service answered with an error, or not at all. `status`: of its answer; None: there was none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Effect:
    """One arrival of a tool's request. `made`: it had an effect, rather than the answer of an earlier one.

    `sent`: when the request went off, if that is known.
    """

    at: float
    serial: int
    tool: str
    key: str
    run: str
    call: str
    text: str
    made: bool
    sent: float | None = None


@dataclass(eq=False)
class Ill:
    """A service that fails for a while; `share`: of its requests. `kind`:

        down      no connection is made
        status N  it refuses
        hang      nothing is done, and no answer comes
        lost      it is done, and no answer comes
        torn      it is done, and the connection breaks
        late      it is done, and answered late
        lie       a look-up denies what happened

    http_service.py has more.
    """

    service: str
    kind: str
    share: float


@dataclass(eq=False)
class Outside:
    """The services of one life."""

    loop: SimulatedLoop
    process: SimulatedProcess
    latency: Latency
    chance: Chance
    effects: list[Effect] = field(default_factory=list)
    notes: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    """(time, kind, data): what clients and runners saw, in order."""
    ills: list[Ill] = field(default_factory=list)
    """What is wrong now."""
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many requests of each service there were."""
    watchers: list[Callable[[str, str, SimulatedProcess | None], None]] = field(default_factory=list)
    """Called with the service of a request, its stage ("asked", "arrived", "done") and who made it."""
    square: Square = field(default_factory=Square)
    _by_key: dict[str, int] = field(default_factory=dict)

    at_note: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the kind of each line of the log."""

    def note(self, kind: str, **data: Any) -> None:
        """Write a line of the log."""
        for call in list(self.at_note):
            call(kind)
        self.notes.append((self.loop.time(), kind, data))

    def fault(self, service: str) -> str | None:
        """Draw what goes wrong with the next request to a service; None: nothing."""
        self.asked[service] += 1
        return self.ill_of(service)

    def ill_of(self, service: str, kinds: Collection[str] = (), *, but: Collection[str] = ()) -> str | None:
        """Draw one of the present ills of a service: only of `kinds` if there are any, and none of `but`."""
        for ill in self.ills:
            fits = ill.service == service and (not kinds or ill.kind in kinds) and ill.kind not in but
            if fits and self.chance.stream(f"ills of {service}").random() < ill.share:
                self.note("fault", service=service, fault=ill.kind, number=self.asked[service])
                return ill.kind
        return None

    async def effect(self, **request: Any) -> Any:
        """Ask a tool's service to do something; return {"serial": number of the effect}."""
        sent = self.loop.time()
        return await self.ask("tool", lambda: self.carry_out(**request, sent=sent), self.fault("tool"))

    async def look(self, key: str) -> Any:
        """Return the outcome recorded under an effect key, or None."""
        fault = self.fault("look")

        def work() -> Any:
            serial = self._by_key.get(key)
            if fault == "lie" and serial is not None:
                self.note("lied", key=key)
                return None
            if serial is None:
                self.note("not found by key", key=key)
                return None
            return {"serial": serial}

        return await self.ask("look", work, fault)

    def carry_out(
        self, *, tool: str, key: str, run: str, call: str, text: str, once: bool, sent: float | None = None
    ) -> Any:
        """Have an effect, of `once` only the first time under a key; return {"serial": its number}."""
        known = self._by_key.get(key) if once else None
        serial = len(self.effects) + 1 if known is None else known
        made = known is None
        self.effects.append(Effect(self.loop.time(), serial, tool, key, run, call, text, made, sent))
        self._by_key.setdefault(key, serial)
        return {"serial": serial}

    def reached(self, service: str, stage: str, caller: SimulatedProcess | None = None) -> None:
        """Tell the watchers how far a request has come."""
        for watch in list(self.watchers):
            watch(service, stage, caller)

    async def ask(self, service: str, work: Callable[[], Any], fault: str | None = None) -> Any:
        """Have `work` done by a service, after the time of a message there; wait for its answer.

        ServiceError if the service refuses, or the connection breaks.
        """
        caller = current_process()
        here = (caller or self.loop.outside).context()
        answer: asyncio.Future[Any] = self.loop.create_future()
        self.reached(service, "asked", caller)

        def settle(value: Any) -> None:
            if not answer.done():
                if isinstance(value, Exception):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)

        def reply(value: Any, seconds: float) -> None:
            def leave() -> None:
                if answer.done() or (caller is not None and not caller.alive):
                    self.note("unheard", service=service)
                else:
                    self.loop.call_soon(settle, value, context=here)

            self.loop.call_later(seconds, leave, context=self.process.context())

        def arrive() -> None:
            self.reached(service, "arrived", caller)
            wait = self.latency.network()
            value: Any = None
            kind, _, status = (fault or "").partition(" ")
            if kind not in ("down", "status", "hang"):
                value = work()
                self.reached(service, "done", caller)
            match kind:
                case "down":
                    reply(ServiceError("it cannot be reached"), wait)
                case "status":
                    reply(ServiceError(f"it refuses: {status}", int(status)), wait)
                case "hang" | "lost":
                    reply(ServiceError("the connection broke"), HUNG_SECONDS)
                case "torn":
                    reply(ServiceError("the connection broke"), wait)
                case "late":
                    reply(value, self.chance.stream(f"ills of {service}").uniform(*LATE_SECONDS))
                case _:
                    reply(value, wait)

        self.loop.call_later(self.latency.network(), arrive, context=self.process.context())
        return await answer


_current: list[Outside] = []


def outside() -> Outside:
    """Return the outside of the life that is lived in this interpreter."""
    return _current[-1]


def set_outside(current: Outside) -> None:
    """Begin a life."""
    _current.append(current)
