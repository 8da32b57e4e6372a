"""Runs: opened once, one per lane at a time, written under a fencing token, with one ending.

`attempt` is the fencing token: a writer passes the attempt that it claimed, and a superseded attempt changes
nothing. Refusals are return values, since they are expected; exceptions are faults.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from hostler.domain.runs import HOLDS_LANE, begins_attempt, may_become
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hosts, journal
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, Entries, NewEntry
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.run_rows import (
    Appended,
    Fenced,
    Moved,
    NewRun,
    Run,
    new_row,
    opened_run,
    run_of,
)
from hostler.storage.stores.timeline import RunPlace, place_of
from hostler_protocol.content import Usage
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus

__all__ = ["Appended", "Fenced", "Moved", "NewRun", "Run"]

_q = load(__file__)
_last_ordinal = 0
_LIKELY_BEFORE: dict[RunStatus, RunStatus] = {
    "running": "claimed",
    "completed": "running",
    "paused": "running",
}
"""The usual status before a change that the owner of an attempt makes."""
MAX_COUNTED = 10_000
"""Runs that are counted for the size of a list: a greater number says no more to anybody."""
_MAX_RACES = 10
"""How often a change of status is retried when other hosts change the run meanwhile."""


class Begun(NamedTuple):
    """The change of a claimed run to `running`: its journal entry, and what is stored with it.

    It may be written in one update with the end of the run.
    """

    entry: NewEntry
    deadline_at: int | None = None
    grant_json: str | None = None

    @classmethod
    def of(
        cls, *, cause: str, actor: str, deadline_at: int | None = None, grant_json: str | None = None
    ) -> Begun:
        """Return the change."""
        entry = lifecycle("claimed", "running", cause=cause, actor=actor, status_code=None)
        return cls(entry, deadline_at, grant_json)


def open(  # noqa: A001  the word for it; used as runs.open
    tx: Tx, run: NewRun, claim: Membership | None, *, lane_is_free: bool = False
) -> Run:
    """Store a new run. With `claim` it starts at once if its lane is free and empty and the lease holds.

    Return it, `claimed` or `queued`, at attempt 1. `lane_is_free`: this was checked in this transaction.
    """
    due = run.not_before is None or run.not_before <= tx.now
    starts = due and claim is not None and hosts.holds(tx, claim)
    if starts and not run.parallel and not lane_is_free:
        starts = tx.one(_q.lane_taken, lane=run.lane, now=tx.now) is None
    ordinal = _next_ordinal() if run.ordinal is None else run.ordinal
    status: RunStatus = "claimed" if starts else "queued"
    opened = opened_run(run, status, claim if starts else None, ordinal=ordinal, now=tx.now)
    if not tx.run(_q.insert, **new_row(run, opened)):  # another host took the lane meanwhile
        opened = opened_run(run, "queued", None, ordinal=ordinal, now=tx.now)
        tx.run(_q.insert, **new_row(run, opened))
    actor = "host" if claim is None else claim.host_id
    entry = lifecycle(None, opened.status, cause="opened", actor=actor, status_code=None)
    journal.append(tx, run.workspace_id, run.run_id, 1, [entry], position=0, sequence=0, place=_place(run))
    return opened


def append(tx: Tx, run_id: str, attempt: int, entries: Entries) -> Appended | Fenced:
    """Journal `entries` of an active attempt. The hot path: one UPDATE, then the rows."""
    count, results, kept = _counts(entries)
    row = tx.one(_q.append, run_id=run_id, attempt=attempt, entries=count, results=results, kept=kept)
    if row is None:
        return _fenced(tx, run_id)
    position, sequence = row["position"] - count, row["sequence"] - results
    journal.append(
        tx,
        row["workspace_id"],
        run_id,
        attempt,
        entries,
        position=position,
        sequence=sequence,
        place=place_of(row),
    )
    return Appended(position + 1, sequence + 1)


def begin(tx: Tx, run_id: str, attempt: int, begun: Begun, entries: Entries) -> Moved | Fenced:
    """Move a claimed run to `running`, and journal `entries`, which have the entry of that in its place."""
    moved = _move(
        tx,
        run_id,
        attempt,
        before="claimed",
        to="running",
        entries=entries,
        begins=True,
        deadline_at=begun.deadline_at,
        grant_json=begun.grant_json,
    )
    return _fenced(tx, run_id) if moved is None else moved


def transition(
    tx: Tx,
    run_id: str,
    attempt: int | None,
    to: RunStatus,
    *,
    cause: str,
    actor: str,
    status_code: str | None = None,
    entries: Entries = (),
    crashed: bool = False,
    restart: bool = True,
    host_id: str | None = None,
    not_before: int | None = None,
    deadline_at: int | None = None,
    usage: Usage | None = None,
    cost: str | None = None,
    grant_json: str | None = None,
    begun: Begun | None = None,
) -> Moved | Fenced:
    """Change a run's status if its present one allows it; the first terminal status wins.

    Not to `claimed`, which only `open` and `run_claims.claim` set.

    `attempt` None means any attempt (recovery, cancellation). `entries`, for example the terminal result, are
    journalled before the lifecycle entry, in the same update. A change to `queued` begins a new attempt: with
    `restart` from nothing, otherwise from the journal; `crashed` counts it as a recovery. Fields that are
    None stay as they are, and so does a stored grant. `begun`: the run is still `claimed` in the database,
    and moves to `running` with this update; `entries` have the entry of that already. NotFoundError if there
    is no such run.
    """
    if to == "claimed":
        raise ValueError("only run_claims.claim claims a run: it checks whether the lane is free")
    likely = None if attempt is None else _LIKELY_BEFORE.get(to)
    if begun is not None:
        likely, deadline_at, grant_json = "claimed", begun.deadline_at, begun.grant_json
    for _ in range(_MAX_RACES):
        if likely is None or attempt is None:
            row = _status(tx, run_id)
            before, current = row["status"], row["attempt"]
            if not may_become(before, to) or attempt not in (None, current):
                return Fenced(before, current)
        else:  # the usual change, tried without reading the status first
            before, current, likely = likely, attempt, None
        was: RunStatus = "running" if begun is not None else before
        entry = lifecycle(was, to, cause=cause, actor=actor, status_code=status_code)
        moved = _move(
            tx,
            run_id,
            current,
            before=before,
            to=to,
            entries=[*entries, entry],
            begins=begun is not None or to == "running",
            status_code=status_code,
            crashed=crashed,
            restart=restart,
            host_id=host_id,
            not_before=not_before,
            deadline_at=deadline_at,
            usage=usage,
            cost=cost,
            grant_json=grant_json,
        )
        if moved is not None:
            return moved
    raise RuntimeError(f"run {run_id} changed {_MAX_RACES} times while its status was to be changed")


def _move(
    tx: Tx,
    run_id: str,
    attempt: int,
    *,
    before: RunStatus,
    to: RunStatus,
    entries: Entries,
    begins: bool,
    status_code: str | None = None,
    crashed: bool = False,
    restart: bool = False,
    host_id: str | None = None,
    not_before: int | None = None,
    deadline_at: int | None = None,
    usage: Usage | None = None,
    cost: str | None = None,
    grant_json: str | None = None,
) -> Moved | None:
    """Change the status from `before`, with `entries`; None: the run has another status or attempt.

    `begins`: it becomes `running`, on its way to `to` if that is another status.
    """
    count, results, kept = _counts(entries)
    renewed = begins_attempt(before, to)
    moved = tx.one(
        _q.move,
        run_id=run_id,
        attempt=attempt,
        status_before=before,
        status=to,
        status_code=status_code,
        new_attempt=int(renewed),
        crashed=int(crashed),
        restart=int(restart and renewed),
        entries=count,
        results=results,
        kept=kept,
        begins=int(begins),
        holds_lane=int(to in HOLDS_LANE),
        terminal=int(to in TERMINAL_STATUSES),
        now=tx.now,
        host_id=host_id,
        not_before=not_before,
        deadline_at=deadline_at,
        usage=None if usage is None else msgspec.json.encode(usage).decode(),
        cost=cost,
        grant_json=grant_json,
    )
    if moved is None:
        return None
    position, sequence = moved["position"] - count, moved["sequence"] - results
    workspace, place = moved["workspace_id"], place_of(moved)
    journal.append(tx, workspace, run_id, attempt, entries, position=position, sequence=sequence, place=place)
    was: RunStatus = "running" if begins and to != "running" else before
    return Moved(
        was,
        moved["attempt"],
        position + 1,
        sequence + 1,
        moved["steers"],
        moved["webhook"] is not None,
        moved["sends"] is not None,
    )


def request_cancel(
    tx: Tx, workspace_id: str, run_id: str, reason: str, grace_ms: int | None = None, *, by: str
) -> Run | None:
    """Record that `by` cancels the run. Actor and reason of the first request stay; the shortest grace wins.

    Return the run; None if it has ended or is not in this workspace.
    """
    row = tx.one(
        _q.request_cancel,
        workspace_id=workspace_id,
        run_id=run_id,
        reason=without_nul(reason),
        grace=grace_ms,
        by=without_nul(by),
        now=tx.now,
    )
    return None if row is None else run_of(row)


def rebase(tx: Tx, run_id: str) -> None:
    """Let the next attempt start without a recording, since the runner saved its own state in the pause."""
    tx.run(_q.rebase, run_id=run_id)


def usage(tx: Tx, run_id: str, attempt: int, total: Usage, cost: str | None) -> bool:
    """Set the total usage of the run over all attempts; return False if fenced."""
    encoded = msgspec.json.encode(total).decode()
    return tx.run(_q.usage, run_id=run_id, attempt=attempt, usage=encoded, cost=cost) == 1


def find(tx: Tx, workspace_id: str, run_id: str) -> Run | None:
    """Return the run; None if the workspace has no such run."""
    row = tx.one(_q.find, workspace_id=workspace_id, run_id=run_id)
    return None if row is None else run_of(row)


def get(tx: Tx, workspace_id: str, run_id: str) -> Run:
    """Return the run. NotFoundError if the workspace has no such run."""
    run = find(tx, workspace_id, run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return run


def by_id(tx: Tx, run_id: str) -> Run | None:
    """Return a run of any workspace. Only for ids from the host itself, never for those of a caller."""
    row = tx.one(_q.by_id, run_id=run_id)
    return None if row is None else run_of(row)


def page(
    tx: Tx,
    workspace_id: str,
    *,
    statuses: Collection[RunStatus] | None = None,
    agent_name: str | None = None,
    conversation_id: str | None = None,
    since: int = 0,
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[Run]:
    """Return runs, newest first, at most `limit`. Filters that are None are not applied.

    `before`: (created_at, run_id) of the last one seen.
    """
    before_time, before_id = before or (NEWEST, "")
    params: dict[str, Any] = {
        "workspace_id": workspace_id,
        "before_time": before_time,
        "before_id": before_id,
        "since": since,
        "statuses": None if statuses is None else f",{','.join(sorted(statuses))},",
        "agent_name": agent_name,
        "limit": limit,
    }
    query = _q.page
    if conversation_id is not None:
        query = _q.page_conversation
        params["conversation_id"] = conversation_id
    return [run_of(row) for row in tx.all(query, **params)]


def of_agent(
    tx: Tx,
    *,
    workspace_id: str,
    agent_name: str,
    conversation_id: str | None = None,
    statuses: Collection[RunStatus] | None = None,
    changed_after: int = 0,
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> tuple[list[Run], int]:
    """Return runs of an agent, newest first, at most `limit`, and the number of all: at most MAX_COUNTED.

    `changed_after`: UTC epoch milliseconds since which they began or ended. `before`: as of `page`.
    """
    before_time, before_id = before or (NEWEST, "")
    params: dict[str, Any] = {
        "workspace_id": workspace_id,
        "agent_name": agent_name,
        "conversation_id": conversation_id,
        "statuses": None if statuses is None else f",{','.join(sorted(statuses))},",
        "changed_after": changed_after,
    }
    rows = tx.all(_q.of_agent, **params, before_time=before_time, before_id=before_id, limit=limit)
    counted = tx.one(_q.count_of_agent, **params, limit=MAX_COUNTED)
    return [run_of(row) for row in rows], 0 if counted is None else int(counted["number"])


def _next_ordinal() -> int:
    """Return a number above all earlier ones of this process, and ordered by time across processes."""
    global _last_ordinal  # noqa: PLW0603  the clock is too coarse
    _last_ordinal = max(_last_ordinal + 1, time.time_ns())
    return _last_ordinal


def _place(run: NewRun) -> RunPlace:
    return RunPlace(run.agent_name, run.conversation_id, run.bot_id)


def _status(tx: Tx, run_id: str) -> Row:
    row = tx.one(_q.status, run_id=run_id)
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return row


def _fenced(tx: Tx, run_id: str) -> Fenced:
    row = _status(tx, run_id)
    return Fenced(row["status"], row["attempt"])


def _counts(entries: Entries) -> tuple[int, int, int]:
    """Count entries and results; return too which result (from 1) is the last completed message, or 0."""
    others = results = kept = 0
    for entry in entries:
        if isinstance(entry, Deltas):
            results += len(entry.data)
        elif entry.kind == "result":
            results += 1
            if entry.type == "message.completed":
                kept = results
        else:
            others += 1
    return others + results, results, kept


def lifecycle(
    before: RunStatus | None, to: RunStatus, *, cause: str, actor: str, status_code: str | None
) -> NewEntry:
    """Build the journal entry of a change of status."""
    data = {"from": before, "to": to, "cause": cause, "actor": actor, "status_code": status_code}
    return NewEntry("lifecycle", to, msgspec.json.encode(data))
