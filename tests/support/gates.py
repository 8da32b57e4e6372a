"""Waiting for what another task, loop or thread brings about: bounded, and without polling."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

BOUND_SECONDS = 100.0
"""No wait of this module is longer."""


class Bell:
    """Wakes whoever waits for a condition, on any thread and any event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def ring(self) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_wake, future)

    def wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, BOUND_SECONDS), otherwise

    async def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while True:
                    future: asyncio.Future[None] = loop.create_future()
                    with self._changed:
                        if condition():
                            return
                        self._waiting.append((loop, future))
                    await future
        except TimeoutError:
            raise AssertionError(otherwise) from None


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Gate:
    """Holds an answer back until `open`; `reached` tells that the answer has come to it."""

    def __init__(self) -> None:
        self._bell = Bell()
        self._is_open = False
        self._is_reached = False

    def open(self) -> None:
        self._is_open = True
        self._bell.ring()

    def wait_reached(self) -> None:
        self._bell.wait(lambda: self._is_reached, "the answer never came to the gate")

    async def reached(self) -> None:
        await self._bell.until(lambda: self._is_reached, "the answer never came to the gate")

    async def passed(self) -> None:
        self._is_reached = True
        self._bell.ring()
        await self._bell.until(lambda: self._is_open, "nobody opened the gate")
