"""Write the journal of one active run, in order: committed in batches, published after the commit.

Everything that a run stores goes through its `RunLog`, which writes one batch at a time; items that come
meanwhile are the next batch. So a quiet run commits at once and a busy one in large groups. An item without a
waiter, such as the outcome of a read, is written with the next one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hostler.journal.feed import Feed, StoredResult
from hostler.storage.port import Database, Tx
from hostler.storage.sql.session import CommitUnknownError
from hostler.storage.stores import hosts, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, Entries, NewEntry
from hostler.storage.stores.run_rows import Appended, Fenced, Moved
from hostler.storage.stores.runs import Begun
from hostler_protocol.errors import CancelledCallError, HostlerError, StorageError
from hostler_protocol.limits import MIB

MAX_BATCH_ITEMS = 1024
MAX_BATCH_BYTES = 4 * MIB
LINGER_SECONDS = 0.005
"""The longest time that an item without a waiter stays unwritten; usually the next item takes it along."""
FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0
"""Back-off while the database cannot write (disk full, connection lost). The run waits, losing nothing."""


Move = Callable[[Tx, Entries, Begun | None], Moved | Fenced]


@dataclass(slots=True)
class Item:
    """One item of the journal.

    `entry` is known, or made by `work` inside the transaction, together with an answer for `done` (None: no
    entry). `move` changes the run's status and stores the entries it gets with that, in one update of the
    run: those of the batch so far, this item's last. `begun`: the run moves to `running` after the entry; a
    `move` of the same batch gets that change too, if no `work` is between them. `before` is awaited first, to
    store blobs; `after` writes the consequences of the entry, before the effects of later items, and returns
    further entries.
    """

    entry: NewEntry | Deltas | None = None
    work: Callable[[Tx], tuple[NewEntry | None, Any]] | None = None
    begun: Begun | None = None
    move: Move | None = None
    before: Callable[[], Awaitable[None]] | None = None
    after: Callable[[Tx], Entries | None] | None = None
    published: Sequence[StoredResult] = ()
    synced: bool = True
    size: int = 0
    last: bool = False
    """It ends the attempt: items added later are not written."""
    done: Callable[[Any, HostlerError | None], None] | None = None
    """Called on the loop: with (answer, None) once it is durable, with (None, error) if it never will be."""

    @property
    def is_visible(self) -> bool:
        """Whether it may write more than entries and a status, so that calls that read no runs can see it."""
        return bool(self.work or self.after or self.published)


class FencedError(CancelledCallError):
    """Another attempt of the run exists, or the run has ended: this attempt writes nothing more."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this attempt was superseded: {why}")


@dataclass(slots=True)
class RunLog:
    """Writes the journal of one attempt, while its host is the `member` that claimed it."""

    db: Database
    feed: Feed
    run_id: str
    attempt: int
    member: Membership
    _queue: deque[Item] = field(default_factory=deque)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _added: int = 0
    _written: int = 0
    _visible: int = 0
    """Number of items up to the last visible one."""
    _linger: asyncio.TimerHandle | None = None
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _lost: HostlerError | None = None
    _sealed: bool = False
    _closing: bool = False

    def add(self, item: Item, *, hurry: bool = True) -> None:
        """Queue an item; items are written in the order in which they are added.

        Items after the `last` one fail at once: they would be fenced and undo their whole batch. Without
        `hurry` the item is written with the next one, at the latest after LINGER_SECONDS.
        """
        if self._lost is not None or self._sealed:
            if item.done is not None:
                ended = CancelledCallError("this attempt of the run has ended")
                item.done(None, ended if self._lost is None else _again(self._lost))
            return
        self._sealed = item.last
        self._queue.append(item)
        self._added += 1
        if item.is_visible:
            self._visible = self._added
        if hurry:
            self._changed.set()
        elif self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._changed.set)

    async def write(
        self,
        work: Callable[[Tx], tuple[NewEntry | None, Any]],
        settled: Callable[[Any, HostlerError | None], None] | None = None,
    ) -> Any:
        """Run `work` in the order of the run's items and return its answer once it is durable.

        `settled` is called with the same, also if the caller was cancelled: `work` is done nevertheless.
        """
        return await self.commit(Item(work=work, done=settled))

    async def commit(self, item: Item) -> Any:
        """Queue an item and return its answer once it is durable; its own `done` is called as well."""
        future = _future_of(item)
        self.add(item)
        del item
        try:
            return await future
        finally:
            del future  # its error has this frame: a cycle, which would keep what the item has in hand

    @property
    def is_writing(self) -> bool:
        """Whether an item is not committed yet."""
        return self._written < self._added and self._lost is None

    async def settled(self) -> None:
        """Wait until each item added before is committed or has failed."""
        await self._until(self._added)

    async def seen(self) -> None:
        """Wait until each visible item added before is committed or has failed."""
        await self._until(self._visible)

    async def _until(self, added: int) -> None:
        if self._written < added and self._lost is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (added, next(self._numbers), future))
            self._changed.set()
            await future

    def entries_first(self, move: Callable[[Tx], Moved | Fenced]) -> Move:
        """Return a `move` that first appends the batch's entries, then makes a change that writes more."""

        def moved(tx: Tx, entries: Entries, begun: Begun | None) -> Moved | Fenced:
            self._write(tx, entries, begun)
            return move(tx)

        return moved

    def close(self) -> None:
        """Let `pump` end when the queue is empty. No item may be added any more."""
        self._closing = True
        self._changed.set()

    def abandon(self, error: HostlerError) -> None:
        """Write nothing more: queued items fail with `error`."""
        if self._lost is None:
            self._lost = _again(error)
        queued, self._queue = list(self._queue), deque()
        for item in queued:
            if item.done is not None:
                item.done(None, _again(self._lost))
        self._written = self._added
        self._wake()
        self._changed.set()

    async def pump(self, on_fenced: Callable[[FencedError], None]) -> None:
        """Write batches until closed. Runs as a task of the run and owns the queue.

        `on_fenced` is called when a write finds that the attempt no longer owns its run. So it is when
        nobody knows whether a batch was committed, which is raised then: written again, it might be there
        twice, so that the run has to be settled like one that was lost.
        """
        while True:
            await self._changed.wait()
            if not self._sealed:
                await asyncio.sleep(0)  # items added in this turn of the loop go into the same batch
            self._changed.clear()
            while self._queue and self._lost is None:
                await self._write_batch(self._take_batch(), on_fenced)
            if self._closing or self._lost is not None:
                return

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._written:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    def _take_batch(self) -> list[Item]:
        batch: list[Item] = []
        size = 0
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        while self._queue and len(batch) < MAX_BATCH_ITEMS and size < MAX_BATCH_BYTES:
            item = self._queue.popleft()
            size += item.size
            batch.append(item)
        return batch

    async def _write_batch(self, batch: list[Item], on_fenced: Callable[[FencedError], None]) -> None:
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                await _prepare(batch)
                answers = await self.db.write(
                    lambda tx: self._store(tx, batch), synced=any(item.synced for item in batch)
                )
                break
            except CommitUnknownError as error:
                fenced = FencedError(error.message)
                self._fail(batch, fenced)
                on_fenced(fenced)
                raise
            except StorageError as error:
                if isinstance(self._lost, FencedError):  # what it holds is of no more use
                    self._fail(batch, self._lost)
                    return
                if not error.retryable or self._lost is not None:
                    self._fail(batch, error)
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_SECONDS)
            except FencedError as error:
                self._fail(batch, error)
                on_fenced(error)
                return
        self.feed.publish(self.run_id, [result for item in batch for result in item.published])
        _answer(batch, answers)
        self._written += len(batch)
        self._wake()

    def _store(self, tx: Tx, batch: list[Item]) -> list[Any]:
        """Write a batch in one transaction: effects, entries and their consequences, in the items' order.

        The consequences of a result precede the effects of later calls and the end of the run, so that a
        conversation has its messages in the order in which they were sent.
        """
        check_lease(tx, self.member)
        entries: list[NewEntry | Deltas] = []
        begun: Begun | None = None
        answers: list[Any] = []
        for item in batch:
            if begun is not None and item.work is not None:  # a call may read what its run was granted
                self._write(tx, entries, begun)
                entries, begun = [], None
            entry, answer = item.work(tx) if item.work is not None else (item.entry, None)
            if entry is not None:
                entries.append(entry)
            answers.append(answer)
            if item.after is not None:
                entries += item.after(tx) or ()
            if item.begun is not None:
                begun = item.begun
                entries.append(begun.entry)
            if item.move is not None:
                _unfenced(item.move(tx, entries, begun))
                entries, begun = [], None
        self._write(tx, entries, begun)
        return answers

    def _write(self, tx: Tx, entries: Entries, begun: Begun | None) -> None:
        """Append entries, and move the run to `running` with them if it has `begun`."""
        if begun is not None:
            _unfenced(runs.begin(tx, self.run_id, self.attempt, begun, entries))
        elif entries:
            _unfenced(runs.append(tx, self.run_id, self.attempt, entries))

    def _fail(self, batch: list[Item], error: HostlerError) -> None:
        for item in batch:
            if item.done is not None:
                item.done(None, _again(error))
        batch.clear()  # an error that is raised on has frames that have the batch
        self.abandon(error)


async def _prepare(batch: list[Item]) -> None:
    for item in batch:
        if item.before is not None:
            await item.before()


def _answer(batch: list[Item], answers: list[Any]) -> None:
    for item, answer in zip(batch, answers, strict=True):
        if item.done is not None:
            item.done(answer, None)


def check_lease(tx: Tx, member: Membership) -> None:
    """Raise FencedError if the host that claimed an attempt is no longer a member of the database."""
    if not hosts.holds(tx, member):
        raise FencedError("the lease of its host is over")


def _unfenced(outcome: Appended | Moved | Fenced) -> None:
    if isinstance(outcome, Fenced):
        # raised, so that the whole transaction is undone
        raise FencedError(f"the run is {outcome.status}, attempt {outcome.attempt}")


def _again(error: HostlerError) -> HostlerError:
    """Return a new error that says the same: one that was raised has the frames of all that it passed."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    return copied


def _future_of(item: Item) -> asyncio.Future[Any]:
    """Return a future of an item's answer; the item's own `done` is called before it is resolved."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    called = item.done

    def done(answer: Any, error: HostlerError | None) -> None:
        if called is not None:
            called(answer, error)
        if future.done():
            return  # the waiter was cancelled
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)

    item.done = done
    return future
