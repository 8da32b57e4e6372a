"""Find and kill orphaned processes by the marker in their environment.

Each child process gets a random marker of its own, which its children inherit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Set
from pathlib import Path

INSTANCE_VARIABLE = "HOSTLER_PLUGIN_INSTANCE"
MAX_ENVIRONMENT_BYTES = 1 << 20
KILL_PASSES = 20
"""More than one pass, for processes that fork while they are being found."""


def marked(markers: Set[str]) -> list[int]:
    """Return the ids of processes that carry one of the markers and are visible to this user (Linux only)."""
    wanted = [f"{INSTANCE_VARIABLE}={marker}".encode() for marker in markers]
    found: list[int] = []
    if not wanted or not Path("/proc/self/environ").exists():
        return found
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError), Path(entry.path, "environ").open("rb") as file:
            variables = file.read(MAX_ENVIRONMENT_BYTES).split(b"\0")
            if any(item in variables for item in wanted):
                found.append(int(entry.name))
    return found


def kill_marked(markers: Set[str]) -> list[int]:
    """Kill every process that carries one of the markers; return the killed process ids."""
    killed: list[int] = []
    for _ in range(KILL_PASSES):
        pids = [pid for pid in marked(markers) if _state(pid) not in ("Z", "X", "")]
        if not pids:
            break
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        time.sleep(0.01)
    return sorted(set(killed))


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; empty if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _state(pid: int) -> str:
    fields = stat_of(pid)
    return fields[0] if fields else ""
