"""One plugin's child process: its pipes, its log, its end.

Between the host and the plugin stands the keeper (keeper.py), which sees to it that nothing of the plugin
outlives either of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS, ProcessLimits
from hostler.plugins.logs import LogPump, PluginLog
from hostler.plugins.orphans import INSTANCE_VARIABLE, kill_marked
from hostler.sandbox.exits import ExitStatus
from hostler_protocol.errors import PluginStartError

PIPE_BYTES = 256 * 1024
"""Asked of the system for each pipe: one loop iteration's read."""

_KEEPER = Path(__file__).with_name("keeper.py")
_log = logging.getLogger(__name__)

CONTAINMENT_TEXT = {
    "namespace": (
        "PID namespace: the kernel ends every process of the plugin with the plugin, the keeper or the host"
    ),
    "subreaper": (
        "subreaper: the keeper ends every process of the plugin with the plugin or the host; were the keeper "
        "itself killed together with the host, processes that left the session stay until the next start"
    ),
    "group": (
        "process group: processes of the plugin that left its session are found by their marker only while "
        "this host runs, or at its next start"
    ),
}
"""What each containment promises, in words."""


class _Hello(msgspec.Struct):
    pid: int = 0
    containment: str = "group"
    note: str = ""
    error: str | None = None
    exit: int | None = None
    clean: bool | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. `environment` is complete: nothing is inherited."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    containment: str = "auto"
    """`auto`, `namespace`, `user-namespace`, `subreaper` or `group`; falls back to what the system offers."""


class PluginProcess:
    """A running plugin process. Made by `start`; ended by `kill`, which leaves nothing behind."""

    def __init__(self, keeper: subprocess.Popen[bytes], log: PluginLog, limits: ProcessLimits) -> None:
        self.pid = 0
        self.mode = "group"
        self.note = ""
        self.log = log
        self.limits = limits
        self.marker = ""
        self.clean: bool | None = None
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[ExitStatus] = loop.create_future()
        """Done as soon as the plugin's own process ended."""
        self.gone: asyncio.Future[None] = loop.create_future()
        """Done when the keeper has ended as well: nothing is left."""
        self._hello: asyncio.Future[_Hello] = loop.create_future()
        self._keeper = keeper
        self._control: asyncio.Transport | None = None
        self._pump: LogPump | None = None
        self._pipes: _Pipes | None = None
        self._reaping: asyncio.Task[None] | None = None

    @property
    def containment(self) -> str:
        """What is promised about the end of the plugin's processes, in words."""
        text = CONTAINMENT_TEXT[self.mode]
        return f"{text} ({self.note})" if self.note else text

    def kill(self) -> None:
        """End the plugin and everything it started; `gone` tells when it is done."""
        if self._control is not None and not self._control.is_closing():
            self._control.write(b"k")

    async def wait_gone(self) -> None:
        """Wait, bounded, until nothing is left; kill the keeper itself where it does not come to an end."""
        try:
            async with asyncio.timeout(self.limits.kill_seconds):
                await asyncio.shield(self.gone)
        except TimeoutError:
            _log.error("the keeper of process %d does not end; killing it", self.pid)
            self._keeper.kill()
            async with asyncio.timeout(self.limits.kill_seconds):
                await asyncio.shield(self.gone)

    @property
    def log_finished(self) -> asyncio.Future[None] | None:
        """Done when everything that was written to stderr is in the log."""
        return None if self._pump is None else self._pump.finished

    def take_pipe(self, index: int, mode: str) -> Any:
        """The host's end of stdin (0) or stdout (1), as an unbuffered file. Each can be taken once."""
        assert self._pipes is not None
        return self._pipes.take(index, mode)

    # -- the keeper's side ------------------------------------------------------------------------

    def _told(self, message: _Hello) -> None:
        if message.exit is not None:
            self._ended(ExitStatus(os.waitstatus_to_exitcode(message.exit)))
        elif message.clean is not None:
            self.clean = message.clean
        elif not self._hello.done():
            self._hello.set_result(message)

    def _keeper_lost(self) -> None:
        if not self._hello.done():
            self._hello.set_result(_Hello(error="the keeper process ended before it started the plugin"))
        if self._reaping is None:
            self._reaping = asyncio.get_running_loop().create_task(self._reap())

    def _ended(self, status: ExitStatus) -> None:
        if not self.exited.done():
            self.exited.set_result(status)

    async def _reap(self) -> None:
        if self._keeper.poll() is None:
            try:
                await asyncio.to_thread(self._keeper.wait, self.limits.kill_seconds)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                await asyncio.to_thread(self._keeper.wait)
        if self.clean is not True:
            # the keeper was killed, or can only reach the process group: find the rest by its marker
            await asyncio.to_thread(kill_marked, {self.marker})
        self._ended(ExitStatus(None))
        if self._pipes is not None:
            self._pipes.close()
        if not self.gone.done():
            self.gone.set_result(None)


class _Control(asyncio.Protocol):
    """The host's end of the keeper's control socket."""

    def __init__(self, process: PluginProcess) -> None:
        self._process = process
        self._data = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            self._process._told(msgspec.json.decode(line, type=_Hello))

    def connection_lost(self, exc: Exception | None) -> None:
        self._process._keeper_lost()


@dataclass(slots=True)
class _Pipes:
    """The three pipes of a child, both ends; whatever is still open is closed at the end of the block."""

    child: list[int] = field(default_factory=list)
    host: list[int] = field(default_factory=list)

    @classmethod
    def open(cls) -> _Pipes:
        pipes = cls()
        for index in range(3):
            read, write = os.pipe()
            pipes.child.append(read if index == 0 else write)
            pipes.host.append(write if index == 0 else read)
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                with contextlib.suppress(OSError):  # over the user's limit: the default serves, slower
                    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return pipes

    def take(self, index: int, mode: str) -> Any:
        """Hand the host's end over to a file object."""
        fd, self.host[index] = self.host[index], -1
        return os.fdopen(fd, mode, buffering=0)

    def close_child(self) -> None:
        for fd in self.child:
            os.close(fd)
        self.child.clear()

    def close(self) -> None:
        self.close_child()
        for fd in self.host:
            if fd >= 0:
                os.close(fd)
        self.host.clear()


def _spawn_keeper(pipes: _Pipes, control: socket.socket) -> subprocess.Popen[bytes]:
    fd = control.fileno()
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_KEEPER), str(fd)],
        stdin=pipes.child[0],
        stdout=pipes.child[1],
        stderr=pipes.child[2],
        pass_fds=(fd,),
        start_new_session=True,
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
    )


async def start_process(
    command: Command,
    log: PluginLog,
    *,
    marker: str,
    limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
) -> PluginProcess:
    """Start `command`; its stdin and stdout are then taken with `take_pipe`.

    `marker` is what its processes are known by (orphans.py). PluginStartError where it cannot be executed.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    pipes = _Pipes.open()
    try:
        keeper = _spawn_keeper(pipes, theirs)
    except OSError as error:
        pipes.close()
        ours.close()
        raise PluginStartError(f"no process could be started: {error.strerror}") from error
    finally:
        theirs.close()
    pipes.close_child()
    process = PluginProcess(keeper, log, limits)
    process.marker, process._pipes = marker, pipes
    ours.setblocking(False)
    try:
        control, _ = await loop.create_connection(lambda: _Control(process), sock=ours)
        process._control = control
        pump = process._pump = LogPump(log)
        await loop.connect_read_pipe(lambda: pump, pipes.take(2, "rb"))
        environment = {**command.environment, INSTANCE_VARIABLE: marker}
        order = {
            "command": list(command.argv),
            "cwd": str(command.cwd),
            "env": environment,
            "containment": command.containment,
        }
        control.write(msgspec.json.encode(order) + b"\n")
        async with asyncio.timeout(limits.kill_seconds):
            hello = await asyncio.shield(process._hello)
        if hello.error is not None:
            raise PluginStartError(f"its command cannot be executed: {hello.error}", lasting=True)
        process.pid, process.mode, process.note = hello.pid, hello.containment, hello.note
    except BaseException:
        pipes.close()
        process.kill()
        if process._control is None:
            ours.close()
            keeper.kill()
            await asyncio.to_thread(keeper.wait)
        else:
            await process.wait_gone()
        raise
    return process
