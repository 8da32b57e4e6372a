"""The shim's ear for calls that go on: reads what a call names, and tells what the sandbox will refuse.

The caller waits while its memory is read, and for nothing else: what the path leads to is looked up
afterwards in a thread of its own, so that no file system can hold up the shim, and no caller can tell by
the time it takes what there is outside. Every queue is bounded: what is too much is not told.
"""

from __future__ import annotations

import _thread
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from stat import S_IFBLK, S_IFCHR
from typing import Any

from hostler.sandbox.caller_memory import Callers
from hostler.sandbox.path_visibility import Opening, View, judge
from hostler.sandbox.refusals import Refusal
from hostler.sandbox.traced_syscalls import CHANGING, GROWING, MEMORY, O_PATH, PATHS, READING
from hostler.sandbox.usage import Measured

MOST_QUEUED, ENOUGH_QUEUED = 512, 64
"""What waits to be looked up, at most; and what does not wait until the next look at the limits."""
MOST_TOLD, MOST_IN_FOLDER = 100, 8
"""Refused paths that are told of one sandbox, and of one folder in it."""
MOST_REMEMBERED = 4096
"""Paths that are nothing to tell of, until the next look at the limits."""
S_IFMT, DEVICES = 0o170000, (S_IFBLK, S_IFCHR)
LARGE_SHARE = 8
"""As launch_spec.py has it: memory of this part of the limit at once is asked about."""
NOTHING_SECONDS = 0.002
MAP_FIXED = 0x10

Tell = Callable[[str, str, str], None]


class SyscallAudit:
    """The traced system calls of one sandbox.

    `order` comes from launch_spec.py; `grows` is called before a file is created or opened for writing; `own`
    tells whether a process id belongs to the sandbox.
    """

    def __init__(
        self, order: dict[str, Any], tell: Tell, grows: Callable[[], None], own: Callable[[int], bool]
    ) -> None:
        self.calls: dict[int, str] = {call: name for name, call in order["calls"].items()}
        self._callers = Callers(lambda why: tell("refused", "unknown names", why))
        self._view = View(order["read"], order["write"], order["quiet"])
        self._private: tuple[str, ...] = tuple(order["private"])
        """Folders that are the sandbox's own, so that only its own root shows them."""
        # links in these may lead anywhere
        loose = (*order["write"], *self._private, "/proc/self", "/proc/thread-self")
        fixed = [path for path in order["read"] if not any(f"{one}/".startswith(f"{path}/") for one in loose)]
        self._seen = tuple(os.fsencode(path) + b"/" for path in fixed)
        self._seen_files = frozenset(map(os.fsencode, fixed))
        self._data_bytes: int = order["data_bytes"]
        self._most_open: int = order["open_files"]
        self._tell = tell
        self._grows = grows
        self._own = own
        self._root = -1
        self._plain: set[bytes] = set()
        self._harmless: set[tuple[str, bytes]] = set()
        self._until_full = 0
        self._queue: deque[Opening] = deque()
        self._queued: set[tuple[str, bytes]] = set()
        self._wake: Any = None
        self._judging = False
        self._told = 0
        self._in_folder: dict[str, int] = {}

    # -- while the caller waits -------------------------------------------------------------------

    def hear(self, pid: int, call: int, arguments: Sequence[int], is_asking: Callable[[], bool]) -> None:
        """Take note of a call. `is_asking` says whether who asked still waits: else what was read of `pid`
        may be another process's."""
        name = self.calls[call]
        if name in MEMORY:
            self._hear_memory(pid, name, arguments)
            return
        asked = PATHS[name]
        verb, follows = asked.verb, asked.follows
        if asked.flags is not None:
            flags = self._flags(pid, name, arguments[asked.flags])
            if flags & O_PATH:
                return
            verb, follows = "writing" if flags & CHANGING else verb, not flags & os.O_NOFOLLOW
        if verb == "writing" or name in GROWING:
            self._grows()
        if asked.kind is not None and arguments[asked.kind] & S_IFMT in DEVICES:
            self._tell("refused", "device", "making a device is not allowed")
            return
        for folder, path in asked.paths if self._told < MOST_TOLD else ():
            raw = self._callers.text(pid, arguments[path])
            if verb in READING and (
                (raw.startswith(self._seen) and b"/.." not in raw) or raw in self._seen_files
            ):
                continue
            if raw := self._callers.absolute(pid, None if folder is None else arguments[folder], raw):
                self._take(verb, follows, raw, is_asking)
        if verb == "executing":
            self._callers.forget(pid)

    def _flags(self, pid: int, name: str, value: int) -> int:
        """How it opens; on the way, whether it may at all."""
        self._until_full -= 1  # each of these takes one at most
        if self._until_full <= 0:
            self._look_at_descriptors(pid)
        if name == "openat2":
            return self._callers.number(pid, value)  # the first field of its structure
        return value

    def _take(self, verb: str, follows: bool, raw: bytes, is_asking: Callable[[], bool]) -> None:
        key = (verb, raw)
        if key in self._harmless or key in self._queued or self._is_plain(raw):
            return
        if len(self._queue) >= MOST_QUEUED:
            self._tell("refused", "many names", "it names more files at once than can be looked up")
        elif is_asking():
            self._queued.add(key)
            self._queue.append(Opening(verb, os.fsdecode(raw), follows))
            if len(self._queue) >= ENOUGH_QUEUED:
                self._begin()

    def _is_plain(self, raw: bytes) -> bool:
        """Whether it lies in what the sandbox may change, and no link is on the way to it."""
        folder, _, name = raw.rpartition(b"/")
        if (
            folder not in self._plain
            and len(self._plain) < MOST_REMEMBERED
            and self._is_own(os.fsdecode(folder))
        ):
            self._plain.add(folder)
        return folder in self._plain and name not in (b".", b"..") and self._link_at(os.fsdecode(raw)) is None

    def _is_own(self, folder: str) -> bool:
        parts = folder.split("/")
        if not self._view.changes(folder) or "." in parts or ".." in parts:
            return False
        return all(self._link_at("/".join(parts[:size])) is None for size in range(2, len(parts) + 1))

    # -- memory and descriptors -------------------------------------------------------------------

    def _hear_memory(self, pid: int, name: str, arguments: Sequence[int]) -> None:
        wanted = arguments[2] - arguments[1] if name == "mremap" else arguments[1]
        if name == "mmap" and arguments[3] & MAP_FIXED:
            return  # what it takes the place of would count twice
        held = self._callers.data_of(pid)
        if held is not None and held + wanted > self._data_bytes:
            self._tell(
                "refused",
                "memory at once",
                f"a process wanted {_mib(wanted)} of memory at once beside {_mib(held)}; "
                f"it may have {_mib(self._data_bytes)}",
            )

    def look(self, found: Measured) -> None:
        """Tell of what only shows from time to time: many small requests, descriptors of other kinds."""
        if found.data > self._data_bytes - self._data_bytes // LARGE_SHARE:
            text = (
                f"a process has {_mib(found.data)} of memory; no more than {_mib(self._data_bytes)} are given"
            )
            self._tell("refused", "memory of a process", text)
        if found.opened >= self._most_open:
            self._tell_descriptors()
        self._until_full = self._most_open - found.opened
        if self._root >= 0:
            self._look_at_tmp()

    def _look_at_descriptors(self, pid: int) -> None:
        """Tell where a process has as many as it may: the next one is refused it."""
        if self._callers.opened_by(pid) >= self._most_open:
            self._tell_descriptors()

    def _tell_descriptors(self) -> None:
        text = f"a process has {self._most_open} files and sockets open; no more are allowed"
        self._tell("refused", "open files", text)

    # -- afterwards -------------------------------------------------------------------------------

    def _look_at_tmp(self) -> None:
        with suppress(OSError):
            tmp = os.open("tmp", os.O_PATH | os.O_CLOEXEC, dir_fd=self._root)
            try:
                if os.statvfs(tmp).f_bavail == 0:
                    self._tell("refused", "full /tmp", "its /tmp is full")
            finally:
                os.close(tmp)

    def number_inside(self, pid: int) -> int:
        """What the sandbox's /proc calls a process of it."""
        return self._callers.number_inside(pid)

    def see_by(self, pid: int) -> None:
        """Look at the files as this process of the sandbox sees them, from here on."""
        if self._root < 0 and self._private:
            with suppress(OSError):
                self._root = os.open(f"{pid}/root", os.O_PATH | os.O_CLOEXEC, dir_fd=self._callers.proc)

    def turn(self) -> None:
        """Look up what was heard since, and forget what may have changed: links, and who is there."""
        self._plain.clear()
        self._harmless.clear()
        self._callers.turn()
        if self._queue:
            self._begin()

    def finish(self, seconds: float) -> None:
        """Wait until all that was heard is told; no longer than that."""
        if self._queue:
            self._begin()
        end = time.monotonic() + seconds
        while (self._queue or self._judging) and time.monotonic() < end:
            time.sleep(NOTHING_SECONDS)

    def _begin(self) -> None:
        if self._wake is None:
            self._wake = _thread.allocate_lock()
            try:
                _thread.start_new_thread(self._judge_all, ())
            except RuntimeError:  # there are too many already
                self._wake = None
                while self._queue:
                    self._judge(self._queue.popleft())
        elif not self._judging:
            with suppress(RuntimeError):  # it is awake already
                self._wake.release()

    def _judge_all(self) -> None:
        while True:
            self._judging = True
            while self._queue:
                self._judge(self._queue.popleft())
            self._judging = False
            if not self._queue:
                self._wake.acquire()

    def _judge(self, opening: Opening) -> None:
        refusal = judge(opening, self._view, self._link_at, self._is_there)
        key = (opening.verb, os.fsencode(opening.named))
        self._queued.discard(key)
        if refusal is not None:
            self._tell_file(refusal)
        elif len(self._harmless) < MOST_REMEMBERED:
            self._harmless.add(key)

    def _tell_file(self, refusal: Refusal) -> None:
        folder = refusal.what.rpartition("/")[0]
        if " /proc/" in folder:  # each process has a folder there
            folder = f"{folder.partition(' /proc/')[0]} /proc"
        count = self._in_folder[folder] = self._in_folder.get(folder, 0) + 1
        if count <= MOST_IN_FOLDER:
            self._told += 1
            self._tell("refused", refusal.what, refusal.text)
            if self._told == MOST_TOLD:
                self._tell("refused", "more files", "more files, which are not told any more")
        elif count == MOST_IN_FOLDER + 1:
            where = folder.rpartition(" ")[2] or "/"
            self._tell("refused", f"{folder} and more", f"more in {where}, which is not told one by one")

    def _link_at(self, path: str) -> str | None:
        with suppress(OSError, ValueError):
            if path.startswith(self._private):
                return None if self._root < 0 else os.readlink(path[1:], dir_fd=self._root)
            return os.readlink(path)  # noqa: PTH115 - pathlib would double the start-up time
        return None

    def _is_there(self, path: str, reading: bool) -> bool:
        """Whether the machine has it and the sandbox does not see it."""
        if self._root >= 0 and reading and _exists(path[1:] or ".", self._root):
            return False
        if not path.startswith("/proc/"):
            return _exists(path, None)
        number = path.split("/")[2]
        if self._root < 0 and number.isdecimal() and self._own(int(number)):
            return False
        return _exists(path[len("/proc/") :], self._callers.proc)


def _exists(path: str, folder: int | None) -> bool:
    try:
        os.lstat(path, dir_fd=folder)
    except PermissionError:
        return True  # it is at least nothing that the sandbox sees
    except (OSError, ValueError):
        return False
    return True


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
