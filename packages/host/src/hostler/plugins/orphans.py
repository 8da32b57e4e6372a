"""Records of started plugin processes, so that the next host can kill those of a dead one.

Every plugin process carries a random marker (sandbox/orphans.py). A record in the data directory says which
host started it; once that host is dead, processes with the marker are killed.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from hostler.sandbox.orphans import kill_marked, stat_of

_log = logging.getLogger(__name__)


class _Record(msgspec.Struct):
    marker: str
    host_pid: int
    host_started: str


class Register:
    """Records of the plugin processes started by this host: one small file each, under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def enter(self, marker: str) -> None:
        """Record a process that is about to be started."""
        record = _Record(marker, os.getpid(), _started(os.getpid()))
        (self.folder / f"{marker}.json").write_bytes(msgspec.json.encode(record))

    def leave(self, marker: str) -> None:
        """Remove the record of a process that is gone."""
        (self.folder / f"{marker}.json").unlink(missing_ok=True)

    def sweep(self) -> list[int]:
        """Kill the plugin processes of dead hosts; return their process ids."""
        dead: set[str] = set()
        for path in self.folder.glob("*.json"):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=_Record)
            except (OSError, msgspec.DecodeError):  # truncated by a crash: its name is the marker
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


def _started(pid: int) -> str:
    """Return start time and boot id, which tell a process from a later one with the same id."""
    fields = stat_of(pid)
    if not fields:
        return ""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{fields[19]}@{boot.read_text().strip() if boot.exists() else ''}"
