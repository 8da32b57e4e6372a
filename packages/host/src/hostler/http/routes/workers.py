"""Remote workers: which are connected, what they did, and whether they get new runs."""

from __future__ import annotations

from functools import partial

from hostler.domain import worker_limits as limits
from hostler.domain.same_fields import with_fields_of
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.problems import UpgradeRequiredError
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import StoredWorker, WorkerHour, WorkerState
from hostler_protocol._base import Strict


class WorkerHourRecord(Strict):
    """What a worker did in an hour. `hour`: its beginning, in UTC epoch seconds.

    `claimed`: attempts that it was given. `done`: they ended their run, `failed`: as failed or out of time;
    `lost`: the worker was lost meanwhile. The rest was handed on, to people or to another attempt.
    `waited_seconds`: of runs until their first attempt; `ran_seconds`: of attempts.
    """

    hour: float
    claimed: int
    done: int
    failed: int
    lost: int
    waited_seconds: float
    ran_seconds: float


class WorkerRecord(Strict):
    """A remote worker. `active`: runs that it has now, as of its last heartbeat.

    `state`: `active`; `cordoned`, it gets no new runs; `draining`, the same, and it ends after its last run.
    `reason`: why it is not connected. `host_id`: the host that it is connected to. `machine`: what it says of
    its machine. Times in UTC epoch seconds. `hours`: of a week, newest first; only in the answer about one
    worker.
    """

    worker_id: str
    connected: bool
    state: WorkerState
    labels: list[str]
    slots: int
    active: int
    host_id: str | None
    version: str
    machine: dict[str, str]
    reason: str
    joined_at: float
    seen_at: float
    hours: list[WorkerHourRecord] | None = None


@endpoint("GET", "/v1/workers", right="workers:read", tag="workers")
async def list_workers(request: ApiRequest, query: PageQuery) -> Listing[WorkerRecord]:
    """List the remote workers of the workspace by id, those that are not connected included."""
    ws = request.workspace_id
    cursors = list_cursors(request.state.host.cursors, "workers", ws, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)

    def read(tx: Tx) -> list[WorkerRecord]:
        return [_record(tx, request, one) for one in stored.page(tx, ws, after=after, limit=query.size + 1)]

    rows = await request.state.host.db.read(read)
    return listing(rows, query.size, lambda row: row, lambda row: row.worker_id, cursors)


@endpoint("GET", "/v1/workers/connect", right="workers:connect", tag="workers", answers={101: None})
async def connect_worker(request: ApiRequest) -> Empty:
    """Connect a remote worker: a WebSocket, which `hostler worker` opens."""
    raise UpgradeRequiredError("this path accepts WebSocket connections only: start `hostler worker`")


@endpoint("GET", "/v1/workers/{worker}", right="workers:read", tag="workers")
async def get_worker(request: ApiRequest) -> WorkerRecord:
    """Return a worker, with what it did by hour."""
    return await request.state.host.db.read(partial(_with_hours, request=request))


@endpoint("POST", "/v1/workers/{worker}/drain", right="workers:write", tag="workers")
async def drain_worker(request: ApiRequest) -> WorkerRecord:
    """Give a worker no new runs, and end its process after its last one."""
    return await _change(request, "draining")


@endpoint("POST", "/v1/workers/{worker}/cordon", right="workers:write", tag="workers")
async def cordon_worker(request: ApiRequest) -> WorkerRecord:
    """Give a worker no new runs; it keeps those that it has, and stays so when it connects again."""
    return await _change(request, "cordoned")


@endpoint("POST", "/v1/workers/{worker}/uncordon", right="workers:write", tag="workers")
async def uncordon_worker(request: ApiRequest) -> WorkerRecord:
    """Give a worker new runs again, also one that is drained and has runs left, unless it asked for that."""
    return await _change(request, "active")


@endpoint("DELETE", "/v1/workers/{worker}", right="workers:write", tag="workers")
async def remove_worker(request: ApiRequest) -> Empty:
    """Forget a worker and what it did. If it is connected, its process ends, and its runs are recovered."""
    await request.state.host.remote_workers.remove(
        request.workspace_id, request.parameters["worker"], request.caller.subject
    )
    return Empty()


async def _change(request: ApiRequest, state: WorkerState) -> WorkerRecord:
    host = request.state.host
    await host.remote_workers.change(
        request.workspace_id, request.parameters["worker"], state, request.caller.subject
    )
    return await host.db.read(partial(_with_hours, request=request))


def _with_hours(tx: Tx, request: ApiRequest) -> WorkerRecord:
    ws, worker_id = request.workspace_id, request.parameters["worker"]
    found = stored.get(tx, ws, worker_id)
    return _record(tx, request, found, stored.hours(tx, ws, worker_id))


def _record(
    tx: Tx, request: ApiRequest, one: StoredWorker, hours: list[WorkerHour] | None = None
) -> WorkerRecord:
    here = request.state.host.remote_workers.places.worker(one.workspace_id, one.worker_id)
    return with_fields_of(
        one,
        WorkerRecord,
        connected=one.is_connected(tx.now, int(limits.STALE_SECONDS * 1000)),
        labels=list(one.labels),
        active=one.active if here is None else len(here.held),
        machine=dict(one.machine),
        joined_at=one.joined_at / 1000,
        seen_at=one.seen_at / 1000,
        hours=None if hours is None else [_hour(hour) for hour in hours],
    )


def _hour(hour: WorkerHour) -> WorkerHourRecord:
    return with_fields_of(
        hour,
        WorkerHourRecord,
        hour=hour.hour / 1000,
        waited_seconds=hour.waited_ms / 1000,
        ran_seconds=hour.ran_ms / 1000,
    )
