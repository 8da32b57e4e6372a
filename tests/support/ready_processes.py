"""`hostler` as real processes, forked from one of each test process that has imported it.

Hundreds of tests run the command, and most of what such a process does is to import and to try the machine's
sandbox. It is given what a process has of its own when it begins: working folder, environment, arguments and
three files. That commands import no more than they use is proven with interpreters of their own
(tests/host/cli/test_lazy_commands.py).
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import functools
import gc
import importlib
import json
import os
import pkgutil
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from support import ready_plugins
from support.forking import CAN_FORK, ForkedProcess, end_with, source_command

MAX_ORDER_BYTES = 1 << 20
"""Of arguments and environment; both together are less than what the kernel takes."""
LEFT_OUT = ("__main__", "pytest_plugin", "testing", "litellm")
"""Parts of module names that no command needs."""


CommandProcess = ForkedProcess | subprocess.Popen[bytes]


class Source:
    """The process that the others are forked from; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_ORDER_BYTES)
        kept = {name: text for name, text in os.environ.items() if not name.startswith("HOSTLER_")}
        with theirs:
            self._process = subprocess.Popen(
                source_command("ready_processes", theirs),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=kept,
            )
        atexit.register(self.close)

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None,
        files: Sequence[int],
        constants: Mapping[str, float] | None = None,
    ) -> ForkedProcess:
        """Start `hostler` with these arguments, these three files, and other values of module constants."""
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(cwd or Path.cwd()),
            "plugins": ready_plugins.address(),
            "constants": dict(constants or {}),
        }
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], list(files))
            return ForkedProcess(self, int(self._socket.recv(100)))

    def status(self, ended: ForkedProcess) -> int:
        """The exit status of a process that has ended."""
        with self._lock:
            if ended.returncode is None:
                self._socket.send(json.dumps({"ended": ended.pid}).encode())
                ended.returncode = int(self._socket.recv(100))
            return ended.returncode

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()


@functools.cache
def source() -> Source:
    """The one of this test process."""
    return Source()


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: BinaryIO,
    cwd: Path | None = None,
    constants: Mapping[str, float] | None = None,
) -> CommandProcess:
    """Start a command without input that writes to a log.

    `constants`: other values of module constants, by "module.NAME", which may only shorten waits: where
    processes cannot be forked, they keep their own.
    """
    if not CAN_FORK:
        return subprocess.Popen(
            [sys.executable, "-m", "hostler", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=cwd,
        )
    with Path(os.devnull).open("rb") as nothing:
        files = [nothing.fileno(), log.fileno(), log.fileno()]
        return source().start(arguments, environment, cwd, files, constants)


def run(
    arguments: Sequence[str], given: bytes, environment: Mapping[str, str], cwd: Path, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a command to its end: exit status, output and errors."""
    if not CAN_FORK:
        command = [sys.executable, "-m", "hostler", *arguments]
        ran = subprocess.run(
            command, input=given, capture_output=True, env=environment, cwd=cwd, timeout=seconds, check=False
        )
        return ran.returncode, ran.stdout, ran.stderr
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given)
        stdin.seek(0)
        process = source().start(arguments, environment, cwd, [one.fileno() for one in (stdin, out, err)])
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


# -- in the process that the others are forked from ---------------------------------------------------------


def serve_forks(orders: socket.socket) -> None:
    """Fork a process for each order, which goes on as `hostler`."""
    from hostler.cli.main import main

    _prepare()
    gc.collect()
    gc.freeze()
    while True:
        raw, files, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, 3)
        if not raw:
            os._exit(0)
        order = json.loads(raw)
        if (ended := order.get("ended")) is not None:
            _, status = os.waitpid(ended, 0)
            orders.send(str(os.waitstatus_to_exitcode(status)).encode())
        elif pid := os.fork():
            for descriptor in files:
                os.close(descriptor)
            orders.send(str(pid).encode())
        else:
            orders.close()
            _become(order, files)
            end_with(main)


def _prepare() -> None:
    """Import what commands need, look at the types of messages, try the sandbox: as each would by itself."""
    import hostler
    from hostler.domain.struct_types import learn_struct_types
    from hostler.sandbox.probe import find_capabilities

    for module in pkgutil.walk_packages(hostler.__path__, "hostler."):
        if not any(part in module.name for part in LEFT_OUT):
            importlib.import_module(module.name)
    learn_struct_types()
    asyncio.run(find_capabilities())


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Take on what a process has of its own when it begins."""
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["cwd"])
    sys.argv = ["hostler", *order["arguments"]]
    for name, value in order["constants"].items():
        module, _, constant = name.rpartition(".")
        assert hasattr(sys.modules[module], constant), name
        setattr(sys.modules[module], constant, value)
    if order["plugins"] is not None:
        ready_plugins.use(forked=True, address=order["plugins"])
    time.tzset()
    random.seed()
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
