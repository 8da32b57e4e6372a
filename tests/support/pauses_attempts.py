"""Steps of `PausesMachine` that attempts of the run take."""

from __future__ import annotations

from hypothesis import strategies as st

from hostler.domain.pause_values import args_hash
from hostler.domain.pauses import MAX_RESUME_ATTEMPTS, is_settled
from hostler.domain.tool_pins import PresentTool
from hostler.storage.port import Tx
from hostler.storage.stores import pause_claims, runs
from hostler.storage.stores.pause_claims import ClaimRefused
from hostler.storage.stores.run_endings import finish
from hostler_protocol.ids import digest, new_id
from support.pauses import PIN, WORKSPACE, claim_run, park
from support.pauses_machine import CALLS, PausesMachine, Steps

STEPS = Steps()


@STEPS.step(4, lambda machine: machine.now[0].status in {"ready", "resuming"}, steps=st.integers(1, 6))
def the_attempt_works(machine: PausesMachine, steps: int) -> None:
    """What an attempt does when nothing is in its way, up to some point."""
    an_attempt_begins(machine)
    it_goes_on_with_the_pause(machine, 0)
    for one in machine.snapshot()[1][: max(1, steps // 2)]:
        name = one.call_id.removeprefix(f"{machine.pause_id} ")
        it_hands_an_outcome_over(machine, name)
        it_makes_a_call(machine, name, 0)
        if steps % 2:
            it_has_an_outcome(machine, name, 0, failed=steps > 3)


@STEPS.step(2, lambda machine: machine.now[0].status in {"open", "needs_review"})
def the_run_is_parked(machine: PausesMachine) -> None:
    run_now = machine.read(lambda tx: runs.get(tx, WORKSPACE, machine.run_id))
    if run_now.status == "running" and machine.pause.status in {"open", "needs_review"}:
        machine.write(lambda tx: park(tx, machine.run_id))


@STEPS.step(2, lambda machine: machine.now[0].status != "open")
def an_attempt_begins(machine: PausesMachine) -> None:
    run_now = machine.read(lambda tx: runs.get(tx, WORKSPACE, machine.run_id))
    if run_now.status == "queued":
        machine.write(lambda tx: claim_run(tx, machine.run_id))


@STEPS.step(3, lambda machine: machine.now[0].status != "open", behind=st.sampled_from((0, 0, 0, 1)))
def it_goes_on_with_the_pause(machine: PausesMachine, behind: int) -> None:
    before = machine.snapshot()
    epoch = machine.attempt - behind
    begun = machine.write(lambda tx: pause_claims.begin_resuming(tx, machine.run_id, epoch))
    if isinstance(begun, ClaimRefused):
        assert machine.snapshot() == before
        return
    assert behind == 0, "2: only the attempt under way goes on"
    assert begun.status == "resuming"
    if before[0].status == "ready":
        assert not machine.epochs or epoch >= machine.epochs[-1], "1: epochs only rise"
        machine.epochs.append(epoch)


@STEPS.step(
    4,
    lambda machine: machine.now[0].status == "resuming",
    name=st.sampled_from(CALLS),
    behind=st.sampled_from((0, 0, 0, 1)),
)
def it_makes_a_call(machine: PausesMachine, name: str, behind: int) -> None:
    before = machine.snapshot()
    was = {one.call_id: one for one in before[1]}.get(machine.name(name))
    if was is None:
        return
    epoch = machine.attempt - behind
    key = digest([was.call_id, was.args_hash, was.resolution])
    made = machine.write(
        lambda tx: pause_claims.reserve(tx, machine.run_id, was.call_id, epoch, effect_key=key)
    )
    if isinstance(made, ClaimRefused):
        assert machine.snapshot() == before
        return
    assert (behind, before[0].status, before[0].epoch) == (0, "resuming", epoch), "2"
    assert was.decision == "approved", "7: nothing else is ever reserved"
    assert machine.acknowledged[was.call_id, was.revision][:2] == ("approved", args_hash(made.effective)), "8"
    assert made.asked.pin == was.asked.pin, "24"
    once = f"{was.call_id} {was.resolution}"
    assert machine.reserved.setdefault(once, key) == key, "10: the same key at every invocation"
    assert (was.call_id, was.resolution) not in machine.finished, (
        "9, 11: what has an outcome is not made again"
    )


@STEPS.step(
    3,
    lambda machine: machine.executing("reserved"),
    name=st.sampled_from(CALLS),
    behind=st.sampled_from((0, 0, 0, 1)),
    failed=st.booleans(),
)
def it_has_an_outcome(machine: PausesMachine, name: str, behind: int, failed: bool) -> None:
    before = machine.snapshot()
    was = {one.call_id: one for one in before[1]}.get(machine.name(name))
    if was is None:
        return
    epoch = machine.attempt - behind
    done = machine.write(
        lambda tx: pause_claims.record_outcome(tx, machine.run_id, was.call_id, epoch, failed=failed)
    )
    if isinstance(done, ClaimRefused):
        assert machine.snapshot() == before
        return
    assert was.execution == "reserved"
    assert behind == 0
    machine.finished.add((was.call_id, was.resolution))


@STEPS.step(1, lambda machine: machine.now[0].status == "resuming", name=st.sampled_from(CALLS))
def it_hands_an_outcome_over(machine: PausesMachine, name: str) -> None:
    before = machine.snapshot()
    was = {one.call_id: one for one in before[1]}.get(machine.name(name))
    if was is None or was.decision == "approved":
        return
    epoch = machine.attempt
    done = machine.write(lambda tx: pause_claims.hand_over(tx, machine.run_id, was.call_id, epoch))
    if isinstance(done, ClaimRefused):
        assert machine.snapshot() == before
    else:
        assert was.decision != "undecided"


@STEPS.step(2, lambda machine: True, back=st.booleans())
def the_attempt_is_lost(machine: PausesMachine, back: bool) -> None:
    """23: the pause is ready again, with its decisions."""
    run_now = machine.read(lambda tx: runs.get(tx, WORKSPACE, machine.run_id))
    if run_now.status != "running":
        return
    before = machine.snapshot()

    def lose(tx: Tx) -> None:
        pause_claims.attempt_lost(tx, machine.run_id, run_now.attempt, cause="it died", actor="h1")
        runs.transition(tx, machine.run_id, run_now.attempt, "queued", cause="t", actor="t")

    machine.write(lose)
    after = machine.snapshot()
    if before[0].status == "resuming":
        last = before[0].attempts + 1 >= MAX_RESUME_ATTEMPTS
        assert after[0].status == ("failed" if last else "ready")
    else:
        assert after[0].status == before[0].status
    assert [one.decision for one in after[1]] == [one.decision for one in before[1]]
    if back:
        machine.write(lambda tx: claim_run(tx, machine.run_id))


@STEPS.step(2, lambda machine: machine.executing("reserved"), name=st.sampled_from(CALLS))
def nobody_knows_what_came_of_it(machine: PausesMachine, name: str) -> None:
    before = machine.snapshot()
    epoch = machine.attempt
    doubted = machine.write(
        lambda tx: pause_claims.mark_in_doubt(tx, machine.run_id, machine.name(name), epoch, cause="it died")
    )
    if isinstance(doubted, ClaimRefused):
        assert machine.snapshot() == before
    else:
        assert doubted.status == "needs_review", "12"


@STEPS.step(
    1, lambda machine: machine.now[0].status == "resuming", name=st.sampled_from(CALLS), gone=st.booleans()
)
def its_tool_has_changed(machine: PausesMachine, name: str, gone: bool) -> None:
    before = machine.snapshot()
    pin = PIN.__class__(tool_id=PIN.tool_id, owner=PIN.owner, schema_digest=new_id())
    tool = None if gone else PresentTool(pin)
    epoch = machine.attempt
    asked = machine.write(
        lambda tx: pause_claims.ask_again(
            tx, machine.run_id, machine.name(name), epoch, "changed", cause="another schema", tool=tool
        )
    )
    if isinstance(asked, ClaimRefused):
        assert machine.snapshot() == before
        return
    now = {one.call_id: one for one in machine.snapshot()[1]}[machine.name(name)]
    assert (now.decision, now.execution) == ("undecided", "none"), "24"
    assert asked.status == ("needs_review" if gone else "open")


@STEPS.step(1, lambda machine: machine.now[0].status in {"ready", "resuming"})
def the_run_ends(machine: PausesMachine) -> None:
    run_now = machine.read(lambda tx: runs.get(tx, WORKSPACE, machine.run_id))
    if run_now.status == "running" and machine.pause.status not in {"open", "needs_review"}:
        machine.write(
            lambda tx: finish(tx, machine.run_id, run_now.attempt, "completed", cause="t", actor="t")
        )
        assert is_settled(machine.pause.status)
    machine.remember(machine.snapshot())
