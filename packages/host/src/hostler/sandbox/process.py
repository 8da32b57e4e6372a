"""A child process with its pipes, its violations and its end; none of its processes outlives it.

The shim (shim.py) runs between the host and the child and kills everything the child started once either of
them ends.
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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from hostler.domain.record import Record
from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.orphans import INSTANCE_VARIABLE, kill_marked
from hostler.sandbox.port import LimitName, Violation
from hostler_protocol.errors import UnavailableError

PIPE_BYTES = 256 * 1024
"""Requested capacity of each pipe: what the event loop reads at once."""

CHILD_UMASK = 0o022
"""Of plugins, commands, and what is installed for them, which those that run as users of their own read."""
MAX_VIOLATIONS = 1000
"""The latest violations of one process that are kept."""
KILL_SECONDS = 8.0
"""How long to wait after a kill before giving up; the shim itself gives up after 5 s."""

_SHIM = Path(__file__).with_name("shim.py")
_log = logging.getLogger(__name__)

CONTAINMENT_TEXT = {
    "bubblewrap": (
        "its own namespaces: the kernel ends every process of the plugin with the plugin, the shim or "
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
"""A description of each containment mode, for people."""


class _ShimMessage(msgspec.Struct):
    pid: int = 0
    containment: str = "group"
    note: str = ""
    error: str | None = None
    exit: int | None = None
    clean: bool | None = None
    violation: Violation | None = None


class Command(Record):
    """A command to execute. `environment` is complete: nothing is inherited."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    containment: str = "auto"
    """`auto`, `namespace`, `user-namespace`, `subreaper` or `group`; falls back to what the system offers."""
    sandbox: Mapping[str, Any] | None = None
    """The sandbox part of the launch message (launch_spec.py); None without a sandbox."""

    def launch_message(self, marker: str) -> dict[str, Any]:
        """Return the shim's launch message."""
        return {
            "command": list(self.argv),
            "cwd": str(self.cwd),
            "env": {**self.environment, INSTANCE_VARIABLE: marker},
            "containment": self.containment,
            "sandbox": self.sandbox,
        }


class ChildProcess:
    """A child process: started once by `begin`, ended by `kill`, which leaves no process behind."""

    def __init__(self, kill_seconds: float = KILL_SECONDS) -> None:
        self.pid = 0
        self.mode = "group"
        self.note = ""
        self.marker = ""
        self.clean: bool | None = None
        self.limit_reached: LimitName | None = None
        self.violations: deque[Violation] = deque(maxlen=MAX_VIOLATIONS)
        self.on_violation: Callable[[Violation], None] | None = None
        self.on_proxy_socket: Callable[[socket.socket], None] | None = None
        self.clean_up: Callable[[], object] = lambda: None
        """Called in a thread once none of its processes is left, before `gone` is done."""
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[ExitStatus] = loop.create_future()
        """Done when the child itself has ended."""
        self.gone: asyncio.Future[None] = loop.create_future()
        """Done when the shim has ended as well: no process is left."""
        self._started: asyncio.Future[_ShimMessage] = loop.create_future()
        self._shim: subprocess.Popen[bytes]
        self._kill_seconds = kill_seconds
        self._control: asyncio.Transport | None = None
        self._pipes: _Pipes | None = None
        self._proxy_sockets: ProxySockets | None = None
        self._reaping: asyncio.Task[None] | None = None

    async def begin(self, command: Command, *, marker: str) -> None:
        """Start `command`; take its pipes with `take_pipe` afterwards.

        `marker` identifies its processes (orphans.py). Raises UnavailableError if it cannot be executed.
        """
        loop = asyncio.get_running_loop()
        self.marker = marker
        ours, theirs = socket.socketpair()
        passed = [theirs]
        if self.on_proxy_socket is not None:
            our_proxy, their_proxy = socket.socketpair()
            passed.append(their_proxy)
            self._proxy_sockets = ProxySockets(our_proxy, self.on_proxy_socket)
        pipes = self._pipes = _Pipes.open()
        try:
            self._shim = _spawn_shim(pipes, passed)
        except OSError as error:
            pipes.close()
            ours.close()
            self._close_proxy_sockets()
            raise UnavailableError(f"no process could be started: {error.strerror}") from error
        finally:
            for one in passed:
                one.close()
        pipes.close_child()
        ours.setblocking(False)
        try:
            self._control, _ = await loop.create_connection(lambda: _Control(self), sock=ours)
            await self._before_start()
            self._control.write(msgspec.json.encode(command.launch_message(marker)) + b"\n")
            await self._wait_started()
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

    async def _before_start(self) -> None:
        """Hook, called before the command starts."""

    async def _wait_started(self) -> None:
        async with asyncio.timeout(self._kill_seconds):
            message = await asyncio.shield(self._started)
        if message.error is not None:
            raise UnavailableError(message.error)
        self.pid, self.mode, self.note = message.pid, message.containment, message.note

    @property
    def containment(self) -> str:
        """Describe how the end of all its processes is ensured."""
        text = CONTAINMENT_TEXT[self.mode]
        return f"{text} ({self.note})" if self.note else text

    def kill(self) -> None:
        """Kill the child and everything it started, without waiting; `gone` is done afterwards."""
        if self._control is not None and not self._control.is_closing():
            self._control.write(b"k")

    async def wait_gone(self) -> None:
        """Wait, with a bound, until no process is left; kill a shim that does not end.

        Pipes not taken by then are closed.
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
        """Return the host's end of stdin (0), stdout (1) or stderr (2) as an unbuffered file; once per pipe.

        Works after the process has ended, too: its remaining output can still be read.
        """
        assert self._pipes is not None
        return self._pipes.take(index, mode)

    # -- messages of the shim -----------------------------------------------------------------------

    def _on_message(self, message: _ShimMessage) -> None:
        if message.exit is not None:
            self._ended(ExitStatus(os.waitstatus_to_exitcode(message.exit)))
        elif message.clean is not None:
            self.clean = message.clean
        elif message.violation is not None:
            self.add_violation(message.violation)
        elif not self._started.done():
            self._started.set_result(message)

    def add_violation(self, violation: Violation) -> None:
        """Record something the sandbox prevented."""
        self.violations.append(violation)
        if violation.kind == "limit":
            self.limit_reached = cast("LimitName", violation.subject)
        if self.on_violation is not None:
            self.on_violation(violation)

    def _shim_lost(self) -> None:
        if not self._started.done():
            self._started.set_result(_ShimMessage(error="the shim process ended before it started anything"))
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
            # the shim was killed, or can reach only the process group: find the others by their marker
            await asyncio.to_thread(kill_marked, {self.marker})
        await asyncio.to_thread(self.clean_up)
        self._ended(ExitStatus(None))
        self._close_proxy_sockets()
        if not self.gone.done():
            self.gone.set_result(None)

    def _close_proxy_sockets(self) -> None:
        if self._proxy_sockets is not None:
            self._proxy_sockets.close()


class ProxySockets:
    """Receive the listening sockets that connect sandboxes to their proxy."""

    def __init__(self, source: socket.socket, on_socket: Callable[[socket.socket], None]) -> None:
        self._source = source
        self._on_socket = on_socket
        source.setblocking(False)
        asyncio.get_running_loop().add_reader(source, self._receive)

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._source, 1, 1)
        except BlockingIOError:
            return
        for fd in fds:
            self._on_socket(socket.socket(fileno=fd))
        if not data:
            self.close()

    def close(self) -> None:
        """Stop receiving."""
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
            self._process._on_message(msgspec.json.decode(line, type=_ShimMessage))

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
        umask=CHILD_UMASK,
    )


@dataclass(slots=True)
class _Pipes:
    """Both ends of the three pipes of a child. `close` closes those that were not taken."""

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
                with contextlib.suppress(OSError):  # above the user's limit: keep the default size
                    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return pipes

    def take(self, index: int, mode: str) -> Any:
        """Return the host's end as a file object, which then owns it."""
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
