"""The version of this host."""

from __future__ import annotations

VERSION = "0.1.0"
"""As in pyproject.toml. To look it up among the installed packages takes longer than many a command."""
NAME = "hostler"
