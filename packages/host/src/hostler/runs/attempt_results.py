"""Write an attempt's results, warnings and ending to the journal, and return credit to the plugin.

Nothing is shown to anyone before its commit; credit for a result goes back to the plugin after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from hostler.calls.scope import CallScope
from hostler.domain.outcomes import Ending, Paused, Step, Stored, StoredDeltas, Warned
from hostler.domain.recording import RESUMED, Resumed
from hostler.journal.feed import StoredResult
from hostler.journal.run_log import Item, RunLog
from hostler.pauses.parking import Used
from hostler.plugins.connection import PluginConnection
from hostler.runs.projections import Projector
from hostler.storage.port import Tx
from hostler.storage.stores.journal import Deltas, Entries, Entry
from hostler.storage.stores.run_endings import finish
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.errors import HostlerError

WIDER_CREDIT = 960
"""Added to the first grant once a run has stored results: a stream of deltas fills one commit while the one
before it is on its way. The bytes in flight are bounded for the whole connection."""

_encoder = msgspec.json.Encoder()


@dataclass(eq=False)
class AttemptResults:
    """Writes the steps of a result stream down.

    `used` is asked for usage and cost when the run ends; `ended` is told as soon as the ending is on its way,
    `over` once it is durable, or never will be; `paused` gets what the explicit form of a pause asks for.
    """

    run: Run
    host_id: str
    log: RunLog
    projector: Projector
    used: Callable[[], Used]
    ended: Callable[[], None]
    over: Callable[[], None]
    paused: Callable[[Paused], None]
    connection: PluginConnection | None = None
    scope: CallScope | None = None
    kept_before: bool = False
    """Whether an attempt before this one completed a message."""
    had_effects: bool = False
    """Whether something was stored that would stand twice if it were done again."""
    _credit: int = 0
    _credit_bytes: int = 0
    _wider: int = field(default=WIDER_CREDIT)

    def write(self, steps: list[Step], credited: Stored | None = None, size: int = 0) -> None:
        """Write steps down in order. `credited` is the one that was received, with its size in bytes."""
        for step in steps:
            if isinstance(step, Warned):
                data = _encoder.encode({"reason": step.reason, "result_type": step.result_type})
                self.log.add(Item(entry=Entry("warning", "dropped", data), synced=False, size=len(data)))
            else:
                self._store(step, size if step is credited else 0, credited=step is credited)

    def write_deltas(self, deltas: StoredDeltas, size: int) -> None:
        """Write down deltas that were received together, of `size` bytes in all."""
        published = StoredResult.deltas(self.run.run_id, deltas.first, deltas.payloads)
        done = partial(self._committed, len(published), size)
        entry = Deltas(deltas.bodies())
        self.log.add(Item(entry=entry, published=published, synced=False, size=size, done=done))

    def went_live(self, frontier: int) -> None:
        """Note where the attempt began to do what no recording holds."""
        data = _encoder.encode(Resumed(self.run.attempt, frontier))
        self.log.add(Item(entry=Entry("attempt", RESUMED, data), synced=False, size=len(data)))

    def take_unstored(self, results: int, size: int) -> None:
        """Give credit back for results of which nothing is stored: dropped ones, and repeated ones."""
        self._committed(results, size, None, None)

    def give_credit(self, results: int, size: int) -> None:
        """So many results were taken, whatever became of them."""
        if self.connection is not None:
            self.connection.credit(self.run.run_id, results, size)

    def _store(self, stored: Stored, size: int, *, credited: bool) -> None:
        item, entry = self._item_of(stored)
        match stored.outcome:
            case Ending() as ending:
                item.entry = None
                item.move = partial(self._end, ending, entry)
                item.last = True
                item.done = self._told_over
                self.ended()
            case Paused() as paused:
                self.paused(paused)
                return
            case None:
                if credited:
                    item.done = partial(self._committed, 1, size)
        self.log.add(item)

    def add_pause(
        self,
        first: int,
        move: Callable[[Tx], tuple[Moved | Fenced, list[Entry]]],
        done: Callable[[Any, HostlerError | None], None],
    ) -> None:
        """Write the last results of an attempt whose run waits, from sequence `first` on.

        `move` writes them with the change of status, and gives them.
        """
        published: list[StoredResult] = []

        def moved(tx: Tx) -> Moved | Fenced:
            change, entries = move(tx)
            published[:] = [
                StoredResult.of(self.run.run_id, sequence, entry.type, _bytes(entry.data))
                for sequence, entry in enumerate(entries, first)
            ]
            return change

        item = Item(move=self.log.entries_first(moved), published=published, last=True, done=done)
        self.log.add(item)

    def _item_of(self, stored: Stored) -> tuple[Item, Entry]:
        """A result for the journal, with what follows from it."""
        body = stored.body()
        entry = Entry("result", stored.type, body)
        published = StoredResult.of(self.run.run_id, stored.sequence, stored.type, body)
        item = Item(
            entry=entry,
            published=(published,),
            synced=not stored.is_delta,
            size=len(published.json),
        )
        if stored.projection is not None:
            if self.scope is None:
                raise RuntimeError("a projection before the run was started")
            item.before, item.after = self.projector.project(self.scope, stored)
            self.had_effects = True
        return item, entry

    def _end(self, ending: Ending, entry: Entry, tx: Tx, entries: Entries) -> Any:
        usage, cost = self.used()
        return finish(
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
        )

    def _told_over(self, _answer: Any, _error: HostlerError | None) -> None:
        self.over()

    def _committed(self, results: int, size: int, _answer: Any, error: HostlerError | None) -> None:
        if error is None:
            if self._credit == 0:
                # one credit message for all results of the commit that has just been told
                asyncio.get_running_loop().call_soon(self._send_credit)
            self._credit += results
            self._credit_bytes += size

    def _send_credit(self) -> None:
        results, size = self._credit + self._wider, self._credit_bytes
        self._credit = self._credit_bytes = self._wider = 0
        self.give_credit(results, size)


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode()
