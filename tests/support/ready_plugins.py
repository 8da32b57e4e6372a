"""Plugins as real processes, forked from one of each test process that has imported the SDK.

Thousands of plugins are started here, and most of what each costs is two interpreters: the shim and
`python -m hostler_sdk.serve`. The fork runs the shim's code with its session, namespaces and descriptors;
below it runs the plugin in its folder, with its environment and arguments, which /proc shows, so that it is
found by its marker. Both are killed and waited for like any process. What is started in any other way (in a
sandbox, as another command, by another interpreter, with options of Python) is executed by the forked shim as
ever. Shims of `NEW_INTERPRETERS` are not forked either.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

import hostler.sandbox.process as child_process
from support.forking import CAN_FORK, PLUGIN_ENVIRONMENT, ForkedProcess, source_command

NEW_INTERPRETERS = (
    "tests/host/plugins/",
    "tests/host/sandbox/",
    "tests/faults/test_plugin_processes.py",
    "tests/faults/test_sandbox.py",
)
"""Tests of processes themselves."""
MCP_SERVERS = (
    "tests/host/http/test_http_mcp.py",
    "tests/host/tools/mcp/",
    "tests/journeys/test_large_results.py",
    "tests/journeys/test_mcp_journey.py",
    "tests/journeys/test_operator_tools.py",
)
"""Tests whose servers use the MCP SDK, a second of processor time to import: they fork with it."""
_execute = child_process._spawn_shim


def pytest_runtest_setup(item: Any) -> None:
    """Fork the plugins of this test, unless it is one of `NEW_INTERPRETERS`."""
    modules = ("mcp", "mcp.server.stdio") if item.nodeid.startswith(MCP_SERVERS) else ()
    use(CAN_FORK and not item.nodeid.startswith(NEW_INTERPRETERS), modules=modules)


def use(forked: bool, address: str | None = None, modules: tuple[str, ...] = ()) -> None:
    """Start the plugins of this process as new interpreters, or as forks of the one at `address`.

    Without an address, they are forked from one that has imported `modules` besides.
    """
    find = functools.partial(_own_source, *modules) if address is None else lambda: address
    spawn: Any = functools.partial(_fork, find) if forked else _execute
    child_process._spawn_shim = spawn


def address() -> str | None:
    """The address to fork from for hosts in other processes; None where plugins are new interpreters."""
    spawn: Any = child_process._spawn_shim
    return None if spawn is _execute else str(spawn.args[0]())


def _fork(find: Callable[[], str], pipes: Any, sockets: Sequence[socket.socket]) -> ForkedProcess:
    descriptors = [*pipes.child, *(one.fileno() for one in sockets)]
    return _connection(find()).start(descriptors)


class Connection:
    """To the process that plugins are forked from; `ForkedProcess` asks it for their exit status."""

    def __init__(self, address: str) -> None:
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(f"\0{address}")
        _at_the_end(self._socket.close)

    def start(self, descriptors: Sequence[int]) -> ForkedProcess:
        """Fork a shim that has these descriptors: standard input, output, errors, and its sockets."""
        with self._lock:
            socket.send_fds(self._socket, [b"{}"], list(descriptors))
            return ForkedProcess(self, int(self._socket.recv(100)))

    def status(self, ended: ForkedProcess) -> int:
        """The exit status of a process that has ended."""
        with self._lock:
            if ended.returncode is None:
                self._socket.send(json.dumps({"ended": ended.pid}).encode())
                ended.returncode = int(self._socket.recv(100))
            return ended.returncode


_connection = functools.cache(Connection)


@functools.cache
def _own_source(*modules: str) -> str:
    """Start a process that plugins are forked from, with these modules.

    It ends with this process, whose end closes its input.
    """
    address = f"hostler-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0{address}")
        listening.listen(128)
        process = subprocess.Popen(
            source_command("plugin_source", listening, "-" * 4000, *modules),
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**PLUGIN_ENVIRONMENT, "ROOM": "-" * 60_000},  # for the environments of its forks
            cwd="/",
        )
    _kept.append(process)
    _at_the_end(functools.partial(process.__exit__, None, None, None))
    _at_the_end(process.kill)  # first
    return address


def _at_the_end(close: Callable[[], object]) -> None:
    """Close something when this process ends, not when a fork of it does. Python warns of what stays open."""
    owner = os.getpid()
    atexit.register(lambda: close() if os.getpid() == owner else None)


_kept: list[subprocess.Popen[bytes]] = []
