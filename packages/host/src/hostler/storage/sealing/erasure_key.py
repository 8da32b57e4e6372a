"""The erasure key: 32 bytes outside of the database and of its backups, which each erasure replaces.

It wraps the keys of all workspaces, under the master key. What an erasure destroys is still in old copies
of the database, wrapped by keys that only the old erasure key opens; once that is gone they are noise. The
key is in one file, or in copies of it on several disks. While an erasure replaces it, a file has several
lines, the new key first. Hosts that share the files take turns in writing them, by a lock beside the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hostler.secrets.key_ring import KeyRing, new_key
from hostler_protocol.errors import StorageError

FILE_NAME = "erasure.key"
KEY_BYTES = 32
MAX_KEYS = 16
"""Keys in a file: one more after each erasure that was interrupted."""
MAX_FILE_BYTES = 4096
LOCK_SECONDS = 10.0
"""How long one host waits while another writes: longer only if that one was stopped in the midst of it."""
LOCK_POLL_SECONDS = 0.02
_HINT = "it opens all content of this installation: put it back from its copy"


class ErasureKeyError(StorageError):
    """The erasure key cannot be read or written."""

    retryable = False


class ErasureKeyBusyError(StorageError):
    """Another host is writing the erasure key, for longer than that takes."""


class ErasureKey:
    """The file of the erasure key, with its copies. All are written before the database refers to a key."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise ValueError("an erasure key needs at least one file")
        self.paths = tuple(paths)
        self._ring: KeyRing | None = None

    @property
    def exists(self) -> bool:
        """Whether any of the files is there."""
        return any(path.exists() for path in self.paths)

    def ring(self) -> KeyRing:
        """Return the keys. ErasureKeyError if no file can be read."""
        if self._ring is None:
            self._ring = KeyRing(self._read())
        return self._ring

    def reread(self) -> KeyRing:
        """Read the files again: another host may have replaced the key."""
        self._ring = None
        return self.ring()

    def create(self) -> None:
        """Make the first key, unless there is one."""
        if self.exists:
            return
        with self._locked():
            if not self.exists:  # another host may have made it meanwhile
                self._write([new_key()])

    def begin(self) -> str:
        """Put a new key before the present ones, and return its id; all open.

        Those of an erasure that was interrupted wrap keys in copies from since then, and are replaced too.
        """
        with self._locked():
            keys = self._read()
            if len(keys) < MAX_KEYS:
                keys = [new_key(), *keys]
                self._write(keys)
        self._ring = None
        return KeyRing(keys).current_id

    def finish(self, current: str) -> None:
        """Destroy all keys that are older than the one of this id.

        Newer ones are of an erasure that another host has begun since, which may need the ones up to this.
        """
        with self._locked():
            keys = self._read()
            ids = KeyRing(keys).ids
            kept = keys[: ids.index(current) + 1] if current in ids else keys
            if len(kept) < len(keys):
                self._write(kept)
        self._ring = None

    def copy(self) -> None:
        """Write the key into files that do not have it: a path that was added."""
        with self._locked():
            keys = self._read()
            if any(_keys_in(path) != keys for path in self.paths):
                self._write(keys)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other hosts from writing: what one of them adds in between would be lost, and all under it."""
        path = self.paths[0].with_name(f".{self.paths[0].name}.lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _not_lockable(path, error) from error
        try:
            until = time.monotonic() + LOCK_SECONDS
            while not _lock(descriptor, path):
                if time.monotonic() > until:
                    raise ErasureKeyBusyError(
                        f"another host has held {path} for {LOCK_SECONDS:.0f} seconds: was it stopped?"
                    )
                time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> list[bytes]:
        """Return the keys of the file that has most: a crash may have left some files behind."""
        found = [keys for path in self.paths if (keys := _keys_in(path)) is not None]
        if not found:
            names = ", ".join(str(path) for path in self.paths)
            raise ErasureKeyError(f"the erasure key {names} is not there or cannot be read: {_HINT}")
        return max(found, key=len)

    def _write(self, keys: Sequence[bytes]) -> None:
        for path in self.paths:
            try:
                _replace(path, "".join(f"{key.hex()}\n" for key in keys).encode("ascii"))
            except OSError as error:
                raise ErasureKeyError(
                    f"the erasure key {path} cannot be written: {error.strerror}"
                ) from error
        self._ring = None


def _lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _not_lockable(path, error) from error
    return True


def _not_lockable(path: Path, error: OSError) -> ErasureKeyError:
    return ErasureKeyError(f"the erasure key cannot be locked with {path}: {error.strerror}")


def _keys_in(path: Path) -> list[bytes] | None:
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_FILE_BYTES).decode("ascii").split()
        keys = [bytes.fromhex(line) for line in lines]
    except (OSError, ValueError):
        return None
    return keys if keys and all(len(key) == KEY_BYTES for key in keys) else None


def _replace(path: Path, content: bytes) -> None:
    """Replace a file durably, and write over the bytes of the one that it replaces."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            old: int | None = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            old = None
        try:
            temporary.replace(path)
            _sync_folder(path.parent)
            if old is not None:
                os.pwrite(old, b"\0" * os.fstat(old).st_size, 0)
                os.fsync(old)
        finally:
            if old is not None:
                os.close(old)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
