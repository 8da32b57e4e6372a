"""Runs: opened once, one per lane at a time, every write under the fencing token, one ending.

`attempt` is the fencing token: whoever works on a run names the attempt it claimed, and a superseded one
changes nothing. Refusals are values, since they are expected; what raises is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from hostler.domain.runs import begins_attempt, holds_lane, is_terminal, may_become
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hosts, journal
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, Entries, Entry
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.run_rows import Appended, Attempt, Fenced, Moved, NewRun, Run, opened_run, run_of
from hostler_protocol.content import Usage
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import RunStatus

__all__ = ["Appended", "Fenced", "Moved", "NewRun", "Run"]

_q = load(__file__)
_LATEST = 2**62
_last_ordinal = 0
_MAX_SPENT_RUNS = 100_000
"""Runs of one agent within one day that its budget is counted from after a restart."""
_LIKELY_BEFORE: dict[RunStatus, RunStatus] = {
    "running": "claimed",
    "completed": "running",
    "paused": "running",
}
"""What nearly always stands before a change that a worker makes of the attempt it has."""
_MAX_ATTEMPTS = 10_000
"""Attempts under way that one host is looked through for; far more than it executes at once."""
_MAX_RACES = 10
"""How often a change of status is tried again when other hosts change the run meanwhile."""


def open(  # noqa: A001  the word for it; used as runs.open
    tx: Tx, run: NewRun, claim: Membership | None, *, lane_is_free: bool = False
) -> Run:
    """Store a new run. With `claim` it starts at once if its lane is free, nobody waits and the lease holds.

    It is either `claimed` or `queued`, at attempt 1. `lane_is_free`: that was seen in this transaction.
    """
    due = run.not_before is None or run.not_before <= tx.now
    starts = due and claim is not None and hosts.holds(tx, claim)
    if starts and not run.parallel and not lane_is_free:
        starts = tx.one(_q.lane_taken, lane=run.lane, now=tx.now) is None
    ordinal = _next_ordinal() if run.ordinal is None else run.ordinal
    status: RunStatus = "claimed" if starts else "queued"
    opened = opened_run(run, status, claim if starts else None, ordinal=ordinal, now=tx.now)
    if not tx.run(_q.insert, *_row(run, opened)):  # another host took the lane in this moment
        opened = opened_run(run, "queued", None, ordinal=ordinal, now=tx.now)
        tx.run(_q.insert, *_row(run, opened))
    actor = "host" if claim is None else claim.host_id
    entry = lifecycle(None, opened.status, cause="opened", actor=actor, status_code=None)
    journal.append(tx, run.workspace_id, run.run_id, 1, [entry], position=0, sequence=0)
    return opened


def append(tx: Tx, run_id: str, attempt: int, entries: Entries) -> Appended | Fenced:
    """Journal `entries` of a claimed or running attempt. The hot path: one UPDATE, then the rows."""
    count, results, kept = _counts(entries)
    row = tx.one(_q.append, run_id=run_id, attempt=attempt, entries=count, results=results, kept=kept)
    if row is None:
        return _fenced(tx, run_id)
    position, sequence = row["position"] - count, row["sequence"] - results
    journal.append(tx, row["workspace_id"], run_id, attempt, entries, position=position, sequence=sequence)
    return Appended(position + 1, sequence + 1)


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
) -> Moved | Fenced:
    """Change a run's status if that is allowed from where it stands; the first terminal status wins.

    Not to `claimed`: that is what `open` and `claims.claim` do.

    `attempt` None: whatever the attempt is (recovery, cancellation). `entries` (the terminal result, say)
    are journalled before the lifecycle entry, in the same update. Going back to `queued` begins a new
    attempt: with `restart` from nothing, else from what the journal holds; `crashed` counts it as a recovery.
    Fields that are None stay as they are, and so does a grant that stands already. NotFoundError for no such
    run.
    """
    if to == "claimed":
        raise ValueError("a run is claimed by claims.claim, which knows whether its lane is free")
    likely = None if attempt is None else _LIKELY_BEFORE.get(to)
    row: Row
    for _ in range(_MAX_RACES):
        if likely is None or attempt is None:
            row = _status(tx, run_id)
            before, current = row["status"], row["attempt"]
            if not may_become(before, to) or attempt not in (None, current):
                return Fenced(before, current)
        else:  # most changes are this one: no need to look first
            before, current, likely = likely, attempt, None
        entry = lifecycle(before, to, cause=cause, actor=actor, status_code=status_code)
        written = [*entries, entry]
        count, results, kept = _counts(written)
        moved = tx.one(
            _q.move,
            run_id=run_id,
            attempt=current,
            status_before=before,
            status=to,
            status_code=status_code,
            new_attempt=int(begins_attempt(before, to)),
            crashed=int(crashed),
            restart=int(restart and begins_attempt(before, to)),
            entries=count,
            results=results,
            kept=kept,
            holds_lane=int(holds_lane(to)),
            terminal=int(is_terminal(to)),
            now=tx.now,
            host_id=host_id,
            not_before=not_before,
            deadline_at=deadline_at,
            usage=None if usage is None else msgspec.json.encode(usage).decode(),
            cost=cost,
            grant_json=grant_json,
        )
        if moved is not None:
            position, sequence = moved["position"] - count, moved["sequence"] - results
            workspace = moved["workspace_id"]
            journal.append(tx, workspace, run_id, current, written, position=position, sequence=sequence)
            return Moved(before, moved["attempt"], position + 1, sequence + 1, moved["steers"])
    raise RuntimeError(f"run {run_id} changed {_MAX_RACES} times while its status was to be changed")


def request_cancel(
    tx: Tx, workspace_id: str, run_id: str, reason: str, grace_ms: int | None = None, *, by: str
) -> Run | None:
    """Note that `by` asked for the run's end; the first one and the reason stay, and the shortest grace.

    The run as it now stands; None where it has ended, or is not of this workspace.
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


def annotate(tx: Tx, workspace_id: str, run_id: str, entries: Sequence[Entry]) -> None:
    """Journal `entries`, none of them results, about a run in whatever status, also one that is over."""
    row = tx.one(_q.annotate, workspace_id=workspace_id, run_id=run_id, entries=len(entries))
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    journal.append(
        tx,
        workspace_id,
        run_id,
        row["attempt"],
        entries,
        position=row["position"] - len(entries),
        sequence=row["sequence"],
    )


def hold(tx: Tx, workspace_id: str, run_id: str) -> Run:
    """The run, which nobody else changes before the transaction is over. NotFoundError."""
    row = tx.one(_q.hold, workspace_id=workspace_id, run_id=run_id)
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return run_of(row)


def rebase(tx: Tx, run_id: str) -> None:
    """The next attempt has no recording: the runner left with its pause what it goes on from."""
    tx.run(_q.rebase, run_id=run_id)


def usage(tx: Tx, run_id: str, attempt: int, total: Usage, cost: str | None) -> bool:
    """Set what the run has used so far, over all attempts. False: fenced."""
    encoded = msgspec.json.encode(total).decode()
    return tx.run(_q.usage, run_id=run_id, attempt=attempt, usage=encoded, cost=cost) == 1


def find(tx: Tx, workspace_id: str, run_id: str) -> Run | None:
    """The run, if the workspace has it."""
    row = tx.one(_q.find, workspace_id=workspace_id, run_id=run_id)
    return None if row is None else run_of(row)


def get(tx: Tx, workspace_id: str, run_id: str) -> Run:
    """The run; NotFoundError where the workspace has none of this id."""
    run = find(tx, workspace_id, run_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return run


def by_id(tx: Tx, run_id: str) -> Run | None:
    """The run in whatever workspace: for the host's own work, never for what a caller names."""
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
    """Runs newest first, at most `limit`. A filter that is None does not filter.

    `before`: (created_at, run_id) of the last one seen.
    """
    before_time, before_id = before or (_LATEST, "")
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


def active_of(tx: Tx, member: Membership, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Claimed and running runs of a host in one epoch, by id; `after`: the last id seen."""
    host_id, epoch = member
    rows = tx.all(_q.active_of, host_id=host_id, host_epoch=epoch, after=after, limit=limit)
    return [run_of(row) for row in rows]


def attempts_of(tx: Tx, member: Membership) -> set[Attempt]:
    """The attempts that a host has claimed in one epoch and that are not over, at most 10,000."""
    rows = tx.all(_q.attempts_of, host_id=member.host_id, host_epoch=member.epoch, limit=_MAX_ATTEMPTS)
    return {Attempt(row["run_id"], row["attempt"]) for row in rows}


def cancelled_of(tx: Tx, member: Membership, limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Runs that a host claimed in one epoch and whose end was asked for."""
    rows = tx.all(_q.cancelled_of, host_id=member.host_id, host_epoch=member.epoch, limit=limit)
    return [run_of(row) for row in rows]


def active(tx: Tx, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Claimed and running runs of every host, by id; `after`: the last id seen."""
    return [run_of(row) for row in tx.all(_q.active, after=after, limit=limit)]


def children(
    tx: Tx, workspace_id: str, parent_run_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS
) -> list[Run]:
    """Unfinished child runs of a run, by id."""
    rows = tx.all(
        _q.children, workspace_id=workspace_id, parent_run_id=parent_run_id, after=after, limit=limit
    )
    return [run_of(row) for row in rows]


def lane_is_free(tx: Tx, lane: str) -> bool:
    """Whether nobody holds a lane and nobody waits in it who could begin."""
    return tx.one(_q.lane_is_free, lane=lane, now=tx.now) is not None


def count_waiting(tx: Tx, lane: str, limit: int) -> int:
    """How many runs wait in a lane and could begin in it; counts no further than `limit`."""
    row = tx.one(_q.count_waiting, lane=lane, now=tx.now, limit=limit)
    return 0 if row is None else int(row["waiting"])


def active_in_lane(tx: Tx, workspace_id: str, lane: str) -> Run | None:
    """The run that holds a lane."""
    row = tx.one(_q.lane_holder, workspace_id=workspace_id, lane=lane)
    return None if row is None else run_of(row)


def first_waiting(tx: Tx, workspace_id: str, lane: str) -> Run | None:
    """The run of a lane that is the next to begin."""
    row = tx.one(_q.first_waiting, workspace_id=workspace_id, lane=lane, now=tx.now)
    return None if row is None else run_of(row)


def count_queued(tx: Tx, limit: int) -> int:
    """How many runs wait in all queues; counts no further than `limit`."""
    row = tx.one(_q.count_queued, limit=limit)
    return 0 if row is None else int(row["waiting"])


def spent_since(tx: Tx, workspace_id: str, agent_id: str, since: int) -> list[tuple[Usage, str | None]]:
    """Usage and cost of an agent's runs that were opened since a time, the newest first, at most 100,000."""
    rows = tx.all(
        _q.spent_since, workspace_id=workspace_id, agent_id=agent_id, since=since, limit=_MAX_SPENT_RUNS
    )
    return [(msgspec.json.decode(row["usage"], type=Usage), row["cost"]) for row in rows]


def _row(run: NewRun, opened: Run) -> tuple[Any, ...]:
    """The parameters of `insert`, in their order."""
    holds = holds_lane(opened.status) and not run.parallel
    return (
        run.workspace_id,
        run.run_id,
        run.agent_id,
        run.agent_name,
        run.agent_version,
        run.runner_id,
        run.event_id,
        run.parent_run_id,
        run.bot_id,
        run.conversation_id,
        run.thread_id,
        run.requester,
        run.lane,
        run.lane if holds else None,
        int(run.parallel),
        run.priority,
        run.not_before,
        opened.ordinal,
        opened.status,
        opened.host_id,
        opened.host_epoch,
        msgspec.json.encode(opened.binding).decode(),
        opened.created_at,
        run.deadline_at,
        run.follows,
        run.gathering,
        run.gather_until,
        opened.gathered,
        run.gathered_bytes,
    )


def _next_ordinal() -> int:
    """Later than every one before it in this process, and in the order of time across processes."""
    global _last_ordinal  # noqa: PLW0603  what the clock is too coarse for
    _last_ordinal = max(_last_ordinal + 1, time.time_ns())
    return _last_ordinal


def _status(tx: Tx, run_id: str) -> Row:
    row = tx.one(_q.status, run_id=run_id)
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    return row


def _fenced(tx: Tx, run_id: str) -> Fenced:
    row = _status(tx, run_id)
    return Fenced(row["status"], row["attempt"])


def _counts(entries: Entries) -> tuple[int, int, int]:
    """How many, how many of them results, and which of those (from 1; 0: none) the last completed message."""
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
) -> Entry:
    """The journal entry of a change of status."""
    data = {"from": before, "to": to, "cause": cause, "actor": actor, "status_code": status_code}
    return Entry("lifecycle", to, msgspec.json.encode(data))
