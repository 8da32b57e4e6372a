"""The end of an attempt: whether it was requested, whether it has come, and the last item of its journal.

The last item also decides how the run goes on: it is finished, queued again, or parked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.outcomes import Ending, Stored
from hostler.domain.recovery import Settlement
from hostler.domain.usage import Used
from hostler.journal.feed import StoredResult
from hostler.journal.run_log import Item, RunLog
from hostler.pauses.parking import begin_after_loss
from hostler.secrets.known_values import is_known_in, redact, redact_value
from hostler.storage.port import Tx
from hostler.storage.stores.journal import Entries, NewEntry
from hostler.storage.stores.run_endings import finish
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler.storage.stores.runs import Begun
from hostler_protocol.errors import HostlerError

LOG = "log"
LookAtEnd = Callable[[Tx, Run], Callable[[], None]]


@dataclass(slots=True, eq=False)
class AttemptEnd:
    """The end of one attempt, shared by its stages. Only the first of several ends is written."""

    run: Run
    host_id: str
    journal: RunLog
    stop_reason: str | None = None
    """Why the run was asked to stop; None: it was not."""
    handed_over: bool = False
    """Whether the host is stopping and gives the run back."""
    ended: bool = False
    """Nothing more of the runner is accepted. The last item is on its way, or another attempt has the run."""
    queued_again: bool = False
    """Whether the run waits for another attempt."""
    status: str | None = None
    """The status with which the run ends; None: the attempt does not end it."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the last item is committed, or never will be."""
    settle: Callable[[Tx], None] = lambda _: None
    """Settles what calls have reserved in budgets that get no outcome any more."""
    failure: BaseException | None = None
    """An unexpected error in the background; the attempt raises it."""
    look: LookAtEnd = lambda _tx, _run: lambda: None
    """Called in the transaction that ends the run; what it returns is called after the commit."""
    _recorded: Callable[[], None] = lambda: None

    @property
    def goes_on(self) -> bool:
        """Whether the attempt has neither ended nor been asked to stop."""
        return not self.ended and self.stop_reason is None

    def watch(self, task: asyncio.Task[None]) -> None:
        """End the attempt with the error of a background task, if it fails."""
        task.add_done_callback(self._task_over)

    def _task_over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure, self.ended = error, True
            self.over.set()

    def finish(self, item: Item, entry: NewEntry, ending: Ending, used: Callable[[], Used]) -> None:
        """Write the terminal result `entry` as `item`, with the run's status, usage and cost."""
        self.ended = True
        self.status = ending.status
        item.entry = None
        item.move = partial(self._finish, ending, entry, used)
        item.last = True
        item.done = self._committed
        self.journal.add(item)

    def _finish(  # noqa: PLR0917  the last three as a `Move`
        self,
        ending: Ending,
        entry: NewEntry,
        used: Callable[[], Used],
        tx: Tx,
        entries: Entries,
        begun: Begun | None,
    ) -> Moved | Fenced:
        usage, cost = used()
        self.settle(tx)
        moved = finish(
            tx,
            self.run.run_id,
            self.run.attempt,
            ending.status,
            cause=ending.error or ending.finish_reason or "the runner finished",
            actor=self.host_id,
            status_code=ending.status_code,
            entries=[*entries, entry],
            usage=usage,
            cost=cost,
            begun=begun,
        )
        self._recorded = self.look(tx, self.run)
        return moved

    def _committed(self, _answer: Any, error: HostlerError | None) -> None:
        if error is None:
            self._recorded()
        self.over.set()

    def resume_later(self, why: str, used: Used) -> None:
        """Queue the run for an attempt that goes on from the journal; this one does not count as a crash."""
        self.requeue(Settlement("resume", why, "host.restarted"), used, crashed=False)

    def requeue(self, settlement: Settlement, used: Used, *, crashed: bool) -> None:
        """Queue the run for another attempt, or park it again if it waits for people."""
        self.ended = True

        def work(tx: Tx) -> Any:
            run, actor = self.run, self.host_id
            self.settle(tx)
            return begin_after_loss(tx, run, settlement, actor=actor, used=used, crashed=crashed)

        self.journal.add(Item(move=self.journal.entries_first(work), last=True, done=self._requeued))

    def _requeued(self, _answer: Any, error: HostlerError | None) -> None:
        self.queued_again = error is None
        self.over.set()

    def park(
        self,
        first: int,
        work: Callable[[Tx], tuple[Moved | Fenced, list[NewEntry]]],
        done: Callable[[Any, HostlerError | None], None],
    ) -> None:
        """Write the last results of an attempt whose run waits, from sequence `first` on.

        `work` writes them with the change of status, and returns them.
        """
        published: list[StoredResult] = []

        def moved(tx: Tx) -> Moved | Fenced:
            self.settle(tx)
            change, entries = work(tx)
            published[:] = [
                StoredResult.of(self.run.run_id, sequence, entry.type, _bytes(entry.data))
                for sequence, entry in enumerate(entries, first)
            ]
            return change

        move = self.journal.entries_first(moved)
        self.journal.add(Item(move=move, published=published, last=True, done=done))


def without_secrets(stored: Stored) -> Stored:
    """Return a result without known secrets in what is there to find errors: a log line, or why a run failed.

    Both often quote what a service said. What a runner says otherwise is its own.
    """
    ending = stored.outcome
    if isinstance(ending, Ending) and ending.error is not None:
        ending = replace(ending, error=redact(ending.error))
    elif stored.type != LOG or not is_known_in(stored.data):
        return stored
    body = msgspec.json.decode(stored.data)
    if (shown := redact_value(body)) == body:
        return stored
    return msgspec.structs.replace(stored, data=msgspec.json.encode(shown), outcome=ending)


def result_item(run_id: str, stored: Stored) -> tuple[Item, NewEntry]:
    """Return the journal item of a result, and the entry in it."""
    body = stored.body()
    entry = NewEntry("result", stored.type, body)
    published = StoredResult.of(run_id, stored.sequence, stored.type, body)
    synced = not stored.is_delta
    return Item(entry=entry, published=(published,), synced=synced, size=len(published.json)), entry


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode()
