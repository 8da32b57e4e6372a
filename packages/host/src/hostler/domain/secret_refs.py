"""References to secrets: texts that name the place of a secret instead of the secret itself.

A reference is resolved only where an operator wrote it. Anywhere else (a manifest, an event, a tool's result,
a tenant's agent) it is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

STORED = "secret://"
"""The prefix of a reference to a stored secret."""
SECRET_PREFIXES = ("env:", "file:", STORED)
"""Prefixes: `env:NAME`, `file:PATH`, `secret://NAME`. Any other text is the secret itself."""

SEALED = "hostler-sealed:"
"""The prefix of a secret that was written out and is stored sealed. Only the host writes such a text."""

_VARIABLE = re.compile(r"[^\s=\x00]+")
_STORED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ORDINARY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_A_REFERENCE = re.compile(
    r"\$\{\w+\}$ | \$[A-Z_][A-Z0-9_]*$ | \s*(env|file|secret)\s*[:=] | (env|file|secret)/",
    re.VERBOSE | re.IGNORECASE,
)


def is_reference(value: Any) -> bool:
    """Whether a value is a reference to a secret."""
    return isinstance(value, str) and value.startswith(SECRET_PREFIXES)


def is_sealed(value: Any) -> bool:
    """Whether a stored value is a secret that was written out and is sealed (`secrets.written`)."""
    return isinstance(value, str) and value.startswith(SEALED)


def reference_names(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of a runner's configuration whose values are references, of any type in its form."""
    return sorted(name for name, value in config.items() if is_reference(value))


def stored_name(value: Any) -> str | None:
    """Return the name of the stored secret that a value refers to; None if it refers to none."""
    if not isinstance(value, str) or not value.startswith(STORED):
        return None
    name = value.removeprefix(STORED)
    return name if _STORED_NAME.fullmatch(name) else None


def name_mistake(name: str) -> str | None:
    """Return the mistake in the name of a stored secret, or None."""
    if _STORED_NAME.fullmatch(name):
        return None
    return "this is no name of a secret: 1 to 100 letters, digits, '.', '_' and '-'"


def reference_mistake(value: str) -> str | None:
    """Return the mistake in a reference's form; None if there is none or it is no reference."""
    kind, _, rest = value.partition(":")
    if value.startswith(STORED) and stored_name(value) is None:
        return "this names no stored secret: write secret://NAME"
    if kind == "env" and not _VARIABLE.fullmatch(rest):
        return "this names no environment variable: write env:NAME"
    if kind == "file" and (not rest.strip() or "\x00" in rest):
        return "this names no file: write file:PATH"
    return None


def unset_variable(name: str) -> str:
    """Return the error for a variable that is not set. A name that may be a secret itself is not shown."""
    if _ORDINARY.fullmatch(name):
        return f"env:{name}: the environment variable {name} is not set"
    return "env: the environment variable that this names is not set; is it a name, or the secret itself?"


def shown_reference(reference: str) -> str:
    """Return a reference for a message. A name of a variable that may be a secret itself is not shown."""
    kind, _, name = reference.partition(":")
    return reference if kind != "env" or _ORDINARY.fullmatch(name) else "env:..."


def looks_like_reference(value: str) -> bool:
    """Whether a text that is used as the secret itself was probably meant to be a reference."""
    return not is_reference(value) and _LIKE_A_REFERENCE.match(value) is not None
