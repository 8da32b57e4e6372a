"""What the main thread of a page does: its tasks, by the processor time that each took."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from support.chromium import Page
from support.chromium_process import LOOK_SECONDS

CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
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
    tasks, over = Tasks(), asyncio.Event()
    heard = page.heard

    def hear(message: dict[str, Any]) -> None:
        if message["method"] == "Tracing.dataCollected":
            tasks.events += message["params"]["value"]
        elif message["method"] == "Tracing.tracingComplete":
            over.set()
        else:
            heard(message)

    page.heard = hear  # type: ignore[method-assign]
    try:
        config = {"includedCategories": CATEGORIES, "excludedCategories": ["*"]}
        await page.told("Tracing.start", traceConfig=config, transferMode="ReportEvents")
        yield tasks
        await page.told("Tracing.end")
        while not over.is_set():
            await page.evaluate("0")  # what comes is read while something is asked
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        page.heard = heard  # type: ignore[method-assign]
