"""The parts of the machine and of the network that a host works with, so that others can replace them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hostler.domain.record import Record
from hostler.egress import Network, SystemNetwork
from hostler.models.catalog import PROVIDERS, Build
from hostler.plugins.context import StartPlugin
from hostler.plugins.startup import start_plugin
from hostler.runs.filters import FilterProcesses
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase


class Machine(Record):
    """The database, processes of plugins and filters, services of models, the network of webhooks and tools.

    The simulation replaces them (docs/simulation.md).
    """

    open_database: Callable[[str], SqlDatabase] = open_database
    start_plugin: StartPlugin = start_plugin
    open_filters: Callable[[], FilterProcesses] = FilterProcesses
    model_providers: Mapping[str, Build] = msgspec.field(default_factory=lambda: PROVIDERS)
    """Functions that build a provider, by the name in the configuration."""
    network: Network = msgspec.field(default_factory=SystemNetwork)
    """For webhooks, MCP servers, OpenAPI tools and `fetch`."""


THIS_MACHINE = Machine()
