"""What processes have in common that are forked from one that has imported what they need."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

CAN_FORK = hasattr(os, "pidfd_open")
"""Whether the kernel says by a descriptor when such a process ends; elsewhere each is a new interpreter."""
PLUGIN_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
"""What Python reads of it, it has read when it forks: plugins have the same, as the host gives it to them."""

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
