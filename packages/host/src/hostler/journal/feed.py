"""Live fan-out of committed results.

`publish` is called after the commit, with encoded results. A watcher keeps only its cursor: it takes recent
results from the run's ring and reads older ones from the journal. So a slow reader costs no memory, and a
late one sees the same as an early one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from hostler_protocol.limits import KIB
from hostler_protocol.results import TERMINAL_RESULTS

RING_BYTES = 512 * KIB
"""Recent results kept per active run. A reader further behind than this reads the journal."""
BATCH_RESULTS = 512
"""Results handed to a watcher at once."""
BATCH_BYTES = 256 * KIB
"""About the most bytes of them that are read from the journal: a reader that is slow holds a batch."""
SHARED_POLL_SECONDS = 1.0
"""The longest wait of a watcher before it reads the journal, if other hosts may write to it."""
OWN_POLL_SECONDS = 30.0
"""The same if no other host does. Every change wakes the watchers; this is only a safety net."""

DELTA = "message.delta"

_encoder = msgspec.json.Encoder()


@lru_cache(1024)
def _head(run_id: str, result_type: str) -> bytes:
    """Return the JSON with which the results of a run and type begin, up to their sequence."""
    return _encoder.encode({"run_id": run_id, "type": result_type})[:-1] + b',"sequence":'


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """One committed result: its host sequence, its type, and the whole AgentRunResult as JSON."""

    sequence: int
    type: str
    json: bytes

    @classmethod
    def of(cls, run_id: str, sequence: int, result_type: str, body: bytes) -> StoredResult:
        """Build the whole result from its journal entry (`{"data": ...}`)."""
        return cls(sequence, result_type, b"%b%d,%b" % (_head(run_id, result_type), sequence, body[1:]))

    @classmethod
    def deltas(cls, run_id: str, first: int, payloads: Sequence[bytes]) -> list[StoredResult]:
        """Build consecutive deltas from their payloads; `first`: sequence of the first."""
        head = _head(run_id, DELTA)
        return [
            cls(sequence, DELTA, b'%b%d,"data":%b}' % (head, sequence, payload))
            for sequence, payload in enumerate(payloads, first)
        ]

    @property
    def terminal(self) -> bool:
        """Whether it ends the run."""
        return self.type in TERMINAL_RESULTS


class Seen(NamedTuple):
    """Committed results in order, and whether the run had reached a terminal status when they were read."""

    results: list[StoredResult]
    is_over: bool


ReadResults = Callable[[str, int, int], Awaitable[Seen]]
"""(run_id, after sequence, limit) -> the results in the journal."""


class _Channel:
    """The recent results of one run, and its watchers."""

    __slots__ = ("base", "bytes", "changed", "closed", "recent", "watchers")

    def __init__(self) -> None:
        self.recent: deque[StoredResult] = deque()
        self.base: int | None = None
        """The last sequence in the journal, if it is known and the ring is empty."""
        self.bytes = 0
        self.changed = asyncio.Event()
        self.watchers = 0
        self.closed = False

    def extend(self, results: list[StoredResult]) -> None:
        if self.recent and self.recent[-1].sequence + 1 != results[0].sequence:
            self.recent.clear()  # another host wrote in between
            self.bytes = 0
        self.recent.extend(results)
        self.bytes += sum(len(result.json) for result in results)
        while self.bytes > RING_BYTES and len(self.recent) > 1:
            self.bytes -= len(self.recent.popleft().json)
        self.wake()

    def wake(self) -> None:
        # A new Event per change: waiters of the old one wake without racing a clear().
        self.changed.set()
        self.changed = asyncio.Event()

    def after(self, sequence: int) -> list[StoredResult] | None:
        """Return results after `sequence` from the ring, or None if it no longer has the next one."""
        if not self.recent:
            return None if self.base is None or sequence < self.base else []
        if self.recent[0].sequence > sequence + 1:
            return None
        ahead = self.recent[-1].sequence - sequence
        if ahead <= 0:
            return []
        if ahead <= BATCH_RESULTS:
            newest = [result for _, result in zip(range(ahead), reversed(self.recent), strict=False)]
            return newest[::-1]
        start = sequence - self.recent[0].sequence + 1
        return list(islice(self.recent, start, start + BATCH_RESULTS))


class Feed:
    """The live results of all runs of this process."""

    def __init__(self, read: ReadResults, poll_seconds: float = OWN_POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self._read = read
        self._channels: dict[str, _Channel] = {}

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return sum(channel.watchers for channel in self._channels.values())

    def open(self, run_id: str, sequence: int) -> None:
        """Announce that this process executes the run and will publish all its results after `sequence`.

        A watcher at that sequence or later waits for them without reading the journal.
        """
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = _Channel()
        channel.closed = False
        channel.recent.clear()
        channel.bytes = 0
        channel.base = sequence

    def publish(self, run_id: str, results: list[StoredResult]) -> None:
        """Publish committed results, in order and without a gap."""
        if not results:
            return
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = _Channel()
        channel.closed = False
        channel.extend(results)
        if results[-1].terminal:
            self.close(run_id)

    def wake(self, run_id: str) -> None:
        """Make watchers read the journal, unless this process publishes the run's results."""
        channel = self._channels.get(run_id)
        if channel is not None and channel.closed:
            channel.recent.clear()
            channel.bytes = 0
            channel.base = None
            channel.wake()

    def close(self, run_id: str) -> None:
        """Announce that this process no longer executes the run: watchers continue from the journal."""
        channel = self._channels.get(run_id)
        if channel is not None:
            channel.closed = True
            channel.base = None
            channel.wake()
            self._drop_unused(run_id, channel)

    def _drop_unused(self, run_id: str, channel: _Channel) -> None:
        if channel.closed and not channel.watchers:
            self._channels.pop(run_id, None)

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[list[StoredResult]]:
        """Yield the results after a sequence in batches, each once and in order, up to the terminal one."""
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = _Channel()
            channel.closed = True  # until this process publishes, the run may be elsewhere, or over
        channel.watchers += 1
        try:
            async for batch in self._follow(run_id, channel, after):
                yield batch
        finally:
            channel.watchers -= 1
            self._drop_unused(run_id, channel)

    async def _follow(self, run_id: str, channel: _Channel, after: int) -> AsyncIterator[list[StoredResult]]:
        while True:
            changed = channel.changed
            batch = channel.after(after)
            if batch is None:
                batch, is_over = await self._read(run_id, after, BATCH_RESULTS)
                if not batch and is_over:
                    return  # both were read in one snapshot, so no result was missed
            if batch:
                after = batch[-1].sequence
                yield batch
                if batch[-1].terminal:
                    return
                continue
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await changed.wait()
            except TimeoutError:
                if channel.recent and channel.recent[-1].sequence <= after and channel.closed:
                    channel.recent.clear()  # the ring may be out of date: read the journal
