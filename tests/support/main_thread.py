"""What the main thread of a page does: its tasks, by the processor time that each took."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from support.chromium import Page

CATEGORIES = ["-*", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
TASK = "RunTask"


@dataclass
class Tasks:
    """The tasks of a while, known once it is over."""

    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def longest_ms(self) -> float:
        """Processor time of the longest task: what else the machine does is not in it."""
        return float(max(task["tdur"] for task in self._tasks())) / 1000

    def longest(self, count: int = 3) -> list[tuple[float, dict[str, float]]]:
        """The longest tasks in milliseconds, each with what took a millisecond or more of it."""
        found = sorted(self._tasks(), key=lambda task: float(task["tdur"]), reverse=True)[:count]
        return [(task["tdur"] / 1000, self._parts(task)) for task in found]

    def _tasks(self) -> list[dict[str, Any]]:
        main = {
            (one["pid"], one["tid"])
            for one in self.events
            if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
        }
        found = [
            one
            for one in self.events
            if one["name"] == TASK and "tdur" in one and (one["pid"], one["tid"]) in main
        ]
        assert found, "no task of the main thread was recorded"
        return found

    def _parts(self, task: dict[str, Any]) -> dict[str, float]:
        parts: dict[str, float] = {}
        for one in self.events:
            within = task["ts"] <= one.get("ts", 0) < task["ts"] + task["dur"]
            if within and one["tid"] == task["tid"] and one is not task and one.get("tdur", 0) >= 1000:
                parts[one["name"]] = parts.get(one["name"], 0) + one["tdur"] / 1000
        return parts


@contextlib.asynccontextmanager
async def tasks_of(page: Page) -> AsyncIterator[Tasks]:
    """Record the tasks of a page while the block runs."""
    tasks = Tasks()
    await page.trace(CATEGORIES)
    try:
        yield tasks
    finally:
        tasks.events += await page.traced()
