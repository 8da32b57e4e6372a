"""What attempts do to pauses, on both databases: fenced by their number, each outcome handed over once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.domain.pause_values import Pause
from hostler.domain.pauses import MAX_RESUME_ATTEMPTS
from hostler.domain.tool_pins import PresentTool
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal, pause_calls, pause_claims, pause_votes, pauses, runs
from hostler.storage.stores.pause_claims import ClaimRefused, Lost
from support.databases import read, write
from support.pauses import ADMIN, PIN, WORKSPACE, call, calls_of, claim_run, open_pause, open_run, park

pytestmark = pytest.mark.gate("approved-arguments")


class World:
    """A run with an open pause of three calls: one will be approved, one denied, one expired."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        write(database, open_run)
        write(database, lambda tx: open_pause(tx, call("yes"), call("no"), call("late")))

    def decide(self) -> None:
        def work(tx: Tx) -> None:
            pause = pauses.get(tx, WORKSPACE, "p1")
            calls = calls_of(tx)
            pause_votes.record(tx, pause, calls["yes"], "approve", ADMIN)
            for call_id, to in (("yes", "approved"), ("no", "denied"), ("late", "expired")):
                pause_calls.decide(tx, pause, calls[call_id], to, cause="t", actor="admin")  # type: ignore[arg-type]
            pauses.settle(tx, pause, actor="admin")

        write(self.database, work)

    def next_attempt(self) -> None:
        """The attempt is lost, and another one is under way."""

        def work(tx: Tx) -> Lost | None:
            epoch = runs.get(tx, WORKSPACE, "r1").attempt
            lost = pause_claims.attempt_lost(tx, "r1", epoch, cause="its plugin died", actor="h1")
            runs.transition(tx, "r1", None, "queued", cause="t", actor="t")
            return lost

        write(self.database, work)
        write(self.database, claim_run)

    def begin(self, epoch: int) -> Any:
        return write(self.database, lambda tx: pause_claims.begin_resuming(tx, "r1", epoch))

    def reserve(self, call_id: str, epoch: int, key: str = "e1") -> Any:
        return write(self.database, lambda tx: pause_claims.reserve(tx, "r1", call_id, epoch, effect_key=key))

    def outcome(self, call_id: str, epoch: int, *, failed: bool = False) -> Any:
        return write(
            self.database, lambda tx: pause_claims.record_outcome(tx, "r1", call_id, epoch, failed=failed)
        )

    def hand_over(self, call_id: str, epoch: int) -> Any:
        return write(self.database, lambda tx: pause_claims.hand_over(tx, "r1", call_id, epoch))

    @property
    def status(self) -> str:
        return read(self.database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status

    def call(self, call_id: str) -> Any:
        return read(self.database, calls_of)[call_id]


@pytest.fixture
def world(database: SqlDatabase) -> World:
    return World(database)


def test_an_attempt_goes_on_with_a_ready_pause_and_hands_every_outcome_over(world: World) -> None:
    assert world.begin(1).reason == "not_ready", "it is still open"
    world.decide()
    assert (world.begin(1).status, world.begin(1).epoch) == ("resuming", 1)
    made = world.reserve("yes", 1)
    assert (made.execution, made.effect_key, made.effective) == (
        "reserved",
        "e1",
        {"item": "yes", "seats": 1},
    )
    assert world.hand_over("no", 1).status == "resuming"
    assert world.hand_over("late", 1).status == "resuming"
    assert world.outcome("yes", 1).status == "resumed"
    assert world.call("yes").execution == "succeeded"
    assert world.outcome("yes", 1).reason == "fenced", "the pause is settled"


def test_07_only_an_approved_call_is_reserved(world: World) -> None:
    assert world.reserve("yes", 1).reason == "fenced", "nobody goes on with an open pause"
    world.decide()
    world.begin(1)
    for call_id in ("no", "late"):
        assert world.reserve(call_id, 1).reason == "undecided"
    assert world.reserve("nobody", 1).reason == "unknown"
    assert not isinstance(world.reserve("yes", 1), ClaimRefused)
    assert world.reserve("yes", 1).reason == "made", "twice by one attempt"
    world.outcome("yes", 1, failed=True)
    assert world.call("yes").execution == "failed"


def test_02_a_superseded_attempt_writes_nothing(world: World) -> None:
    world.decide()
    world.begin(1)
    world.reserve("yes", 1)
    world.next_attempt()
    for late in (world.begin, lambda n: world.reserve("yes", n), lambda n: world.outcome("yes", n)):
        assert late(1).reason == "fenced"
    assert world.hand_over("no", 1).reason == "fenced"
    assert world.status == "ready"
    assert (world.begin(2).status, world.begin(2).epoch) == ("resuming", 2)
    assert world.outcome("yes", 1).reason == "fenced"
    assert world.call("yes").execution == "reserved"


def test_10_a_call_made_again_has_the_same_key(world: World) -> None:
    world.decide()
    world.begin(1)
    world.reserve("yes", 1, "e1")
    world.next_attempt()
    world.begin(2)
    with pytest.raises(ValueError, match="another effect key"):
        world.reserve("yes", 2, "e2")
    again = world.reserve("yes", 2, "e1")
    assert (again.execution, again.epoch) == ("reserved", 2)
    assert world.outcome("yes", 2).status == "resuming"


def test_11_an_outcome_is_written_once(world: World) -> None:
    world.decide()
    world.begin(1)
    world.reserve("yes", 1)
    world.outcome("yes", 1)
    assert world.outcome("yes", 1).reason == "made"
    assert world.reserve("yes", 1).reason == "made"
    world.next_attempt()
    world.begin(2)
    assert world.reserve("yes", 2).reason == "made", "what it gave is in the journal"


def test_23_a_lost_attempt_gives_the_pause_back_with_its_decisions(world: World) -> None:
    world.decide()
    before = {one: world.call(one).decision for one in ("yes", "no", "late")}
    for attempt in range(1, MAX_RESUME_ATTEMPTS):
        assert world.begin(attempt).epoch == attempt
        world.next_attempt()
        assert world.status == "ready"
        assert {one: world.call(one).decision for one in before} == before
    world.begin(MAX_RESUME_ATTEMPTS)
    world.next_attempt()
    assert world.status == "failed"


def test_a_lost_attempt_waits_longer_each_time(world: World) -> None:
    world.decide()
    waits = []
    for attempt in range(1, MAX_RESUME_ATTEMPTS):
        world.begin(attempt)

        def lose(tx: Tx, epoch: int = attempt) -> int:
            lost = pause_claims.attempt_lost(tx, "r1", epoch, cause="t", actor="t")
            assert lost is not None
            runs.transition(tx, "r1", None, "queued", cause="t", actor="t")
            return lost.not_before - tx.now

        waits.append(write(world.database, lose))
        write(world.database, claim_run)
    assert waits == [1_000, 2_000, 4_000, 8_000]


def test_an_attempt_that_had_done_nothing_counts_for_the_back_off_alone(world: World) -> None:
    world.decide()
    waits = []
    for attempt in range(1, 3 * MAX_RESUME_ATTEMPTS):
        world.begin(attempt)

        def lose(tx: Tx, epoch: int = attempt) -> int:
            lost = pause_claims.attempt_lost(tx, "r1", epoch, cause="t", actor="t", undone=True)
            assert lost is not None
            assert (lost.pause.status, lost.pause.attempts, lost.pause.losses) == ("ready", 0, epoch)
            runs.transition(tx, "r1", None, "queued", cause="t", actor="t")
            return lost.not_before - tx.now

        waits.append(write(world.database, lose))
        write(world.database, claim_run)
    assert waits[:7] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    assert set(waits[6:]) == {60_000}
    assert {world.call(one).decision for one in ("yes", "no", "late")} == {"approved", "denied", "expired"}


def test_an_attempt_that_is_given_back_counts_for_nothing(world: World) -> None:
    world.decide()
    world.begin(1)
    lost = write(
        world.database,
        lambda tx: pause_claims.attempt_lost(tx, "r1", 1, cause="the host stops", actor="h1", crashed=False),
    )
    assert lost is not None
    assert (lost.pause.status, lost.pause.attempts) == ("ready", 0)


def test_an_attempt_that_goes_on_with_no_pause_loses_none(world: World) -> None:
    lost = write(world.database, lambda tx: pause_claims.attempt_lost(tx, "r1", 1, cause="t", actor="t"))
    assert lost is None
    assert world.status == "open"


def test_a_tool_that_was_never_asked_gives_its_reservation_back(world: World) -> None:
    world.decide()
    world.begin(1)
    world.reserve("yes", 1)
    write(world.database, lambda tx: pause_claims.release_call(tx, "r1", "yes", 1, cause="no connection"))
    assert world.call("yes").execution == "none"
    assert not isinstance(world.reserve("yes", 1), ClaimRefused)


def test_12_a_call_of_unknown_outcome_waits_for_somebody_to_look(world: World) -> None:
    world.decide()
    world.begin(1)
    world.reserve("yes", 1)
    write(world.database, lambda tx: pause_claims.mark_in_doubt(tx, "r1", "yes", 1, cause="its process died"))
    one = world.call("yes")
    assert (world.status, one.execution, one.review, one.decision) == (
        "needs_review",
        "in_doubt",
        "in_doubt",
        "approved",
    )
    assert world.reserve("yes", 1).reason == "not_ready"


class Two:
    """Two approved calls, both being made by attempt 1."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        write(database, open_run)
        write(database, lambda tx: open_pause(tx, call("a"), call("b")))

        def approve(tx: Tx) -> None:
            pause = pauses.get(tx, WORKSPACE, "p1")
            for one in calls_of(tx).values():
                pause_votes.record(tx, pause, one, "approve", ADMIN)
                pause_calls.decide(tx, pause, one, "approved", cause="t", actor="admin")
            pauses.settle(tx, pause, actor="admin")
            pause_claims.begin_resuming(tx, "r1", 1)
            for call_id in ("a", "b"):
                pause_claims.reserve(tx, "r1", call_id, 1, effect_key=call_id)

        write(database, approve)

    def doubt(self, call_id: str) -> Any:
        return write(
            self.database,
            lambda tx: pause_claims.mark_in_doubt(tx, "r1", call_id, 1, cause="its process died"),
        )

    def say(self, call_id: str, happened: bool) -> Pause:
        """A person says what became of a call."""

        def work(tx: Tx) -> Pause:
            pause, one = pauses.get(tx, WORKSPACE, "p1"), calls_of(tx)[call_id]
            to: Any = "succeeded" if happened else "none"
            pause_calls.execute(tx, pause, one, to, cause="t", actor="admin", resolution=0 if happened else 1)
            return pauses.settle(tx, pause, actor="admin")

        return write(self.database, work)


def test_11_an_outcome_counts_although_another_call_came_into_doubt(database: SqlDatabase) -> None:
    two = Two(database)
    assert two.doubt("a").status == "needs_review"
    done = write(database, lambda tx: pause_claims.record_outcome(tx, "r1", "b", 1, failed=False))
    assert not isinstance(done, ClaimRefused)
    assert done.status == "needs_review"
    assert two.say("a", happened=True).status == "ready"
    begun = write(database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    assert not isinstance(begun, ClaimRefused)
    assert begun.epoch == 1
    over = write(database, lambda tx: pause_claims.hand_over(tx, "r1", "a", 1))
    assert not isinstance(over, ClaimRefused)
    assert over.status == "resumed"


def test_12_several_calls_may_be_in_doubt_at_once(database: SqlDatabase) -> None:
    two = Two(database)
    two.doubt("a")
    assert two.doubt("b").status == "needs_review"
    entries = read(database, lambda tx: journal.page(tx, "r1")).items
    reviewed = [msgspec.json.decode(entry.data) for entry in entries if entry.type == "pause.needs_review"]
    named = [{"call_id": call_id, "kind": "in_doubt"} for call_id in ("a", "b")]
    assert [entry["calls"] for entry in reviewed] == [[one] for one in named]
    assert two.say("a", happened=False).status == "needs_review"
    again = write(database, lambda tx: pause_claims.reserve(tx, "r1", "a", 1, effect_key="a again"))
    assert again.reason == "not_ready"  # type: ignore[union-attr]
    assert two.say("b", happened=True).status == "ready"
    write(database, lambda tx: pause_claims.begin_resuming(tx, "r1", 1))
    made = write(database, lambda tx: pause_claims.reserve(tx, "r1", "a", 1, effect_key="a again"))
    assert not isinstance(made, ClaimRefused)


def test_a_call_comes_into_doubt_although_the_others_are_settled_by_now(database: SqlDatabase) -> None:
    two = Two(database)
    two.doubt("a")
    two.say("a", happened=True)
    assert read(database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status == "ready"
    assert two.doubt("b").status == "needs_review"


def test_24_an_approval_of_a_changed_tool_is_asked_again(world: World) -> None:
    world.decide()
    world.begin(1)
    changed = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest="s2")
    schema = {"type": "object", "properties": {"reason": {"type": "string"}}}
    now = PresentTool(changed, "Books, with a reason.", schema)

    def again(tx: Tx) -> Any:
        return pause_claims.ask_again(tx, "r1", "yes", 1, "changed", cause="its schema changed", tool=now)

    pause = write(world.database, again)
    assert (pause.status, pause.revision) == ("open", 2)
    one = world.call("yes")
    assert (one.decision, one.revision, one.asked.pin, one.review) == ("undecided", 2, changed, None)
    assert (one.asked.description, one.asked.args_schema) == ("Books, with a reason.", schema)
    assert world.call("no").decision == "denied", "what else was decided stands"
    assert world.reserve("yes", 1).reason == "not_ready"


def test_24_what_a_runner_said_of_a_call_is_asked_again_as_it_said_it(database: SqlDatabase) -> None:
    def asked_again(tx: Tx) -> Any:
        open_run(tx)
        pause = open_pause(tx, call("yes", description="book the train"), form="explicit")
        tool = PresentTool(PIN, "books anything", {"required": ["seat"]}, {"type": "integer"})
        pause_calls.ask_again(tx, pause, calls_of(tx)["yes"], cause="t", actor="h1", review=None, tool=tool)
        return calls_of(tx)["yes"].asked

    asked = write(database, asked_again)
    assert (asked.description, asked.args_schema) == ("book the train", {"required": ["seat"]})
    assert asked.result_schema == {"type": "integer"}


def test_24_a_call_of_a_tool_that_is_gone_can_only_be_denied(world: World) -> None:
    world.decide()
    world.begin(1)
    pause = write(
        world.database,
        lambda tx: pause_claims.ask_again(tx, "r1", "yes", 1, "changed", cause="its tool is gone"),
    )
    assert not isinstance(pause, ClaimRefused)
    assert (pause.status, world.call("yes").review) == ("needs_review", "changed")

    def deny(tx: Tx) -> Any:
        now = pauses.get(tx, WORKSPACE, "p1")
        pause_calls.decide(tx, now, calls_of(tx)["yes"], "denied", cause="t", actor="admin")
        return pauses.settle(tx, now, actor="admin")

    assert write(world.database, deny).status == "ready"


def test_01_epochs_only_rise(world: World) -> None:
    world.decide()
    seen = []
    for attempt in range(1, 4):
        seen.append(world.begin(attempt).epoch)
        world.next_attempt()
    assert seen == [1, 2, 3]
    write(world.database, lambda tx: runs.transition(tx, "r1", None, "paused", cause="t", actor="t"))
    assert world.begin(4).reason == "fenced", "no attempt is under way"


def test_an_explicit_pause_is_over_when_the_runner_pauses_again(database: SqlDatabase) -> None:
    write(database, open_run)
    write(database, lambda tx: open_pause(tx, call("k1", "question"), form="explicit"))
    write(database, park)

    def answer(tx: Tx) -> None:
        pause = pauses.get(tx, WORKSPACE, "p1")
        pause_calls.decide(tx, pause, calls_of(tx)["k1"], "answered", cause="t", actor="rita")
        pauses.settle(tx, pause, actor="rita")
        runs.transition(tx, "r1", None, "queued", cause="t", actor="t")

    write(database, answer)
    write(database, claim_run)
    write(database, lambda tx: pause_claims.begin_resuming(tx, "r1", 2))
    second = write(database, lambda tx: open_pause(tx, call("k2"), pause_id="p2", form="explicit"))
    assert second.segment == 2
    assert read(database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status == "resumed"
