"""The feed: whatever comes between, a watcher sees each committed result once and in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.journal import feed
from hostler.journal.feed import Feed, Seen, StoredResult

RUN = "r1"
RING = 600
BATCH = 7


@pytest.fixture(autouse=True, scope="module")
def small_rings() -> Iterator[None]:
    """A few results fill a ring, and a page holds fewer than a run has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed, "RING_BYTES", RING)
        patch.setattr(feed, "BATCH_RESULTS", BATCH)
        yield


class Journal:
    """What is committed; the feed reads it as it reads a database: not at once."""

    def __init__(self, poll_seconds: float = 30.0) -> None:
        self.results: list[StoredResult] = []
        self.reads = 0
        self.feed = Feed(self.read, poll_seconds)

    async def read(self, run_id: str, after: int, at_most: int) -> Seen:
        self.reads += 1
        await asyncio.sleep(0)
        is_over = bool(self.results) and self.results[-1].terminal
        seen = Seen(self.results[after : after + at_most], is_over)
        await asyncio.sleep(0)
        return seen

    def commit(self, count: int, *, last: str = "message.delta") -> list[StoredResult]:
        """Write so many results down, without telling anybody."""
        fresh = []
        for index in range(count):
            kind = last if index == count - 1 else "message.delta"
            fresh.append(StoredResult.of(RUN, len(self.results) + 1, kind, b'{"data":{"n":"0123456789"}}'))
            self.results.append(fresh[-1])
        return fresh

    def publish(self, count: int, *, last: str = "message.delta") -> None:
        self.feed.publish(RUN, self.commit(count, last=last))

    async def watch(self, after: int, hesitation: int = 0) -> list[int]:
        """The sequences that a watcher gets; between two batches it lets others go so many times."""
        seen: list[int] = []
        async for batch in self.feed.watch(RUN, after):
            assert 0 < len(batch) <= BATCH
            seen += [result.sequence for result in batch]
            for _ in range(hesitation):
                await asyncio.sleep(0)
        return seen


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 20)),
        st.tuples(st.just("watch"), st.integers(0, 40), st.integers(0, 5)),
        st.tuples(st.just("turns"), st.integers(1, 12)),
        st.tuples(st.just("elsewhere"), st.integers(1, 9)),
        st.just(("close",)),
        st.just(("open",)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(actions=ACTIONS)
async def test_each_result_once_and_in_order_under_every_interleaving(actions: list[Any]) -> None:
    journal = Journal(poll_seconds=0.001)
    watchers: list[tuple[int, asyncio.Task[list[int]]]] = []
    for action in actions:
        match action:
            case ("publish", count):
                journal.publish(count)
            case ("watch", after, hesitation):
                watchers.append((after, asyncio.create_task(journal.watch(after, hesitation))))
            case ("turns", count):
                for _ in range(count):
                    await asyncio.sleep(0)
            case ("elsewhere", count):  # the run moves to another host, which writes
                journal.feed.close(RUN)
                journal.commit(count)
            case ("close",):
                journal.feed.close(RUN)
            case ("open",):
                journal.feed.open(RUN, len(journal.results))
            case ("leave", index) if index < len(watchers):
                watchers.pop(index)[1].cancel()
            case _:
                pass
    journal.publish(1, last="run.completed")
    end = len(journal.results)
    for after, task in watchers:
        assert await task == list(range(after + 1, end + 1))
    assert await journal.watch(0) == list(range(1, end + 1))
    await asyncio.sleep(0)
    assert journal.feed.watchers == 0
    assert journal.feed._channels == {}


async def test_who_watches_a_run_from_its_beginning_never_needs_the_journal() -> None:
    journal = Journal()
    journal.feed.open(RUN, 0)
    watching = asyncio.create_task(journal.watch(0))
    for _ in range(50):
        journal.publish(2)
        for _ in range(5):
            await asyncio.sleep(0)
    journal.publish(1, last="run.completed")
    assert len(await watching) == 101
    assert journal.reads == 0


async def test_a_watcher_that_sleeps_is_woken_and_does_not_wait_for_the_poll() -> None:
    journal = Journal(poll_seconds=3600.0)
    watching = asyncio.create_task(journal.watch(0))
    for _ in range(10):
        await asyncio.sleep(0)
    journal.publish(3)
    for _ in range(10):
        await asyncio.sleep(0)
    journal.publish(1, last="run.failed")
    assert await watching == [1, 2, 3, 4]


async def test_memory_is_bounded_however_slow_the_reader_is() -> None:
    journal = Journal()
    journal.feed.open(RUN, 0)
    stream = journal.feed.watch(RUN, 0)
    journal.publish(1)
    await anext(stream)
    for _ in range(1000):
        journal.publish(10)
    channel = journal.feed._channels[RUN]
    assert sum(len(result.json) for result in channel.recent) == channel.bytes <= RING
    journal.publish(1, last="run.completed")
    rest = [result.sequence for batch in [b async for b in stream] for result in batch]
    assert rest == list(range(2, 10_003))


async def test_one_result_larger_than_the_ring_is_still_told_from_it() -> None:
    journal = Journal()
    journal.feed.open(RUN, 0)
    large = StoredResult.of(RUN, 1, "message.delta", b'{"data":"%s"}' % (b"x" * RING * 3))
    journal.results.append(large)
    journal.feed.publish(RUN, [large])
    assert await anext(journal.feed.watch(RUN, 0)) == [large]
    assert journal.reads == 0


async def test_a_run_that_is_over_is_read_from_the_journal_and_ends() -> None:
    journal = Journal()
    journal.commit(20, last="run.completed")
    assert await journal.watch(0) == list(range(1, 21))
    assert await journal.watch(19) == [20]
    assert await journal.watch(20) == []
    assert await journal.watch(5000) == []


async def test_a_run_that_ended_elsewhere_is_seen_when_its_watchers_are_woken() -> None:
    journal = Journal(poll_seconds=3600.0)
    journal.publish(2)
    journal.feed.close(RUN)
    watching = asyncio.create_task(journal.watch(0))
    for _ in range(10):
        await asyncio.sleep(0)
    journal.commit(1, last="run.failed")
    journal.feed.wake(RUN)
    assert await watching == [1, 2, 3]


async def test_watchers_that_leave_leave_nothing_behind() -> None:
    journal = Journal()
    tasks = [asyncio.create_task(journal.watch(0)) for _ in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert journal.feed.watchers == 5
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert journal.feed.watchers == 0
    assert journal.feed._channels == {}


@given(
    sequence=st.integers(1, 2**53),
    kind=st.text(),
    body=st.dictionaries(st.sampled_from(["usage", "timestamp"]), st.integers()),
)
def test_a_result_is_joined_to_what_would_have_been_encoded(
    sequence: int, kind: str, body: dict[str, Any]
) -> None:
    body = {"data": {"text": kind}, **body}
    joined = StoredResult.of(RUN, sequence, kind, msgspec.json.encode(body))
    assert msgspec.json.decode(joined.json) == {"run_id": RUN, "type": kind, "sequence": sequence, **body}
