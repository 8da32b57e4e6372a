"""Calls that wait while a recording is repeated: released in order, given up, and what a silence says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hostler.domain.recording import CallName, FastForward, RecordedCall, Recording
from hostler.journal.turns import AnswerQueue, Turns

READ, OTHER = CallName("state.get", "a", 1), CallName("state.get", "b", 1)
EFFECT = CallName("state.set", "c", 1)


async def settled() -> None:
    """Let every task go as far as it gets."""
    for _ in range(5):
        await asyncio.sleep(0)


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)


async def test_answers_are_released_in_the_order_of_the_recording() -> None:
    allowed, released = 0, list[int]()
    queue = AnswerQueue(lambda position: position <= allowed)

    async def answer(position: int) -> None:
        await queue.wait(position)
        released.append(position)

    async with asyncio.TaskGroup() as group:
        for position in (9, 4, 7):
            group.create_task(answer(position))
        await settled()
        assert (queue.first, released) == (4, [])
        queue.release()
        await settled()
        assert (queue.first, released) == (4, [])
        allowed = 7
        queue.release()
        await settled()
        assert (queue.first, released) == (9, [4, 7])
        queue.release_first()
    assert (queue.first, released) == (None, [4, 7, 9])
    queue.release_first()


async def test_a_call_that_was_given_up_is_not_in_the_way() -> None:
    queue = AnswerQueue(lambda position: position == 2)
    first, second = start(queue.wait(1)), start(queue.wait(3))
    await settled()
    first.cancel()
    await settled()
    assert queue.first == 3
    queue.release_first()
    await second


def recorded() -> FastForward:
    """A recording: a read, another read, a result, and a call with an effect."""
    recording = Recording()
    recording.add_call(READ, 1, "{}", changed=False)
    recording.add_call(OTHER, 2, "{}", changed=False)
    recording.add_result(3, 1, "message.delta", b"x")
    recording.add_call(EFFECT, 4, "{}", changed=True)
    return FastForward(recording)


def found(forward: FastForward, name: CallName) -> RecordedCall:
    call = forward.find(name)
    assert call is not None
    return call


async def test_recorded_answers_wait_for_each_other_and_for_results() -> None:
    forward = recorded()
    turns = Turns(forward, 60, lambda why: None)
    await turns.wait(1)
    other, effect = start(turns.wait(2)), start(turns.wait(4))
    await settled()
    assert not other.done()
    forward.answered(found(forward, READ))
    turns.progressed()
    await other
    forward.answered(found(forward, OTHER))
    turns.progressed()
    await settled()
    assert not effect.done()
    assert forward.take("message.delta", b"x") == "again"
    turns.progressed()
    await effect
    turns.close()


async def test_a_new_call_with_an_effect_waits_until_the_recorded_ones_were_requested() -> None:
    forward = recorded()
    turns = Turns(forward, 60, lambda why: None)
    fresh = start(turns.may_begin("state.delete"))
    await settled()
    turns.progressed()
    await settled()
    assert not fresh.done()
    forward.find(EFFECT)
    turns.progressed()
    await fresh
    await turns.may_begin("state.delete")
    turns.close()


async def test_a_silence_says_what_waits() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    turns = Turns(recorded(), 0.01, said.put_nowait)
    effect = start(turns.wait(4))
    assert await said.get() == (
        "state.set waits for what was recorded before it, and for 0.01 s the runner did nothing of that"
    )
    effect.cancel()
    fresh = start(turns.may_begin("state.delete"))
    assert await said.get() == (
        "state.delete was not called before, and state.set, which changed something before, "
        "was not asked for again"
    )
    fresh.cancel()
    turns.close()


async def test_no_silence_is_reported_once_none_waits_or_the_attempt_is_over() -> None:
    reported: list[str] = []
    forward = recorded()
    live, closed = Turns(forward, 0.01, reported.append), Turns(recorded(), 0.01, reported.append)
    waiting, abandoned = start(live.wait(4)), start(closed.wait(4))
    await settled()
    forward.go_live()
    live.progressed()
    await waiting
    closed.close()
    later: asyncio.Queue[str] = asyncio.Queue()
    last = start(Turns(recorded(), 0.01, later.put_nowait).wait(4))
    await later.get()  # timers that were set before are due before it
    assert reported == []
    abandoned.cancel()
    last.cancel()
