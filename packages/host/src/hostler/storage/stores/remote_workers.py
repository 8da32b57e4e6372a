"""Remote workers: which host each is connected to, whether it gets new runs, and what it did by hour.

A worker is connected to one host at a time. Its session is the token of its connection: what a host says of
an earlier session changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.nul import without_nul
from hostler_protocol.errors import ConflictError, NotFoundError, RateLimitedError

WorkerState = Literal["active", "cordoned", "draining"]
HOUR_MS = 3_600_000
KEPT_HOURS = 7 * 24
"""Hours of which it is known what a worker did."""
MAX_WORKERS = 1_000
"""Workers of one workspace that are remembered, connected or not."""
MAX_REASON_CHARS = 600
_q = load(__file__)


class StoredWorker(Record, kw_only=True):
    """A worker. Times are UTC epoch milliseconds. `host_id`: the host it is connected to, as far as known."""

    workspace_id: str
    worker_id: str
    state: WorkerState
    labels: tuple[str, ...]
    slots: int
    active: int
    process: str
    session: str
    host_id: str | None
    version: str
    machine: Mapping[str, str]
    key_id: str
    reason: str
    joined_at: int
    seen_at: int

    def is_connected(self, now: int, stale_ms: int) -> bool:
        """Whether it is connected to a host that heard of it lately."""
        return self.host_id is not None and now - self.seen_at <= stale_ms


class Joining(Record, kw_only=True):
    """A worker that registers."""

    workspace_id: str
    worker_id: str
    process: str
    session: str
    host_id: str
    labels: tuple[str, ...]
    slots: int
    version: str
    machine: Mapping[str, str]
    key_id: str


@dataclass(slots=True, kw_only=True)
class WorkerHour:
    """What a worker did in an hour, which began at `hour` (UTC epoch milliseconds)."""

    hour: int
    claimed: int = 0
    done: int = 0
    failed: int = 0
    lost: int = 0
    waited_ms: int = 0
    ran_ms: int = 0


def join(tx: Tx, one: Joining, *, stale_ms: int, connected_here: bool) -> WorkerState:
    """Register a worker and return its state. ConflictError while another process has its id.

    `connected_here`: this host has a connection of that id now. RateLimitedError for too many workers.
    """
    known = find(tx, one.workspace_id, one.worker_id)
    if known is None:
        row = tx.one(_q.count, workspace_id=one.workspace_id)
        if row is not None and row["n"] >= MAX_WORKERS:
            raise RateLimitedError(
                f"the workspace has {MAX_WORKERS:,} workers, which is the most: remove some with "
                "`hostler workers remove ID`",
                retry_after=60,
            )
    elif _is_taken(tx, known, one, stale_ms, connected_here=connected_here):
        raise ConflictError(
            f"worker {one.worker_id} is connected from another process: give this one another id, or end "
            f"that one; if its machine is gone, its id is free {stale_ms // 1000} s after its last heartbeat"
        )
    row = tx.one(
        _q.join,
        workspace_id=one.workspace_id,
        worker_id=one.worker_id,
        labels=msgspec.json.encode(sorted(one.labels)).decode(),
        slots=one.slots,
        process=one.process,
        session=one.session,
        host_id=one.host_id,
        version=without_nul(one.version),
        machine=msgspec.json.encode(without_nul(dict(one.machine))).decode(),
        key_id=one.key_id,
        now=tx.now,
    )
    assert row is not None
    state: WorkerState = row["state"]
    return state


def _is_taken(tx: Tx, known: StoredWorker, one: Joining, stale_ms: int, *, connected_here: bool) -> bool:
    if known.process == one.process or not known.is_connected(tx.now, stale_ms):
        return False
    return known.host_id != one.host_id or connected_here


def beat(
    tx: Tx, workspace_id: str, worker_id: str, session: str, *, active: int, drains: bool = False
) -> WorkerState | None:
    """Record a sign of life and return the state; None: it was removed, or has another connection.

    `drains`: it has asked for it itself.
    """
    row = tx.one(
        _q.beat,
        workspace_id=workspace_id,
        worker_id=worker_id,
        session=session,
        active=active,
        drains=int(drains),
        now=tx.now,
    )
    return None if row is None else row["state"]


def leave(tx: Tx, workspace_id: str, worker_id: str, session: str, reason: str) -> None:
    """Record that the connection of a session has ended."""
    tx.run(
        _q.leave,
        workspace_id=workspace_id,
        worker_id=worker_id,
        session=session,
        reason=without_nul(reason)[:MAX_REASON_CHARS],
        now=tx.now,
    )


def set_state(tx: Tx, workspace_id: str, worker_id: str, state: WorkerState) -> StoredWorker:
    """Change whether a worker gets new runs. NotFoundError."""
    tx.run(_q.set_state, workspace_id=workspace_id, worker_id=worker_id, state=state)
    return get(tx, workspace_id, worker_id)


def remove(tx: Tx, workspace_id: str, worker_id: str) -> None:
    """Forget a worker and what it did. NotFoundError."""
    get(tx, workspace_id, worker_id)
    tx.run(_q.remove, workspace_id=workspace_id, worker_id=worker_id)
    tx.run(_q.remove_hours, workspace_id=workspace_id, worker_id=worker_id)


def get(tx: Tx, workspace_id: str, worker_id: str) -> StoredWorker:
    """Return a worker. NotFoundError."""
    found = find(tx, workspace_id, worker_id)
    if found is None:
        raise NotFoundError(f"there is no worker {worker_id[:80]!r}")
    return found


def find(tx: Tx, workspace_id: str, worker_id: str) -> StoredWorker | None:
    """Return a worker, or None if there is none of this id."""
    row = tx.one(_q.find, workspace_id=workspace_id, worker_id=worker_id)
    return None if row is None else _worker(row)


def page(tx: Tx, workspace_id: str, *, after: str = "", limit: int = MAX_WORKERS) -> list[StoredWorker]:
    """Return workers by id."""
    rows = tx.all(_q.page, workspace_id=workspace_id, after=after, limit=limit)
    return [_worker(row) for row in rows]


def add(tx: Tx, workspace_id: str, worker_id: str, hour: WorkerHour) -> None:
    """Add to what a worker did in an hour, and forget what is too old."""
    numbers = {name: getattr(hour, name) for name in WorkerHour.__dataclass_fields__}
    tx.run(_q.add, workspace_id=workspace_id, worker_id=worker_id, **numbers)
    before = hour.hour - KEPT_HOURS * HOUR_MS
    tx.run(_q.forget_hours, workspace_id=workspace_id, worker_id=worker_id, before=before)


def hours(tx: Tx, workspace_id: str, worker_id: str, *, limit: int = KEPT_HOURS) -> list[WorkerHour]:
    """Return what a worker did by hour, newest first."""
    rows = tx.all(_q.hours, workspace_id=workspace_id, worker_id=worker_id, limit=limit)
    return [from_row(row, WorkerHour) for row in rows]


def queued(tx: Tx, workspace_id: str, run_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the agents, and their versions, of those of the runs that are queued."""
    wanted = msgspec.json.encode(list(run_ids)).decode()
    rows = tx.all(_q.queued, workspace_id=workspace_id, run_ids=wanted)
    return {row["run_id"]: (row["agent_id"], row["agent_version"]) for row in rows}


def _worker(row: Row) -> StoredWorker:
    return from_row(
        row,
        StoredWorker,
        labels=tuple(msgspec.json.decode(row["labels"])),
        machine=msgspec.json.decode(row["machine"]),
    )
