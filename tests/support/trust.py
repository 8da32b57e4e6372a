"""Which plugins of the tests are trusted."""

from __future__ import annotations

from pathlib import Path

from hostler.host.config import PluginEntry

REACH_OUT = frozenset(
    {
        *(
            "attacker",
            "busy",
            "cheat",
            "doer",
            "doomed",
            "effects",
            "flood",
            "historian",
            "lender",
            "listener",
        ),
        *("player", "puppet", "repeater", "stepper", "toolbox", "wires"),
    }
)
"""Folders of those that cannot be sandboxed: they use files and sockets that a test gives them."""


def plugin_entry(folder: Path) -> PluginEntry:
    """A plugin as a configuration names it: trusted where it has to be."""
    return PluginEntry(path=str(folder), level="trusted" if folder.name in REACH_OUT else None)


def trusted(folder: Path) -> PluginEntry:
    """A plugin without its sandbox, which takes six times as long to start, where that is not tested."""
    return PluginEntry(path=str(folder), level="trusted")
