"""kill -9 of a plugin process under a whole host: what it takes along, and what it does not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.http_runs import Results, begin, cancel, follow, perform, record, send
from support.plugin_runs import WIRE_PLUGIN, living, until_none_living
from support.server_process import PLUGINS, HostProcess, config_file, serving
from support.wire_client import ask

pytestmark = pytest.mark.gate("process-ends", "killed-hosts")

SECONDS = 110
NOTICED_SECONDS = 2.0
"""A run whose process was killed has ended after so long, if the machine lets it."""
TRIES = 3
"""What is late every time is late by itself, not because of what else the machine does."""


def _plugin(folder: Path, name: str, command: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    manifest = {"plugin": {"author": "test", "name": name}, "command": command}
    (folder / "hostler.yaml").write_text(json.dumps(manifest))
    return folder


def _host(folder: Path, doomed: Path) -> HostProcess:
    agents: list[dict[str, Any]] = [
        {"name": "doomed", "runner": "plugin:test/wire/default", "recovery": {"on_crash": "fail"}},
        {"name": "again", "runner": "plugin:test/wire/default", "recovery": {"on_crash": "restart"}},
        {"name": "other", "runner": "plugin:test/puppet/default"},
    ]
    plugins = [doomed, PLUGINS / "puppet"]
    return HostProcess(folder / "host", config_file(folder / "config.yaml", plugins=plugins, agents=agents))


async def _status(host: HostProcess) -> dict[str, Any]:
    found: dict[str, Any] = (await ask(host.url, "GET", f"/v1/plugins/{quote('test/wire', safe='')}")).json()
    return found


async def test_a_killed_plugin_takes_its_own_runs_along_and_no_others(tmp_path: Path) -> None:
    doomed = _plugin(tmp_path / "doomed", "wire", ["python", str(WIRE_PLUGIN)])
    async with asyncio.timeout(SECONDS), serving(_host(tmp_path, doomed)) as host:
        await perform(host, "doomed", "daemon")  # a grandchild in a session of its own
        again = await send(host, "again", "wait")
        held = await begin(host, "other", "hold")
        marker = _instance((await _status_when(host, active_runs=1))["pid"])
        assert len(living(marker)) == 2
        noticed = [await _killed(host)]
        await until_none_living(marker)
        while noticed[-1] >= NOTICED_SECONDS and len(noticed) < TRIES:
            noticed.append(await _killed(host))
        assert noticed[-1] < NOTICED_SECONDS, noticed
        assert (await perform(host, "doomed", "echo next")).text == "next"
        await _status_when(host, active_runs=1)  # the one that is restarted by its policy
        second = await cancel(host, again.run_id)
        assert second.types[0] == "attempt.started"
        assert second.ending == ("run.failed", "cancelled")
        untouched = await cancel(host, held.run_id)
        assert untouched.types == ["message.delta", "run.failed"]
        assert await host.stop() == 0


async def _killed(host: HostProcess) -> float:
    """Kill the plugin under four runs; how many seconds later the last of them has ended."""
    before = (await _status(host))["active_runs"]
    waiting = [await send(host, "doomed", "wait") for _ in range(4)]
    status = await _status_when(host, active_runs=before + 4)
    os.kill(status["pid"], signal.SIGKILL)
    killed_at = time.time()
    ended = []
    for sent in waiting:
        results = await follow(host, sent.run_id)
        assert results.ending == ("run.failed", "runner.crashed")
        run = await record(host, sent.run_id)
        assert (run["status"], run["status_code"]) == ("failed", "runner.crashed")
        ended.append(run["finished_at"] - killed_at)
    return float(max(ended))


@pytest.mark.parametrize("moment", ["crash", "exit 3"])
async def test_a_runner_that_kills_its_process_fails_by_itself(tmp_path: Path, moment: str) -> None:
    doomed = _plugin(tmp_path / "doomed", "wire", ["python", str(WIRE_PLUGIN)])
    async with asyncio.timeout(SECONDS), serving(_host(tmp_path, doomed)) as host:
        results = await perform(host, "doomed", moment)
        assert results.ending == ("run.failed", "runner.crashed")
        assert ("killed" if moment == "crash" else "3") in _error(results).lower()
        assert (await perform(host, "doomed", "echo next")).text == "next"


async def test_a_plugin_that_crashes_at_start_opens_the_breaker_and_says_why(tmp_path: Path) -> None:
    doomed = _plugin(tmp_path / "doomed", "wire", ["python", "starts.py"])
    (doomed / "starts.py").write_text("import module_that_is_nowhere\n")
    async with asyncio.timeout(SECONDS), serving(_host(tmp_path, doomed)) as host:
        assert "module_that_is_nowhere" in host.log, host.log
        failed = await perform(host, "doomed", "echo")
        assert "module_that_is_nowhere" in _error(failed)
        status = await _status_when(host, state="failed")
        assert "module_that_is_nowhere" in status["reason"]
        at_once = await perform(host, "doomed", "echo")
        assert failed.ending == at_once.ending == ("run.failed", "runner.crashed")
        assert "it failed before" in _error(at_once)
        assert "module_that_is_nowhere" in _error(at_once)
        assert (await perform(host, "other", "say 1")).ending == ("run.completed", None)
        (doomed / "starts.py").write_text(WIRE_PLUGIN.read_text())  # mended
        assert (await perform(host, "doomed", "echo mended")).text == "mended"


def _error(results: Results) -> str:
    return str(results.data(-1)["error"])


def _instance(pid: int) -> str:
    """What only the processes of one plugin's process tree have in their environment."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(item for item in environment if item.startswith(b"HOSTLER_PLUGIN_INSTANCE=")).decode()


async def _status_when(host: HostProcess, **wanted: Any) -> dict[str, Any]:
    while True:
        status = await _status(host)
        if wanted.items() <= status.items():
            return status
        await asyncio.sleep(0.02)
