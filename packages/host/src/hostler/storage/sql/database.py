"""The one writer and its readers: the work of many callers in one transaction with one disk sync.

`SqlDatabase` knows no SQL and no driver. One thread owns the writing connection and commits in groups: all
queued work goes into one transaction, bounded in count and in time. Each reading thread has its own
connection. Callers are coroutines; one wake-up per group resumes all of them.

A group that fails is rolled back and split in half, each half in its own transaction, until the failing work
is alone: order is kept, the work is done at most about three times, and no other caller is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hostler.domain.struct_types import learn_struct_types
from hostler.storage.port import Dialect, Late, Listener, Tx
from hostler.storage.sql.session import (
    CommitUnknownError,
    ConnectionLostError,
    ContentionError,
    Driver,
    OpenTx,
    Session,
    SessionTx,
)
from hostler_protocol.errors import UnavailableError

T = TypeVar("T")

MAX_OUTSTANDING_WRITES = 10_000
"""Jobs queued or in flight; beyond it `write` waits. About 10 MB of closures."""
MAX_OUTSTANDING_READS = 1_000
MAX_GROUP_WORKS = 1_000
MAX_GROUP_SECONDS = 0.005
"""After this a group takes no more work, so that with its commit no caller waits longer than about 10 ms."""
MAX_CONTENTION_RETRIES = 5
"""A group that deadlocked with another host's is retried this often before it is split."""
MAX_READ_ATTEMPTS = 5
"""A read whose connection broke is retried on a new one."""

_CLOSED = "the database is closed: the host is shutting down"


@dataclass(slots=True, repr=False)
class Job:
    """One piece of work and the future of its caller; `failed` or `value` is set when it is settled."""

    work: Callable[[Tx], Any]
    synced: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    room: asyncio.Semaphore
    """Released when the job is settled, also if its caller was cancelled before."""
    late: Late[Any] | None = None
    value: Any = None
    failed: BaseException | None = None

    def settle(self) -> None:
        """Resume the caller, and let go of all that is the job's.

        An error has the frames that it came through, and those have the jobs of its whole group: what these
        pin (bytes of a file, say) would stay pinned until the garbage collector runs.
        """
        self.room.release()
        if self.future.done():  # the caller was cancelled
            if self.late is not None:
                self.loop.call_soon(self.late, self.value, self.failed)
        elif self.failed is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.failed)
        del self.work, self.future, self.late, self.value, self.failed


def open_tx(session: Session, now: int, writes: bool) -> SessionTx:
    """Return a transaction that stores values as they are."""
    return SessionTx(session, now)


@dataclass(slots=True)
class Transactions:
    """How the transactions of a database are made, as of now."""

    open: OpenTx = open_tx
    listener: Listener | None = None
    """Called after each commit with what its work announced."""


JobQueue: TypeAlias = "queue.SimpleQueue[Job | None]"
"""Jobs for one thread; None: the database closes."""


class SqlDatabase:
    """A `Database` on a driver. Made by `open_database`; belongs to one event loop at a time."""

    def __init__(self, driver: Driver, *, readers: int) -> None:
        learn_struct_types()  # before the threads that decode them
        self._driver = driver
        self._closed = False
        self._write_room = asyncio.Semaphore(MAX_OUTSTANDING_WRITES)
        self._read_room = asyncio.Semaphore(MAX_OUTSTANDING_READS)
        self._reads: JobQueue = queue.SimpleQueue()
        self._brief_reads = self._reads
        if driver.dialect == "sqlite" and readers > 1:
            # one thread for those: several would take the interpreter from each other at each statement
            self._brief_reads = queue.SimpleQueue()
        self._transactions = Transactions()
        self._writer = Writer(driver, self._transactions)
        self._readers: list[threading.Thread] = []
        self._start([self._brief_reads, *[self._reads] * (readers - 1)])

    def _start(self, queues: list[JobQueue]) -> None:
        """Start the threads."""
        try:
            self._writer.start()
        except BaseException:
            self._driver.close()
            raise
        for n, jobs in enumerate(queues):
            thread = threading.Thread(
                target=self._read_forever, args=(jobs,), name=f"hostler-reader-{n}", daemon=True
            )
            thread.start()
            self._readers.append(thread)

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        return self._driver.dialect

    @property
    def shared(self) -> bool:
        """Whether other hosts work on it too."""
        return self._driver.shared

    def transact_by(self, open_tx: OpenTx) -> None:
        """Make all transactions from now on with `open_tx`."""
        self._transactions.open = open_tx

    def listen(self, listener: Listener | None) -> None:
        """Set the listener; None: nobody listens."""
        self._transactions.listener = listener

    @property
    def groups_committed(self) -> int:
        """Commits so far; writes per commit show how well they are grouped."""
        return self._writer.groups

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        """Run `work` in the next group commit and return its result once the commit is durable.

        An exception of `work` is raised here, its writes undone. Cancelling the caller does not undo queued
        work; `late` is called with what became of it. UnavailableError after `close`; StorageError if the
        database cannot commit.
        """
        return await self._submit(work, synced, self._write_room, self._writer.queue, late)

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` on a reader, in one snapshot with every write acknowledged before.

        `brief`: it reads a few rows by their keys, and waits only for other such reads.
        """
        return await self._submit(work, False, self._read_room, self._brief_reads if brief else self._reads)

    async def backup(self, target: Path) -> None:
        """Copy the database into the new file `target` while it is in use (SQLite only)."""
        await asyncio.to_thread(self._driver.backup, target)

    async def truncate_log(self) -> bool:
        """Empty the write-ahead log, which may hold old contents of pages; return False if it is in use."""
        return await asyncio.to_thread(self._driver.truncate_log)

    async def close(self) -> None:
        """Finish the queued work, then close. A second call does nothing more."""
        if not self._closed:
            self._closed = True
            self._brief_reads.put(None)
            for _ in self._readers[1:]:
                self._reads.put(None)
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in self._readers:
            thread.join()
        # The last connection to SQLite empties the log as it is closed. Of two that close at once neither is
        # the last: what was overwritten since, as text that is sealed now, would stay in the database file.
        self._writer.queue.put(None)
        self._writer.thread.join()
        self._driver.close()

    async def _submit(
        self,
        work: Callable[[Tx], T],
        synced: bool,
        room: asyncio.Semaphore,
        jobs: JobQueue,
        late: Late[T] | None = None,
    ) -> T:
        try:
            await room.acquire()
        except asyncio.CancelledError as error:
            if late is not None:
                late(None, error)
            raise
        if self._closed or self._writer.ended:
            room.release()
            raise UnavailableError(_CLOSED)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(jobs, Job(work, synced, loop, future, room, late))
        if self._writer.ended:  # the queue may have been emptied just before
            raise UnavailableError(_CLOSED)
        try:
            return await future
        except asyncio.CancelledError:
            if late is not None and not future.cancelled():  # cancelled when it was settled already
                failed = future.exception()
                late(None if failed is not None else future.result(), failed)
            raise
        finally:
            del future  # it has the error, which has this frame

    def _put(self, jobs: JobQueue, job: Job) -> None:
        """Hand a job to a thread."""
        jobs.put(job)

    def _read_forever(self, jobs: JobQueue) -> None:
        reader = Reader(self._driver, self._transactions)
        while (job := jobs.get()) is not None:
            reader.work(job)
            settle([job])
            del job  # frees its arguments before the next wait
        reader.close()


class Reader:
    """A session that reads, opened again when its connection is lost."""

    def __init__(self, driver: Driver, transactions: Transactions) -> None:
        self._driver = driver
        self._transactions = transactions
        self._session: Session | None = None

    def work(self, job: Job) -> None:
        """Do a job; its caller is not informed yet."""
        for _ in range(MAX_READ_ATTEMPTS):
            try:
                session = self._session = self._session or self._driver.open_reader()
                tx = self._transactions.open(session, session.begin(synced=False), False)
                job.value, job.failed = job.work(tx), None
                session.commit()
                tx.committed()
                return
            except (ConnectionLostError, ContentionError) as error:  # a read may be done again
                job.failed = error
                self.close()
            except BaseException as error:  # noqa: BLE001  top of a worker: raised at the caller
                job.failed = error
                if self._session is not None:
                    self._session.rollback()
                return

    def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            self._session.close()
            self._session = None


class Writer:
    """The writing thread."""

    def __init__(self, driver: Driver, transactions: Transactions) -> None:
        self._transactions = transactions
        self.queue: JobQueue = queue.SimpleQueue()
        self.groups = 0
        self.ended = False
        self.thread = threading.Thread(target=self._main, name="hostler-writer", daemon=True)
        self._driver = driver
        self._held: Job | None = None
        self._stopping = False
        self._opened: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the thread. Raises the error of opening the connection."""
        self.thread.start()
        if (error := self._opened.get()) is not None:
            raise error

    def _main(self) -> None:
        try:
            session = self._driver.open_writer()
        except Exception as error:  # noqa: BLE001  raised by `start`
            self._opened.put(error)
            return
        self._opened.put(None)
        try:
            while (first := self._next(wait=True)) is not None:
                settle(self._commit(session, first))
                del first  # frees its arguments before the next wait
                session.idle()
        finally:
            self.ended = True
            session.close()
            self._refuse_rest()

    def _next(self, *, wait: bool) -> Job | None:
        """Return the next job; None if nothing is queued or, when waiting, if the database is closing."""
        if self._held is not None:
            job, self._held = self._held, None
            return job
        if self._stopping:
            wait = False
        try:
            taken = self.queue.get(block=wait)
        except queue.Empty:
            return None
        if taken is None:
            self._stopping = True
            return self._next(wait=False)
        return taken

    @property
    def idle(self) -> bool:
        """Whether no job waits for a commit."""
        return self._held is None and self.queue.empty()

    def commit_next(self, session: Session) -> list[Job]:
        """Commit the next group of queued jobs and return them; their callers are not informed yet."""
        first = self._next(wait=False)
        return [] if first is None else self._commit(session, first)

    def _commit(self, session: Session, first: Job) -> list[Job]:
        """Commit a group that begins with `first` and return it."""
        group = [first]
        if not self._succeeds(session, group, grow=True):
            error = group[0].failed
            if isinstance(error, ConnectionLostError) and not isinstance(error, CommitUnknownError):
                group += self._queued()  # they would fail in the same way
            del error  # it has this frame
            self._separate(session, group)
        return group

    def _queued(self) -> list[Job]:
        """Take all jobs that are queued now, at most MAX_GROUP_WORKS."""
        queued: list[Job] = []
        while len(queued) < MAX_GROUP_WORKS and (job := self._next(wait=False)) is not None:
            queued.append(job)
        return queued

    def _attempt(self, session: Session, group: list[Job], *, grow: bool) -> None:
        """Run `group` in one transaction; with `grow`, add jobs that are queued meanwhile."""
        synced = any(job.synced for job in group)
        tx = self._transactions.open(session, session.begin(synced=synced), True)
        for job in group:
            job.value, job.failed = job.work(tx), None
        until = time.monotonic() + MAX_GROUP_SECONDS
        while grow and len(group) < MAX_GROUP_WORKS and time.monotonic() < until:
            job_or_none = self._next(wait=False)
            if job_or_none is None:
                break
            if job_or_none.synced and not synced:  # it needs a synced group
                self._held = job_or_none
                break
            group.append(job_or_none)
            job_or_none.value = job_or_none.work(tx)
        tx.end()
        session.commit()
        tx.committed()
        self.groups += 1
        if tx.announced and (listener := self._transactions.listener) is not None:
            listener(frozenset(tx.announced))

    def _succeeds(self, session: Session, group: list[Job], *, grow: bool = False) -> bool:
        """Run `group` in its own transaction; if it fails, roll it back and note the error in its jobs."""
        try:
            self._attempt(session, group, grow=grow)
        except BaseException as error:  # noqa: BLE001  top of a worker: raised at the callers
            session.rollback()
            for job in group:
                job.failed = error
            return False
        return True

    def _separate(self, session: Session, group: list[Job]) -> None:
        """Run a group that failed in ever smaller parts, until only the failing jobs fail."""
        for _ in range(MAX_CONTENTION_RETRIES):
            if not isinstance(group[0].failed, ContentionError):
                break
            if self._succeeds(session, group):
                return
        if isinstance(group[0].failed, ConnectionLostError):
            for job in group[1:]:
                job.failed = group[0].failed
        elif len(group) > 1:
            middle = len(group) // 2
            for part in (group[:middle], group[middle:]):
                if not self._succeeds(session, part):
                    self._separate(session, part)

    def _refuse_rest(self) -> None:
        """Fail every queued job, since the thread ends."""
        rest = [] if self._held is None else [self._held]
        with contextlib.suppress(queue.Empty):
            while True:
                job = self.queue.get_nowait()
                if job is not None:
                    rest.append(job)
        for job in rest:
            job.failed = UnavailableError(_CLOSED)
        settle(rest)


def settle(jobs: list[Job]) -> None:
    """Resume the callers of `jobs`: one call into each event loop."""
    if len(jobs) == 1:  # a read, or a write by itself
        _call(jobs[0].loop, jobs)
        return
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, settled in by_loop.items():
        _call(loop, settled)


def _call(loop: asyncio.AbstractEventLoop, jobs: list[Job]) -> None:
    try:
        loop.call_soon_threadsafe(_wake, jobs)
    except RuntimeError:  # the loop was closed, and its callers are gone
        return


def _wake(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()
