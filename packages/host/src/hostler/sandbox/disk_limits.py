"""Decide when to measure a sandbox's writable folders, so that they exceed their limits only slightly.

There are two reasons to measure: enough time has passed to fill the remaining space, or a file is about to be
created or opened for writing and earlier ones could have filled the space since the last measurement. In the
second case the caller waits for the result, so a process that writes file after file is stopped before the
next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hostler.sandbox.deleted_files import DeletedFiles
from hostler.sandbox.folders import PinnedFolder, open_pinned
from hostler.sandbox.quota_calls import Usage, usage_of
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
REMOVAL_SECONDS = 5.0
"""From a call that removes a name until it has been carried out, with room for a busy machine."""
MAX_QUEUED, QUEUED_SECONDS = 64, 2.0
"""Descriptors that may wait in sockets for longer than this. No process has them, so a file that has no name
either could not be counted."""

USED_UP_BYTES = 16 * 1024
"""Less room than this is none: one block that is written may take further ones, for lists of blocks."""

Pids = Callable[[], Sequence[int]]


class DiskLimits:
    """The writable folders of a sandbox and their limits.

    `watch` comes from launch_spec.py; `on_full` is called with each file that has reached the maximum size,
    `pids` returns the processes, which may keep files that have no name, and `in_flight` the sockets that
    were sent through others. `on_quota` is called with the name of a limit and a sentence when a project
    quota has been used up: the file system enforces it, and counts files without a name as well. The folders
    are opened before anything runs in the sandbox, so that nothing in it can lead a measurement elsewhere.
    """

    def __init__(
        self,
        watch: dict[str, Any],
        on_full: Callable[[str], None],
        pids: Pids,
        in_flight: Callable[[Sequence[int]], frozenset[int]],
        on_quota: Callable[[str, str], None] = lambda _limit, _text: None,
    ) -> None:
        self._on_full = on_full
        self._pids = pids
        self._in_flight = in_flight
        self._deleted: DeletedFiles
        self._removed_at = 0.0
        self._quota: tuple[int, str] | None = watch["quota"]
        self._used_up: frozenset[str] = frozenset()
        """The limits of the quota that were reached at the last look."""
        self._on_quota = on_quota
        self._hides = self._quota is None
        """There may be files without a name, which nothing else counts."""
        self._flying: frozenset[int] = frozenset()
        self._queued_since: float | None = None
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
        self._deleted = DeletedFiles(self._folders)

    @property
    def workspace(self) -> int:
        """A descriptor of the first folder; -1 without any."""
        return self._folders[0].fd if self._folders else -1

    @property
    def unreadable(self) -> tuple[int, ...]:
        """Processes that could not be looked into at the last measurement."""
        return self._deleted.unreadable

    def note_removal(self) -> None:
        """Look for files without a name from now on: one may be about to lose its name."""
        self._hides, self._removed_at = self._quota is None, time.monotonic()

    def before_growth(self) -> tuple[str, str] | None:
        """Measure if a file that is about to be created or changed could exceed a limit. Returns the same as
        `check`."""
        if self._quota is not None:
            return None
        self._files_begun += 1
        now = time.monotonic()
        written = min(self._files_begun * self._file_bytes, (now - self._measured_at) * WRITTEN_PER_SECOND)
        if written <= self._free_bytes and self._files_begun <= self._free_files:
            return None
        return self.check() if self._folders and now >= self._next_growth_check else None

    def check(self) -> tuple[str, str] | None:
        """Measure now. Return the name of the exceeded limit and a sentence about it, or None."""
        began = time.thread_time()
        self.check_quota()
        most = (self._max_bytes, self._max_files, self._file_bytes)
        size, count = measure_folders(self._folders, *most, self._on_full)
        if self._hides:
            hidden, number = self._measure_hidden()
            size, count = size + hidden, count + number
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
                f"{MAX_DEPTH} levels deep or closed to its owner"
            )
        if self._queued_since is not None and now - self._queued_since > QUEUED_SECONDS:
            return "files", (
                f"over {MAX_QUEUED} descriptors wait in sockets, where files without a name cannot be counted"
            )
        return None

    def check_quota(self) -> None:
        """Report a project quota that has been used up since the last look; nothing without one."""
        if self._quota is None or not self._folders:
            return
        project, device = self._quota
        try:
            usage = usage_of(self._folders[0].fd, device, project)
        except OSError:  # quotas have been turned off: what remains is the look
            self._quota, self._hides = None, True
            return
        reached = quota_limits(usage)
        for limit in reached.keys() - self._used_up:
            self._on_quota(limit, reached[limit])
        self._used_up = frozenset(reached)

    def _measure_hidden(self) -> tuple[int, int]:
        """Return the bytes and the number of files without a name."""
        began = time.monotonic()
        pids = self._pids()
        size, number = self._deleted.measure(pids)
        flying = self._in_flight(pids)
        # a socket on its way may hold descriptors, and those in it further ones
        stays = self._deleted.queued > MAX_QUEUED or bool(flying & self._flying)
        self._flying = flying
        if not stays:
            self._queued_since = None
        elif self._queued_since is None:
            self._queued_since = began
        found = number or self._deleted.queued or flying or self._deleted.unreadable
        self._hides = bool(found) or began - self._removed_at < REMOVAL_SECONDS
        return size, number


def quota_limits(usage: Usage) -> dict[str, str]:
    """Return the limits of a project quota that have been reached, each with a sentence about it."""
    reached = {}
    if usage.most_bytes and usage.size > usage.most_bytes - USED_UP_BYTES:
        held, most = format_mib(usage.size), format_mib(usage.most_bytes)
        reached["disk"] = (
            f"its folders are full: {held} of {most}, and no more can be written (project quota)"
        )
    if usage.most_files and usage.files >= usage.most_files:
        reached["files"] = (
            f"its folders are full: {usage.files:,} of {usage.most_files:,} files and folders, and no more "
            "can be made (project quota)"
        )
    return reached
