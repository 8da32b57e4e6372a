"""The structure of a configuration file, and the settings that a host process starts with.

`config_file.py` reads the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.audit_anchors import AuditAnchors
from hostler.domain.channels import ChannelEntry
from hostler.domain.cors import CorsEntry
from hostler.domain.endpoints import parse_host_port
from hostler.domain.hooks import Hook
from hostler.domain.mcp_entry import Processors
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.requirements import check_listed
from hostler.domain.retention import Retention
from hostler.domain.schedules import Schedule
from hostler.domain.sign_in import SignInEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.webhooks import Webhook
from hostler.domain.widgets import Widget
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.data_directory import DEFAULT_WORKSPACE, default_data_dir
from hostler_protocol._base import Strict

PluginLevel = Literal["trusted", "sandboxed"]

ASSETS_PATH = "/mcp"
"""The path of the MCP server of runs."""


class PluginLimitsEntry(Strict):
    """Limits of a sandboxed plugin; a field that is left out has the default of all plugins."""

    memory_mib: Annotated[int, msgspec.Meta(ge=16)] | None = None
    processes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Processes and threads."""
    open_files: Annotated[int, msgspec.Meta(ge=16)] | None = None
    disk_mib: Annotated[int, msgspec.Meta(ge=1)] | None = None
    files: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tmp_mib: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cpus: Processors | None = None
    """Processor time, in processors: 1.5 is one and a half of them. It runs on no more of them than that."""


class PluginEntry(Strict):
    """A plugin folder, or a runner that comes with the host, like `hostler/dify`.

    It is sandboxed unless its level is `trusted`. `network`: the places (`name:port`) that it may reach, of
    those in its manifest, or any where that has `*`. `allow_requires`: wheels that its manifest may require
    by path or URL; all other requirements have to be names of packages. Other requirements than those that
    were confirmed keep it from starting; with `pin`, so does any other file of its folder.
    """

    path: str
    level: PluginLevel | None = None
    network: list[str] = []
    allow_requires: list[str] = []
    limits: PluginLimitsEntry | None = None
    pin: bool = False

    def __post_init__(self) -> None:
        for place in self.network:
            parse_host_port(place)
        for text in self.allow_requires:
            check_listed(text)


class ConfigFile(Strict):
    """A configuration file."""

    plugins: list[str | PluginEntry] = []
    models: list[ModelEntry] = []
    agents: list[AgentSpec] = []
    retention: Retention | None = None
    """Retention in days by kind of data, for all and for single workspaces; None: unchanged."""
    webhooks: list[Webhook] = []
    """Receivers of notices of pauses."""
    schedules: list[Schedule] = []
    """What sends events at planned times."""
    pause_key: list[str] = []
    """Keys that encrypt pauses (`env:NAME`, `file:PATH`), the current one first; empty: no encryption."""
    master_key: list[str] = []
    """Keys under which the host's own keys are wrapped (`env:NAME`, `file:PATH`, `command:PROGRAM ARGS`), the
    current one first; empty: unchanged, at first none.
    """
    tools: list[ToolEntry] = []
    """Tools in addition to those of plugins."""
    skills: list[str] = []
    """Folders with a SKILL.md, or folders of such folders."""
    workspaces: list[WorkspaceEntry] = []
    """What agents of single workspaces may use."""
    working_folders: WorkingFolderSettings | None = None
    """Settings of the folders of `exec` and `files`; None: unchanged, at first the defaults."""
    hooks: list[Hook] = []
    """Ways in for the requests of other services, which become events."""
    widgets: list[Widget] = []
    """Chats for web pages, each with one agent."""
    sign_in: list[SignInEntry] = []
    """Identity providers with which people sign in, and who becomes a member."""
    audit_anchors: AuditAnchors | None = None
    """Where the ends of the hash chains are written outside the host; None: unchanged, at first nowhere."""
    channels: list[ChannelEntry] = []
    """Connections to accounts of chat platforms."""
    cors: CorsEntry | None = None
    """Pages of other origins that may call this host; None: unchanged, at first none."""


class Settings(Record):
    """The settings that a host process starts with."""

    data_dir: Path = msgspec.field(default_factory=default_data_dir)
    database: str | None = None
    """None: SQLite in the data directory; else `postgresql://...`."""
    config: Path | None = None
    prune: bool = False
    """Remove stored entries that the configuration file does not name, whenever it is applied."""
    host: str = "127.0.0.1"
    port: int = 8420
    admin_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is believed."""
    erasure_key: tuple[Path, ...] = ()
    """Files of the erasure key; none: those that HOSTLER_ERASURE_KEY names, or one in the data directory."""
    workspace: str = DEFAULT_WORKSPACE
    max_active_runs: int = 256
    """Runs executed at once by this process; others wait in the queue."""
    max_runs_per_workspace: int | None = None
    """Runs of one workspace executed at once by this process; None: as many as there are slots."""
    max_runs_per_plugin: int | None = None
    """Runs of one plugin executed at once by this process, over all its runners; None: no limit."""
    max_queued_runs: int = 100_000
    """Runs that may wait in the queues of the database; further events are refused as `rate_limited`."""
    shutdown_grace_seconds: float = 30.0
    cancel_grace_seconds: float = 5.0
    lease_seconds: float = 15.0
    """How long after the last renewal of its lease another host on the database may take over its runs."""
    hold_seconds: float = 20.0
    """How long calls that wait for people stay open before their run is parked."""
    stall_seconds: float = 60.0
    """How long calls of a resumed run wait for recorded steps that its runner does not repeat."""
    collect_seconds: float = 3600.0
    """Interval of the collection of expired data."""
    note_heads_seconds: float = 60.0
    """Interval of recording the heads of the hash chains. A truncation of younger rows may go unnoticed."""
    requests_per_second: float = 1000.0
    """Per API key."""
    public_url: str | None = None
    """The URL under which external services reach this host, without a path; None: its own address."""
    plugin_start_seconds: float = 10.0
    """How long a start waits for plugins; a slower one continues to start while others serve."""
    passive: bool = False
    """Only inspect and configure: no run is claimed, and a plugin starts only on demand."""

    @property
    def database_url(self) -> str:
        """The URL of the database, or the path of the SQLite file."""
        return self.database or str(self.data_dir / "hostler.db")

    @property
    def assets_url(self) -> str | None:
        """The URL of the MCP server of runs; None if it is known only once the server listens."""
        return None if self.public_url is None else f"{self.public_url.rstrip('/')}{ASSETS_PATH}"
