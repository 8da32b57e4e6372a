"""Read the keys that a setting names by references: `env:NAME`, `file:PATH`, or `command:PROGRAM ARGS`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from hostler.secrets.key_command import PREFIX, named, run_key_command
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import resolve_secret
from hostler_protocol.errors import InvalidArgumentError

KEY_BYTES = 32
"""AES-256."""
MAX_KEYS = 16


def read_keys(
    setting: str,
    references: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    commands: bool = False,
) -> list[bytes]:
    """Return the keys, in order. `commands`: whether `command:` references are possible. Blocks for those.

    InvalidArgumentError names the setting and the reference that is wrong, never a key;
    SecretUnreadableError if a key cannot be read now.
    """
    if len(references) > MAX_KEYS:
        raise InvalidArgumentError(f"{setting}: {len(references)} keys; at most {MAX_KEYS} are possible")
    keys = [_key_of(setting, reference, environment, commands=commands) for reference in references]
    if len(set(keys)) != len(keys):
        raise InvalidArgumentError(f"{setting}: the same key stands there twice")
    return keys


def check_kind(setting: str, reference: str, *, commands: bool) -> None:
    """Raise InvalidArgumentError for a text that is no reference to a key."""
    if not reference.startswith(("env:", "file:", *((PREFIX,) if commands else ()))):
        kinds = "env:NAME, file:PATH or command:PROGRAM" if commands else "env:NAME or file:PATH"
        raise InvalidArgumentError(f"{setting}: a key is named by {kinds}, never written out")


def _key_of(setting: str, reference: str, environment: Mapping[str, str] | None, *, commands: bool) -> bytes:
    check_kind(setting, reference, commands=commands)
    is_command = reference.startswith(PREFIX)
    try:
        text = run_key_command(reference) if is_command else resolve_secret(reference, environment) or ""
    except InvalidArgumentError as error:
        raise type(error)(f"{setting}: {error.message}") from None
    remember(text)
    for decode in (bytes.fromhex, _from_base64):
        try:
            key = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    shown = named(reference) if is_command else reference
    raise InvalidArgumentError(
        f"{setting}: {shown} holds no key: 32 bytes are expected, as 64 hexadecimal digits or in base64 "
        "(`openssl rand -base64 32` makes one)"
    )


def _from_base64(text: str) -> bytes:
    standard = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
