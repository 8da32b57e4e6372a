"""Resolve references to secrets: environment variables and files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.domain.name_patterns import matches
from hostler.domain.secret_refs import STORED, reference_mistake, unset_variable
from hostler.secrets.known_values import remember
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MIB

MAX_SECRET_FILE_BYTES = MIB
"""Far more than any key or certificate has."""

OUT_OF_REACH = "it is no regular file, or a link that leads to one which this workspace may not use"


class SecretUnreadableError(InvalidArgumentError):
    """A reference to a secret is well-formed, but its secret cannot be read now."""


def resolve_secret(
    value: str | None, environment: Mapping[str, str] | None = None, *, within: Sequence[str] | None = None
) -> str | None:
    """Return the secret behind a reference: `env:NAME`, `file:PATH`, or the text itself. See also
    `StoredSecrets.resolve`, which has stored secrets, too.

    `within`: patterns of paths; a file has to match one once all links are followed. Blocks.

    Raises SecretUnreadableError if it is missing and InvalidArgumentError for a malformed reference; the
    message names the reference, never a value.
    """
    if value is None:
        return None
    if (wrong := reference_mistake(value)) is not None:
        named = f"{value}: " if value.startswith(STORED) else ""  # any other text may be the secret
        raise InvalidArgumentError(f"{named}{wrong}")
    kind, _, rest = value.partition(":")
    if value.startswith(STORED):
        raise SecretUnreadableError(
            f"{value}: a stored secret cannot be used here: write env:NAME or file:PATH"
        )
    if kind == "env":
        found = (os.environ if environment is None else environment).get(rest)
        if not found:
            raise SecretUnreadableError(unset_variable(rest))
        remember(found)
        return found
    if kind == "file":
        try:
            found = _read(Path(rest).expanduser(), within).decode("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnreadableError(f"{value}: the file cannot be read: {error}") from error
        remember(found)
        return found
    return value


def _read(path: Path, within: Sequence[str] | None) -> bytes:
    """Return the content of a file. OSError, also for one that is too large or not within the patterns."""
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if within is None else os.O_NONBLOCK)  # a FIFO must not block
    with os.fdopen(os.open(path, flags), "rb") as file:
        if within is not None:
            _check_within(path, within, os.fstat(file.fileno()))
        content = file.read(MAX_SECRET_FILE_BYTES + 1)
    if len(content) > MAX_SECRET_FILE_BYTES:
        raise OSError(f"it has over {MAX_SECRET_FILE_BYTES:,} bytes")
    return content


def _check_within(path: Path, within: Sequence[str], opened: os.stat_result) -> None:
    """Raise OSError unless a regular file was opened that is within the patterns, wherever links lead."""
    real = os.path.realpath(path)
    is_same = stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, os.lstat(real))
    if not is_same or not _is_within(real, within):
        raise OSError(OUT_OF_REACH)


def _is_within(real: str, within: Sequence[str]) -> bool:
    return any(matches(_real_pattern(pattern), real) for pattern in within)


def _real_pattern(pattern: str) -> str:
    """Follow the links that the operator wrote into a pattern: those before its first wildcard."""
    if "*" not in pattern:
        return os.path.realpath(pattern)
    folder, slash, _ = pattern[: pattern.index("*")].rpartition("/")
    return (os.path.realpath(folder or slash).rstrip("/") if slash else "") + pattern[len(folder) :]


def unreadable_secret(reference: str, *, within: Sequence[str] | None = None) -> str | None:
    """Return why the secret behind a reference cannot be read now, or None; it is not read.

    `within`: as of `resolve_secret`; of a file that is not within these nothing else is said.
    """
    kind, _, rest = reference.partition(":")
    if kind == "env" and not os.environ.get(rest):
        return unset_variable(rest)
    if kind == "file":
        try:
            path = Path(rest).expanduser()
            if within is not None and not _is_within(os.path.realpath(path), within):
                return f"{reference}: {OUT_OF_REACH}"
            if not path.is_file():
                return f"{reference}: there is no such file"
            if not os.access(path, os.R_OK):
                return f"{reference}: the file cannot be read by this user"
        except (OSError, RuntimeError, ValueError) as error:
            return f"{reference}: the file cannot be read: {error}"
    return None
