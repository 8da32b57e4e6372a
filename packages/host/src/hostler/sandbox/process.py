"""A child process of which nothing outlives its end: its pipes, what its sandbox tells, its end.

Between the host and the child stands the shim (shim.py), which sees to it that nothing of the child
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.orphans import INSTANCE_VARIABLE, kill_marked
from hostler.sandbox.port import LimitName, Told
from hostler_protocol.errors import UnavailableError

PIPE_BYTES = 256 * 1024
"""Asked of the system for each pipe: one loop iteration's read."""

KILL_SECONDS = 8.0
"""From the order to kill everything to giving up on it: the shim itself gives up after 5 s."""

_SHIM = Path(__file__).with_name("shim.py")
_log = logging.getLogger(__name__)

CONTAINMENT_TEXT = {
    "bubblewrap": (
        "namespaces of its own: the kernel ends every process of the plugin with the plugin, the shim or "
        "the host"
    ),
    "namespace": (
        "PID namespace: the kernel ends every process of the plugin with the plugin, the shim or the host"
    ),
    "subreaper": (
        "subreaper: the shim ends every process of the plugin with the plugin or the host; were the shim "
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
    told: Told | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. `environment` is complete: nothing is inherited."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    containment: str = "auto"
    """`auto`, `namespace`, `user-namespace`, `subreaper` or `group`; falls back to what the system offers."""
    sandbox: Mapping[str, Any] | None = None
    """What the shim is told of the sandbox (launch_spec.py); None: there is none."""

    def order_for(self, marker: str) -> dict[str, Any]:
        """The shim's start order."""
        return {
            "command": list(self.argv),
            "cwd": str(self.cwd),
            "env": {**self.environment, INSTANCE_VARIABLE: marker},
            "containment": self.containment,
            "sandbox": self.sandbox,
        }


class ChildProcess:
    """One process. Started once by `begin`; ended by `kill`, which leaves nothing behind."""

    def __init__(self, kill_seconds: float = KILL_SECONDS) -> None:
        self.pid = 0
        self.mode = "group"
        self.note = ""
        self.marker = ""
        self.clean: bool | None = None
        self.reached: LimitName | None = None
        self.told: list[Told] = []
        self.on_told: Callable[[Told], None] | None = None
        self.on_door: Callable[[socket.socket], None] | None = None
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[ExitStatus] = loop.create_future()
        """Done as soon as the process itself ended."""
        self.gone: asyncio.Future[None] = loop.create_future()
        """Done when the shim has ended as well: nothing is left."""
        self._hello: asyncio.Future[_Hello] = loop.create_future()
        self._shim: subprocess.Popen[bytes]
        self._kill_seconds = kill_seconds
        self._control: asyncio.Transport | None = None
        self._pipes: _Pipes | None = None
        self._doors: Doors | None = None
        self._reaping: asyncio.Task[None] | None = None

    async def begin(self, command: Command, *, marker: str) -> None:
        """Start `command`; its pipes are then taken with `take_pipe`.

        `marker` identifies its processes (orphans.py). UnavailableError where it cannot be executed.
        """
        loop = asyncio.get_running_loop()
        self.marker = marker
        ours, theirs = socket.socketpair()
        given = [theirs]
        if self.on_door is not None:
            door, their_door = socket.socketpair()
            given.append(their_door)
            self._doors = Doors(door, self.on_door)
        pipes = self._pipes = _Pipes.open()
        try:
            self._shim = _spawn_shim(pipes, given)
        except OSError as error:
            pipes.close()
            ours.close()
            self._close_doors()
            raise UnavailableError(f"no process could be started: {error.strerror}") from error
        finally:
            for one in given:
                one.close()
        pipes.close_child()
        ours.setblocking(False)
        try:
            self._control, _ = await loop.create_connection(lambda: _Control(self), sock=ours)
            await self._prepare()
            self._control.write(msgspec.json.encode(command.order_for(marker)) + b"\n")
            await self._told_hello()
        except BaseException:
            pipes.close()
            self.kill()
            if self._control is None:
                ours.close()
                self._shim.kill()
                await asyncio.to_thread(self._shim.wait)
            else:
                await self.wait_gone()
            raise

    async def _prepare(self) -> None:
        """What is to be done before the command begins."""

    async def _told_hello(self) -> None:
        async with asyncio.timeout(self._kill_seconds):
            hello = await asyncio.shield(self._hello)
        if hello.error is not None:
            raise UnavailableError(hello.error)
        self.pid, self.mode, self.note = hello.pid, hello.containment, hello.note

    @property
    def containment(self) -> str:
        """What is promised about the end of its processes, in words."""
        text = CONTAINMENT_TEXT[self.mode]
        return f"{text} ({self.note})" if self.note else text

    def kill(self) -> None:
        """End the process and everything it started; `gone` tells when it is done."""
        if self._control is not None and not self._control.is_closing():
            self._control.write(b"k")

    async def wait_gone(self) -> None:
        """Wait, bounded, until nothing is left; kill the shim itself where it does not come to an end.

        Pipes that nobody took by then are closed.
        """
        try:
            try:
                async with asyncio.timeout(self._kill_seconds):
                    await asyncio.shield(self.gone)
            except TimeoutError:
                _log.error("the shim of process %d does not end; killing it", self.pid)
                self._shim.kill()
                async with asyncio.timeout(self._kill_seconds):
                    await asyncio.shield(self.gone)
        finally:
            if self._pipes is not None:
                self._pipes.close()

    def take_pipe(self, index: int, mode: str) -> Any:
        """The host's end of stdin (0), stdout (1) or stderr (2), as an unbuffered file; each once.

        Also when the process has ended already: what it wrote is there to be read.
        """
        assert self._pipes is not None
        return self._pipes.take(index, mode)

    # -- the shim's side ------------------------------------------------------------------------

    def _told(self, message: _Hello) -> None:
        if message.exit is not None:
            self._ended(ExitStatus(os.waitstatus_to_exitcode(message.exit)))
        elif message.clean is not None:
            self.clean = message.clean
        elif message.told is not None:
            self.hear(message.told)
        elif not self._hello.done():
            self._hello.set_result(message)

    def hear(self, told: Told) -> None:
        """Something was not let happen."""
        self.told.append(told)
        if told.kind == "limit":
            self.reached = cast("LimitName", told.what)
        if self.on_told is not None:
            self.on_told(told)

    def _shim_lost(self) -> None:
        if not self._hello.done():
            self._hello.set_result(_Hello(error="the shim process ended before it started anything"))
        if self._reaping is None:
            self._reaping = asyncio.get_running_loop().create_task(self._reap())

    def _ended(self, status: ExitStatus) -> None:
        if not self.exited.done():
            self.exited.set_result(status)

    async def _reap(self) -> None:
        if self._shim.poll() is None:
            try:
                await asyncio.to_thread(self._shim.wait, self._kill_seconds)
            except subprocess.TimeoutExpired:
                self._shim.kill()
                await asyncio.to_thread(self._shim.wait)
        if self.clean is not True:
            # the shim was killed, or can only reach the process group: find the rest by its marker
            await asyncio.to_thread(kill_marked, {self.marker})
        self._ended(ExitStatus(None))
        self._close_doors()
        if not self.gone.done():
            self.gone.set_result(None)

    def _close_doors(self) -> None:
        if self._doors is not None:
            self._doors.close()


class Doors:
    """Hears the shim's sockets on which sandboxes reach their proxy."""

    def __init__(self, source: socket.socket, heard: Callable[[socket.socket], None]) -> None:
        self._source = source
        self._heard = heard
        source.setblocking(False)
        asyncio.get_running_loop().add_reader(source, self._receive)

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._source, 1, 1)
        except BlockingIOError:
            return
        for fd in fds:
            self._heard(socket.socket(fileno=fd))
        if not data:
            self.close()

    def close(self) -> None:
        """Hear no more."""
        if self._source.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._source)
            self._source.close()


class _Control(asyncio.Protocol):
    """The host's end of the shim's control socket."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._data = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            self._process._told(msgspec.json.decode(line, type=_Hello))

    def connection_lost(self, exc: Exception | None) -> None:
        self._process._shim_lost()


def _spawn_shim(pipes: _Pipes, sockets: Sequence[socket.socket]) -> subprocess.Popen[bytes]:
    fds = tuple(one.fileno() for one in sockets)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SHIM), *map(str, fds)],
        stdin=pipes.child[0],
        stdout=pipes.child[1],
        stderr=pipes.child[2],
        pass_fds=fds,
        start_new_session=True,
        env={"LC_ALL": "C.UTF-8"},
        cwd="/",
    )


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
