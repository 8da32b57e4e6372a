"""Nothing of a plugin outlives its end, its crash, its shim or its host; judged by /proc."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.plugins.orphans import Register
from hostler.sandbox.orphans import INSTANCE_VARIABLE
from hostler_protocol.errors import PluginCrashedError
from support.plugin_runs import begin, living, run, until_none_living, wire

HOST = Path(__file__).parent.parent / "support" / "plugins" / "host_process.py"
BOUND_SECONDS = 50.0
"""Of whatever is waited for; it only has to end what hangs."""
MODES = ["auto", "user-namespace", "subreaper", "group"]
pytestmark = [
    pytest.mark.gate("process-ends"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]


@pytest.mark.parametrize("how", ["crash", "stop", "exit"])
@pytest.mark.parametrize("containment", MODES)
async def test_a_grandchild_that_left_the_session_ends_with_the_plugin(
    tmp_path: Path, containment: str, how: str
) -> None:
    async with wire(tmp_path, containment=containment) as plugin:
        await run(plugin.connection, "daemon")
        waiting = await begin(plugin.connection, "wait")
        own = {plugin.process.pid}
        daemons = set(living(plugin.marker)) - own
        assert len(daemons) == 1
        assert os.getsid(daemons.pop()) not in {os.getsid(0), os.getsid(plugin.process.pid)}
        if how == "crash":
            os.kill(plugin.process.pid, signal.SIGKILL)
        elif how == "stop":
            await plugin.connection.shut_down()
        else:
            await begin(plugin.connection, "exit 4")
        async with asyncio.timeout(BOUND_SECONDS):
            assert isinstance(await waiting.over, PluginCrashedError)
        await until_none_living(plugin.marker)
        await plugin.process.wait_gone()


@pytest.mark.parametrize("containment", MODES)
async def test_killing_the_shim_by_force_ends_the_plugin(tmp_path: Path, containment: str) -> None:
    async with wire(tmp_path, containment=containment) as plugin:
        await run(plugin.connection, "daemon")
        waiting = await begin(plugin.connection, "wait")
        shim = psutil.Process(plugin.process.pid).parent()
        assert shim is not None
        assert "shim.py" in " ".join(shim.cmdline())
        shim.kill()
        async with asyncio.timeout(BOUND_SECONDS):
            assert isinstance(await waiting.over, PluginCrashedError)
        await until_none_living(plugin.marker)


async def test_the_plugin_is_not_the_first_process_and_has_its_own_session(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        seen = json.loads((await run(plugin.connection, "pids")).texts[0])
        pid = seen[0]
        assert pid != 1
        assert os.getsid(plugin.process.pid) == plugin.process.pid
        # a shim that is asked politely to end takes the plugin along
        psutil.Process(plugin.process.pid).parent().terminate()  # type: ignore[union-attr]
        await plugin.process.wait_gone()


@contextmanager
def _host(
    data: Path, containment: str, start: str = "", count: int = 1
) -> Iterator[tuple[int, dict[str, Any]]]:
    environment = {**os.environ, "HOSTLER_PLUGIN_TEST": start, "HOSTLER_TEST_HOST": str(data)}
    command = [sys.executable, str(HOST), str(data), containment, start, str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as host:
        try:
            assert host.stdout is not None
            yield host.pid, json.loads(host.stdout.readline())
        finally:
            host.kill()


def _markers(data: Path) -> list[str]:
    return [path.stem for path in (data / "plugins" / "processes").glob("*.json")]


def _wait_none_living(needles: list[str], seconds: float = BOUND_SECONDS) -> None:
    end = time.monotonic() + seconds
    while left := [pid for needle in needles for pid in living(needle)]:
        assert time.monotonic() < end, f"still living: {left}"
        time.sleep(0.02)


@pytest.mark.parametrize("containment", MODES)
def test_killing_the_host_by_force_leaves_no_process(tmp_path: Path, containment: str) -> None:
    start = "daemon" if containment != "group" else ""
    with _host(tmp_path, containment, start, count=3) as (pid, told):
        assert told["states"] == ["ready"] * 3
        markers = _markers(tmp_path)
        assert len(markers) == 3
        assert all(len(living(marker)) == (2 if start else 1) for marker in markers)
        os.kill(pid, signal.SIGKILL)
        _wait_none_living(markers)


def test_what_a_dead_host_left_behind_is_killed_by_the_next_one(tmp_path: Path) -> None:
    """Where nothing stronger than a process group is to be had, the next start finds what escaped."""
    with _host(tmp_path, "group", "daemon") as (pid, told):
        marker = _markers(tmp_path)[0]
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + BOUND_SECONDS
        while told["pids"][0] in living(marker):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    escaped = living(marker)
    assert len(escaped) == 1
    with _host(tmp_path, "group") as (_, told):
        assert told["swept"] == escaped
        assert living(marker) == []
        assert marker not in _markers(tmp_path)


def test_processes_of_a_living_host_are_not_swept(tmp_path: Path) -> None:
    with _host(tmp_path, "auto") as (_, told):
        assert Register(tmp_path / "plugins" / "processes").sweep() == []
        assert psutil.pid_exists(told["pids"][0])


def test_a_host_that_ends_in_order_leaves_nothing(tmp_path: Path) -> None:
    with _host(tmp_path, "auto", "stubborn", count=2) as (pid, told):
        markers = _markers(tmp_path)
        assert told["states"] == ["ready", "ready"]
        os.kill(pid, 0)
    _wait_none_living(markers)


@pytest.mark.gate("child-environments")
def test_no_secret_of_the_host_reaches_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOSTLER_ADMIN_KEY", "OPENAI_API_KEY", "HOSTLER_PLUGIN_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary-value")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:canary-value@proxy:3128")
    with _host(tmp_path, "auto") as (_, told):
        environ = Path(f"/proc/{told['pids'][0]}/environ").read_bytes()
        assert b"canary-value" not in environ
        assert INSTANCE_VARIABLE.encode() in environ
        shim = psutil.Process(told["pids"][0]).parent()
        assert shim is not None
        assert b"canary-value" not in Path(f"/proc/{shim.pid}/environ").read_bytes()
