"""Read runs and their results: from the feed while a run is live, else from the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from hostler.journal.feed import BATCH_BYTES, OWN_POLL_SECONDS, SHARED_POLL_SECONDS, Feed, Seen, StoredResult
from hostler.journal.timeline_feed import TimelineFeed
from hostler.runs.records import record
from hostler.storage.port import Database, Listen, Tx
from hostler.storage.stores import journal, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol._base import Lenient
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord


class _CallId(Lenient):
    call_id: str


class _Asked(Lenient):
    data: _CallId


_asked = msgspec.json.Decoder(_Asked)


@dataclass(slots=True)
class _Awaited:
    """A run that requests wait for, and its record once it has ended here."""

    waiting: int = 0
    record: RunRecord | None = None


class RunReader:
    """The runs of one database, with the feed of those that are live in this process."""

    def __init__(self, db: Database, listen: Listen | None = None) -> None:
        self._db = db
        self._awaited: dict[str, _Awaited] = {}
        poll_seconds = SHARED_POLL_SECONDS if db.shared else OWN_POLL_SECONDS
        self.feed = Feed(self._results, poll_seconds)
        self.timelines = TimelineFeed(db, listen)

    async def record(self, workspace_id: str, run_id: str) -> RunRecord:
        """Return a run with its output. NotFoundError."""
        return await self._db.read(lambda tx: record(tx, workspace_id, run_id), brief=True)

    async def requests(self, workspace_id: str, run_id: str) -> list[tuple[int, str]]:
        """Return the calls of a run that were put to people or its client, in order: sequence and call id.

        NotFoundError.
        """

        def read(tx: Tx) -> list[tuple[int, str]]:
            runs.get(tx, workspace_id, run_id)
            found: list[tuple[int, str]] = []
            after, more = 0, True
            while more:
                page = journal.of_type(tx, run_id, "interaction.requested", after_position=after)
                for entry in page.items:
                    found.append((entry.sequence or 0, _asked.decode(entry.data).data.call_id))
                    after = entry.position
                more = page.more
            return found

        return await self._db.read(read)

    async def stored(self, run_id: str) -> AsyncIterator[StoredResult]:
        """Yield the results that a run has so far, in order. Only for runs that the caller may see."""
        after = 0
        while results := (await self._results(run_id, after, journal.MAX_RESULTS)).results:
            for result in results:
                yield result
            after = results[-1].sequence

    async def wait(
        self, workspace_id: str, run_id: str, seconds: float, *, accepted: bool = False
    ) -> RunRecord:
        """Return a run once it has ended or paused, or as it is after `seconds`. NotFoundError.

        `accepted`: the run was just opened in this workspace, so that this need not be checked.
        """
        if not accepted:
            await self._db.read(lambda tx: runs.get(tx, workspace_id, run_id), brief=True)
        with self._awaiting(run_id) as awaited:
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    async for batch in self.feed.watch(run_id):
                        if batch[-1].type == "run.paused":
                            break
            except TimeoutError:
                pass
        return awaited.record or await self.record(workspace_id, run_id)

    def look_at_end(self, tx: Tx, run: Run) -> Callable[[], None]:
        """Have the record of a run that ends read in the transaction of its end, if a request waits for it.

        Call what it returns after the commit, before the watchers of the run go on.
        """
        if run.run_id not in self._awaited:
            return lambda: None
        look = tx.look(lambda tx: record(tx, run.workspace_id, run.run_id))

        def ended() -> None:
            awaited = self._awaited.get(run.run_id)
            if awaited is not None:
                awaited.record = look.value

        return ended

    @contextmanager
    def _awaiting(self, run_id: str) -> Iterator[_Awaited]:
        awaited = self._awaited.setdefault(run_id, _Awaited())
        awaited.waiting += 1
        try:
            yield awaited
        finally:
            awaited.waiting -= 1
            if not awaited.waiting:
                del self._awaited[run_id]

    async def _results(self, run_id: str, after: int, at_most: int) -> Seen:
        def read(tx: Tx) -> Seen:
            run = runs.by_id(tx, run_id)
            page = journal.results(tx, run_id, after, max_items=at_most, max_bytes=BATCH_BYTES)
            results = [
                StoredResult.of(run_id, entry.sequence or 0, entry.type, entry.data.encode())
                for entry in page.items
            ]
            return Seen(results, run is None or run.status in TERMINAL_STATUSES)

        return await self._db.read(read)
