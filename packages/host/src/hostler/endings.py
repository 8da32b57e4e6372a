"""Ending runs from outside: the wish to cancel one with its children, and the end of one nobody works on."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.ports import Tx
from hostler.stores import runs
from hostler.stores.journal import Entry
from hostler.stores.run_rows import Run
from hostler_protocol.runs import RunStatus

_MAX_FAMILY = 10_000
"""Runs that one wish may concern: a run, its children and theirs."""


class Asked(NamedTuple):
    """A run whose end was asked for, and why."""

    run_id: str
    reason: str


def request_cancel(tx: Tx, workspace_id: str, run_id: str, *, reason: str, actor: str) -> list[Asked]:
    """Note the wish to end a run and its children, so that neither is durable without the other.

    Those that wait end at once; the others are given, and are to be told by whoever works on them. An ended
    run stays as it is, its children do not.
    """
    asked: list[Asked] = []
    family = [(Asked(run_id, reason), actor)]
    seen = 0
    while family and seen < _MAX_FAMILY:
        wish, by = family.pop()
        seen += 1
        run = runs.request_cancel(tx, workspace_id, wish.run_id, wish.reason)
        if run is not None:
            asked.append(wish)
            if run.status in {"queued", "paused"}:
                end_waiting(tx, run, "cancelled", "cancelled", wish.reason, actor=by)
        inherited = f"its parent run was cancelled: {reason}"
        children = runs.children(tx, workspace_id, wish.run_id)
        family += [(Asked(child.run_id, inherited), "host") for child in children]
    return asked


def end_waiting(
    tx: Tx, run: Run, status: RunStatus, code: str, error: str, *, actor: str, crashed: bool = False
) -> None:
    """End a run that nobody is working on, with its terminal result."""
    body = msgspec.json.encode({"data": {"code": code, "error": error, "retryable": False}})
    runs.transition(
        tx,
        run.run_id,
        run.attempt,
        status,
        cause=error,
        actor=actor,
        status_code=code,
        entries=[Entry("result", "run.failed", body)],
        crashed=crashed,
    )
