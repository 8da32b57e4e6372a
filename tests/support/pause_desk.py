"""The desk of pauses in front of a run that waits, and some people who decide."""

from __future__ import annotations

from typing import Any

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
from support.databases import read, run, write
from support.pauses import WORKSPACE, calls_of, open_pause, open_run, park, person


class DeskWorld:
    """A run that waits, the desk, and some people. Everything is done through the desk."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        self.changed: list[str] = []
        self.cancelled: list[RequestedEnd] = []
        self.desk = PauseService(database, on_changed=self.changed.append, on_cancelled=self.cancelled.extend)
        write(database, open_run)
        self.rita = self.person("rita")
        self.boss = self.person("boss", "admin")
        self.mike = self.person("mike")

    def person(self, subject: str, *roles: str, **more: Any) -> Caller:
        return write(self.database, lambda tx: person(tx, subject, *roles, **more))

    def opens(self, *calls: NewCall, parked: bool = False, **fields: Any) -> None:
        write(self.database, lambda tx: open_pause(tx, *calls, **fields))
        if parked:
            write(self.database, park)

    def act(
        self, caller: Caller, *actions: Action, revision: int = 1, key: str | None = None
    ) -> ActionAnswer:
        request = ActRequest(revision=revision, actions=list(actions))
        return run(self.desk.act(caller, "p1", request, idempotency_key=key))

    def refused(self, kind: type[HostlerError], caller: Caller, *actions: Action, **more: Any) -> Any:
        """Something is refused, and nothing at all has changed."""
        before = self.seen(), self.facts()
        with pytest.raises(kind) as raised:
            self.act(caller, *actions, **more)
        assert (self.seen(), self.facts()) == before
        return raised.value

    def seen(self, caller: Caller | None = None) -> PauseView:
        return run(self.desk.get(caller or self.boss, "p1"))

    def decision(self, call_id: str = "k1") -> tuple[str, str | None]:
        one = read(self.database, calls_of)[call_id]
        return one.decision, one.decided_by

    def facts(self) -> list[str]:
        return [fact.action for fact in read(self.database, lambda tx: audit.page(tx, WORKSPACE))]

    def status(self) -> str:
        return read(self.database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status

    def run_status(self) -> str:
        return read(self.database, lambda tx: runs.get(tx, WORKSPACE, "r1")).status


def approve(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="approve", **more)


def deny(call_id: str = "k1", **more: Any) -> Action:
    return Action(call_id=call_id, type="deny", **more)
