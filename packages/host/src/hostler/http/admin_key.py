"""The administrator's key: `HOSTLER_ADMIN_KEY`, or one made at the first start and kept beside the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from hostler.domain.api_keys import new_token
from hostler.http.limits import MAX_TOKEN_CHARS
from hostler_protocol.errors import InvalidArgumentError, StorageError

FILE_NAME = "admin.key"


class AdminKey(NamedTuple):
    """`made`: it did not exist before, so it is to be kept, and shown once."""

    key: str
    made: bool


def admin_key(data_dir: Path, given: str | None) -> AdminKey:
    """The key of this start, as `find_admin_key` gives it, and kept where it is new."""
    found = find_admin_key(data_dir, given)
    if found.made:
        keep_admin_key(data_dir, found.key)
    return found


def find_admin_key(data_dir: Path, given: str | None) -> AdminKey:
    """The key of this start: `given` where there is one, else that of the data directory, else a new one.

    InvalidArgumentError for a key no header can carry, StorageError where the file cannot be read.
    """
    if given is not None:
        _check(given, "HOSTLER_ADMIN_KEY")
        return AdminKey(given, made=False)
    found = read_admin_key(data_dir)
    if found is not None:
        return AdminKey(found, made=False)
    return AdminKey(new_token(), made=True)


def keep_admin_key(data_dir: Path, key: str) -> None:
    """Keep a new key beside the data, for its owner alone. StorageError where that cannot be."""
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
        raise StorageError(f"the administrator's key cannot be kept in {path}: {error.strerror}") from error


def read_admin_key(data_dir: Path) -> str | None:
    """The key kept in a data directory; None where there is none."""
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
            f"{path} holds no administrator's key: remove it, and a new one is made"
        ) from error
    _check(key, str(path))
    return key


def _check(key: str, where: str) -> None:
    if not key or key != key.strip() or not key.isprintable():
        raise InvalidArgumentError(
            f"{where}: an administrator's key must be printable, without blanks at its ends"
        )
    if len(key) > MAX_TOKEN_CHARS:
        raise InvalidArgumentError(f"{where}: the key has {len(key)} characters; at most {MAX_TOKEN_CHARS}")
