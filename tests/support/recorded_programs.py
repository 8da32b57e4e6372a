"""Small programs that are run against a host in memory, with the real fast-forward between them.

The host does one thing at a time, and the test says which.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler.domain.recording import CallName, RecordedCall, Recording, Resumed, is_effect
from hostler.journal.call_records import RecordedAnswer
from hostler.journal.resume import Resumption

METHODS = {"read": "state.get", "stream": "model.stream", "effect": "state.set"}
SPINS = 2_000
"""Turns of the loop after which nothing will come any more."""

Step = tuple[Any, ...]
Class = Literal["pure", "idempotent", "reconcilable", "default"]
Choose = Callable[[int], int]
"""Which of so many things happens next."""


class LostError(Exception):
    """The attempt is lost."""


class DivergedError(Exception):
    """The attempt diverged; the text is the sentence that says how."""


@dataclass
class Entry:
    """One entry of the journal in memory."""

    kind: str
    type: str = ""
    name: CallName | None = None
    data: str = ""
    sequence: int | None = None
    frontier: int = 0
    discard_after: int = 0


@dataclass
class World:
    """What outlives an attempt: the journal, and what tools did outside."""

    journal: list[Entry] = field(default_factory=list)
    durable: int = 0
    done: Counter[CallName] = field(default_factory=Counter)
    """Effects, by call."""
    outcomes: dict[CallName, str] = field(default_factory=dict)
    asked: Counter[CallName] = field(default_factory=Counter)
    """How often anything was computed for a call, since it was recorded last."""
    serial: int = 0

    def add(self, entry: Entry, *, durable: bool = False) -> None:
        """Write an entry down."""
        self.journal.append(entry)
        if durable:
            self.durable = len(self.journal)

    def add_result(self, kind: str, data: str, **more: Any) -> None:
        """Write a result down, with the next sequence."""
        self.add(Entry("result", kind, data=data, sequence=self.sequence + 1, **more))

    @property
    def sequence(self) -> int:
        """The last one given out."""
        return max((e.sequence for e in self.journal if e.sequence is not None), default=0)

    @property
    def kept_sequence(self) -> int:
        """Of the last completed message."""
        kept = (e.sequence for e in self.journal if e.type == "message.completed" and e.sequence is not None)
        return max(kept, default=0)

    def cut(self, choose: Choose) -> None:
        """The host is gone, with some of what was not durable."""
        left = self.durable + choose(len(self.journal) - self.durable + 1)
        del self.journal[left:]
        self.durable = left

    def compute(self, name: CallName) -> str:
        """Something is computed for a call; another value each time."""
        self.serial += 1
        return f"v{self.serial}"

    def perform(self, name: CallName) -> str:
        """A tool does its work."""
        self.done[name] += 1
        return self.outcomes.setdefault(name, self.compute(name))

    def recording(self) -> Recording:
        """What the next attempt goes on from."""
        recording = Recording()
        for position, entry in enumerate(self.journal, 1):
            if entry.kind == "result":
                data = entry.data.encode()
                recording.add_result(position, entry.sequence or 0, entry.type, data)
            elif entry.kind == "call" and entry.name is not None:
                recording.add_call(
                    entry.name, position, entry.data, changed=is_effect(entry.name.method, entry.type or None)
                )
            elif entry.kind == "intent" and entry.name is not None:
                recording.add_intent(entry.name, entry.data)
            elif entry.kind == "resumed":
                recording.add_resumed(Resumed(1, entry.frontier))
        return recording

    def shown(self) -> list[tuple[str, str]]:
        """What a client has in the end that drops what was superseded."""
        kept: list[Entry] = []
        for entry in self.journal:
            if entry.type == "attempt.started":
                kept = [e for e in kept if (e.sequence or 0) <= entry.discard_after or e.type != DELTA]
            elif entry.kind == "result":
                kept.append(entry)
        return [(entry.type, entry.data) for entry in kept]


DELTA, MESSAGE = "message.delta", "message.completed"


class Attempt:
    """One attempt at a program: the runner, and the host that serves it."""

    def __init__(self, world: World, number: int, choose: Choose, stall_seconds: float) -> None:
        self.world = world
        self.choose = choose
        self.emitted: list[tuple[str, str]] = []
        self.answers: dict[str, str] = {}
        self.diverged: str | None = None
        self._seen: Counter[tuple[str, str]] = Counter()
        self._stages: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stall_seconds = stall_seconds
        recording = world.recording()
        self._going_on: Resumption | None = None
        if number > 1 and not recording.is_empty:
            self._going_on = Resumption(
                recording, self._read, stall_seconds=stall_seconds, live=self._live, diverged=self._diverge
            )

    # -- the runner -------------------------------------------------------------------------------

    async def run(self, program: list[Step], left: int | None) -> None:
        """Run it to its end. LostError after so many steps of the host; DivergedError."""
        runner = self._start(self._take(program, ""))
        try:
            await self._drive(runner, left)
        finally:
            if self._going_on is not None:
                self._going_on.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, steps: list[Step], prefix: str) -> None:
        for number, step in enumerate(steps):
            await self._step(f"{prefix}{number}", step)

    async def _step(self, name: str, step: Step) -> None:
        match step:
            case ("delta", text):
                self._emit(DELTA, f"{name} {text}")
            case ("say", text):
                # of other branches it is not sure what has come by now
                branch = name.rpartition(".")[0]
                known = sorted(item for item in self.answers.items() if item[0].startswith(branch))
                self._emit(MESSAGE, f"{name} {text} {known}")
            case ("together", branches):
                work = [self._take(branch, f"{name}.{n}.") for n, branch in enumerate(branches)]
                await asyncio.gather(*work)
            case ("rest", _):
                await self._stage()
            case (method, text):
                chunks: Callable[[str], None] = lambda chunk: self._emit(DELTA, f"{name} {chunk}")  # noqa: E731
                answer = self.answers[name] = await self._call(method, f"{name} {text}", chunks)
                self._emit(DELTA, f"{name}={answer}")

    # -- the host ---------------------------------------------------------------------------------

    async def _drive(self, runner: asyncio.Task[None], left: int | None) -> None:
        spins = 0
        while not runner.done():
            for _ in range(12):
                await asyncio.sleep(0)
            if self.diverged is not None:
                raise DivergedError(self.diverged)
            waiting = [stage for stage in self._stages if not stage.done()]
            if not waiting:
                spins += 1
                assert spins < SPINS, f"nothing goes on any more, after {self.world.journal}"
                if self._stall_seconds < 1:
                    await asyncio.sleep(self._stall_seconds / 10)
                continue
            spins = 0
            if left is not None:
                if left == 0:
                    raise LostError
                left -= 1
            waiting[self.choose(len(waiting))].set_result(None)
            self._stages = waiting
        runner.result()
        if self._going_on is not None and not self._going_on.end():
            raise DivergedError(self.diverged)

    def _emit(self, kind: str, data: str) -> None:
        self.emitted.append((kind, data))
        known = self._going_on is not None and self._going_on.take(kind, data.encode())
        if not known and self.diverged is None:
            self.world.add_result(kind, data)

    async def _call(self, kind: str, params: str, chunk: Callable[[str], None]) -> str:
        method = METHODS.get(kind, "tool.call")
        self._seen[method, params] += 1
        name = CallName(method, params, self._seen[method, params])
        reply: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
        # in the order in which calls come, as a host does it; all else takes its time
        recorded = None if self._going_on is None else self._going_on.find(name)
        self._start(self._carry(kind, name, recorded, reply))
        while True:
            is_last, value = await reply.get()
            if is_last:
                return value
            chunk(value)

    async def _carry(
        self,
        kind: str,
        name: CallName,
        recorded: RecordedCall | None,
        reply: asyncio.Queue[tuple[bool, str]],
    ) -> None:
        going_on = self._going_on
        if going_on is not None and recorded is not None and recorded.position is not None:
            answer = await going_on.read(recorded)
            for piece in answer.chunks:
                reply.put_nowait((False, piece))
            await going_on.turn(recorded)
            reply.put_nowait((True, json.loads(bytes(answer.reply))))
            going_on.answered(recorded)
            return
        if going_on is not None:
            await going_on.begin(name.method, is_effect(name.method, kind), recorded)
        intent = None if recorded is None else recorded.intent
        value = await self._make(kind, name, intent, lambda piece: reply.put_nowait((False, piece)))
        reply.put_nowait((True, value))

    async def _make(self, kind: str, name: CallName, intent: str | None, chunk: Callable[[str], None]) -> str:
        world, chunks = self.world, []
        if kind in {"read", "stream", "pure"}:
            for piece in ("x", "y") if kind == "stream" else ():
                await self._stage()
                chunk(piece)
                chunks.append(piece)
            await self._stage()
            value = world.compute(name)
            self._record(kind, name, value, chunks)
            return value
        if kind == "effect":
            await self._stage()
            value = world.perform(name)
            self._record(kind, name, value, [], durable=True)
            await self._stage()
            return value
        happened = world.outcomes.get(name)
        if intent is None or (kind == "default" and happened is None):  # or a person says that it did not
            await self._stage()
            world.add(Entry("intent", kind, name, "{}"), durable=True)
        if happened is None or kind == "idempotent":
            await self._stage()
            happened = world.outcomes.get(name) or world.perform(name)
        await self._stage()
        self._record(kind, name, happened, [], durable=True)
        await self._stage()
        return happened

    def _record(
        self, kind: str, name: CallName, value: str, chunks: list[str], *, durable: bool = False
    ) -> None:
        data = json.dumps({"chunks": chunks, "reply": value})
        effect = kind if name.method == "tool.call" else ""
        self.world.add(Entry("call", effect, name, data), durable=durable)

    async def _stage(self) -> None:
        """Wait until this is what happens next."""
        stage: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stages.append(stage)
        await stage

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    async def _read(self, call: RecordedCall) -> RecordedAnswer:
        return msgspec.json.decode(call.data or "", type=RecordedAnswer)

    def _live(self, frontier: int) -> None:
        self.world.add(Entry("resumed", frontier=frontier))
        kept = max(frontier, self.world.kept_sequence)
        self.world.add_result("attempt.started", "", discard_after=kept)

    def _diverge(self, why: str) -> None:
        self.diverged = self.diverged or why
