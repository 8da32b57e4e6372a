"""A second connection to the mailbox, for what is not receiving: opened when it is needed, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hostler_email.mailbox import LostError, Mailbox

_T = TypeVar("_T")


class Side:
    """Carries out one thing after the other, each in the thread of the connection."""

    def __init__(self, opening: Callable[[], Mailbox]) -> None:
        self._opening = opening
        self._thread = ThreadPoolExecutor(1, "mailbox")
        self._box: Mailbox | None = None
        self._is_closed = False

    async def ask(self, work: Callable[[Mailbox], _T]) -> _T:
        """Carry something out on the connection.

        Raises LostError, RefusedError, SetupError.
        """
        if self._is_closed:
            raise LostError("the channel is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._carried_out, work)

    def _carried_out(self, work: Callable[[Mailbox], _T]) -> _T:
        box = self._alive()
        try:
            return work(box)
        except LostError:
            self._box = None
            box.break_off()
            raise

    def _alive(self) -> Mailbox:
        """Return the connection, a new one if a server has ended it meanwhile."""
        if self._box is not None:
            try:
                self._box.ping()
            except LostError:
                self._box.break_off()
                self._box = None
        if self._box is None:
            self._box = self._opening()
            if self._is_closed:
                self._box.break_off()
        return self._box

    def close(self) -> None:
        """End the connection, and what is at work on it."""
        self._is_closed = True
        if self._box is not None:
            self._box.break_off()
        self._thread.shutdown(wait=False, cancel_futures=True)
