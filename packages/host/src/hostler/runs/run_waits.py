"""What runs wait for, for people: decisions, runs that they started, their turn, a time, a remote worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from hostler.domain.epoch import seconds
from hostler.domain.run_view import RunWait, WaitKind
from hostler.storage.port import Tx
from hostler.storage.stores import run_waits as stored


def waits_of(
    tx: Tx, workspace_id: str, run_ids: Sequence[str], lacking: Mapping[str, str]
) -> Mapping[str, list[RunWait]]:
    """Return what each of these runs, which have not ended, waits for. `lacking`: what of remote workers."""
    found: defaultdict[str, list[RunWait]] = defaultdict(list)
    if not run_ids:
        return found
    for asked in stored.of_people(tx, workspace_id, run_ids):
        kind = cast("WaitKind", asked.kind)
        found[asked.run_id].append(RunWait(kind=kind, until=seconds(asked.until)))
    for parent, child in stored.children(tx, workspace_id, run_ids):
        found[parent].append(RunWait(kind="run", run_id=child))
    for run in stored.queued(tx, workspace_id, run_ids):
        if run.not_before is not None and run.not_before > tx.now:
            found[run.run_id].append(RunWait(kind="time", until=run.not_before / 1000))
        if run.before_it is not None:
            found[run.run_id].append(RunWait(kind="turn", run_id=run.before_it))
    for run_id, text in lacking.items():
        found[run_id].append(RunWait(kind="worker", text=text))
    return found
