"""Audit of the traced system calls: read the paths a call names, and report those the sandbox will refuse.

The caller waits only while its memory is read. The paths are looked up afterwards in a thread, so that no
file system can block the shim, and no caller can learn from the duration what exists outside. Every queue is
bounded; paths beyond its bound are not reported.
"""

from __future__ import annotations

import _thread
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from stat import S_IFBLK, S_IFCHR
from typing import Any, NamedTuple

from hostler.sandbox.caller_memory import CallerMemory
from hostler.sandbox.path_visibility import PathAccess, VisiblePaths, check_access
from hostler.sandbox.refusals import SOCKET_ADDRESS_BYTES, Refusal, out_of_reach
from hostler.sandbox.report_budget import MAX_PER_GROUP, PERIOD_SECONDS
from hostler.sandbox.supplied_files import Supplied, SuppliedFiles
from hostler.sandbox.traced_syscalls import (
    CONNECT,
    CREATING_CALLS,
    MEMORY_CALLS,
    O_PATH,
    O_UNNAMED,
    PATH_CALLS,
    READING_VERBS,
    REMOVING_CALLS,
    WRITE_FLAGS,
)
from hostler.sandbox.usage import ProcessUsage, format_mib

MAX_QUEUED, FLUSH_AT_QUEUED = 512, 64
"""The most paths that wait for a look-up, and how many wake the thread before the next check of the
limits."""
MAX_PER_FOLDER = 8
"""Paths of one folder that are reported one by one."""
MAX_REMEMBERED = 4096
"""Paths known to need no report, until the next check of the limits."""
S_IFMT, DEVICES = 0o170000, (S_IFBLK, S_IFCHR)
LARGE_SHARE = 8
"""The same as in launch_spec.py: requests over this part of the memory limit are reported."""
FINISH_POLL_SECONDS = 0.002
MAP_KIND, MAP_SHARED_KINDS, MAP_FIXED = 0xF, (1, 3), 0x10

Report = Callable[[str, str, str], None]


class AuditNotes(NamedTuple):
    """What is called while the caller waits."""

    growth: Callable[[], None]
    """Before a file is created or opened for writing."""
    removal: Callable[[], None]
    """Before a file may lose its name, or is made without one."""
    shared: Callable[[int], None]
    """Before so many bytes are mapped as shared memory."""


class SyscallAudit:
    """The traced system calls of one sandbox.

    `spec` comes from launch_spec.py; `owns` returns whether a process id belongs to the sandbox.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        report: Report,
        notes: AuditNotes,
        owns: Callable[[int], bool],
    ) -> None:
        self.calls: dict[int, str] = {call: name for name, call in spec["calls"].items()}
        self._callers = CallerMemory(lambda why: report("refused", "unknown names", why))
        self.supplied = SuppliedFiles(spec["supplied"], self._callers.proc)
        self._visible = VisiblePaths(spec["read"], spec["write"], spec["ignored"])
        self._private: tuple[str, ...] = tuple(spec["private"])
        """Folders private to the sandbox, visible only through its root."""
        # links in these may lead anywhere
        with_links = (*spec["write"], *self._private, "/proc/self", "/proc/thread-self")
        without_links = [
            path for path in spec["read"] if not any(f"{one}/".startswith(f"{path}/") for one in with_links)
        ]
        self._readable_folders = tuple(os.fsencode(path) + b"/" for path in without_links)
        self._readable_paths = frozenset(map(os.fsencode, without_links))
        self._data_bytes: int = spec["data_bytes"]
        self._max_open: int = spec["open_files"]
        self._report = report
        self._notes = notes
        self._owns = owns
        self._root = -1
        self._plain_folders: set[bytes] = set()
        self._allowed: set[tuple[str, bytes]] = set()
        self._until_open_limit = 0
        self._queue: deque[PathAccess] = deque()
        self._queued: set[tuple[str, bytes]] = set()
        self._wake: Any = None
        self._looking_up = False
        self._renewed_at = time.monotonic()
        self._reported: Counter[str] = Counter()
        """By verb; of a verb with as many as are reported in an hour, paths are no longer read."""
        self._reported_in: dict[str, int] = {}

    # -- while the caller waits -------------------------------------------------------------------

    def record(
        self, pid: int, call: int, arguments: Sequence[int], is_waiting: Callable[[], bool]
    ) -> Supplied | None:
        """Note a call. `is_waiting` returns whether the caller still waits; if not, the memory read under
        `pid` may be another process's. Return what the call has to return; None if it continues."""
        name = self.calls[call]
        if name in MEMORY_CALLS:
            self._record_memory(pid, name, arguments)
        elif name == CONNECT:
            self._record_connection(pid, arguments)
        elif self.supplied.any and (given := self._supply(pid, name, arguments)) is not None:
            return given
        else:
            self._record_paths(pid, name, arguments, is_waiting)
        return None

    def _supply(self, pid: int, name: str, arguments: Sequence[int]) -> Supplied | None:
        traced = PATH_CALLS[name]
        paths = [self._callers.read_string(pid, arguments[path]) for _, path in traced.paths]
        flags = 0 if traced.flags is None else arguments[traced.flags]
        if name == "openat2":
            flags = self._callers.read_number(pid, flags)
        if self.supplied.changes(paths):
            self._notes.growth()
            self._notes.removal()
        return self.supplied.answer(name, paths, flags)

    def _record_connection(self, pid: int, arguments: Sequence[int]) -> None:
        refusal = out_of_reach(self._callers.read_bytes(pid, arguments[1], SOCKET_ADDRESS_BYTES))
        if refusal is not None:
            self._report("refused", refusal.subject, refusal.text)

    def _record_paths(
        self, pid: int, name: str, arguments: Sequence[int], is_waiting: Callable[[], bool]
    ) -> None:
        traced = PATH_CALLS[name]
        verb, follows = traced.verb, traced.follows
        if traced.flags is not None:
            flags = self._flags(pid, name, arguments[traced.flags])
            if flags & O_UNNAMED:
                self._notes.removal()
            if flags & O_PATH:
                return
            verb, follows = "writing" if flags & WRITE_FLAGS else verb, not flags & os.O_NOFOLLOW
        if verb == "writing" or name in CREATING_CALLS:
            self._notes.growth()
        if name in REMOVING_CALLS:
            self._notes.removal()
        if traced.kind is not None and arguments[traced.kind] & S_IFMT in DEVICES:
            self._report("refused", "device", "making a device is not allowed")
            return
        for folder, path in traced.paths if self._reported[verb] <= MAX_PER_GROUP else ():
            raw = self._callers.read_string(pid, arguments[path])
            if verb in READING_VERBS and (
                (raw.startswith(self._readable_folders) and b"/.." not in raw) or raw in self._readable_paths
            ):
                continue
            if raw := self._callers.absolute_path(pid, None if folder is None else arguments[folder], raw):
                self._enqueue(verb, follows, raw, is_waiting)
        if verb == "executing":
            self._callers.forget(pid)

    def _flags(self, pid: int, name: str, value: int) -> int:
        """Return the open flags; on the way, check for the limit of descriptors."""
        self._until_open_limit -= 1  # each open takes at most one descriptor
        if self._until_open_limit <= 0:
            self._check_descriptors(pid)
        if name == "openat2":
            return self._callers.read_number(pid, value)  # the first field of struct open_how
        return value

    def _enqueue(self, verb: str, follows: bool, raw: bytes, is_waiting: Callable[[], bool]) -> None:
        key = (verb, raw)
        if key in self._allowed or key in self._queued or self._is_plain(raw):
            return
        if len(self._queue) >= MAX_QUEUED:
            self._report("refused", "many names", "it names more files at once than can be looked up")
        elif is_waiting():
            self._queued.add(key)
            self._queue.append(PathAccess(verb, os.fsdecode(raw), follows))
            if len(self._queue) >= FLUSH_AT_QUEUED:
                self._start_lookups()

    def _is_plain(self, raw: bytes) -> bool:
        """Whether a path is in a writable folder with no link on the way."""
        folder, _, name = raw.rpartition(b"/")
        if (
            folder not in self._plain_folders
            and len(self._plain_folders) < MAX_REMEMBERED
            and self._is_writable_folder(os.fsdecode(folder))
        ):
            self._plain_folders.add(folder)
        return (
            folder in self._plain_folders
            and name not in (b".", b"..")
            and self._link_at(os.fsdecode(raw)) is None
        )

    def _is_writable_folder(self, folder: str) -> bool:
        parts = folder.split("/")
        if not self._visible.can_write(folder) or "." in parts or ".." in parts:
            return False
        return all(self._link_at("/".join(parts[:size])) is None for size in range(2, len(parts) + 1))

    # -- memory and descriptors -------------------------------------------------------------------

    def _record_memory(self, pid: int, name: str, arguments: Sequence[int]) -> None:
        if name == "mmap" and arguments[3] & MAP_KIND in MAP_SHARED_KINDS:
            self._notes.shared(arguments[1])
            return
        wanted = arguments[2] - arguments[1] if name == "mremap" else arguments[1]
        if name == "mmap" and arguments[3] & MAP_FIXED:
            return  # it replaces existing memory, which would count twice
        held = self._callers.data_bytes(pid)
        if held is not None and held + wanted > self._data_bytes:
            self._report(
                "refused",
                "memory at once",
                f"a process requested {format_mib(wanted)} of memory at once and has {format_mib(held)}; "
                f"{format_mib(self._data_bytes)} are allowed",
            )

    def check_usage(self, usage: ProcessUsage) -> None:
        """Report what is only visible by sampling: many small requests, descriptors that are no files."""
        if usage.data > self._data_bytes - self._data_bytes // LARGE_SHARE:
            most = format_mib(self._data_bytes)
            text = f"a process has {format_mib(usage.data)} of memory; {most} are allowed"
            self._report("refused", "memory of a process", text)
        if usage.descriptors >= self._max_open:
            self._report_descriptors()
        self._until_open_limit = self._max_open - usage.descriptors
        if self._root >= 0:
            self._check_tmp()

    def _check_descriptors(self, pid: int) -> None:
        """Report a process that has all the descriptors it may have: its next open fails."""
        if self._callers.descriptor_count(pid) >= self._max_open:
            self._report_descriptors()

    def _report_descriptors(self) -> None:
        text = f"a process has {self._max_open} files and sockets open; no more are allowed"
        self._report("refused", "open files", text)

    # -- after the caller continues ---------------------------------------------------------------

    def _check_tmp(self) -> None:
        with suppress(OSError):
            tmp = os.open("tmp", os.O_PATH | os.O_CLOEXEC, dir_fd=self._root)
            try:
                if os.statvfs(tmp).f_bavail == 0:
                    self._report("refused", "full /tmp", "its /tmp is full")
            finally:
                os.close(tmp)

    def namespace_pid(self, pid: int) -> int:
        """Return the process id as seen inside the sandbox."""
        return self._callers.namespace_pid(pid)

    def pids_below(self, first: int) -> dict[int, int]:
        """Return the ids of the processes below one, by those that they have inside the sandbox."""
        return self._callers.pids_below(first)

    @property
    def root(self) -> int:
        """A descriptor of the sandbox's root folder; -1 if it has none of its own, or none is known yet."""
        return self._root

    def adopt_root(self, pid: int) -> bool:
        """Look up private folders through the root of this process from now on; return whether it has
        any."""
        if self._private:
            with suppress(OSError):
                self._root = os.open(f"{pid}/root", os.O_PATH | os.O_CLOEXEC, dir_fd=self._callers.proc)
        return self._root >= 0

    def flush(self) -> None:
        """Start the look-up of queued paths; forget cached paths and processes, which may have changed."""
        self._plain_folders.clear()
        self._allowed.clear()
        self._callers.close_all()
        if time.monotonic() - self._renewed_at >= PERIOD_SECONDS:
            self._renewed_at = time.monotonic()
            self._reported.clear()
            self._reported_in.clear()
        if self._queue:
            self._start_lookups()

    def finish(self, seconds: float) -> None:
        """Wait until all queued paths are looked up, for at most `seconds`."""
        if self._queue:
            self._start_lookups()
        end = time.monotonic() + seconds
        while (self._queue or self._looking_up) and time.monotonic() < end:
            time.sleep(FINISH_POLL_SECONDS)

    def _start_lookups(self) -> None:
        if self._wake is None:
            self._wake = _thread.allocate_lock()
            try:
                _thread.start_new_thread(self._look_up_queue, ())
            except RuntimeError:  # no more threads can be started
                self._wake = None
                while self._queue:
                    self._look_up(self._queue.popleft())
        elif not self._looking_up:
            with suppress(RuntimeError):  # it is already awake
                self._wake.release()

    def _look_up_queue(self) -> None:
        while True:
            self._looking_up = True
            while self._queue:
                self._look_up(self._queue.popleft())
            self._looking_up = False
            if not self._queue:
                self._wake.acquire()

    def _look_up(self, access: PathAccess) -> None:
        refusal = check_access(access, self._visible, self._link_at, self._exists_outside)
        key = (access.verb, os.fsencode(access.named))
        self._queued.discard(key)
        if refusal is not None:
            self._report_file(refusal)
        elif len(self._allowed) < MAX_REMEMBERED:
            self._allowed.add(key)

    def _report_file(self, refusal: Refusal) -> None:
        folder = refusal.subject.rpartition("/")[0]
        if " /proc/" in folder:  # every process has a folder there
            folder = f"{folder.partition(' /proc/')[0]} /proc"
        count = self._reported_in[folder] = self._reported_in.get(folder, 0) + 1
        if count <= MAX_PER_FOLDER:
            self._reported[refusal.subject.partition(" ")[0]] += 1
            self._report("refused", refusal.subject, refusal.text)
        elif count == MAX_PER_FOLDER + 1:
            where = folder.rpartition(" ")[2] or "/"
            self._report("refused", f"{folder} and more", f"more in {where}, not reported one by one")

    def _link_at(self, path: str) -> str | None:
        with suppress(OSError, ValueError):
            if path.startswith(self._private):
                return None if self._root < 0 else os.readlink(path[1:], dir_fd=self._root)
            return os.readlink(path)  # noqa: PTH115 - pathlib would double the start-up time
        return None

    def _exists_outside(self, path: str, reading: bool) -> bool:
        """Whether the machine has a path and the sandbox does not show it."""
        if self._root >= 0 and reading and _exists(path[1:] or ".", self._root):
            return False
        if not path.startswith("/proc/"):
            return _exists(path, None)
        number = path.split("/")[2]
        if self._root < 0 and number.isdecimal() and self._owns(int(number)):
            return False
        return _exists(path[len("/proc/") :], self._callers.proc)


def _exists(path: str, folder: int | None) -> bool:
    try:
        os.lstat(path, dir_fd=folder)
    except PermissionError:
        return True  # at least the sandbox does not see it
    except (OSError, ValueError):
        return False
    return True
