"""`Lanes`: what is of one chat is delivered in order, that of others meanwhile, and a repeat is not begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lanes(Generic[T]):
    """Works on events. Nothing is kept of a lane that has no work, nor of a key whose work has ended."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[T]] = {}
        self._last: dict[str, asyncio.Task[T]] = {}
        """By lane: the last task, after which the next one begins."""

    def begin(
        self,
        group: asyncio.TaskGroup,
        work: Callable[[], Awaitable[T]],
        *,
        lane: str | None,
        key: str | None = None,
    ) -> asyncio.Task[T]:
        """Begin work in a task of `group`, after all that was begun in its lane before; return the task.

        `lane`: the chat; None waits for nobody. `key`: what tells two deliveries of the same; while it is
        under way, as platforms send again what they wait for too long, its task is returned. What fails in a
        lane holds up nothing behind it.
        """
        running = None if key is None else self._under_way.get(key)
        if running is not None:
            return running
        before = None if lane is None else self._last.get(lane)

        async def in_turn() -> T:
            if before is not None:
                await asyncio.wait([before])
            return await work()

        task = group.create_task(in_turn(), name=f"deliver of {lane}")
        if lane is not None:
            self._last[lane] = task
            task.add_done_callback(lambda _: self._last.get(lane) is task and self._last.pop(lane))
        if key is not None:
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task
