"""Tells the author of a runner that its code blocks the event loop on which its model door answers.

A client that blocks and is called on that loop waits for an answer that cannot come, until the host ends the
process for not answering. The process itself is the only one that can say where.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback

WATCH_SECONDS = 5.0
"""How often the loop is looked at, and how long it may stand still before that is told."""
SHOWN_FRAMES = 3

logger = logging.getLogger("hostler_sdk")


class LoopWatch:
    """A thread that looks whether the loop moves, from its construction until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="model door watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _watch(self) -> None:
        told = False
        while not self._stopped.wait(WATCH_SECONDS):
            moved = threading.Event()
            try:
                self._loop.call_soon_threadsafe(moved.set)
            except RuntimeError:  # the loop is closed
                return
            if moved.wait(WATCH_SECONDS):
                told = False
            elif not told and not self._stopped.is_set():
                told = True
                self._tell()

    def _tell(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = traceback.extract_stack(frame)[-SHOWN_FRAMES:]
        logger.warning(
            "the event loop has stood still for %g s, and the model door answers on it: call clients that "
            "block in a thread, with `await asyncio.to_thread(...)`. It is at %s",
            WATCH_SECONDS,
            ", in ".join(f"{one.filename}:{one.lineno} ({one.name})" for one in reversed(stack)),
        )
