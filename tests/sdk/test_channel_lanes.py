"""Lanes: what is of one chat in order, what is of others meanwhile, and a repeat not begun."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from hostler_sdk.channels.lanes import Lanes


class Work:
    """Pieces of work that end when they are told to, and what began and ended so far."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.fails: set[str] = set()

    async def piece(self, name: str) -> str:
        self.told.append(f"{name} begins")
        await self.gates.setdefault(name, asyncio.Event()).wait()
        self.told.append(f"{name} ends")
        if name in self.fails:
            raise LookupError(name)
        return name

    def end(self, name: str) -> None:
        self.gates.setdefault(name, asyncio.Event()).set()


async def turns(number: int = 5) -> None:
    """Let all tasks go on that can."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_one_chat_in_order_and_others_meanwhile() -> None:
    lanes, work = Lanes[str](), Work()
    async with asyncio.TaskGroup() as group:
        first = lanes.begin(group, lambda: work.piece("a1"), lane="a")
        second = lanes.begin(group, lambda: work.piece("a2"), lane="a")
        lanes.begin(group, lambda: work.piece("b1"), lane="b")
        lanes.begin(group, lambda: work.piece("of none"), lane=None)
        await turns()
        assert work.told == ["a1 begins", "b1 begins", "of none begins"]
        work.end("a1")
        await turns()
        assert work.told[3:] == ["a1 ends", "a2 begins"]
        for name in ("a2", "b1", "of none"):
            work.end(name)
    assert (first.result(), second.result()) == ("a1", "a2")


async def test_a_repeat_is_the_same_while_it_is_under_way_and_begins_afterwards() -> None:
    lanes, work = Lanes[str](), Work()
    async with asyncio.TaskGroup() as group:
        first = lanes.begin(group, lambda: work.piece("x"), lane="a", key="1")
        await turns()
        assert lanes.begin(group, lambda: work.piece("again"), lane="a", key="1") is first
        assert lanes.begin(group, lambda: work.piece("y"), lane="b", key="2") is not first
        work.end("x")
        work.end("y")
        await first
        await turns()
        later = lanes.begin(group, lambda: work.piece("again"), lane="a", key="1")
        work.end("again")
    assert later.result() == "again"
    assert work.told.count("again begins") == 1


async def test_what_fails_holds_up_nothing_behind_it_where_the_group_goes_on() -> None:
    lanes, work = Lanes[str](), Work()
    work.fails.add("bad")

    async def recorded() -> str:
        with pytest.raises(LookupError):
            await work.piece("bad")
        return "recorded"

    async with asyncio.TaskGroup() as group:
        lanes.begin(group, recorded, lane="a")
        cancelled = lanes.begin(group, lambda: work.piece("cancelled"), lane="a")
        last = lanes.begin(group, lambda: work.piece("last"), lane="a")
        await turns()
        cancelled.cancel()
        work.end("bad")
        work.end("last")
    assert last.result() == "last"
    assert cancelled.cancelled()


async def test_nothing_is_kept_of_what_has_ended() -> None:
    lanes, work = Lanes[str](), Work()
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            name = str(number)
            work.end(name)
            lanes.begin(group, partial(work.piece, name), lane=f"chat {number % 7}", key=name)
    await turns()
    assert len(work.told) == 200
    assert (lanes._under_way, lanes._last) == ({}, {})
