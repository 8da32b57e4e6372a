"""References to secrets: texts that name where a secret is kept, in place of the secret.

A reference is looked up only where an operator wrote it. Whatever else looks like one, in a manifest, an
event, a tool's answer or a tenant's agent, is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECRET_PREFIXES = ("env:", "file:", "secret://")
"""How a reference begins: `env:NAME`, `file:PATH`, `secret://NAME`. Any other text is the secret itself."""


def is_reference(value: Any) -> bool:
    """Whether a value names a secret instead of being one."""
    return isinstance(value, str) and value.startswith(SECRET_PREFIXES)


def reference_names(config: Mapping[str, Any]) -> list[str]:
    """The keys of a runner's configuration that hold references, whatever their type in its form."""
    return sorted(name for name, value in config.items() if is_reference(value))
