"""The version of this host."""

from __future__ import annotations

VERSION = "0.1.0"
"""As in pyproject.toml. A look-up among the installed packages would take longer than many commands."""
NAME = "hostler"
