"""Pauses in any order of decisions, attempts, crashes and time.

The numbers in the messages are those of the invariants in the specification of continuations.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest, AlreadyDecidedError, PauseExpiredError
from hostler.domain.pause_values import Pause, PausedCall, args_hash
from hostler.domain.pauses import MAX_RESUME_ATTEMPTS, is_settled
from hostler.pauses.service import PauseService
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import pause_claims, pauses, runs
from hostler.storage.stores.pause_claims import ClaimRefused
from hostler.storage.stores.run_endings import finish
from hostler_protocol.errors import HostlerError, PayloadTooLargeError
from hostler_protocol.ids import digest, new_id
from support.databases import read
from support.pauses import PIN, WORKSPACE, call, calls_of, claim_run, open_pause, open_run, park, person
from support.pauses import rule as approvers

SOAK = bool(os.environ.get("HOSTLER_SOAK"))
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


class Step(NamedTuple):
    """Something that may happen: how often, when, with what."""

    name: str
    weight: int
    applies: Callable[[PausesMachine], bool]
    values: dict[str, st.SearchStrategy[Any]]


STEPS: list[Step] = []


def step(
    weight: int, applies: Callable[[PausesMachine], bool], **values: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a step. One rule draws among those that apply: rules of their own would mostly not."""

    def register(work: Callable[..., None]) -> Callable[..., None]:
        STEPS.append(Step(work.__name__, weight, applies, values))
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

    @step(
        6,
        lambda self: is_settled(self.now[0].status),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
        over=st.booleans(),
    )
    def open_the_next(self, kinds: list[str], over: bool) -> None:
        self.settled[self.pause_id] = self.pause
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        if run_now.finished_at is not None:
            self.run_id = new_id()
            self.epochs = []
            self.write(lambda tx: open_run(tx, self.run_id))
        elif run_now.status == "queued":
            self.write(lambda tx: claim_run(tx, self.run_id))
        if over:
            self.open_too_much()
        self.open(kinds)

    def open_too_much(self) -> None:
        """27: what is over a limit opens nothing."""
        large = call("large", arguments={"text": "x" * 70_000})
        with pytest.raises(PayloadTooLargeError):
            self.write(lambda tx: open_pause(tx, large, run_id=self.run_id, pause_id="large"))
        assert self.read(lambda tx: pauses.unsettled(tx, self.run_id)) is None

    @step(1, lambda self: not is_settled(self.now[0].status))
    def open_another_beside_it(self) -> None:
        """16: one unsettled per run."""
        before = self.snapshot()
        with pytest.raises(HostlerError):
            self.write(lambda tx: open_pause(tx, call("x"), run_id=self.run_id, pause_id=new_id()))
        assert self.snapshot() == before

    # -- deciding ---------------------------------------------------------------------------------

    @step(
        5,
        lambda self: True,
        who=st.sampled_from(PEOPLE),
        name=st.sampled_from((*CALLS, "k0", "nobody")),
        kind=st.sampled_from(("yes", "yes", "no", "approve", "result", "answer")),
        seen=st.sampled_from(("digest", "digest", "nothing", "stale")),
        edited=st.sampled_from((None, None, 2, 3)),
        revision=st.sampled_from((0, 0, 0, 1)),
        key=st.sampled_from((None, None, "a", "b")),
    )
    def act(
        self,
        who: str,
        name: str,
        kind: str,
        seen: str,
        edited: int | None,
        revision: int,
        key: str | None,
    ) -> None:
        before = self.snapshot()
        shown = {one.call_id: one for one in before[1]}.get(self.name(name))
        word = fitting(shown, kind)
        args_hash = {"digest": None if shown is None else shown.args_hash, "nothing": None}.get(
            seen, "0" * 64
        )
        edits = edited is not None and shown is not None and word == "approve"
        action = Action(
            call_id=self.name(name),
            type=word,
            args_hash=args_hash,
            edited_args={**shown.asked.arguments, "seats": edited} if shown is not None and edits else None,
            result="r" if word == "result" else None,
            error="e" if word == "error" else None,
            values={} if word == "answer" else None,
        )
        request = ActRequest(revision=before[0].revision + revision, actions=[action])
        self.send(who, request, key, before)

    @step(
        3, lambda self: self.now[0].status in {"open", "needs_review"}, no=st.sampled_from((*CALLS, "", ""))
    )
    def everybody_decides(self, no: str) -> None:
        """Two people say yes to all that they may, but for one call."""
        for who in ("rita", "boss"):
            before = self.snapshot()
            actions = [
                Action(
                    call_id=one.call_id,
                    type=fitting(one, "no" if one.call_id == self.name(no) else "yes"),
                    args_hash=one.args_hash,
                    error="e",
                )
                for one in before[1]
                if one.decision == "undecided" and one.kind != "in_doubt"
            ]
            if actions:
                self.send(who, ActRequest(revision=before[0].revision, actions=actions), None, before)

    @step(4, lambda self: self.now[0].status in {"ready", "resuming"}, steps=st.integers(1, 6))
    def the_attempt_works(self, steps: int) -> None:
        """What an attempt does when nothing is in its way, up to some point."""
        self.an_attempt_begins()
        self.it_goes_on_with_the_pause(0)
        for one in self.snapshot()[1][: max(1, steps // 2)]:
            name = one.call_id.removeprefix(f"{self.pause_id} ")
            self.it_hands_an_outcome_over(name)
            self.it_makes_a_call(name, 0)
            if steps % 2:
                self.it_has_an_outcome(name, 0, failed=steps > 3)

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

    @step(1, lambda self: self.last is not None, times=st.integers(1, 2))
    def the_same_again(self, times: int) -> None:
        """4: the same action any number of times is once."""
        assert self.last is not None
        who, request, _ = self.last
        before = self.snapshot()
        for _ in range(times):
            with contextlib.suppress(HostlerError):  # it belongs to an earlier pause or revision
                self.runner.run(self.desk.act(self.people[who], self.pause_id, request))
            if all(self.acknowledged.get((action.call_id, request.revision)) for action in request.actions):
                assert self.snapshot() == before
        self.remember(self.snapshot())

    @step(1, lambda self: True, who=st.sampled_from(PEOPLE))
    def somebody_loses_the_key(self, who: str) -> None:
        """17: what was said with a revoked key counts no more, unless it was decided already."""
        self.write(lambda tx: keys.revoke(tx, WORKSPACE, self.people[who].key_id))
        self.join(who)

    def remember(self, snapshot: Snapshot) -> None:
        for one in snapshot[1]:
            if one.decision != "undecided":
                fact = (one.decision, one.args_hash, one.decided_by)
                assert self.acknowledged.setdefault((one.call_id, one.revision), fact) == fact, "3"

    # -- time -------------------------------------------------------------------------------------

    @step(1, lambda self: self.now[0].status in {"open", "ready"}, minutes=st.sampled_from((2, 2, 2, 40)))
    def time_passes(self, minutes: int) -> None:
        before = self.snapshot()
        back = {"ms": minutes * 60_000, "pause_id": self.pause_id}
        self.write(lambda tx: (tx.run(SQL.pauses, **back), tx.run(SQL.calls, **back)))
        self.runner.run(self.desk.sweep())
        after = self.snapshot()
        if before[0].status != "open":
            assert after[0].status == before[0].status, "14: expiry concerns open pauses only"
            assert [one.decision for one in after[1]] == [one.decision for one in before[1]]
        for was, one in zip(before[1], after[1], strict=True):
            if was.decision != one.decision:
                assert (one.decision, one.decided_by) == ("expired", "clock"), "15"
        self.remember(after)

    # -- attempts ---------------------------------------------------------------------------------

    @step(2, lambda self: self.now[0].status in {"open", "needs_review"})
    def the_run_is_parked(self) -> None:
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        if run_now.status == "running" and self.pause.status in {"open", "needs_review"}:
            self.write(lambda tx: park(tx, self.run_id))

    @step(2, lambda self: self.now[0].status != "open")
    def an_attempt_begins(self) -> None:
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        if run_now.status == "queued":
            self.write(lambda tx: claim_run(tx, self.run_id))

    @step(3, lambda self: self.now[0].status != "open", behind=st.sampled_from((0, 0, 0, 1)))
    def it_goes_on_with_the_pause(self, behind: int) -> None:
        before = self.snapshot()
        epoch = self.attempt - behind
        begun = self.write(lambda tx: pause_claims.begin_resuming(tx, self.run_id, epoch))
        if isinstance(begun, ClaimRefused):
            assert self.snapshot() == before
            return
        assert behind == 0, "2: only the attempt under way goes on"
        assert begun.status == "resuming"
        if before[0].status == "ready":
            assert not self.epochs or epoch >= self.epochs[-1], "1: epochs only rise"
            self.epochs.append(epoch)

    @step(
        4,
        lambda self: self.now[0].status == "resuming",
        name=st.sampled_from(CALLS),
        behind=st.sampled_from((0, 0, 0, 1)),
    )
    def it_makes_a_call(self, name: str, behind: int) -> None:
        before = self.snapshot()
        was = {one.call_id: one for one in before[1]}.get(self.name(name))
        if was is None:
            return
        epoch = self.attempt - behind
        key = digest([was.call_id, was.args_hash, was.resolution])
        made = self.write(
            lambda tx: pause_claims.reserve(tx, self.run_id, was.call_id, epoch, effect_key=key)
        )
        if isinstance(made, ClaimRefused):
            assert self.snapshot() == before
            return
        assert (behind, before[0].status, before[0].epoch) == (0, "resuming", epoch), "2"
        assert was.decision == "approved", "7: nothing else is ever reserved"
        assert self.acknowledged[was.call_id, was.revision][:2] == ("approved", args_hash(made.effective)), (
            "8"
        )
        assert made.asked.pin == was.asked.pin, "24"
        once = f"{was.call_id} {was.resolution}"
        assert self.reserved.setdefault(once, key) == key, "10: the same key at every invocation"
        assert (was.call_id, was.resolution) not in self.finished, (
            "9, 11: what has an outcome is not made again"
        )

    @step(
        3,
        lambda self: self.executing("reserved"),
        name=st.sampled_from(CALLS),
        behind=st.sampled_from((0, 0, 0, 1)),
        failed=st.booleans(),
    )
    def it_has_an_outcome(self, name: str, behind: int, failed: bool) -> None:
        before = self.snapshot()
        was = {one.call_id: one for one in before[1]}.get(self.name(name))
        if was is None:
            return
        epoch = self.attempt - behind
        done = self.write(
            lambda tx: pause_claims.record_outcome(tx, self.run_id, was.call_id, epoch, failed=failed)
        )
        if isinstance(done, ClaimRefused):
            assert self.snapshot() == before
            return
        assert was.execution == "reserved"
        assert behind == 0
        self.finished.add((was.call_id, was.resolution))

    @step(1, lambda self: self.now[0].status == "resuming", name=st.sampled_from(CALLS))
    def it_hands_an_outcome_over(self, name: str) -> None:
        before = self.snapshot()
        was = {one.call_id: one for one in before[1]}.get(self.name(name))
        if was is None or was.decision == "approved":
            return
        epoch = self.attempt
        done = self.write(lambda tx: pause_claims.hand_over(tx, self.run_id, was.call_id, epoch))
        if isinstance(done, ClaimRefused):
            assert self.snapshot() == before
        else:
            assert was.decision != "undecided"

    @step(2, lambda self: True, back=st.booleans())
    def the_attempt_is_lost(self, back: bool) -> None:
        """23: the pause is ready again, with its decisions."""
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        if run_now.status != "running":
            return
        before = self.snapshot()

        def lose(tx: Tx) -> None:
            pause_claims.attempt_lost(tx, self.run_id, run_now.attempt, cause="it died", actor="h1")
            runs.transition(tx, self.run_id, run_now.attempt, "queued", cause="t", actor="t")

        self.write(lose)
        after = self.snapshot()
        if before[0].status == "resuming":
            last = before[0].attempts + 1 >= MAX_RESUME_ATTEMPTS
            assert after[0].status == ("failed" if last else "ready")
        else:
            assert after[0].status == before[0].status
        assert [one.decision for one in after[1]] == [one.decision for one in before[1]]
        if back:
            self.write(lambda tx: claim_run(tx, self.run_id))

    @step(2, lambda self: self.executing("reserved"), name=st.sampled_from(CALLS))
    def nobody_knows_what_came_of_it(self, name: str) -> None:
        before = self.snapshot()
        epoch = self.attempt
        doubted = self.write(
            lambda tx: pause_claims.mark_in_doubt(tx, self.run_id, self.name(name), epoch, cause="it died")
        )
        if isinstance(doubted, ClaimRefused):
            assert self.snapshot() == before
        else:
            assert doubted.status == "needs_review", "12"

    @step(
        4,
        lambda self: self.executing("in_doubt") or self.executing("succeeded"),
        name=st.sampled_from(CALLS),
        who=st.sampled_from(PEOPLE),
        happened=st.booleans(),
    )
    def somebody_knows_it(self, name: str, who: str, happened: bool) -> None:
        before = self.snapshot()
        was = {one.call_id: one for one in before[1]}.get(self.name(name))
        outcome: Any = "happened" if happened else "not_happened"
        try:
            self.runner.run(
                self.desk.resolve(
                    self.people[who], self.pause_id, self.name(name), outcome, 1 if happened else None
                )
            )
        except HostlerError:
            assert self.snapshot() == before
            return
        assert was is not None
        if was.review == "in_doubt" and happened:
            self.finished.add((was.call_id, was.resolution))

    @step(1, lambda self: self.now[0].status == "resuming", name=st.sampled_from(CALLS), gone=st.booleans())
    def its_tool_has_changed(self, name: str, gone: bool) -> None:
        before = self.snapshot()
        pin = None if gone else PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest=new_id())
        epoch = self.attempt
        asked = self.write(
            lambda tx: pause_claims.ask_again(
                tx, self.run_id, self.name(name), epoch, "changed", cause="another schema", pin=pin
            )
        )
        if isinstance(asked, ClaimRefused):
            assert self.snapshot() == before
            return
        now = {one.call_id: one for one in self.snapshot()[1]}[self.name(name)]
        assert (now.decision, now.execution) == ("undecided", "none"), "24"
        assert asked.status == ("needs_review" if gone else "open")

    # -- endings ----------------------------------------------------------------------------------

    @step(
        1,
        lambda self: self.now[0].status in {"open", "needs_review"},
        who=st.sampled_from(PEOPLE),
        really=st.sampled_from((True, False, False, False)),
    )
    def it_is_cancelled(self, who: str, really: bool) -> None:
        before = self.snapshot()
        if not really:
            return
        try:
            self.runner.run(self.desk.cancel(self.people[who], self.pause_id))
        except HostlerError:
            assert self.snapshot() == before
        self.remember(self.snapshot())

    @step(1, lambda self: self.now[0].status in {"ready", "resuming"})
    def the_run_ends(self) -> None:
        run_now = self.read(lambda tx: runs.get(tx, WORKSPACE, self.run_id))
        if run_now.status == "running" and self.pause.status not in {"open", "needs_review"}:
            self.write(lambda tx: finish(tx, self.run_id, run_now.attempt, "completed", cause="t", actor="t"))
            assert is_settled(self.pause.status)
        self.remember(self.snapshot())

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        names = [one.name for one in STEPS if one.applies(self) for _ in range(one.weight)]
        name = data.draw(st.sampled_from(names))
        values = next(one.values for one in STEPS if one.name == name)
        getattr(self, name)(**{key: data.draw(strategy, key) for key, strategy in values.items()})

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


def test_pauses_keep_their_invariants_in_any_order(database: SqlDatabase) -> None:
    usual = 4 if database.dialect == "postgres" else 12
    with asyncio.Runner() as runner:
        machine = type("Machine", (PausesMachine,), {"database": database, "runner": runner})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=400 if SOAK else usual,
                stateful_step_count=60 if SOAK else 30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    verified = read(database, lambda tx: chain.verify(tx, WORKSPACE, "audit", limit=500))
    assert verified.broken is None, "25"
