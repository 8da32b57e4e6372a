"""Safe access to files below a folder that others write to: step by step, and never through a link.

Every path is opened from a descriptor of the folder, each step relative to the one before, so that a link put
in its way between a check and its use has no effect. Only ordinary files are read: FIFOs, sockets and devices
are recognised before they are opened. All methods block and run in threads.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hostler.domain.record import Record
from hostler.sandbox.project_quotas import share_project
from hostler.tools.workspaces.paths import parts_of
from hostler.tools.workspaces.tree_removal import (
    FOLDER,
    MAX_DEPTH,
    FolderUsage,
    measure_tree,
    own_folder,
    remove_too_deep,
    remove_tree,
)
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, StorageError

CHUNK_BYTES = 256 * 1024

FileType = Literal["file", "folder", "link", "other"]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileInfo(Record):
    """An entry of the tree. `path` is relative to its folder; `modified` in UTC epoch seconds."""

    path: str
    type: FileType
    size_bytes: int
    modified: float


class WorkTree:
    """The files below `root`. `staging` is on the same file system and out of others' reach."""

    def __init__(self, root: Path, staging: Path) -> None:
        self.root = root
        self._staging = staging

    # -- reading --------------------------------------------------------------------------------------------

    def info(self, path: str) -> FileInfo:
        """Return the entry at a path. Raises NotFoundError."""
        parts = parts_of(path)
        if not parts:
            found = self.root.stat(follow_symlinks=False)
            return _info(".", found)
        with self._folder(parts[:-1], path) as at:
            return _info("/".join(parts), _look(at, parts[-1], path))

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open an ordinary file for reading. Raises NotFoundError, or InvalidArgumentError for anything
        else."""
        parts = parts_of(path)
        if not parts:
            raise InvalidArgumentError("the path names the working folder itself, not a file")
        with self._folder(parts[:-1], path) as at:
            _check_file(_look(at, parts[-1], path), path)
            descriptor = self._open_file(at, parts[-1], path)
        try:
            _check_file(os.fstat(descriptor), path)  # again, because it may have been replaced
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, path: str, offset: int = 0, length: int = CHUNK_BYTES) -> tuple[bytes, int]:
        """Return a range of a file, and the size of the whole."""
        with self.opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, max(0, min(length, size - offset)), offset), size

    def entries(self, path: str, *, depth: int = 1, seconds: float = 10.0) -> Iterator[FileInfo]:
        """Yield the content of a folder by name, down to `depth` levels. Ends early after `seconds`."""
        until = time.monotonic() + seconds
        parts = parts_of(path)
        with self._folder(parts, path) as top:
            yield from _walk(top, "/".join(parts), depth, until)

    # -- changing -------------------------------------------------------------------------------------------

    def begin(self) -> Staged:
        """Return a new file to be written, placed and finally discarded."""
        return Staged(self, self._staging / secrets.token_hex(16))

    def write(self, path: str, content: bytes) -> bool:
        """Write a file atomically; return whether it is new. Creates missing folders."""
        staged = self.begin()
        try:
            staged.write(content)
            return staged.place(path)
        finally:
            staged.discard()

    def put_in_place(self, staged: Path, path: str) -> bool:
        """Move a finished file to its place; return whether it is new there."""
        parts = parts_of(path)
        if not parts:
            raise InvalidArgumentError("the path names the working folder itself, not a file")
        try:
            with self._folder(parts[:-1], path, make=True) as at:
                mode = self._replaced_mode(at, parts[-1], path)
                staged.chmod(0o644 if mode is None else mode)
                self._give(staged)
                os.rename(staged, parts[-1], dst_dir_fd=at)
                return mode is None
        except OSError as error:
            raise _refused(error, path) from error

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or a folder. Raises ConflictError for a folder that is not empty."""
        parts = parts_of(path)
        if not parts:
            raise InvalidArgumentError("the working folder itself can't be removed; name something in it")
        with self._folder(parts[:-1], path) as at:
            found = _look(at, parts[-1], path)
            try:
                if not stat.S_ISDIR(found.st_mode):
                    os.unlink(parts[-1], dir_fd=at)
                elif recursive:
                    doomed = self._staging / secrets.token_hex(16)
                    os.close(own_folder(at, parts[-1]))  # its modes may prevent the move
                    os.rename(parts[-1], doomed, src_dir_fd=at)
                    remove_tree(doomed)
                else:
                    os.rmdir(parts[-1], dir_fd=at)
            except OSError as error:
                raise _refused(error, path) from error

    def measure(self, *, most: FolderUsage | None = None) -> FolderUsage:
        """Return the usage of the folder, at least what it takes on disk. Stops counting above `most`."""
        return measure_tree(self.root, most)

    def trim(self) -> int:
        """Remove folders nested too deep to be named; return their number."""
        return remove_too_deep(self.root, self._staging)

    # -- internals ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...], path: str, *, make: bool = False) -> Iterator[int]:
        try:
            at = os.open(self.root, FOLDER)
        except OSError as error:
            raise StorageError(f"the working folder cannot be opened: {error.strerror}") from error
        try:
            for part in parts:
                below = self._step(at, part, path, make=make)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    def _step(self, at: int, part: str, path: str, *, make: bool) -> int:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
                    self._give_new_folder(at, part)
            return os.open(part, FOLDER, dir_fd=at)
        except NotADirectoryError as error:
            raise _no_folder(at, part, path) from error
        except OSError as error:
            raise _refused(error, path) from error

    def _open_file(self, at: int, name: str, path: str) -> int:
        try:
            return os.open(name, _READ, dir_fd=at)
        except OSError as error:
            raise _refused(error, path) from error

    def _replaced_mode(self, at: int, name: str, path: str) -> int | None:
        """Return the mode of the file that would be replaced, or None if there is none."""
        try:
            found = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _check_file(found, path)
        return stat.S_IMODE(found.st_mode) & 0o777

    def _give(self, temporary: Path) -> None:
        """If the host is root, give the file to the user and to the project of the folder."""
        if os.geteuid() == 0:
            owner = self.root.stat(follow_symlinks=False)
            os.chown(temporary, owner.st_uid, owner.st_gid, follow_symlinks=False)
            share_project(temporary, self.root)

    def _give_new_folder(self, at: int, part: str) -> None:
        if os.geteuid() == 0:
            owner = self.root.stat(follow_symlinks=False)
            os.chown(part, owner.st_uid, owner.st_gid, dir_fd=at, follow_symlinks=False)


class Staged:
    """A file being written for a tree. Its methods run in threads; `discard` comes last."""

    def __init__(self, tree: WorkTree, path: Path) -> None:
        self.size = 0
        self._tree = tree
        self._path = path
        self._file: int | None = None

    def write(self, piece: bytes) -> None:
        """Append to the file."""
        try:
            if self._file is None:
                self._file = os.open(self._path, _CREATE, 0o600)
            self.size += len(piece)
            left = memoryview(piece)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise StorageError(
                f"the file cannot be written: {error.strerror}; check the disk and its free space"
            ) from error

    def place(self, path: str) -> bool:
        """Move the file to its place; return whether it is new there. Creates missing folders."""
        self.write(b"")
        return self._tree.put_in_place(self._path, path)

    def discard(self) -> None:
        """Close the file, and remove it if it was not placed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._path.unlink(missing_ok=True)


def _walk(top: int, prefix: str, depth: int, until: float) -> Iterator[FileInfo]:
    for name in sorted(os.listdir(top)):
        if time.monotonic() > until:
            return
        try:
            found = os.stat(name, dir_fd=top, follow_symlinks=False)
        except OSError:
            continue  # removed meanwhile
        path = f"{prefix}/{name}" if prefix else name
        info = _info(path, found)
        yield info
        if info.type == "folder" and 1 < depth <= MAX_DEPTH:
            try:
                below = os.open(name, FOLDER, dir_fd=top)
            except OSError:
                continue
            try:
                yield from _walk(below, path, depth - 1, until)
            finally:
                os.close(below)


def _look(at: int, name: str, path: str) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError as error:
        raise _refused(error, path) from error


def _info(path: str, found: os.stat_result) -> FileInfo:
    return FileInfo(_readable(path), _type(found.st_mode), found.st_size, found.st_mtime)


def _readable(name: str) -> str:
    """Return a name as text; bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _type(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _check_file(found: os.stat_result, path: str) -> None:
    kind = _type(found.st_mode)
    if kind == "file":
        return
    what = {
        "folder": "a folder, not a file",
        "link": "a symbolic link; links are not followed: name the file itself",
        "other": "neither a file nor a folder (a FIFO, socket or device) and is not opened",
    }[kind]
    raise InvalidArgumentError(f"{path!r:.200} is {what}")


def _no_folder(at: int, part: str, path: str) -> InvalidArgumentError:
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode):
            return InvalidArgumentError(
                f"{part!r:.200} in {path!r:.200} is a symbolic link; links are not followed: "
                "name the folder itself"
            )
    return InvalidArgumentError(f"{part!r:.200} in {path!r:.200} is not a folder")


def _refused(error: OSError, path: str) -> Exception:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"there is no {path!r:.200} in the working folder")
    if isinstance(error, IsADirectoryError):
        return InvalidArgumentError(f"{path!r:.200} is a folder, not a file")
    if isinstance(error, NotADirectoryError):
        return InvalidArgumentError(f"{path!r:.200} is not a folder")
    if isinstance(error, PermissionError):
        return InvalidArgumentError(f"{path!r:.200} may not be opened: its modes forbid it")
    return ConflictError(f"{path!r:.200} can't be used: {error.strerror or error}")
