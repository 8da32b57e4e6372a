"""Plugins as real child processes, spoken to by a scripted host."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from hostler_protocol.results import decode_data
from hostler_sdk.conformance.process import Candidate, PluginUnderTest, start_command
from hostler_sdk.scripted import ObservedRun

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVE = [sys.executable, "-m", "hostler_sdk.serve"]
STEP_SECONDS = 100.0
"""Bound of each message that is waited for; it only has to end what hangs."""


def environment(**extra: str) -> dict[str, str]:
    """The environment of this process, without what would give a plugin its manifest or identity."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER_")}
    return kept | extra


def folder_plugin(folder: Path, **extra: str) -> Candidate:
    """A plugin folder served by the SDK."""
    return Candidate(partial(start_command, SERVE, folder, environment(**extra)), STEP_SECONDS)


def runner_file(folder: Path, code: str, **extra: str) -> Candidate:
    """A single file with a class `Told`, served by the SDK; `code` may be indented."""
    (folder / "told.py").write_text(textwrap.dedent(code), encoding="utf-8")
    command = [*SERVE, "--runner", "told.py:Told"]
    return Candidate(partial(start_command, command, folder, environment(**extra)), STEP_SECONDS)


def within(seconds: float, body: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async test, within a bound."""

    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await body()

    return asyncio.run(bounded())


def texts(run: ObservedRun) -> list[str]:
    """The completed messages of a run."""
    found: list[Any] = [decode_data(r.type, r.data) for r in run.results if r.type == "message.completed"]
    return [data.message.content for data in found]


async def one_run(plugin: PluginUnderTest, **context: Any) -> ObservedRun:
    run = await plugin.start_run((await plugin.runners())[0], **context)
    await plugin.ended(run)
    return run
