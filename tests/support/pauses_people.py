"""Steps of `PausesMachine` that people and the clock take."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import strategies as st

from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.pauses import is_settled
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import runs
from hostler_protocol.errors import HostlerError
from hostler_protocol.ids import new_id
from support.pauses import WORKSPACE, call, claim_run, open_pause, open_run
from support.pauses_machine import CALLS, KINDS, PEOPLE, SQL, PausesMachine, Steps, fitting

STEPS = Steps()


@STEPS.step(
    6,
    lambda machine: is_settled(machine.now[0].status),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    over=st.booleans(),
)
def open_the_next(machine: PausesMachine, kinds: list[str], over: bool) -> None:
    machine.settled[machine.pause_id] = machine.pause
    run_now = machine.read(lambda tx: runs.get(tx, WORKSPACE, machine.run_id))
    if run_now.finished_at is not None:
        machine.run_id = new_id()
        machine.epochs = []
        machine.write(lambda tx: open_run(tx, machine.run_id))
    elif run_now.status == "queued":
        machine.write(lambda tx: claim_run(tx, machine.run_id))
    if over:
        machine.open_too_much()
    machine.open(kinds)


@STEPS.step(1, lambda machine: not is_settled(machine.now[0].status))
def open_another_beside_it(machine: PausesMachine) -> None:
    """16: one unsettled per run."""
    before = machine.snapshot()
    with pytest.raises(HostlerError):
        machine.write(lambda tx: open_pause(tx, call("x"), run_id=machine.run_id, pause_id=new_id()))
    assert machine.snapshot() == before


@STEPS.step(
    5,
    lambda machine: True,
    who=st.sampled_from(PEOPLE),
    name=st.sampled_from((*CALLS, "k0", "nobody")),
    kind=st.sampled_from(("yes", "yes", "no", "approve", "result", "answer")),
    seen=st.sampled_from(("digest", "digest", "nothing", "stale")),
    edited=st.sampled_from((None, None, 2, 3)),
    revision=st.sampled_from((0, 0, 0, 1)),
    key=st.sampled_from((None, None, "a", "b")),
)
def act(
    machine: PausesMachine,
    who: str,
    name: str,
    kind: str,
    seen: str,
    edited: int | None,
    revision: int,
    key: str | None,
) -> None:
    before = machine.snapshot()
    shown = {one.call_id: one for one in before[1]}.get(machine.name(name))
    word = fitting(shown, kind)
    args_hash = {"digest": None if shown is None else shown.args_hash, "nothing": None}.get(seen, "0" * 64)
    edits = edited is not None and shown is not None and word == "approve"
    action = Action(
        call_id=machine.name(name),
        type=word,
        args_hash=args_hash,
        edited_args={**shown.asked.arguments, "seats": edited} if shown is not None and edits else None,
        result="r" if word == "result" else None,
        error="e" if word == "error" else None,
        values={} if word == "answer" else None,
    )
    request = ActRequest(revision=before[0].revision + revision, actions=[action])
    machine.send(who, request, key, before)


@STEPS.step(
    3, lambda machine: machine.now[0].status in {"open", "needs_review"}, no=st.sampled_from((*CALLS, "", ""))
)
def everybody_decides(machine: PausesMachine, no: str) -> None:
    """Two people say yes to all that they may, but for one call."""
    for who in ("rita", "boss"):
        before = machine.snapshot()
        actions = [
            Action(
                call_id=one.call_id,
                type=fitting(one, "no" if one.call_id == machine.name(no) else "yes"),
                args_hash=one.args_hash,
                error="e",
            )
            for one in before[1]
            if one.decision == "undecided" and one.kind != "in_doubt"
        ]
        if actions:
            machine.send(who, ActRequest(revision=before[0].revision, actions=actions), None, before)


@STEPS.step(1, lambda machine: machine.last is not None, times=st.integers(1, 2))
def the_same_again(machine: PausesMachine, times: int) -> None:
    """4: the same action any number of times is once."""
    assert machine.last is not None
    who, request, _ = machine.last
    before = machine.snapshot()
    for _ in range(times):
        with contextlib.suppress(HostlerError):  # it belongs to an earlier pause or revision
            machine.runner.run(machine.desk.act(machine.people[who], machine.pause_id, request))
        if all(machine.acknowledged.get((action.call_id, request.revision)) for action in request.actions):
            assert machine.snapshot() == before
    machine.remember(machine.snapshot())


@STEPS.step(1, lambda machine: True, who=st.sampled_from(PEOPLE))
def somebody_loses_the_key(machine: PausesMachine, who: str) -> None:
    """17: what was said with a revoked key counts no more, unless it was decided already."""
    machine.write(lambda tx: keys.revoke(tx, WORKSPACE, machine.people[who].key_id))
    machine.join(who)


@STEPS.step(
    1, lambda machine: machine.now[0].status in {"open", "ready"}, minutes=st.sampled_from((2, 2, 2, 40))
)
def time_passes(machine: PausesMachine, minutes: int) -> None:
    before = machine.snapshot()
    back = {"ms": minutes * 60_000, "pause_id": machine.pause_id}
    machine.write(lambda tx: (tx.run(SQL.pauses, **back), tx.run(SQL.calls, **back)))
    machine.runner.run(machine.desk.sweep())
    after = machine.snapshot()
    if before[0].status != "open":
        assert after[0].status == before[0].status, "14: expiry concerns open pauses only"
        assert [one.decision for one in after[1]] == [one.decision for one in before[1]]
    for was, one in zip(before[1], after[1], strict=True):
        if was.decision != one.decision:
            assert (one.decision, one.decided_by) == ("expired", "clock"), "15"
    machine.remember(after)


@STEPS.step(
    4,
    lambda machine: machine.executing("in_doubt") or machine.executing("succeeded"),
    name=st.sampled_from(CALLS),
    who=st.sampled_from(PEOPLE),
    happened=st.booleans(),
)
def somebody_knows_it(machine: PausesMachine, name: str, who: str, happened: bool) -> None:
    before = machine.snapshot()
    was = {one.call_id: one for one in before[1]}.get(machine.name(name))
    outcome: Any = "happened" if happened else "not_happened"
    try:
        machine.runner.run(
            machine.desk.resolve(
                machine.people[who], machine.pause_id, machine.name(name), outcome, 1 if happened else None
            )
        )
    except HostlerError:
        assert machine.snapshot() == before
        return
    assert was is not None
    if was.review == "in_doubt" and happened:
        machine.finished.add((was.call_id, was.resolution))


@STEPS.step(
    1,
    lambda machine: machine.now[0].status in {"open", "needs_review"},
    who=st.sampled_from(PEOPLE),
    really=st.sampled_from((True, False, False, False)),
)
def it_is_cancelled(machine: PausesMachine, who: str, really: bool) -> None:
    before = machine.snapshot()
    if not really:
        return
    try:
        machine.runner.run(machine.desk.cancel(machine.people[who], machine.pause_id))
    except HostlerError:
        assert machine.snapshot() == before
    machine.remember(machine.snapshot())
