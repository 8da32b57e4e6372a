"""Customers whose runs have effects, on a host and plugins that are killed under them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from support.effect_programs import Steps
from support.load import followed, sent
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer
from support.oracle import Oracle
from support.people import People
from support.server_process import HostProcess

RETRY_SECONDS = 0.01


class Till:
    """Counts what models are paid for: each answer says how many-th it is."""

    def __init__(self, models: ModelServer) -> None:
        self.paid: dict[str, list[str]] = {}
        """Question -> the answers that were given to it."""
        self._count = 0
        models.always(self._answer)

    def _answer(self, request: Recorded) -> Answer:
        self._count += 1
        pieces = ["paid ", f"{self._count} ", "for ", "it"]
        self.paid.setdefault(request.last_text, []).append("".join(pieces))
        return Answer(pieces=list(pieces))


@dataclass
class EffectLoad:
    """One run per customer: sent until it is taken, and followed to its end."""

    host: HostProcess
    oracle: Oracle
    people: People
    programs: dict[str, Steps] = field(default_factory=dict)
    """By event id."""
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _customers: list[asyncio.Task[None]] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        """At the end of the block every customer is served."""
        async with self._group as group:
            people = group.create_task(self.people.attend())
            yield
            while waiting := [one for one in self._customers if not one.done()]:
                await asyncio.wait(waiting, timeout=1)
                self.host.check()
            people.cancel()

    @property
    def unserved(self) -> int:
        """How many customers wait for the end of their run."""
        return sum(not one.done() for one in self._customers)

    def begin(self, program: Steps) -> None:
        """A customer comes."""
        event_id = f"e{len(self.programs)}"
        self.programs[event_id] = program
        self._customers.append(self._group.create_task(self._serve(event_id, program)))

    async def _serve(self, event_id: str, program: Steps) -> None:
        run_id = await self._send(event_id, program)
        await followed(self.host, self.oracle, run_id)

    async def _send(self, event_id: str, program: Steps) -> str:
        event = {
            "event_id": event_id,
            "event_type": "message.received",
            "agent": "doer",
            "conversation_id": event_id,
            "input": {"text": json.dumps(program)},
        }
        return await sent(self.host, self.oracle, event)
