"""Files that a sandbox without namespaces gets in place of the machine's: settings, and its own /dev/shm.

The shim opens them for the process that waits in a call, which gets a descriptor. Settings are files in
memory, closed to changes. What is in /dev/shm (shared memory, semaphores) are files of a folder in the
workspace, so they count like all that is there, and go with the sandbox. Runs in the shim, with only the
standard library.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

F_ADD_SEALS, ALL_SEALS = 1033, 0xF
EACCES, EXDEV = 13, 18
SHARED_MEMORY = b"/dev/shm/"
SHARED_FOLDER = f".shm-{os.getpid()}"
"""Commands may run side by side in one workspace."""
USED_FLAGS = os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Supplied(NamedTuple):
    """What a call returns: a descriptor that its process gets, or an error (0: none)."""

    descriptor: int = -1
    error: int = 0


class SuppliedFiles:
    """Files by path. `contents`: those to read; `proc`: a descriptor of the /proc of this process."""

    def __init__(self, contents: Mapping[str, str], proc: int) -> None:
        self._proc = proc
        self._settings: dict[bytes, int] = {}
        self._place: tuple[int, str, int | None] | None = None
        self._folder = -1
        for path, text in contents.items():
            with suppress(OSError):
                self._settings[os.fsencode(path)] = _sealed(text)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._settings) or self._place is not None

    def share_in(self, workspace: int, name: str, uid: int | None) -> None:
        """Have a /dev/shm in the folder of this name in a workspace, a descriptor; it belongs to `uid`."""
        self._place = (workspace, name, uid)

    def changes(self, paths: Sequence[bytes]) -> bool:
        """Whether a call with these paths is about shared memory."""
        return self._place is not None and any(path.startswith(SHARED_MEMORY) for path in paths)

    def answer(self, name: str, paths: Sequence[bytes], flags: int) -> Supplied | None:
        """Make a call in place of its process. None if it is about other files. `flags`: those of an open."""
        if self.changes(paths):
            try:
                return self._shared(name, paths, flags)
            except OSError as error:
                return Supplied(error=error.errno or EACCES)
        file = self._settings.get(paths[0]) if name in ("open", "openat", "openat2") else None
        if file is None or flags & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC):
            return None
        with suppress(OSError):
            return Supplied(os.open(f"self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc))
        return None

    def close(self) -> None:
        """Remove the files in /dev/shm, once nothing runs any more."""
        if self._folder < 0 or self._place is None:
            return
        workspace, name, _ = self._place
        with suppress(OSError):
            for one in os.listdir(self._folder):  # noqa: PTH208 - by descriptor
                os.unlink(one, dir_fd=self._folder)
            above = os.open(name, _FOLDER, dir_fd=workspace)
            try:
                os.rmdir(SHARED_FOLDER, dir_fd=above)
            finally:
                os.close(above)

    def _shared(self, name: str, paths: Sequence[bytes], flags: int) -> Supplied | None:
        names = [path.removeprefix(SHARED_MEMORY) for path in paths if path.startswith(SHARED_MEMORY)]
        if any(b"/" in one or one in (b"", b".", b"..") for one in names):
            return None
        if name not in ("open", "openat", "openat2", "creat", "unlink", "unlinkat", "link", "linkat"):
            return None
        folder = self._shared_folder()
        if name.startswith("unlink"):
            os.unlink(names[0], dir_fd=folder)
        elif name.startswith("link"):
            if len(names) < len(paths):
                return Supplied(error=EXDEV)
            os.link(names[0], names[1], src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        else:
            how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if name == "creat" else flags & USED_FLAGS
            return Supplied(self._open(folder, names[0], how))
        return Supplied()

    def _open(self, folder: int, name: bytes, flags: int) -> int:
        """Open a file of the folder, which anybody in the sandbox may have put there. Raises OSError."""
        # a pipe must not keep the shim waiting
        file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(EACCES, "no file")
            self._give(file)
        except OSError:
            os.close(file)
            raise
        return file

    def _shared_folder(self) -> int:
        if self._folder < 0 and self._place is not None:
            workspace, name, _ = self._place
            above = os.open(name, _FOLDER, dir_fd=workspace)
            try:
                with suppress(FileExistsError):
                    os.mkdir(SHARED_FOLDER, 0o700, dir_fd=above)
                self._folder = os.open(SHARED_FOLDER, _FOLDER, dir_fd=above)
                self._give(self._folder)
            finally:
                os.close(above)
        return self._folder

    def _give(self, file: int) -> None:
        """Make the user of the sandbox the owner of what the shim has made."""
        uid = None if self._place is None else self._place[2]
        if uid is not None and os.fstat(file).st_uid == os.geteuid():
            os.fchown(file, uid, uid)


def _sealed(text: str) -> int:
    file = os.memfd_create("settings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(file, text.encode("utf-8", "surrogateescape"))
    os.fchmod(file, 0o444)
    fcntl.fcntl(file, F_ADD_SEALS, ALL_SEALS)
    return file
