"""The state machine of pauses: what it holds, opens and checks. Its steps are in `pauses_people` and
`pauses_attempts`.

The numbers in the messages are those of the invariants in the specification of continuations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from hostler.domain.events import Caller
from hostler.domain.pause_actions import ActRequest, AlreadyDecidedError, PauseExpiredError
from hostler.domain.pause_values import Pause, PausedCall
from hostler.pauses.service import PauseService
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import pauses, runs
from hostler_protocol.errors import HostlerError, PayloadTooLargeError
from hostler_protocol.ids import digest, new_id
from support.pauses import WORKSPACE, call, calls_of, open_pause, open_run, person
from support.pauses import rule as approvers

PEOPLE = ("rita", "boss", "mike")
CALLS = ("k0", "k1", "k2", "k3")
KINDS = ("approval", "approval", "client_tool", "question", "quorum")
SQL = parse(
    """
-- name: pauses
UPDATE pauses SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
-- name: calls
UPDATE pause_calls SET expires_at = expires_at - :ms WHERE pause_id = :pause_id
-- name: facts
SELECT actor, action, body FROM audit
WHERE workspace_id = :workspace_id AND target = :target ORDER BY seq
""",
    "t",
)
T = TypeVar("T")
Snapshot = tuple[Pause, tuple[PausedCall, ...], int]


@dataclass(frozen=True)
class Step:
    """Something that may happen: how often, when, with what."""

    work: Callable[..., None]
    weight: int
    applies: Callable[[PausesMachine], bool]
    values: dict[str, st.SearchStrategy[Any]]


class Steps(list[Step]):
    """Steps of the machine. One rule draws among those that apply: rules of their own would mostly not."""

    def step(
        self, weight: int, applies: Callable[[PausesMachine], bool], **values: st.SearchStrategy[Any]
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Register a step."""

        def register(work: Callable[..., None]) -> Callable[..., None]:
            self.append(Step(work, weight, applies, values))
            return work

        return register


def fitting(shown: PausedCall | None, word: str) -> Any:
    """What fits the kind of a call: yes or no to it; other words as they are."""
    kind = "approval" if shown is None else shown.kind
    fits = {
        "approval": {"yes": "approve", "no": "deny"},
        "client_tool": {"yes": "result", "no": "error"},
        "question": {"yes": "answer", "no": "answer"},
    }
    return fits.get(kind, {"yes": "approve", "no": "deny"}).get(word, word)


class PausesMachine(RuleBasedStateMachine):
    """One run at a time, its pauses one after the other, three people, attempts that come and go."""

    database: SqlDatabase
    runner: asyncio.Runner
    steps: Sequence[Step]

    def __init__(self) -> None:
        super().__init__()
        self.desk = PauseService(self.database)
        self.people: dict[str, Caller] = {}
        self.run_id = self.pause_id = ""
        self.acknowledged: dict[tuple[str, int], tuple[str, str, str | None]] = {}
        """(call, its revision) -> decision, digest of the arguments, by whom: invariant 3."""
        self.reserved: dict[str, str] = {}
        """Call and resolution -> effect key."""
        self.finished: set[tuple[str, int]] = set()
        self.answers: dict[tuple[str, str], Any] = {}
        self.settled: dict[str, Pause] = {}
        self.epochs: list[int] = []
        self.last: tuple[str, ActRequest, Any] | None = None
        self.now: Snapshot = None  # type: ignore[assignment]

    # -- looking ----------------------------------------------------------------------------------

    def write(self, work: Callable[[Tx], Any]) -> Any:
        return self.runner.run(self.database.write(work))

    def read(self, work: Callable[[Tx], T]) -> T:
        return self.runner.run(self.database.read(work))

    def snapshot(self) -> Snapshot:
        def look(tx: Tx) -> Snapshot:
            facts = len(tx.all(SQL.facts, workspace_id=WORKSPACE, target=self.pause_id))
            pause = pauses.get(tx, WORKSPACE, self.pause_id)
            return pause, tuple(calls_of(tx, self.pause_id).values()), facts

        return self.read(look)

    @property
    def pause(self) -> Pause:
        return self.snapshot()[0]

    @property
    def attempt(self) -> int:
        return self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id)).attempt

    def executing(self, state: str) -> bool:
        return any(one.execution == state for one in self.now[1])

    def name(self, kind_of_call: str) -> str:
        return f"{self.pause_id} {kind_of_call}"

    # -- opening ----------------------------------------------------------------------------------

    @initialize(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    def begin(self, kinds: list[str]) -> None:
        self.run_id = new_id()
        self.write(lambda tx: open_run(tx, self.run_id))
        for subject in PEOPLE:
            self.join(subject)
        self.open(kinds)

    def join(self, subject: str) -> None:
        roles = ("admin",) if subject == "boss" else ()
        self.people[subject] = self.write(lambda tx: person(tx, subject, *roles))

    def open(self, kinds: list[str]) -> None:
        self.pause_id = new_id()
        calls = [self.new_call(name, kind) for name, kind in zip(CALLS, kinds, strict=False)]
        self.write(lambda tx: open_pause(tx, *calls, run_id=self.run_id, pause_id=self.pause_id))

    def new_call(self, name: str, kind: str) -> Any:
        if kind == "quorum":
            return call(self.name(name), editable=True, rule=approvers("*", needed=2))
        return call(self.name(name), kind, editable=True)  # type: ignore[arg-type]

    def open_too_much(self) -> None:
        """27: what is over a limit opens nothing."""
        large = call("large", arguments={"text": "x" * 70_000})
        with pytest.raises(PayloadTooLargeError):
            self.write(lambda tx: open_pause(tx, large, run_id=self.run_id, pause_id="large"))
        assert self.read(lambda tx: pauses.unsettled(tx, self.run_id)) is None

    # -- deciding ---------------------------------------------------------------------------------

    def send(self, who: str, request: ActRequest, key: str | None, before: Snapshot) -> None:
        caller = self.people[who]
        try:
            answer = self.runner.run(self.desk.act(caller, self.pause_id, request, idempotency_key=key))
        except HostlerError as error:
            self.check_refused(error, before)
            return
        named = (caller.key_id + self.pause_id, key or "")
        if key is not None and named in self.answers:
            assert self.answers[named] == (digest(msgspec.to_builtins(request)), answer), "28"
            assert self.snapshot() == before
        elif key is not None:
            self.answers[named] = (digest(msgspec.to_builtins(request)), answer)
        after = self.snapshot()
        assert answer.status == after[0].status or key is not None
        self.last = (who, request, after)
        self.remember(after)

    def check_refused(self, error: HostlerError, before: Snapshot) -> None:
        assert self.snapshot() == before, "5, 18, 28: whoever is refused has changed nothing"
        if isinstance(error, AlreadyDecidedError):
            assert error.details["decision"]
            assert error.details["decided_by"], "5: the loser is told by whom"
        if isinstance(error, PauseExpiredError):
            assert before[0].status == "open" or error.details["decision"] == "expired"

    def remember(self, snapshot: Snapshot) -> None:
        for one in snapshot[1]:
            if one.decision != "undecided":
                fact = (one.decision, one.args_hash, one.decided_by)
                assert self.acknowledged.setdefault((one.call_id, one.revision), fact) == fact, "3"

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        names = [step.work.__name__ for step in self.steps if step.applies(self) for _ in range(step.weight)]
        name = data.draw(st.sampled_from(names))
        step = next(step for step in self.steps if step.work.__name__ == name)
        step.work(self, **{key: data.draw(strategy, key) for key, strategy in step.values.items()})

    # -- always -----------------------------------------------------------------------------------

    @invariant()
    def every_call_and_pause_is_in_a_state_that_fits(self) -> None:
        if not self.pause_id:
            return
        self.now = pause, calls, _ = self.snapshot()
        self.remember(self.now)
        unsettled = [one for one in calls if not one.settled]
        if pause.status in {"ready", "resuming", "resumed"}:
            assert not unsettled, "6: ready exactly when every call is settled"
        if pause.status == "open":
            assert unsettled, "6"
        for one in calls:
            if one.decision in {"undecided", "denied", "expired", "cancelled"}:
                assert one.execution == "none", "7"
            if one.handed_over:
                assert one.decision != "undecided"
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        assert not (pause.status == "ready" and run_now.status == "paused"), "22: it is on its way"

    def teardown(self) -> None:
        if not self.pause_id:
            return
        for pause_id, was in self.settled.items():
            assert self.read(lambda tx, p=pause_id: pauses.get(tx, WORKSPACE, p)) == was, "16"  # type: ignore[misc]
        segments = self.read(lambda tx: pauses.of_run(tx, self.run_id))
        assert [one.segment for one in segments] == list(range(len(segments), 0, -1))
        self.check_facts()

    def check_facts(self) -> None:
        """25: every change has one fact, and each begins where the one before it ended."""
        rows = self.read(lambda tx: tx.all(SQL.facts, workspace_id=WORKSPACE, target=self.pause_id))
        at: dict[str, str | None] = {}
        for row in rows:
            body = msgspec.json.decode(row["body"])
            thing = f"{row['action'].rpartition('.')[0]} {body.get('call_id')}"
            if "from" in body:
                starts = {"pause": None, "pause.call": "undecided", "pause.execution": "none"}
                begins = at.get(thing, starts[thing.partition(" ")[0]])
                assert body["from"] == begins, (row["action"], body, begins)
                at[thing] = body["to"]
        pause, calls, _ = self.snapshot()
        assert at["pause None"] == pause.status
        for one in calls:
            assert at.get(f"pause.call {one.call_id}", "undecided") == one.decision
            assert at.get(f"pause.execution {one.call_id}", "none") == one.execution
