"""The process that plugins of tests are forked from: who it serves, and that it outlives them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import ready_plugins
from support.forking import CAN_FORK
from support.http_host import PUPPET, PUPPET_RUNNER
from support.server_process import HostProcess, config_file, serving
from support.stepping import within
from support.wire_client import ask

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="plugins are new interpreters here")


def test_hosts_that_are_gone_before_they_are_answered_end_nothing_for_others() -> None:
    address = ready_plugins._own_source()
    with Path(os.devnull).open("r+b") as nothing:
        for _ in range(20):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as host:
                host.connect(f"\0{address}")
                socket.send_fds(host, [b"{}"], [*[nothing.fileno()] * 3, theirs.fileno()])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                descriptors = [*[nothing.fileno()] * 3, theirs.fileno()]
                shim = ready_plugins.Connection(address).start(descriptors)
            assert shim.poll() is None
        assert shim.wait(100) is not None


async def test_plugins_of_hosts_in_their_own_processes_are_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that such hosts pass on to their plugins makes each a new interpreter."""
    for name in [one for one in os.environ if one.startswith("PYTHON")]:
        monkeypatch.delenv(name)  # what whoever runs the tests has set may
    agents = [{"name": "puppet", "runner": PUPPET_RUNNER}]
    folder = shutil.copytree(PUPPET, tmp_path / "puppet")
    config = config_file(tmp_path / "config.json", plugins=[folder], agents=agents)
    async with within(), serving(HostProcess(tmp_path / "data", config)) as host:
        while (status := await _only_plugin(host))["state"] != "ready":
            await asyncio.sleep(0.02)
        sources = [one.pid for one in ready_plugins._kept]
        below = [one for pid in sources for one in psutil.Process(pid).children(recursive=True)]
        plugins = [one.pid for one in below if _folder_of(one) == str(folder)]
        assert plugins, status
        assert {_execution_of(one) for one in plugins} <= {_execution_of(one) for one in sources}


async def _only_plugin(host: HostProcess) -> dict[str, Any]:
    (status,) = (await ask(host.url, "GET", "/v1/plugins")).json()["items"]
    return dict(status)


def _folder_of(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):  # of a test before
        return process.cwd()
    return None


def _execution_of(pid: int) -> bytes:
    """Its random addresses, which a process has until it executes a program."""
    return Path(f"/proc/{pid}/auxv").read_bytes()
