"""The places of attempts on the remote workers of this host, and what each worker did, by hour."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock

from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.slots import SlotKey, Wanted
from hostler.plugins.remote_workers.worker import RemoteWorker
from hostler.storage.stores.remote_workers import HOUR_MS, WorkerHour
from hostler.storage.stores.run_rows import Run

HANDED_ON = "handed on"
"""The outcome of an attempt whose run waits for people, or for another attempt."""
OUTCOMES = ("done", "failed", "lost", HANDED_ON)


@dataclass(slots=True)
class Place:
    """The place of an attempt. `outcome` is "" until its plugin is looked up there."""

    worker: RemoteWorker
    wanted: Wanted
    waited_ms: int
    taken_at: float = field(default_factory=monotonic_clock)
    outcome: str = ""


class WorkerPlaces:
    """`domain.slots.Places` for the dispatcher: places are taken on the thread of the database, too."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], RemoteWorker] = {}
        self._places: dict[tuple[str, int], Place] = {}
        self._hours: dict[tuple[str, str], dict[int, WorkerHour]] = {}
        self._lock = Lock()
        self.counts: Counter[str] = Counter()
        """Attempts of all workers by outcome, for the metrics."""

    # -- workers ----------------------------------------------------------------------------------

    def workers(self) -> list[RemoteWorker]:
        """Return the workers that are connected, by workspace and id."""
        with self._lock:
            return [self._workers[name] for name in sorted(self._workers)]

    def worker(self, workspace_id: str, worker_id: str) -> RemoteWorker | None:
        """Return a worker that is connected, or None."""
        return self._workers.get((workspace_id, worker_id))

    def enter(self, worker: RemoteWorker) -> None:
        """Add a worker that has joined."""
        with self._lock:
            self._workers[worker.workspace_id, worker.worker_id] = worker

    def leave(self, worker: RemoteWorker) -> None:
        """Remove a worker, unless another connection has its id by now."""
        name = (worker.workspace_id, worker.worker_id)
        with self._lock:
            if self._workers.get(name) is worker:
                del self._workers[name]

    def refuse(self, place: Place) -> bool:
        """Give a worker no more such runs for a while; return whether another one may be given them."""
        with self._lock:
            place.worker.refuse(place.wanted.plugin)
            return bool(self._fitting(place.wanted))

    # -- places -----------------------------------------------------------------------------------

    def has_room(self, wanted: Wanted) -> bool:
        """See `domain.slots.Places`."""
        with self._lock:
            return any(one.free for one in self._fitting(wanted))

    def take(self, key: SlotKey, wanted: Wanted, waited_ms: int) -> bool:
        """Take a place for an attempt, at the worker of least load among those that have one."""
        if key.attempt is None:
            return False
        with self._lock:
            free = [one for one in self._fitting(wanted) if one.free]
            if not free:
                return False
            best = min(free, key=lambda one: (len(one.held) / one.hello.slots, one.worker_id))
            best.held.add(key.attempt)
            self._places[key.attempt] = Place(best, wanted, waited_ms)
            return True

    def give_back(self, key: SlotKey) -> None:
        """See `domain.slots.Places`."""
        if key.attempt is None:
            return
        with self._lock:
            place = self._places.pop(key.attempt, None)
            if place is None:
                return
            place.worker.held.discard(key.attempt)
            self._count(place)
        if not place.worker.held:
            place.worker.loop.call_soon_threadsafe(place.worker.has_emptied)

    def of(self, run: Run) -> Place | None:
        """Return the place of the attempt of a run, or None."""
        return self._places.get((run.run_id, run.attempt))

    def ended(self, run: Run, status: str | None) -> None:
        """Note how an attempt ended, before its place is given back. `status`: of a run that it ended."""
        place = self.of(run)
        if place is not None and place.outcome:
            if place.worker.why is not None:
                place.outcome = "lost"
            elif status is not None:
                place.outcome = "failed" if status in {"failed", "timeout"} else "done"

    def _fitting(self, wanted: Wanted) -> list[RemoteWorker]:
        return [one for one in self._workers.values() if one.fits(*wanted)]

    # -- what they did ----------------------------------------------------------------------------

    def _count(self, place: Place) -> None:
        """Count an attempt that was begun: what it came to, and how long it took."""
        if not place.outcome:
            return  # the claim was undone, or nothing was begun
        worker, outcome = place.worker, place.outcome
        began = int(wall_clock() * 1000) // HOUR_MS * HOUR_MS
        hours = self._hours.setdefault((worker.workspace_id, worker.worker_id), {})
        hour = hours.setdefault(began, WorkerHour(hour=began))
        self.counts[outcome] += 1
        hour.claimed += 1
        hour.waited_ms += place.waited_ms
        hour.ran_ms += int((monotonic_clock() - place.taken_at) * 1000)
        if outcome != HANDED_ON:
            setattr(hour, outcome, getattr(hour, outcome) + 1)

    def take_hours(self, worker: RemoteWorker) -> list[WorkerHour]:
        """Return what a worker did since the last call."""
        with self._lock:
            return list(self._hours.pop((worker.workspace_id, worker.worker_id), {}).values())
