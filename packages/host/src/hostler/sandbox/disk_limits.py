"""When a sandbox's writable folders have to be looked at again, so that they never hold much too much.

Two ways lead to a look: the time it takes to fill what is left, and, before a file is made or opened to be
changed, that those since the last look could have filled it meanwhile. Whoever asks waits for that look, so
one who writes file after file is found out before the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hostler.sandbox.usage import MAX_DEPTH, measure_folders

FAR_SECONDS, NEAREST_SECONDS = 0.2, 0.005
"""From one look to the next: at most, and at least."""
FILLED_PER_SECOND, WRITTEN_PER_SECOND = 2 << 30, 8 << 30
"""Bytes: what few disks take, and what no program can write."""
WALK_SHARE, ASKED_SHARE = 20, 4
"""A walk is followed by a rest of so many times its processor time; of the second where somebody waits."""
SHORT_SECONDS = 0.0005
"""A walk of less, through a few hundred files, needs no rest where somebody waits."""


class Folders:
    """What they may hold, and how it stands.

    `watch` is of launch_spec.py; `on_full` hears of each file that has all that one may have.
    """

    def __init__(self, watch: dict[str, Any], on_full: Callable[[str], None]) -> None:
        self._on_full = on_full
        self._folders: list[str] = watch["folders"]
        self._most_bytes: int = watch["disk"]
        self._most_files: int = watch["files"]
        self._file_bytes: int = watch["file_bytes"]
        self._left_bytes = 0
        self._left_files = 0
        self._begun = 0
        self._looked = 0.0
        self._next_asked = 0.0
        self.next = 0.0 if self._folders else float("inf")
        """When to look again if nobody asks."""

    def grow(self) -> tuple[str, str] | None:
        """A file is about to be made or changed: look where that might be too much. As `look`."""
        self._begun += 1
        now = time.monotonic()
        written = min(self._begun * self._file_bytes, (now - self._looked) * WRITTEN_PER_SECOND)
        if written <= self._left_bytes and self._begun <= self._left_files:
            return None
        return self.look() if self._folders and now >= self._next_asked else None

    def look(self) -> tuple[str, str] | None:
        """Look now: the name of the limit that is reached, and what to say of it."""
        began = time.thread_time()
        most = (self._most_bytes, self._most_files, self._file_bytes)
        size, count = measure_folders(self._folders, *most, self._on_full)
        cost, now = time.thread_time() - began, time.monotonic()
        self._left_bytes, self._left_files = self._most_bytes - size, self._most_files - count
        self._begun, self._looked = 0, now
        self._next_asked = now + (ASKED_SHARE * cost if cost > SHORT_SECONDS else 0.0)
        filled = max(NEAREST_SECONDS, min(FAR_SECONDS, self._left_bytes / FILLED_PER_SECOND))
        self.next = now + max(filled, WALK_SHARE * cost)
        if size > self._most_bytes:
            return "disk", f"{_mib(size)} in its folders; {_mib(self._most_bytes)} are allowed"
        if count > self._most_files:
            return "files", (
                f"over {self._most_files} files and folders; {self._most_files} are allowed, and none over "
                f"{MAX_DEPTH} levels deep"
            )
        return None


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
