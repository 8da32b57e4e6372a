"""The product's database on a simulated disk: its jobs take time and belong to the process that waits."""

from __future__ import annotations

from collections.abc import Callable

from hostler.simulation.disk import SimulatedDisk, SimulatedDriver
from hostler.simulation.latency import Latency
from hostler.simulation.loop import current_process
from hostler.storage.sql.database import Job, JobQueue, Reader, SqlDatabase, settle

READERS = 3


class SimulatedDatabase(SqlDatabase):
    """The writer and the readers without threads: the loop does a job when its time has come.

    `on_commit` is called after each commit, before anybody hears of it.
    """

    def __init__(
        self, disk: SimulatedDisk, latency: Latency, *, shared: bool, on_commit: Callable[[], None]
    ) -> None:
        self._disk = disk
        self._on_commit = on_commit
        self._latency = latency
        self._writing = False
        self._process = current_process()
        super().__init__(SimulatedDriver(disk, shared=shared), readers=READERS)

    def _start(self, queues: list[JobQueue]) -> None:
        self._session = self._driver.open_writer()
        self._reader = Reader(self._driver, self._transactions)

    def _put(self, jobs: JobQueue, job: Job) -> None:
        if jobs is self._writer.queue:
            jobs.put(job)
            self._write_later(job)
        else:
            job.loop.call_later(self._latency.read(), self._read, job)

    def _write_later(self, job: Job) -> None:
        if not self._writing:
            self._writing = True
            job.loop.call_later(self._latency.write() + self._disk.stall_seconds, self._write, job)

    def _write(self, first: Job) -> None:
        """Commit one group; its callers hear of it a moment later, if their process still lives."""
        done = self._writer.commit_next(self._session)
        self._on_commit()
        late, self._disk.late_seconds = self._disk.late_seconds, 0.0
        first.loop.call_later(self._latency.wake() + late, self._written, done, first)

    def _written(self, done: list[Job], first: Job) -> None:
        settle(done)
        self._writing = False
        if not self._writer.idle:
            self._write_later(first)

    def _read(self, job: Job) -> None:
        self._reader.work(job)
        settle([job])

    async def truncate_log(self) -> bool:
        """Do nothing, and that without a thread."""
        return self._driver.truncate_log()

    async def close(self) -> None:
        """Finish the queued work, then close."""
        if not self._closed:
            self._closed = True
            while not self._writer.idle:
                settle(self._writer.commit_next(self._session))
            self._reader.close()
            self._session.close()
            self._driver.close()
