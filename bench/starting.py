"""How long things take to start: the host until it is ready, the command, what every plugin imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from bench.served import START_SECONDS, environment, start, wait_ready
from bench.table import Row, middle

from hostler.host.bundled import bundled
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor


def until_ready() -> float:
    """Seconds from spawning `hostler serve` (no plugins, a fresh data directory) to a ready `/readyz`."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("wb") as log:
        began = time.perf_counter()
        process = start(Path(name), log, with_plugin=False)
        try:
            port = wait_ready(Path(name), process)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                answer.read()
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def python(*arguments: str) -> float:
    """Seconds of a Python process with these arguments."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment())
    return time.perf_counter() - began


def listing(data: Path) -> float:
    """Seconds of `hostler runs list` on a data directory that no server holds."""
    return python("-m", "hostler", "runs", "list", "--data", str(data))


def plugin(level: Literal["trusted", "sandboxed"]) -> float:
    """Seconds from the order to start a plugin to its runners."""

    async def start_one() -> float:
        with tempfile.TemporaryDirectory() as name:
            supervisor = Supervisor(Path(name))
            key = supervisor.add(Folder(bundled("examples", "echo"), level=level))
            began = time.perf_counter()
            await supervisor.connection(key)
            took = time.perf_counter() - began
            await supervisor.close(0)
            return took

    return asyncio.run(start_one())


WAYS: dict[str, Callable[[], float]] = {
    "pass": lambda: python("-c", "pass"),
    "msgspec": lambda: python("-c", "import asyncio, msgspec"),
    "sdk": lambda: python("-c", "import hostler_sdk"),
    "web": lambda: python("-c", "import uvicorn, msgspec"),
    "version": lambda: python("-m", "hostler", "--version"),
    "sqlite": lambda: python("-c", "import asyncio, sqlite3, msgspec"),
    "serve": until_ready,
    "trusted": lambda: plugin("trusted"),
    "sandboxed": lambda: plugin("sandboxed"),
}


def rows(quick: bool) -> list[Row]:
    """Measure in turns."""
    with tempfile.TemporaryDirectory() as data:
        listing(Path(data))  # the first command makes the database
        got = _measured({**WAYS, "list": lambda: listing(Path(data))}, 1 if quick else 12)

    def against(name: str, other: str, what: str) -> tuple[float, str]:
        return got[name] / got[other], f"{what} ({got[other] * 1e3:.0f} ms)"

    return [
        Row(
            "`import hostler_sdk`, what every plugin pays",
            got["sdk"] * 1e3,
            "ms",
            *against("sdk", "msgspec", "`import asyncio, msgspec`"),
            goal="at most 2.5",
        ),
        Row(
            "`hostler --version`",
            got["version"] * 1e3,
            "ms",
            *against("version", "pass", "`python -c pass`"),
            goal="at most 12",
        ),
        Row(
            "`hostler runs list`, without a server",
            got["list"] * 1e3,
            "ms",
            *against("list", "sqlite", "`import asyncio, sqlite3, msgspec`"),
            goal="at most 4",
        ),
        Row(
            "`hostler serve` until it is ready",
            got["serve"] * 1e3,
            "ms",
            *against("serve", "pass", "`python -c pass`"),
            goal="at most 60",
        ),
        Row(
            "`hostler serve` until it is ready",
            got["serve"] * 1e3,
            "ms",
            *against("serve", "web", "`import uvicorn, msgspec`"),
        ),
        Row(
            "a sandboxed plugin until its handshake is done",
            got["sandboxed"] * 1e3,
            "ms",
            *against("sandboxed", "trusted", "the same plugin, trusted"),
            goal="at most 1.6",
        ),
    ]


def _measured(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for index in range(rounds):
        for name, way in ways.items():
            seconds = way()
            if index or rounds == 1:  # the first of several rounds fills the caches of files
                times[name].append(seconds)
    return {name: middle(values) for name, values in times.items()}
