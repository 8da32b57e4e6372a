"""Results as the bytes of one stream: each as an event of its own, or folded into a dialect."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.http.dialects.fold import Folding
from hostler.http.event_stream import EventStream, Framing, Translation
from hostler.http.limits import STREAM_WRITE_BYTES
from hostler.http.problems import Problem, encode_problem
from hostler.http.sse import EventChunk, chunks_of
from hostler.journal.feed import StoredResult
from hostler_protocol.results import TERMINAL_RESULTS


def framing_of(answer: EventStream) -> Framing:
    """Begin a reading of a stream."""
    if answer.framing is not None:
        return answer.framing()
    return Results() if answer.translation is None else Translated(answer.translation)


class Results:
    """Each result is one event. A reading may begin after any result."""

    waits = False
    shareable = True

    def __init__(self) -> None:
        self.over = False

    def begin(self) -> list[EventChunk]:
        """Nothing precedes the results."""
        return []

    def chunks(self, batch: list[StoredResult]) -> Iterator[EventChunk]:
        """Frame a batch."""
        self.over = batch[-1].type in TERMINAL_RESULTS
        return chunks_of(batch)

    def cut(self) -> None:
        """It never waits."""

    async def finish(self) -> list[EventChunk]:
        """Nothing follows the terminal result."""
        return []

    def refuse(self, problem: Problem) -> EventChunk:
        """Return the problem as an event."""
        return EventChunk.of(b"event: problem\ndata: %s\n\n" % encode_problem(problem))


class Translated:
    """Results folded into a dialect. A reading begins with the first result of its run."""

    def __init__(self, translation: Translation) -> None:
        self.folding: Folding = translation.folding()
        self._usage = translation.usage
        self._cursor = 0

    @property
    def over(self) -> bool:
        """Whether the answer has ended."""
        return self.folding.ending is not None

    @property
    def waits(self) -> bool:
        """Whether the run waits for its client."""
        return self.folding.waits

    @property
    def shareable(self) -> bool:
        """Whether its client has all frames so far."""
        return self.folding.caught_up

    def begin(self) -> list[EventChunk]:
        """Return the frames that precede any result."""
        return self._chunk(self.folding.begin())

    def chunks(self, batch: list[StoredResult]) -> Iterator[EventChunk]:
        """Fold a batch."""
        frames: list[bytes] = []
        size = 0
        for result in batch:
            self._cursor = result.sequence
            for frame in self.folding.take(result):
                frames.append(frame)
                size += len(frame)
            if self.over:
                break
            if size >= STREAM_WRITE_BYTES:
                yield from self._chunk(frames)
                frames, size = [], 0
        yield from self._chunk(frames)

    def cut(self) -> None:
        """End the answer."""
        self.folding.cut()

    async def finish(self) -> list[EventChunk]:
        """Return the frames that end the answer."""
        return self._chunk(self.folding.finish(await self._usage()))

    def refuse(self, problem: Problem) -> EventChunk:
        """Return the problem in the dialect's words."""
        return EventChunk.of(b"".join(self.folding.refuse(problem)))

    def _chunk(self, frames: list[bytes]) -> list[EventChunk]:
        body = b"".join(frames)  # frames that its client did not ask for are empty
        return [EventChunk.of(body, self._cursor)] if body else []
