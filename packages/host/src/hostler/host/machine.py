"""What a host takes from the machine that it runs on, so that another one can stand in for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hostler.plugins.context import StartPlugin
from hostler.plugins.startup import start_plugin
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase


@dataclass(frozen=True, slots=True)
class Machine:
    """The database, and processes of plugins. The simulation replaces them (docs/simulation.md)."""

    open_database: Callable[[str], SqlDatabase] = open_database
    start_plugin: StartPlugin = start_plugin


THIS_MACHINE = Machine()
