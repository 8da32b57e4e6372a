"""The desk of pauses in front of a run that waits, and some people who decide."""

from __future__ import annotations

from typing import Any, Self

import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActionAnswer, ActRequest
from hostler.domain.pause_values import NewCall
from hostler.domain.pause_views import PauseView
from hostler.pauses.service import PauseService
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, pauses, runs
from hostler.storage.stores.run_endings import RequestedEnd
from hostler_protocol.errors import HostlerError
from support.pauses import WORKSPACE, calls_of, open_pause, open_run, park, person


class DeskWorld:
    """A run that waits, the desk, and some people. Everything is done through the desk."""

    rita: Caller
    boss: Caller
    mike: Caller

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        self.changed: list[str] = []
        self.cancelled: list[RequestedEnd] = []
        self.desk = PauseService(database, on_changed=self.changed.append, on_cancelled=self.cancelled.extend)

    @classmethod
    async def opened(cls, database: SqlDatabase) -> Self:
        world = cls(database)
        await database.write(open_run)
        world.rita = await world.person("rita")
        world.boss = await world.person("boss", "admin")
        world.mike = await world.person("mike")
        return world

    async def person(self, subject: str, *roles: str, **more: Any) -> Caller:
        return await self.database.write(lambda tx: person(tx, subject, *roles, **more))

    async def opens(self, *calls: NewCall, parked: bool = False, **fields: Any) -> None:
        await self.database.write(lambda tx: open_pause(tx, *calls, **fields))
        if parked:
            await self.database.write(park)

    async def act(
        self, caller: Caller, *actions: Action, revision: int = 1, key: str | None = None
    ) -> ActionAnswer:
        request = ActRequest(revision=revision, actions=list(actions))
        return await self.desk.act(caller, "p1", request, idempotency_key=key)

    async def refused(self, kind: type[HostlerError], caller: Caller, *actions: Action, **more: Any) -> Any:
        """Something is refused, and nothing at all has changed."""
        before = await self.seen(), await self.facts()
        with pytest.raises(kind) as raised:
            await self.act(caller, *actions, **more)
        assert (await self.seen(), await self.facts()) == before
        return raised.value

    async def seen(self, caller: Caller | None = None) -> PauseView:
        return await self.desk.get(caller or self.boss, "p1")

    async def decision(self, call_id: str = "k1") -> tuple[str, str | None]:
        one = (await self.database.read(calls_of))[call_id]
        return one.decision, one.decided_by

    async def facts(self) -> list[str]:
        return [fact.action for fact in await self.database.read(lambda tx: audit.page(tx, WORKSPACE))]

    async def status(self) -> str:
        return (await self.database.read(lambda tx: pauses.get(tx, WORKSPACE, "p1"))).status

    async def run_status(self) -> str:
        return (await self.database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))).status


def approve(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="approve", **more)


def deny(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="deny", **more)
