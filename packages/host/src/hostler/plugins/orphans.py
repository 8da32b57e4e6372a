"""Finding plugin processes that nobody holds any more: by the marker in their environment.

Every plugin process carries its own random marker, which its children inherit. A record beside the data says
which host started it; when that host is dead and the marker still lives, what carries it is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Set
from pathlib import Path

import msgspec

INSTANCE_VARIABLE = "HOSTLER_PLUGIN_INSTANCE"
MAX_ENVIRONMENT_BYTES = 1 << 20
KILL_PASSES = 20
"""A process that forks faster than it is found is found in one of these."""

_log = logging.getLogger(__name__)


class _Record(msgspec.Struct):
    marker: str
    host_pid: int
    host_started: str


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


class Register:
    """Which plugin processes this host has started: one small file each, under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def enter(self, marker: str) -> None:
        """Write down a process that is about to be started."""
        record = _Record(marker, os.getpid(), _started(os.getpid()))
        (self.folder / f"{marker}.json").write_bytes(msgspec.json.encode(record))

    def leave(self, marker: str) -> None:
        """Forget a process of which nothing is left."""
        (self.folder / f"{marker}.json").unlink(missing_ok=True)

    def sweep(self) -> list[int]:
        """Kill what hosts that are dead have left behind; the process ids."""
        dead: set[str] = set()
        for path in self.folder.glob("*.json"):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=_Record)
            except (OSError, msgspec.DecodeError):  # cut short by a crash: its name is the marker
                dead.add(path.stem)
                continue
            if _started(record.host_pid) != record.host_started:
                dead.add(record.marker)
        killed = kill_marked(dead)
        if killed:
            _log.warning("killed %d plugin processes of a host that is gone: %s", len(killed), killed)
        for marker in dead:
            self.leave(marker)
        return killed


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _started(pid: int) -> str:
    """What tells this process from a later one with the same number: its start time and the boot."""
    fields = _stat(pid)
    if not fields:
        return ""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{fields[19]}@{boot.read_text().strip() if boot.exists() else ''}"
