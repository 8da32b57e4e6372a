"""The shim's part of control groups: put the child into its groups, see what reached a limit, kill all of it.

Runs in the shim, with only the standard library. The host makes and removes the groups (control_groups.py).
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any


class GroupWatch:
    """The groups of one sandbox; `launch` comes from control_groups.py, None without groups."""

    def __init__(self, launch: dict[str, Any] | None) -> None:
        launch = launch or {"around": [], "inside": [], "kill": None, "events": {}}
        self._around: list[str] = launch["around"]
        self._inside: list[str] = launch["inside"]
        self._kill: str | None = launch["kill"]
        self._events: dict[str, Any] = launch["events"]

    def limits(self, controller: str) -> bool:
        """Whether a group limits this: then nothing has to be measured."""
        return controller in self._events

    def join_around(self) -> None:
        """Have the shim's own work count as the sandbox's share of processor time. Raises OSError."""
        for path in self._around:
            _write(path, "0")

    def join_inside(self) -> None:
        """Put this process, the forked child, into the limited groups. Raises OSError."""
        for path in self._inside:
            _write(path, "0")

    def count(self, controller: str) -> int:
        """Return how often the limit of a group ended (memory) or refused (processes) something."""
        if controller in self._events:
            path, key = self._events[controller]
            with suppress(OSError, ValueError):
                for line in _read(path).splitlines():
                    if line.startswith(f"{key} "):
                        return int(line.split()[1])
        return 0

    def kill(self) -> None:
        """Kill all members, also those that left every other trace of belonging together."""
        if self._kill is not None:
            with suppress(OSError):
                _write(self._kill, "1")
                return
        for path in self._inside:
            with suppress(OSError, ValueError):
                for pid in map(int, _read(path).split()):
                    if pid > 0:  # 0 stands for a process that this one cannot name
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, signal.SIGKILL)


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123 - pathlib would double the start-up time
        return file.read()


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
