"""Remote workers as their host has stored them: one at work, one without new runs, one that was lost."""

from __future__ import annotations

from hostler.storage.port import Query, Tx
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import HOUR_MS, Joining, WorkerHour
from support.http_host import WORKSPACE

_KEEP = Query(
    "t.keep",
    "UPDATE remote_workers SET seen_at = seen_at + 600000 WHERE worker_id <> 'cpu-2'",
    "",
)
"""They are connected for as long as a test takes: nothing beats for them."""
MACHINE = {
    "system": "Linux-6.8.0-45-generic-x86_64-with-glibc2.39",
    "python": "3.12.7",
    "target": "cpython-312-linux-x86_64-glibc2.39",
    "sandbox": "landlock and user namespaces",
}
WORKERS = (("cpu-2", ("cpu",), 2), ("gpu-1", ("eu", "gpu"), 8), ("gpu-2", ("gpu", "us"), 4))


def some_workers(tx: Tx) -> None:
    """Write three workers, and what the first one did."""
    for worker_id, labels, slots in WORKERS:
        joining = Joining(
            workspace_id=WORKSPACE,
            worker_id=worker_id,
            process=f"process of {worker_id}",
            session=f"session of {worker_id}",
            host_id="host-1",
            labels=labels,
            slots=slots,
            version="0.1.0",
            machine=MACHINE,
            key_id="k",
        )
        stored.join(tx, joining, stale_ms=1, connected_here=False)
    stored.beat(tx, WORKSPACE, "gpu-1", "session of gpu-1", active=3)
    stored.set_state(tx, WORKSPACE, "gpu-2", "cordoned")
    stored.leave(tx, WORKSPACE, "cpu-2", "session of cpu-2", "it was silent for 45 s")
    this_hour = tx.now // HOUR_MS * HOUR_MS
    for back in range(30):
        hour = WorkerHour(
            hour=this_hour - back * HOUR_MS,
            claimed=40 - back,
            done=36 - back,
            failed=back % 3,
            lost=int(back == 4),
            waited_ms=52_000 - 1_000 * back,
            ran_ms=1_900_000 - 40_000 * back,
        )
        stored.add(tx, WORKSPACE, "gpu-1", hour)
    tx.run(_KEEP)
