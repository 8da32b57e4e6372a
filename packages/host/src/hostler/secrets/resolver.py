"""Resolve references to secrets: environment variables and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hostler.domain.secret_refs import STORED, reference_mistake, unset_variable
from hostler.secrets.known_values import remember
from hostler_protocol.errors import InvalidArgumentError


class SecretUnreadableError(InvalidArgumentError):
    """A reference to a secret is well-formed, but its secret cannot be read now."""


def resolve_secret(value: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the secret behind a reference: `env:NAME`, `file:PATH`, or the text itself. See also
    `StoredSecrets.resolve`, which has stored secrets, too.

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
            found = Path(rest).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnreadableError(f"{value}: the file cannot be read: {error}") from error
        remember(found)
        return found
    return value


def unreadable_secret(reference: str) -> str | None:
    """Return why the secret behind a reference cannot be read now, or None; it is not read."""
    kind, _, rest = reference.partition(":")
    if kind == "env" and not os.environ.get(rest):
        return unset_variable(rest)
    if kind == "file":
        try:
            path = Path(rest).expanduser()
            if not path.is_file():
                return f"{reference}: there is no such file"
            if not os.access(path, os.R_OK):
                return f"{reference}: the file cannot be read by this user"
        except (OSError, RuntimeError, ValueError) as error:
            return f"{reference}: the file cannot be read: {error}"
    return None
