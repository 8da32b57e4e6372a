"""Finding processes that nobody holds any more: by the marker in their environment.

Every kept process carries its own random marker, which its children inherit.
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
"""A process that forks faster than it is found is found in one of these."""


def marked(markers: Set[str]) -> list[int]:
    """The processes that carry one of the markers, as far as this user may look (Linux; else none)."""
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
    """Kill every process that carries one of the markers; the process ids that were killed."""
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
    """What the kernel says of a process after its name; nothing where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _state(pid: int) -> str:
    fields = stat_of(pid)
    return fields[0] if fields else ""
