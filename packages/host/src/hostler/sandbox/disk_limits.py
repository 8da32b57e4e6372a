"""Decide when to measure a sandbox's writable folders, so that they exceed their limits only slightly.

There are two reasons to measure: enough time has passed to fill the remaining space, or a file is about to be
created or opened for writing and earlier ones could have filled the space since the last measurement. In the
second case the caller waits for the result, so a process that writes file after file is stopped before the
next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hostler.sandbox.folders import PinnedFolder, open_pinned
from hostler.sandbox.usage import MAX_DEPTH, OpenFolder, format_mib, measure_folders

MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS = 0.2, 0.005
"""The longest and the shortest time between two measurements."""
FILLED_PER_SECOND, WRITTEN_PER_SECOND = 2 << 30, 8 << 30
"""Bytes per second: more than most disks can take, and more than any program can write."""
REST_FACTOR, GROWTH_REST_FACTOR = 20, 4
"""A measurement is followed by a pause of this many times its processor time; the second while a caller
waits."""
SHORT_WALK_SECONDS = 0.0005
"""A measurement shorter than this (a few hundred files) needs no pause while a caller waits."""


class DiskLimits:
    """The writable folders of a sandbox and their limits.

    `watch` comes from launch_spec.py; `on_full` is called with each file that has reached the maximum size.
    The folders are opened before anything runs in the sandbox, so that nothing in it can lead a measurement
    elsewhere.
    """

    def __init__(self, watch: dict[str, Any], on_full: Callable[[str], None]) -> None:
        self._on_full = on_full
        self._pinned = [PinnedFolder(*one) for one in watch["folders"]]
        self._folders: list[OpenFolder] = []
        self._max_bytes: int = watch["disk"]
        self._max_files: int = watch["files"]
        self._file_bytes: int = watch["file_bytes"]
        self._free_bytes = 0
        self._free_files = 0
        self._files_begun = 0
        self._measured_at = 0.0
        self._next_growth_check = 0.0
        self.next_check = 0.0 if self._pinned else float("inf")
        """When to measure again, in monotonic seconds."""

    def open_folders(self) -> None:
        """Open the folders. Raises OSError if another one has taken the place of one."""
        for one in self._pinned:
            self._folders.append(OpenFolder(one.real, open_pinned(one)))

    def before_growth(self) -> tuple[str, str] | None:
        """Measure if a file that is about to be created or changed could exceed a limit. Returns the same as
        `check`."""
        self._files_begun += 1
        now = time.monotonic()
        written = min(self._files_begun * self._file_bytes, (now - self._measured_at) * WRITTEN_PER_SECOND)
        if written <= self._free_bytes and self._files_begun <= self._free_files:
            return None
        return self.check() if self._folders and now >= self._next_growth_check else None

    def check(self) -> tuple[str, str] | None:
        """Measure now. Return the name of the exceeded limit and a sentence about it, or None."""
        began = time.thread_time()
        most = (self._max_bytes, self._max_files, self._file_bytes)
        size, count = measure_folders(self._folders, *most, self._on_full)
        cost, now = time.thread_time() - began, time.monotonic()
        self._free_bytes, self._free_files = self._max_bytes - size, self._max_files - count
        self._files_begun, self._measured_at = 0, now
        self._next_growth_check = now + (GROWTH_REST_FACTOR * cost if cost > SHORT_WALK_SECONDS else 0.0)
        filled = max(MIN_INTERVAL_SECONDS, min(MAX_INTERVAL_SECONDS, self._free_bytes / FILLED_PER_SECOND))
        self.next_check = now + max(filled, REST_FACTOR * cost)
        if size > self._max_bytes:
            return "disk", f"{format_mib(size)} in its folders; {format_mib(self._max_bytes)} are allowed"
        if count > self._max_files:
            return "files", (
                f"over {self._max_files} files and folders; {self._max_files} are allowed, and none over "
                f"{MAX_DEPTH} levels deep"
            )
        return None
