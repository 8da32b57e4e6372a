"""The administrator's key: `HOSTLER_ADMIN_KEY`, or one created at the first start in the data directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from hostler.domain.api_keys import new_token
from hostler.http.limits import MAX_TOKEN_CHARS
from hostler_protocol.errors import InvalidArgumentError, StorageError

FILE_NAME = "admin.key"


class AdminKey(NamedTuple):
    """A key. `made`: it is new, so it has to be stored, and shown once."""

    key: str
    made: bool


def admin_key(data_dir: Path, configured: str | None) -> AdminKey:
    """Return the key as `find_admin_key` does; store it if it is new."""
    found = find_admin_key(data_dir, configured)
    if found.made:
        keep_admin_key(data_dir, found.key)
    return found


def find_admin_key(data_dir: Path, configured: str | None) -> AdminKey:
    """Return `configured` if it is set, else the key of the data directory, else a new one.

    InvalidArgumentError if a header cannot carry the key, StorageError if the file cannot be read.
    """
    if configured is not None:
        _check(configured, "HOSTLER_ADMIN_KEY")
        return AdminKey(configured, made=False)
    found = read_admin_key(data_dir)
    if found is not None:
        return AdminKey(found, made=False)
    return AdminKey(new_token(), made=True)


def keep_admin_key(data_dir: Path, key: str) -> None:
    """Store a new key in the data directory, readable by its owner only. StorageError if that fails."""
    path = data_dir / FILE_NAME
    temporary = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"the administrator's key cannot be stored in {path}: {error.strerror}") from error


def read_admin_key(data_dir: Path) -> str | None:
    """Return the key stored in a data directory, or None. StorageError if it cannot be read."""
    path = data_dir / FILE_NAME
    try:
        key = path.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(
            f"the administrator's key in {path} cannot be read: {error.strerror}; make it readable, or name "
            "another data directory with --data"
        ) from error
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path} does not contain an administrator's key: remove it, and a new one is created"
        ) from error
    _check(key, str(path))
    return key


def _check(key: str, where: str) -> None:
    if not key or key != key.strip() or not key.isprintable():
        raise InvalidArgumentError(
            f"{where}: an administrator's key must be printable, without leading or trailing blanks"
        )
    if len(key) > MAX_TOKEN_CHARS:
        raise InvalidArgumentError(f"{where}: the key has {len(key)} characters; at most {MAX_TOKEN_CHARS}")
