"""How many examples a property is tried with."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("HOSTLER_SOAK"))
"""Whether this is `just soak`: examples are new ones then, and many more."""


def examples(usual: int, soaked: int) -> int:
    """The number of examples: the suite tries the same ones each time, `just soak` others."""
    return soaked if SOAK else usual
