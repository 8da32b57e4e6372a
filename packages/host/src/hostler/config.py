"""Configuration: the file an operator writes, and the settings a host process starts with.

The file is YAML, or TOML with the same names. Unknown keys are refused with the nearest right one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.misfits import misfit
from hostler.domain.places import parse_place
from hostler.domain.retention import RetentionPolicy
from hostler.domain.tool_entries import ToolEntry, WorkingFolderSettings, entries_by_key
from hostler.domain.webhooks import Webhook, check_webhooks
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

PluginLevel = Literal["trusted", "sandboxed"]
ModelType = Literal["llm", "rerank"]

T = TypeVar("T")

ASSETS_PATH = "/mcp"
"""Where the MCP server is."""
MAX_CONFIG_BYTES = 4 * 1024 * 1024
"""One configuration file; thousands of agents fit."""


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
    manifest names.
    """

    path: str
    level: PluginLevel | None = None
    network: list[str] = []
    limits: PluginLimitsEntry | None = None

    def __post_init__(self) -> None:
        for place in self.network:
            parse_place(place)


class Price(Strict):
    """Per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None


class ModelEntry(Strict):
    """A model service. `model` is the service's own name for it (default: the id)."""

    id: str
    provider: str = "openai"
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None
    type: ModelType = "llm"
    context_window: int | None = None
    price: Price | None = None
    timeout: float = 300.0
    max_retries: int = 2
    extra_args: dict[str, Any] = {}


class ConfigFile(Strict):
    """The whole file."""

    plugins: list[str | PluginEntry] = []
    models: list[ModelEntry] = []
    agents: list[AgentSpec] = []
    retention: RetentionPolicy | None = None
    """Days that each kind is kept; None: what was said before stays, at first for ever."""
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


def parse_config(text: str, *, name: str, base: Path | None = None) -> ConfigFile:
    """Read a configuration.

    `name` appears in errors and tells TOML (`.toml`) from YAML; relative paths are taken from `base`.
    InvalidArgumentError naming the place and the nearest right word.
    """
    if len(text) > MAX_CONFIG_BYTES:
        raise InvalidArgumentError(f"{name}: larger than {MAX_CONFIG_BYTES:,} bytes")
    data = _loaded(text, name)
    config = convert({} if data is None else data, ConfigFile, name)
    plugins: list[str | PluginEntry] = [_absolute(entry, base) for entry in config.plugins]
    _refuse_twice(name, "model id", [model.id for model in config.models])
    _refuse_twice(name, "agent", [agent.name for agent in config.agents])
    _refuse_twice(name, "webhook", [webhook.name for webhook in config.webhooks])
    try:
        check_webhooks(config.webhooks)
        entries_by_key(config.tools)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{name}: {error.message}") from None
    skills = [_real(path, base) for path in config.skills]
    _refuse_twice(name, "skill folder", skills)
    tools = [_tool(entry, base) for entry in config.tools]
    return msgspec.structs.replace(config, plugins=plugins, skills=skills, tools=tools)


def load_config(path: Path) -> ConfigFile:
    """Read the configuration file at `path`."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is no text in UTF-8: name a YAML or TOML file") from error
    return parse_config(text, name=str(path), base=path.resolve().parent)


def _loaded(text: str, name: str) -> Any:
    """What stands in the text. Each parser is imported where a file needs it."""
    if name.endswith(".toml"):
        import tomllib  # noqa: PLC0415

        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"{name}: {_syntax(error)}") from error
    import yaml  # noqa: PLC0415

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{name}: {_syntax(error)}") from error


def _syntax(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', error)}"
    return str(error)


def _absolute(entry: str | PluginEntry, base: Path | None) -> PluginEntry:
    plugin = PluginEntry(path=entry) if isinstance(entry, str) else entry
    if base is None:
        return plugin
    return msgspec.structs.replace(plugin, path=_real(plugin.path, base))


def _tool(entry: ToolEntry, base: Path | None) -> ToolEntry:
    if entry.mcp is not None:
        return msgspec.structs.replace(entry, mcp=_server(entry.mcp, base))
    found = entry.openapi
    if found is None or found.is_address:
        return entry
    return msgspec.structs.replace(
        entry, openapi=msgspec.structs.replace(found, document=_real(found.document, base))
    )


def _server(entry: McpEntry, base: Path | None) -> McpEntry:
    command = entry.command
    if command and base is not None and "/" in command[0]:
        # links are kept: the interpreter of an environment is one, and knows by its name whose it is
        command = [os.path.abspath(base / Path(command[0]).expanduser()), *command[1:]]  # noqa: PTH100
    return msgspec.structs.replace(
        entry,
        command=command,
        cwd=None if entry.cwd is None else _real(entry.cwd, base),
        read=[_real(path, base) for path in entry.read],
        write=[_real(path, base) for path in entry.write],
    )


def _real(path: str, base: Path | None) -> str:
    return path if base is None else str((base / Path(path).expanduser()).resolve())


def _refuse_twice(name: str, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for item in names:
        if item in seen:
            raise InvalidArgumentError(f"{name}: {what} {item!r} stands twice")
        seen.add(item)


def convert(data: Any, kind: type[T], name: str) -> T:
    """Turn plain data into `kind`; errors name the place, and the nearest right key where one is wrong."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"{name}: {misfit(error, kind).sentence}") from None


def resolve_secret(value: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """The secret that a reference stands for: `env:NAME`, `file:PATH`, or the text itself.

    InvalidArgumentError where it is not there; the message names the reference, never a value.
    """
    if value is None:
        return None
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        found = (os.environ if environment is None else environment).get(rest)
        if not found:
            raise InvalidArgumentError(f"{value}: the environment variable {rest} is not set")
        return found
    if kind == "file" and rest:
        try:
            return Path(rest).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"{value}: the file cannot be read: {error}") from error
    if value.startswith("secret://"):
        raise InvalidArgumentError(f"{value}: this version keeps no secrets; use env:NAME or file:PATH")
    return value


def default_data_dir() -> Path:
    """`HOSTLER_DATA`, or the user's data folder (`~/.local/share/hostler` on Linux)."""
    if named := os.environ.get("HOSTLER_DATA"):
        return Path(named).expanduser()
    import platformdirs  # noqa: PLC0415  only here

    return Path(platformdirs.user_data_dir("hostler", appauthor=False))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a host process starts with."""

    data_dir: Path = field(default_factory=default_data_dir)
    database: str | None = None
    """None: SQLite in the data directory; else `postgresql://...`."""
    config: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    admin_key: str | None = None
    workspace: str = "default"
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
    requests_per_second: float = 1000.0
    """Per API key."""
    public_url: str | None = None
    """Where services outside reach this host over HTTP, without a path; None: where it listens."""
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
