"""Plugins of the tests that cannot be sandboxed: they use files and sockets that a test gives them."""

from __future__ import annotations

from pathlib import Path

from hostler.host.config import PluginEntry

REACH_OUT = frozenset(
    {
        *("attacker", "busy", "doer", "doomed", "effects", "flood", "historian", "lender", "listener"),
        *("puppet", "stepper", "toolbox"),
    }
)
"""By the names of their folders."""


def plugin_entry(folder: Path) -> PluginEntry:
    """A plugin as a configuration names it: trusted where it has to be."""
    return PluginEntry(path=str(folder), level="trusted" if folder.name in REACH_OUT else None)
