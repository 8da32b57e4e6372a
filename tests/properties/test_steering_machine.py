"""Messages, pulls, ends, crashes and stops in any order: each message is heard once, by one run, in order."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hostler.calls.scope import CallScope
from hostler.calls.steering import take
from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.bindings import Binding
from hostler.domain.events import Caller
from hostler.domain.grants import Grant
from hostler.domain.ingest import event_of
from hostler.domain.lanes import lane_of
from hostler.domain.place import Place
from hostler.domain.slots import Slots
from hostler.domain.steering import TRANSITIONS, SteerStatus
from hostler.runs.admission import Opening, open_event
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, events, run_endings, run_lanes, runs, steering
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Fenced, NewRun, Run
from hostler_protocol.errors import HostlerError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id
from hostler_protocol.runs import RunStatus
from support.databases import read, write

WS = "w1"
CALLER = Caller(workspace_id=WS, subject="ada", key_id="k")
RUNNER = "plugin:acme/echo/default"
GRANT = Grant(
    workspace_id=WS,
    agent_id="a",
    agent_version=1,
    runner_id=RUNNER,
    owner="acme/echo",
    calls=frozenset({"steering.pull"}),
)
EXAMPLES = 12 if not os.environ.get("HOSTLER_SOAK") else 1_000
STEPS = 30
_names = itertools.count()
"""Conversations are new in each example."""


@dataclass
class Work:
    """A run as whoever works on it sees it: what it heard in this attempt."""

    run: Run
    heard: list[str]


class SteeringMachine(RuleBasedStateMachine):
    """One conversation of an agent, and one host that works on its runs."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__()
        self.database = database
        self.agent = write(database, lambda tx: agents.apply(tx, WS, AgentSpec(name="a", runner=RUNNER)))
        self.conversation = f"c{next(_names)}"
        self.sent: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.heard: list[str] = []
        self.work: Work | None = None
        self.seen: dict[tuple[str, int], SteerStatus] = {}
        self.before: dict[str, list[str]] = {}
        """What runs that go on later had heard."""

    # -- what happens -----------------------------------------------------------------------------

    @rule(can_steer=st.booleans(), count=st.integers(1, 4), at_work=st.sampled_from([True, True, False]))
    def send(self, can_steer: bool, count: int, at_work: bool) -> None:
        if at_work and self.sent:
            self.catch_up()
        for _ in range(count):
            event_id = f"{self.conversation}-{len(self.sent)}"
            opening = _opening(self.agent, self.conversation, event_id, can_steer)
            opened = write(self.database, lambda tx, o=opening: open_event(tx, o, None))  # type: ignore[misc]
            assert opened.run is not None
            assert opened.outcome in {"started", "queued", "steered"}
            self.outcomes[opened.outcome] += 1
            self.sent.append(event_id)

    def catch_up(self) -> None:
        """A run is at work, and none waits behind it."""
        self.claim()
        while self.work is not None:
            self.begin()
            if not read(self.database, partial(run_lanes.count_waiting, lane=self.work.run.lane, limit=1)):
                return
            self.pull(4)
            self.end("completed")
            self.claim()

    @rule()
    def claim(self) -> None:
        claimed = write(self.database, lambda tx: claims.claim(tx, Membership("h"), Slots(5), [])).runs
        assert len(claimed) <= 1, "one run at a time"
        for run in claimed:
            assert self.work is None
            heard = self.before.pop(run.run_id, None)
            self.work = Work(run, heard or [run.event_id or ""])

    @rule()
    def begin(self) -> None:
        if self.work is None:
            return
        run = self.work.run

        def work(tx: Tx) -> None:
            grant = GRANT.encoded
            runs.transition(
                tx, run.run_id, run.attempt, "running", cause="taken", actor="h", grant_json=grant
            )

        write(self.database, work)

    @rule(limit=st.integers(1, 4))
    def pull(self, limit: int) -> None:
        if self.work is None:
            return
        scope = cast("CallScope", _Scope(self.work.run.run_id, self.work.run.attempt))
        items = write(self.database, lambda tx: take(tx, scope, limit))
        assert not isinstance(items, HostlerError)
        assert len(items) <= limit
        self.work.heard += [item.event.event_id for item in items]

    @rule(status=st.sampled_from(["completed", "failed", "cancelled", "timeout"]))
    def end(self, status: RunStatus) -> None:
        if self.work is None:
            return
        run, body = self.work.run, b'{"data":{}}'
        if status == "completed":
            self.begin()
        entries = [NewEntry("result", "run.failed", body)]

        def work(tx: Tx) -> Any:
            return run_endings.finish(
                tx, run.run_id, run.attempt, status, cause="test", actor="h", entries=entries
            )

        assert not isinstance(write(self.database, work), Fenced)
        assert isinstance(write(self.database, work), Fenced), "the first ending wins"
        self.heard += self.work.heard
        self.work = None

    @rule(restart=st.booleans())
    def crash(self, restart: bool) -> None:
        if self.work is None:
            return
        run = self.work.run
        write(
            self.database,
            lambda tx: run_endings.begin_again(
                tx, run.run_id, run.attempt, cause="lost", actor="h", crashed=True, restart=restart
            ),
        )
        if not restart:
            self.before[run.run_id] = self.work.heard
        self.work = None
        stale = cast("CallScope", _Scope(run.run_id, run.attempt))
        gone = write(self.database, lambda tx: take(tx, stale, 5))
        assert gone == [] or isinstance(gone, HostlerError), "a superseded attempt pulls nothing"

    @rule()
    def ask_for_its_end(self) -> None:
        if self.work is None:
            return
        run_id = self.work.run.run_id
        write(
            self.database, lambda tx: run_endings.request_cancel(tx, WS, run_id, reason="enough", actor="ada")
        )

    # -- what always holds ------------------------------------------------------------------------

    @invariant()
    def every_message_is_accounted_for(self) -> None:
        read(self.database, self._check)

    def _check(self, tx: Tx) -> None:
        waits: Counter[str] = Counter()
        injected: Counter[str] = Counter()
        own: Counter[str] = Counter()
        for run in runs.page(tx, WS, conversation_id=self.conversation):
            own[run.event_id or ""] += 1
            rows = steering.page(tx, WS, run.run_id)
            queued = [row for row in rows if row.status == "queued"]
            assert run.steers == len(queued)
            assert not (queued and run.finished_at), "a run that is over has no message left"
            for row in rows:
                before = self.seen.get((row.run_id, row.position), "queued")
                assert before == row.status or (before, row.status) in TRANSITIONS
                self.seen[row.run_id, row.position] = row.status
            waits.update(row.event_id for row in queued)
            injected.update(row.event_id for row in rows if row.status == "injected")
        places = own + waits + injected
        assert places == Counter(self.sent), "each is in exactly one place"
        for event_id in self.sent:
            event = events.find(tx, WS, event_id)
            assert event is not None
            assert event.run_id is not None

    def teardown(self) -> None:
        """Everything ends: what was sent was heard, in order."""
        while True:
            if self.work is None:
                self.claim()
            if self.work is None:
                break
            self.begin()
            self.pull(4)
            self.end("completed")
        assert self.heard == self.sent
        assert self.before == {}


@dataclass
class _Scope:
    """Of a call's scope, what a pull looks at."""

    run_id: str
    attempt: int
    workspace_id: str = WS
    grant: Grant = GRANT


def _opening(agent: Agent, conversation: str, event_id: str, can_steer: bool) -> Opening:
    given = {
        "event_id": event_id,
        "event_type": "message.received",
        "conversation_id": conversation,
        "input": {"text": event_id},
    }
    event, _ = event_of(msgspec.convert(given, EventEnvelope), CALLER, 1)
    run = NewRun(
        workspace_id=WS,
        run_id=new_id(),
        agent_id=agent.agent_id,
        agent_name=agent.name,
        agent_version=agent.version,
        runner_id=RUNNER,
        event_id=event_id,
        conversation_id=conversation,
        lane=lane_of(
            workspace_id=WS,
            agent_id=agent.agent_id,
            place=Place(conversation_id=conversation),
            event_id=event_id,
        ),
    )
    return Opening(event, Binding(agent, "workspace"), run, [], lambda _: can_steer)


def test_every_message_is_heard_once_and_in_order(database: SqlDatabase) -> None:
    class OnDatabase(SteeringMachine):
        def __init__(self) -> None:
            super().__init__(database)

    run_state_machine_as_test(
        OnDatabase,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
