"""Entries of a timeline as the bytes of an event stream: the cursor is their id."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.calls.cursors import Cursors, ScopedCursors
from hostler.http.framing import Results
from hostler.http.limits import STREAM_WRITE_BYTES
from hostler.http.problems import Problem
from hostler.http.sse import EventChunk, event_name, on_one_line
from hostler.journal.feed import StoredResult
from hostler.journal.timeline_feed import PROGRESS


def stream_cursors(cursors: Cursors, workspace_id: str) -> ScopedCursors:
    """Return the cursors of all streams of a workspace: one is good in each of them, whatever its filter."""
    return cursors.scoped("stream", [workspace_id])


class TimelineFraming:
    """Each entry is one event. A reading may begin after any entry; it begins with the cursor `after`."""

    over = False
    waits = False
    shareable = True

    def __init__(self, cursors: ScopedCursors, after: int) -> None:
        self._cursors = cursors
        self._after = after

    def begin(self) -> list[EventChunk]:
        """Return the cursor at which the stream begins: a client that loses it at once resumes from there."""
        return [EventChunk.of(self._mark(self._after), self._after)]

    def chunks(self, batch: list[StoredResult]) -> Iterator[EventChunk]:
        """Frame a batch in chunks of about STREAM_WRITE_BYTES."""
        waiting: list[bytes] = []
        size = 0
        for entry in batch:
            waiting.append(self._frame(entry))
            size += len(waiting[-1])
            if size >= STREAM_WRITE_BYTES:
                yield EventChunk.of(b"".join(waiting), entry.sequence)
                waiting, size = [], 0
        if waiting:
            yield EventChunk.of(b"".join(waiting), batch[-1].sequence)

    def cut(self) -> None:
        """It never waits."""

    async def finish(self) -> list[EventChunk]:
        """It never ends."""
        return []

    def refuse(self, problem: Problem) -> EventChunk:
        """Say why the stream ends, as the stream of a run does."""
        return Results().refuse(problem)

    def _frame(self, entry: StoredResult) -> bytes:
        if entry.type == PROGRESS:
            return self._mark(entry.sequence)
        cursor, name = self._cursors.issue(entry.sequence).encode(), event_name(entry.type)
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor, name, on_one_line(entry.json))

    def _mark(self, sequence: int) -> bytes:
        # an event without data is not shown to the client, but its id is what it resumes with
        return b"id: %b\n\n" % self._cursors.issue(sequence).encode()
