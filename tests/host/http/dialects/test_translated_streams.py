"""Streams in a dialect: readers of one run share one fold, and each gets the same bytes however it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hostler.http.dialects.fold import Answer, Folding, fold_all
from hostler.http.dialects.placeholders import REQUEST_ID, filling_of
from hostler.http.event_stream import EventStream, Translation
from hostler.http.streams import Streams
from hostler.journal.feed import Feed, Seen, StoredResult
from hostler_protocol.content import Usage
from hostler_protocol.results import ResultData, RunCompleted, RunPaused
from support.databases import TEST_SECONDS
from support.dialects.plain import Plain, asked, delta, said, stored


@dataclass
class Connection:
    """A reader's connection: what it was sent. `full`: its buffer takes no more until it is read."""

    body: bytearray = field(default_factory=bytearray)
    full: bool = False
    room: asyncio.Event = field(default_factory=asyncio.Event)

    def write_chunk(self, framed: bytes) -> bool:
        size, _, rest = framed.partition(b"\r\n")
        assert len(rest) == int(size, 16) + 2
        self.body += rest[:-2]
        return not self.full

    async def drained(self) -> None:
        if self.full:
            await self.room.wait()


class Run:
    """A live run: results are published by the test."""

    def __init__(self) -> None:
        self.results: list[StoredResult] = []
        self.feed = Feed(self._read)
        self.feed.open("r", 0)
        self.streams = Streams(pace=0.001, quiet_after=0.05)
        self.folds: list[Plain] = []
        self.tasks: list[asyncio.Task[int]] = []

    async def _read(self, run_id: str, after: int, limit: int) -> Seen:
        return Seen(self.results[after : after + limit], bool(self.results) and self.results[-1].terminal)

    def publish(self, *data: ResultData) -> None:
        results = stored(*data, first=len(self.results) + 1)
        self.results += results
        self.feed.publish("r", results)

    def read(self, connection: Connection, **options: Any) -> asyncio.Task[int]:
        skip = options.pop("skip", 0)
        filling = options.pop("filling", ())

        def folding() -> Folding:
            self.folds.append(Plain())
            self.folds[-1].mark = REQUEST_ID.mark if filling else b""
            return Folding(self.folds[-1], Answer("r"), skip=skip)

        translation = Translation("plain", folding, _no_usage, filling)
        stream = EventStream(
            self.streams.serve,
            "r",
            lambda after: self.feed.watch("r", after),
            translation=translation,
            **options,
        )
        scope = {"method": "GET", "http_version": "1.1", "state": {"connection": connection}}
        task = asyncio.create_task(stream.send(scope, _stays, _drop))
        self.tasks.append(task)
        return task

    async def ended(self) -> None:
        async with asyncio.timeout(TEST_SECONDS):
            await asyncio.gather(*self.tasks)


async def _no_usage() -> Usage | None:
    return None


async def _stays() -> Any:
    await asyncio.Event().wait()


async def _drop(message: Any) -> None:
    pass


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TEST_SECONDS):
        while not holds():
            await asyncio.sleep(0.001)


async def test_readers_at_the_same_place_share_one_fold() -> None:
    run, readers = Run(), [Connection() for _ in range(5)]
    for reader in readers:
        run.read(reader)
    run.publish(delta("a"))
    await until(lambda: all(b"'a'" in reader.body for reader in readers))
    await asyncio.sleep(0.02)  # all are in the fan-out
    taken = [len(fold.texts.get(1, "")) for fold in run.folds]
    run.publish(delta("b"), said("ab"), RunCompleted())
    await run.ended()
    assert len({bytes(reader.body) for reader in readers}) == 1
    assert b"end" in readers[0].body
    grown = [len(fold.texts[1]) - before for fold, before in zip(run.folds, taken, strict=True)]
    assert sorted(grown) == [0, 0, 0, 0, 1]


async def test_readers_with_ids_of_their_own_share_one_fold_wherever_they_come_from() -> None:
    run = Run()
    ids = [b"1", b'"\xc3\xb8"', b'"long" ' * 50, b"4", b"5"]
    readers = [Connection() for _ in ids]
    skips = [0, 1, 2, 3, 0]
    for skip, reader, id_ in zip(skips, readers, ids, strict=True):
        run.read(reader, skip=skip, filling=filling_of({REQUEST_ID: id_}))
    run.publish(delta("a"))
    await until(lambda: sum(len(fold.texts.get(1, "")) for fold in run.folds) == len(ids))
    run.publish(delta("b"))
    await until(lambda: all(b"'b'" in reader.body for reader in readers))
    await until(lambda: run.streams.members == [len(ids)])
    slow = readers[2]
    slow.full = True
    taken = sum(len(fold.texts[1]) for fold in run.folds)
    run.publish(delta("c"))
    await until(lambda: all(b"'c'" in reader.body for reader in readers))
    assert sum(len(fold.texts[1]) for fold in run.folds) == taken + 1
    slow.full = False
    slow.room.set()  # it folds again what it has, and goes on
    run.publish(delta("d"), said("abcd"), RunCompleted())
    await run.ended()
    alone = Plain()
    alone.mark = REQUEST_ID.mark
    pieces = list(fold_all(alone, Answer("r"), run.results, None))
    for skip, reader, id_ in zip(skips, readers, ids, strict=True):
        assert bytes(reader.body) == b"".join(pieces[skip:]).replace(REQUEST_ID.mark, id_)


async def test_a_slow_reader_leaves_and_misses_nothing() -> None:
    run, quick, slow = Run(), Connection(), Connection()
    run.read(quick)
    run.read(slow)
    run.publish(delta("a"))
    await until(lambda: b"'a'" in quick.body and b"'a'" in slow.body)
    await asyncio.sleep(0.02)
    slow.full = True
    for letter in "bcdef":
        run.publish(delta(letter))
        await until(lambda letter=letter: f"'{letter}'".encode() in quick.body)  # type: ignore[misc]
    assert b"'f'" not in slow.body
    slow.full = False
    slow.room.set()
    run.publish(said("abcdef"), RunCompleted())
    await run.ended()
    assert slow.body == quick.body


async def test_a_reader_that_comes_back_gets_the_rest() -> None:
    run, whole = Run(), Connection()
    run.read(whole)
    run.publish(delta("a"), delta("b"), said("ab"), RunCompleted())
    await run.ended()
    pieces = list(fold_all(Plain(), Answer("r"), run.results, None))
    for skip in range(len(pieces) + 1):
        rest = Connection()
        run.read(rest, skip=skip)
        await run.ended()
        assert bytes(rest.body) == b"".join(pieces[skip:])
    assert bytes(whole.body) == b"".join(pieces)


async def test_an_answer_that_waits_ends_soon_and_alike_for_all() -> None:
    run, one, other, late = Run(), Connection(), Connection(), Connection()
    run.read(one)
    run.read(other)
    run.publish(delta("a"), asked("x"))
    await run.ended()  # nothing follows
    run.publish(RunPaused(pending=[]))
    run.read(late)
    await run.ended()
    assert b"Waiting" in one.body
    assert one.body == other.body
    assert late.body == one.body


async def test_a_client_that_leaves_is_told_of_once() -> None:
    run, gone = Run(), asyncio.Event()
    told: list[str] = []

    async def leave() -> None:
        told.append("gone")

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    translation = Translation("plain", lambda: Folding(Plain(), Answer("r")), _no_usage)
    watch = partial(run.feed.watch, "r")
    stream = EventStream(run.streams.serve, "r", watch, translation=translation, on_disconnect=leave)
    scope = {"method": "GET", "http_version": "1.1", "state": {"connection": Connection()}}
    task = asyncio.create_task(stream.send(scope, receive, _drop))
    run.publish(delta("a"))
    gone.set()
    async with asyncio.timeout(TEST_SECONDS):
        await task
    assert told == ["gone"]
    run.publish(RunCompleted())
    reading = run.read(Connection(), on_disconnect=leave)
    async with asyncio.timeout(TEST_SECONDS):
        await reading
    assert told == ["gone"]  # a stream that ended is not left
