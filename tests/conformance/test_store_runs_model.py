"""Runs against a simple model: one active run per lane, fences, gapless numbers, one ending."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hostler.domain.runs import HOLDS_LANE, STATUSES, TRANSITIONS
from hostler.domain.slots import Slots
from hostler.storage.port import Query
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal, runs
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.runs import Appended, Fenced, Moved
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus
from support.databases import read, write
from support.examples import examples
from support.run_rows import new

CLEAR = [
    Query("t.clear", *[f"DELETE FROM {table}"] * 2) for table in ("runs", "journal", "heads", "timeline")
]
KINDS = {
    "delta": NewEntry("result", "message.delta", '{"data":{}}'),
    "message": NewEntry("result", "message.completed", '{"data":{}}'),
    "call": NewEntry("call", "state.get", "{}"),
}
LANES = 3


@dataclass
class ModelRun:
    """What a run should be."""

    run_id: str
    lane: int
    parallel: bool
    order: int
    status: RunStatus
    attempt: int = 1
    entries: list[str] = field(default_factory=list)
    kept: int = 0

    def write(self, kinds: list[str]) -> None:
        for kind in kinds:
            self.entries.append(kind)
            if kind == "message":
                self.kept = self.sequence

    @property
    def sequence(self) -> int:
        return sum(kind in {"delta", "message"} for kind in self.entries)


class RunsMachine(RuleBasedStateMachine):
    """Any order of opening, claiming, writing and changing status, by current and by stale workers."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__()
        self.database = database
        self.model: dict[str, ModelRun] = {}
        self.numbers = itertools.count()

    @initialize()
    def empty(self) -> None:
        write(self.database, lambda tx: [tx.run(query) for query in CLEAR])

    def pick(self, number: int) -> ModelRun | None:
        return list(self.model.values())[number % len(self.model)] if self.model else None

    def held(self, lane: int) -> bool:
        return any(
            one.lane == lane and not one.parallel and one.status in HOLDS_LANE for one in self.model.values()
        )

    def waiting(self, lane: int) -> bool:
        return any(
            one.lane == lane and not one.parallel and one.status == "queued" for one in self.model.values()
        )

    @rule(lane=st.integers(0, LANES - 1), claim=st.booleans(), parallel=st.booleans())
    def open(self, lane: int, claim: bool, parallel: bool) -> None:
        order = next(self.numbers)
        run_id = f"r{order}"
        opens = new(run_id, workspace=f"w{lane}", lane=f"lane {lane}", parallel=parallel)
        starts = claim and (parallel or not (self.held(lane) or self.waiting(lane)))
        outcome = write(self.database, lambda tx: runs.open(tx, opens, Membership("h") if claim else None))
        assert outcome.status == ("claimed" if starts else "queued")
        opened = ModelRun(run_id, lane, parallel, order, outcome.status, entries=["lifecycle"])
        self.model[run_id] = opened

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        claimed = write(self.database, lambda tx: claims.claim(tx, Membership("h"), Slots(limit), [])).runs
        could = [one for one in self.model.values() if one.status == "queued" and self.may_start(one)]
        assert len(claimed) == min(limit, len(could)), "neither fewer than could start nor more than asked"
        for run in claimed:
            one = self.model[run.run_id]
            assert one in could
            one.status = "claimed"
            one.write(["lifecycle"])
            assert (run.status, run.attempt, run.host_id) == ("claimed", one.attempt, "h")

    def may_start(self, one: ModelRun) -> bool:
        if one.parallel:
            return True
        older = any(
            other.lane == one.lane
            and not other.parallel
            and other.status == "queued"
            and other.order < one.order
            for other in self.model.values()
        )
        return not older and not self.held(one.lane)

    @rule(
        number=st.integers(0, 50),
        stale=st.integers(0, 2),
        kinds=st.lists(st.sampled_from(sorted(KINDS)), max_size=6),
    )
    def append(self, number: int, stale: int, kinds: list[str]) -> None:
        one = self.pick(number)
        if one is None:
            return
        attempt = max(0, one.attempt - stale)
        entries = [KINDS[kind] for kind in kinds]
        position, sequence = len(one.entries), one.sequence
        outcome = write(self.database, lambda tx: runs.append(tx, one.run_id, attempt, entries))
        if attempt == one.attempt and one.status in {"claimed", "running"}:
            assert outcome == Appended(position + 1, sequence + 1)
            one.write(kinds)
        else:
            assert outcome == Fenced(one.status, one.attempt)

    @rule(
        number=st.integers(0, 50),
        stale=st.sampled_from([None, 0, 1]),
        to=st.sampled_from([status for status in STATUSES if status != "claimed"]),
        kinds=st.lists(st.sampled_from(sorted(KINDS)), max_size=3),
    )
    def move(self, number: int, stale: int | None, to: RunStatus, kinds: list[str]) -> None:
        one = self.pick(number)
        if one is None:
            return
        attempt = None if stale is None else one.attempt - stale
        entries = [KINDS[kind] for kind in kinds]
        position, sequence = len(one.entries), one.sequence
        outcome = write(
            self.database,
            lambda tx: runs.transition(tx, one.run_id, attempt, to, cause="c", actor="a", entries=entries),
        )
        if (one.status, to) in TRANSITIONS and attempt in {None, one.attempt}:
            after = one.attempt + (to == "queued")
            assert outcome == Moved(one.status, after, position + 1, sequence + 1)
            one.status, one.attempt = to, after
            one.write([*kinds, "lifecycle"])
        else:
            assert outcome == Fenced(one.status, one.attempt)

    @invariant()
    def as_the_model_says(self) -> None:
        stored = read(self.database, lambda tx: {run_id: runs.by_id(tx, run_id) for run_id in self.model})
        for one in self.model.values():
            run = stored[one.run_id]
            assert run is not None
            assert (run.status, run.attempt, run.position, run.sequence, run.kept_sequence) == (
                one.status,
                one.attempt,
                len(one.entries),
                one.sequence,
                one.kept,
            )
        for lane in range(LANES):
            holders = [
                one
                for one in self.model.values()
                if one.lane == lane and not one.parallel and one.status in HOLDS_LANE
            ]
            assert len(holders) <= 1

    def teardown(self) -> None:
        pages = read(
            self.database,
            lambda tx: {run_id: journal.page(tx, run_id, limit=10_000) for run_id in self.model},
        )
        for one in self.model.values():
            entries = pages[one.run_id].items
            assert [entry.position for entry in entries] == list(range(1, len(one.entries) + 1))
            kinds = {"message.delta": "delta", "message.completed": "message", "state.get": "call"}
            assert [kinds.get(entry.type, entry.kind) for entry in entries] == one.entries
            found = [entry.sequence for entry in entries if entry.sequence is not None]
            assert found == list(range(1, one.sequence + 1))
            moves = [entry.type for entry in entries if entry.kind == "lifecycle"]
            assert sum(move in TERMINAL_STATUSES for move in moves) == int(one.status in TERMINAL_STATUSES)


def test_runs_behave_like_the_model(database: SqlDatabase) -> None:
    class OnDatabase(RunsMachine):
        def __init__(self) -> None:
            super().__init__(database)

    run_state_machine_as_test(
        OnDatabase,
        settings=settings(
            max_examples=examples(25, 300),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
