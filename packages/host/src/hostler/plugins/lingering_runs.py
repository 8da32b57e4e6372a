"""Runs that the host has ended but a plugin process may still work on.

The host ends a run with its terminal result, or at once when it fences an attempt. The process is done with
it when it sends `run/end`; until then the same run cannot be started there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hostler_protocol.errors import PluginError
from hostler_protocol.limits import REMEMBERED_ENDED_RUNS


class RunLingersError(PluginError):
    """An earlier attempt of the run is still in the process; only another process can start a new one."""


class LingeringRuns:
    """Lingering runs of one connection. The oldest are dropped if a plugin never sends `run/end`."""

    def __init__(self) -> None:
        self._runs: dict[str, None] = {}
        self._changed = asyncio.Event()

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def add(self, run_id: str) -> None:
        """Note a run that the host has ended and the plugin has not."""
        self._runs[run_id] = None
        while len(self._runs) > REMEMBERED_ENDED_RUNS:
            del self._runs[next(iter(self._runs))]

    def left(self, run_id: str) -> None:
        """Note that the plugin sent `run/end`, or was notified of the fencing."""
        if run_id in self._runs:
            del self._runs[run_id]
            self._wake()

    def clear(self) -> None:
        """Note that the process is gone with all its runs."""
        self._runs.clear()
        self._wake()

    async def wait(self, run_ids: Iterable[str], seconds: float) -> list[str]:
        """Wait up to `seconds` until the plugin works on none of these runs; return those that remain."""
        asked = list(run_ids)
        if not self._of(asked):
            return []
        try:
            async with asyncio.timeout(seconds):
                while left := self._of(asked):
                    await self._changed.wait()
        except TimeoutError:
            return self._of(asked)
        return left

    def _of(self, run_ids: list[str]) -> list[str]:
        return [run_id for run_id in run_ids if run_id in self._runs]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
