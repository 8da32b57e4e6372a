"""Calls that wait for their turn while a recording is repeated."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from hostler.domain.recording import FastForward


class AnswerQueue:
    """Recorded answers that wait until `may_answer` says of their position that they may be delivered.

    Call `release` whenever what it says may have changed.
    """

    def __init__(self, may_answer: Callable[[int], bool]) -> None:
        self._may_answer = may_answer
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """A heap by position; no two entries of a journal have the same."""

    async def wait(self, position: int) -> None:
        """Wait until the answer at a position may be delivered."""
        if self._may_answer(position):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (position, turn))
        await turn

    def release(self) -> None:
        """Let each answer go that may be delivered now."""
        while (first := self.first) is not None and self._may_answer(first):
            self.release_first()

    def release_first(self) -> None:
        """Let the answer go that was recorded first, whatever it waits for."""
        if self.first is not None:
            heapq.heappop(self._waiting)[1].set_result(None)

    @property
    def first(self) -> int | None:
        """Position of the waiting answer that was recorded first."""
        while self._waiting and self._waiting[0][1].done():  # the runner gave the call up
            heapq.heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None


class Turns:
    """The calls of a resumed attempt that wait: recorded answers, and new calls with an effect.

    A new call with an effect waits until all recorded ones were requested. If nothing happens for
    `stall_seconds` while a call waits, `stalled` is called with a sentence that says what it waits for.
    """

    def __init__(self, forward: FastForward, stall_seconds: float, stalled: Callable[[str], None]) -> None:
        self._forward = forward
        self._stall_seconds = stall_seconds
        self.stalled = stalled
        self._answers = AnswerQueue(forward.may_answer)
        self._new: dict[asyncio.Future[None], str] = {}
        """The methods of new calls."""
        self._timer: asyncio.TimerHandle | None = None
        """Set while a call waits."""

    async def wait(self, position: int) -> None:
        """Wait until the recorded answer at a position may be delivered."""
        if not self._forward.may_answer(position):
            self._restart_timer()
            await self._answers.wait(position)

    async def may_begin(self, method: str) -> None:
        """Wait until a new call with an effect may be made."""
        if self._forward.may_begin:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._new[turn] = method
        self._restart_timer()
        try:
            await turn
        finally:
            self._new.pop(turn, None)

    def progressed(self) -> None:
        """Release calls: a result was repeated, a call requested or answered, or the attempt went live."""
        if self._timer is None:  # none waits, which is the case nearly always
            return
        if self._forward.may_begin:
            for turn in self._new:
                if not turn.done():
                    turn.set_result(None)
        self._answers.release()
        if self._is_waiting:
            self._restart_timer()
        else:
            self.close()

    @property
    def _is_waiting(self) -> bool:
        return self._answers.first is not None or not all(turn.done() for turn in self._new)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _restart_timer(self) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_later(self._stall_seconds, self._give_up)

    def _give_up(self) -> None:
        if (position := self._answers.first) is not None:
            self.stalled(self._forward.stall_diverges(position, self._stall_seconds))
        elif (method := next((m for turn, m in self._new.items() if not turn.done()), None)) is not None:
            self.stalled(self._forward.effect_diverges(method))
