"""What processes have in common that are forked from one that has imported what they need."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

CAN_FORK = hasattr(os, "pidfd_open")
"""Whether the kernel says by a descriptor when such a process ends; elsewhere each is a new interpreter."""
PLUGIN_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
"""What Python reads of it, it has read when it forks: plugins have the same, as the host gives it to them."""
MAX_ORDER_BYTES = 1 << 20
"""Of arguments and environment; both together are less than what the kernel takes."""

_RUN_SOURCE = """\
import importlib, socket, sys
sys.path.append(sys.argv[1])
source = importlib.import_module(sys.argv[2])
sys.path.pop()
source.serve_forks(socket.socket(fileno=int(sys.argv[3])))
"""


def source_command(module: str, passed: socket.socket, *more: str) -> list[str]:
    """The command line of a process to fork from: `serve_forks` of a module of this folder."""
    tests = str(Path(__file__).parents[1])
    return [sys.executable, "-P", "-c", _RUN_SOURCE, tests, f"support.{module}", str(passed.fileno()), *more]


class Source(Protocol):
    """Knows the process that others are forked from, and that waits for them."""

    def status(self, ended: ForkedProcess) -> int:
        """The exit status of a process that has ended."""


class ForkedProcess:
    """What hosts and tests use of `subprocess.Popen`, for a process that is no child."""

    def __init__(self, source: Source, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._source = source
        self._descriptor = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; TimeoutExpired where it does not come."""
        if (status := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing where it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                return None
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._source.status(self)
                    os.close(self._descriptor)
        return self.returncode


class OwnSource:
    """A process that others are forked from, which takes orders of this one alone and ends with it.

    It runs `serve_forks` of a module of this folder, with further arguments.
    """

    def __init__(self, module: str, *more: str) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_ORDER_BYTES)
        kept = {name: text for name, text in os.environ.items() if not name.startswith("HOSTLER_")}
        with theirs:
            self._process = subprocess.Popen(
                source_command(module, theirs, *more),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=kept,
            )
        atexit.register(self.close)

    def fork(self, order: Mapping[str, Any], files: Sequence[int]) -> ForkedProcess:
        """Fork a process for an order, which has these three files."""
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

    def until_ready(self) -> None:
        """Wait until it has imported what it needs."""
        with self._lock:
            self._socket.send(json.dumps({"ready": True}).encode())
            self._socket.recv(100)

    def close(self) -> None:
        """End it."""
        atexit.unregister(self.close)
        self._socket.close()
        self._process.wait()


def take_orders(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """In an `OwnSource`: fork a process for each order; return the order and the files in each fork."""
    while True:
        raw, files, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, 3)
        if not raw:
            os._exit(0)
        order: dict[str, Any] = json.loads(raw)
        if order.get("ready"):
            orders.send(b"ready")
        elif (ended := order.get("ended")) is not None:
            _, status = os.waitpid(ended, 0)
            orders.send(str(os.waitstatus_to_exitcode(status)).encode())
        elif pid := os.fork():
            if order.get("leads_group"):
                os.setpgid(pid, 0)
            for descriptor in files:
                os.close(descriptor)
            orders.send(str(pid).encode())
        else:
            orders.close()
            return order, files


def take_on(order: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take on the files, the environment and the working folder of an order."""
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["cwd"])


class PipedFork:
    """A forked process with pipes, as `asyncio.subprocess.Process` has them."""

    def __init__(
        self,
        process: ForkedProcess,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs."""
        return self.process.poll()

    async def wait(self) -> int:
        """Wait for the end."""
        return await asyncio.to_thread(self.process.wait)

    async def kill(self) -> None:
        """End the process and its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, and its group with it
            os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()  # it may not lead a group yet
        self.stdin.close()
        await self.wait()


async def fork_piped(source: OwnSource, order: Mapping[str, Any], limit: int = 1 << 16) -> PipedFork:
    """Fork a process for an order, with three pipes; `limit`: the longest line that is read of it."""
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe(), os.pipe()
    theirs = [theirs_in, theirs_out, theirs_err]
    try:
        process = source.fork(order, theirs)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return PipedFork(
        process, await writer_of(ours_in), await reader_of(ours_out, limit), await reader_of(ours_err, limit)
    )


async def reader_of(descriptor: int, limit: int = 1 << 16) -> asyncio.StreamReader:
    """Read from the end of a pipe, which is closed with it."""
    reader = asyncio.StreamReader(limit)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    return reader


async def writer_of(descriptor: int) -> asyncio.StreamWriter:
    """Write to the end of a pipe, which is closed with it."""
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "wb")
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


def end_with(main: Callable[[], object]) -> NoReturn:
    """End this process as an interpreter ends after `main`, without taking its modules apart.

    That touches all memory that is shared with the process it was forked from: 70 ms for a command of 10.
    """
    code: object = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - the top of the process
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    status = code if isinstance(code, int) else 0 if code is None else 1
    try:
        sys.stdout.flush()
    except OSError:
        status = 120  # as Python has it
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status & 0xFF)
