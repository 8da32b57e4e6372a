"""Configuration: the file an operator writes, and the settings a host process starts with.

`config_file.py` reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.endpoints import parse_host_port
from hostler.domain.model_entries import ModelEntry
from hostler.domain.requirements import check_listed
from hostler.domain.retention import Retention
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.webhooks import Webhook
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.data_directory import DEFAULT_WORKSPACE, default_data_dir
from hostler_protocol._base import Strict

PluginLevel = Literal["trusted", "sandboxed"]

ASSETS_PATH = "/mcp"
"""Where the MCP server is."""


class PluginLimitsEntry(Strict):
    """What a sandboxed plugin may use; what is not said stays as it is for all."""

    memory_mib: Annotated[int, msgspec.Meta(ge=16)] | None = None
    processes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Processes and threads."""
    open_files: Annotated[int, msgspec.Meta(ge=16)] | None = None
    disk_mib: Annotated[int, msgspec.Meta(ge=1)] | None = None
    files: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tmp_mib: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cpus: Annotated[int, msgspec.Meta(ge=1)] | None = None


class PluginEntry(Strict):
    """A plugin folder.

    It is sandboxed unless its level is `trusted`. `network`: what it may reach (`name:port`), of what its
    manifest names. `allow_requires`: wheels that its manifest requires by path or address; everything else
    that it requires has to be a package's name.
    """

    path: str
    level: PluginLevel | None = None
    network: list[str] = []
    allow_requires: list[str] = []
    limits: PluginLimitsEntry | None = None

    def __post_init__(self) -> None:
        for place in self.network:
            parse_host_port(place)
        for text in self.allow_requires:
            check_listed(text)


class ConfigFile(Strict):
    """The whole file."""

    plugins: list[str | PluginEntry] = []
    models: list[ModelEntry] = []
    agents: list[AgentSpec] = []
    retention: Retention | None = None
    """Days that each kind is kept, of all workspaces and of single ones; None: what was said before stays."""
    webhooks: list[Webhook] = []
    """Who is told of pauses."""
    pause_key: list[str] = []
    """What pauses are sealed with (`env:NAME`, `file:PATH`), the current key first; none: they are not."""
    tools: list[ToolEntry] = []
    """Tools beside those of plugins."""
    skills: list[str] = []
    """Folders with a SKILL.md, or folders of such."""
    working_folders: WorkingFolderSettings | None = None
    """Where `exec` and `files` work; None: what was said before stays, at first the defaults."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a host process starts with."""

    data_dir: Path = field(default_factory=default_data_dir)
    database: str | None = None
    """None: SQLite in the data directory; else `postgresql://...`."""
    config: Path | None = None
    prune: bool = False
    """The configuration file is all there is: what it does not name is removed whenever it is applied."""
    host: str = "127.0.0.1"
    port: int = 8420
    admin_key: str | None = None
    workspace: str = DEFAULT_WORKSPACE
    max_active_runs: int = 256
    """Runs executed at once by this process; the rest wait in their queue."""
    max_runs_per_workspace: int | None = None
    """Runs of one workspace executed at once by this process; None: as many as there are slots."""
    max_runs_per_plugin: int | None = None
    """The same, of all runners of one plugin."""
    max_queued_runs: int = 100_000
    """Runs that may wait in the queues of the database; over it events are refused as `rate_limited`."""
    shutdown_grace_seconds: float = 30.0
    cancel_grace_seconds: float = 5.0
    lease_seconds: float = 15.0
    """How long after its last sign of life another host on the same database may take over its runs."""
    hold_seconds: float = 20.0
    """How long calls that wait for people are held before their run is parked."""
    stall_seconds: float = 60.0
    """How long a resumed run may do nothing of what it did before, while recorded answers wait for it."""
    collect_seconds: float = 3600.0
    """From one collection of what is no longer kept to the next."""
    note_heads_seconds: float = 60.0
    """From one noting of where the hash chains end to the next: what is younger may be cut off unseen."""
    requests_per_second: float = 1000.0
    """Per API key."""
    public_url: str | None = None
    """Where services outside reach this host over HTTP, without a path; None: where it listens."""
    plugin_start_seconds: float = 10.0
    """How long a start waits for its plugins; one that takes longer goes on starting while others work."""
    passive: bool = False
    """Only look and configure: no run is taken, and a plugin is started only when something asks for it."""

    @property
    def database_url(self) -> str:
        """Where the facts lie."""
        return self.database or str(self.data_dir / "hostler.db")

    @property
    def assets_url(self) -> str | None:
        """Where runs are reached with their tokens, as far as it is known before the server listens."""
        return None if self.public_url is None else f"{self.public_url.rstrip('/')}{ASSETS_PATH}"
