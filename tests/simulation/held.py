"""What a worker process holds between two lives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    counts: dict[str, int]
    """Descriptors, threads and children."""
    memory: int
    """Bytes that are its own or shared."""
    files: set[str]
    """In its folder."""


def held_by(process: int) -> Held:
    """Look at a worker."""
    proc = Path(f"/proc/{process}")
    counts = {
        "descriptors": len(list((proc / "fd").iterdir())),
        "threads": len(list((proc / "task").iterdir())),
        "children": len((proc / f"task/{process}/children").read_text().split()),
    }
    pages = int((proc / "statm").read_text().split()[1])
    folder = Path((proc / "cmdline").read_bytes().split(b"\0")[-2].decode())
    return Held(counts, pages * os.sysconf("SC_PAGE_SIZE"), {path.name for path in folder.iterdir()})
