"""Calls that were about to be made when their run ended, or went on without them, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hostler.domain.pause_values import NewPause
from hostler.domain.pauses import PauseForm
from hostler.domain.usage import NOTHING_USED
from hostler.pauses.explicit import PreparedPause, pause_run
from hostler.pauses.explicit_states import KeptState
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import pause_calls, pause_claims, pause_votes, pauses, run_endings, runs
from hostler.storage.stores.pause_claims import ClaimRefused
from hostler_protocol.runs import RunStatus
from support.databases import read, write
from support.pauses import ADMIN, WORKSPACE, call, calls_of, open_pause, open_run


def reserve_both(database: SqlDatabase, form: PauseForm) -> None:
    """Attempt 1 makes two approved calls, and knows the outcome of `made` already."""

    def work(tx: Tx) -> None:
        open_run(tx)
        pause = open_pause(tx, call("made"), call("under way"), form=form)
        for one in calls_of(tx).values():
            pause_votes.record(tx, pause, one, "approve", ADMIN)
            pause_calls.decide(tx, pause, one, "approved", cause="t", actor="admin")
        pauses.settle(tx, pause, actor="admin")
        pause_claims.begin_resuming(tx, "r1", 1)
        for call_id in calls_of(tx):
            pause_claims.reserve(tx, "r1", call_id, 1, effect_key=call_id)
        pause_claims.record_outcome(tx, "r1", "made", 1, failed=False)

    write(database, work)


def executions(database: SqlDatabase) -> dict[str, Any]:
    found = read(database, calls_of)
    assert {one.review for one in found.values()} == {None}, "nobody is asked"
    return {call_id: one.execution for call_id, one in found.items()}


LEFT = {"made": "succeeded", "under way": "in_doubt"}


def finish(status: RunStatus) -> Callable[[Tx], object]:
    return lambda tx: run_endings.finish(tx, "r1", 1, status, cause="it ends", actor="t")


def restart(tx: Tx) -> object:
    return run_endings.begin_again(tx, "r1", 1, cause="a crash", actor="t", crashed=True, restart=True)


def fail_the_pause(tx: Tx) -> object:
    pauses.move(tx, pauses.get(tx, WORKSPACE, "p1"), "failed", cause="the last try", actor="t")
    return run_endings.finish(tx, "r1", 1, "failed", cause="the last try", actor="t")


def pause_again(tx: Tx) -> object:
    kept = KeptState(b"{}", "d", 1, None)
    new = NewPause(pause_id="p2", run_id="r1", calls=[call("next")], form="explicit")
    run = runs.get(tx, WORKSPACE, "r1")
    return pause_run(tx, run, PreparedPause(new, kept), [], actor="t", used=NOTHING_USED)


@pytest.mark.parametrize("form", ["implicit", "explicit"])
@pytest.mark.parametrize(
    "end", [finish("failed"), finish("completed"), finish("cancelled"), restart, fail_the_pause]
)
def test_12_a_call_under_way_when_its_run_ends_stays_in_doubt(
    database: SqlDatabase, form: PauseForm, end: Callable[[Tx], object]
) -> None:
    reserve_both(database, form)
    write(database, end)
    assert executions(database) == LEFT


def test_12_a_call_under_way_when_its_runner_pauses_the_run_stays_in_doubt(database: SqlDatabase) -> None:
    reserve_both(database, "explicit")
    write(database, pause_again)
    assert executions(database) == LEFT


def test_02_a_superseded_attempt_leaves_no_call_in_doubt(database: SqlDatabase) -> None:
    reserve_both(database, "explicit")
    write(database, lambda tx: run_endings.finish(tx, "r1", 2, "failed", cause="late", actor="t"))
    assert executions(database) == {**LEFT, "under way": "reserved"}


def test_11_an_outcome_counts_although_the_run_has_opened_its_next_pause(database: SqlDatabase) -> None:
    reserve_both(database, "explicit")
    write(database, lambda tx: open_pause(tx, call("next"), pause_id="p2"))
    assert read(database, lambda tx: pauses.get(tx, WORKSPACE, "p1")).status == "resumed"

    def outcome(tx: Tx, epoch: int) -> object:
        return pause_claims.record_outcome(tx, "r1", "under way", epoch, failed=True, pause_id="p1")

    assert isinstance(write(database, lambda tx: outcome(tx, 2)), ClaimRefused)
    assert not isinstance(write(database, lambda tx: outcome(tx, 1)), ClaimRefused)
    assert executions(database) == {**LEFT, "under way": "failed"}
    assert isinstance(write(database, lambda tx: outcome(tx, 1)), ClaimRefused), "once"
