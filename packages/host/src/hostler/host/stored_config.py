"""The stored configuration: read by entry, written in one transaction.

An entry that this version cannot read is left out and reported. It does not affect others, and can be
replaced or removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from hostler.domain.allowances import WorkspaceEntry, closed_entry
from hostler.domain.audit_anchors import AuditAnchors
from hostler.domain.channels import ChannelEntry
from hostler.domain.config_changes import Change, ConfigProblem, Kind
from hostler.domain.cors import CorsEntry
from hostler.domain.hooks import Hook
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.retention import Retention
from hostler.domain.schedules import Schedule
from hostler.domain.sign_in import SignInEntry
from hostler.domain.tool_entries import MAX_TOOL_ENTRIES, ToolEntry, entries_by_key
from hostler.domain.type_fit import convert
from hostler.domain.webhooks import Webhook
from hostler.domain.widgets import Widget
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_entries import POLICY, KeyReferences, SkillFolder
from hostler.storage.port import Tx
from hostler.storage.stores import (
    agents,
    audit,
    installation,
    plugin_pins,
    schedule_removal,
    schedules,
    settings,
)
from hostler_protocol.errors import InvalidArgumentError

T = TypeVar("T", bound=msgspec.Struct)


class StoredPlugin(PluginEntry):
    """A plugin entry with the identity of its folder at the time it was applied."""

    plugin: str | None = None

    @property
    def entry(self) -> PluginEntry:
        """The entry as in a configuration file."""
        return PluginEntry(**{name: getattr(self, name) for name in PluginEntry.__struct_fields__})


class StoredConfig(Record):
    """A stored configuration.

    `plugin_keys`: path of a plugin entry -> its recorded identity (`author/name`).
    """

    config: ConfigFile
    plugin_keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    problems: Sequence[ConfigProblem] = ()
    """The entries that cannot be read, and why."""

    def unreadable(self, kind: Kind) -> str | None:
        """Return why the entry of a kind with a single entry cannot be read, or None."""
        return next((problem.problem for problem in self.problems if problem.kind == kind), None)

    @property
    def workspaces(self) -> list[WorkspaceEntry]:
        """What workspaces may use: nothing if their entry cannot be read."""
        unreadable = [problem.name for problem in self.problems if problem.kind == "workspace"]
        return [*self.config.workspaces, *map(closed_entry, unreadable)]


class _Reader:
    def __init__(self, tx: Tx, workspace_id: str) -> None:
        self._tx = tx
        self._workspace = workspace_id
        self.problems: list[ConfigProblem] = []

    def all(self, kind: Kind, struct: type[T]) -> list[T]:
        entries: list[T] = []
        for setting in settings.page(self._tx, self._workspace, kind):
            try:
                entries.append(convert(setting.spec, struct, setting.name))
            except InvalidArgumentError as error:
                self.problems.append(_unreadable(kind, setting.name, error))
        return entries

    def one(self, kind: Kind, struct: type[T]) -> T | None:
        return next(iter(self.all(kind, struct)), None)

    def keys(self, kind: Kind) -> list[str]:
        entry = self.one(kind, KeyReferences)
        return [] if entry is None else entry.keys

    def tools(self) -> list[ToolEntry]:
        entries: list[ToolEntry] = []
        for setting in settings.page(self._tx, self._workspace, "tool"):
            try:
                entry = convert(setting.spec, ToolEntry, setting.name)
                if setting.name not in entries_by_key([entry]):
                    raise InvalidArgumentError(f"{setting.name} is stored as {entry.key}")
                if len(entries) == MAX_TOOL_ENTRIES:
                    raise InvalidArgumentError(f"there are over {MAX_TOOL_ENTRIES} entries: remove some")
            except InvalidArgumentError as error:
                self.problems.append(_unreadable("tool", setting.name, error))
            else:
                entries.append(entry)
        return entries

    def schedules(self) -> list[Schedule]:
        entries: list[Schedule] = []
        for stored in schedules.entries(self._tx, self._workspace):
            try:
                entries.append(stored.spec)
            except InvalidArgumentError as error:
                self.problems.append(_unreadable("schedule", stored.name, error))
        return entries

    def agents(self) -> None:
        for name, why in agents.unreadable(self._tx, self._workspace).items():
            self.problems.append(ConfigProblem(kind="agent", name=name, problem=why))


def _unreadable(kind: Kind, name: str, error: InvalidArgumentError) -> ConfigProblem:
    why = f"the stored entry does not fit this version: {error.message}; apply it again, or remove it"
    return ConfigProblem(kind=kind, name=name, problem=why)


def read_config(tx: Tx, workspace_id: str) -> StoredConfig:
    """Read the stored configuration of a workspace."""
    reader = _Reader(tx, workspace_id)
    plugins = reader.all("plugin", StoredPlugin)
    config = ConfigFile(
        plugins=[plugin.entry for plugin in plugins],
        models=reader.all("model", ModelEntry),
        agents=[agent.spec for agent in agents.active(tx, workspace_id)],
        retention=reader.one("retention", Retention),
        webhooks=reader.all("webhook", Webhook),
        hooks=reader.all("hook", Hook),
        schedules=reader.schedules(),
        widgets=reader.all("widget", Widget),
        sign_in=reader.all("sign_in", SignInEntry),
        pause_key=reader.keys("pause_key"),
        master_key=reader.keys("master_key"),
        tools=reader.tools(),
        skills=[folder.path for folder in reader.all("skill", SkillFolder)],
        working_folders=reader.one("working_folders", WorkingFolderSettings),
        workspaces=reader.all("workspace", WorkspaceEntry),
        audit_anchors=reader.one("audit_anchors", AuditAnchors),
        cors=reader.one("cors", CorsEntry),
        channels=reader.all("channel", ChannelEntry),
    )
    reader.agents()
    recorded = {plugin.path: plugin.plugin for plugin in plugins if plugin.plugin is not None}
    return StoredConfig(config, recorded, reader.problems)


_EFFECTIVE = frozenset({"added", "changed", "removed"})


class NewConfig(Record):
    """A configuration to store, with its plugin entries by identity and the resulting changes."""

    config: ConfigFile
    plugins: Mapping[str, PluginEntry]
    changes: Sequence[Change]


def write_config(tx: Tx, workspace_id: str, new: NewConfig, actor: str) -> None:
    """Store the entries of a configuration, remove those that its changes remove, and audit each change."""
    ws, config = workspace_id, new.config
    for key, plugin in new.plugins.items():
        known = key if key != plugin.path else None
        settings.put(tx, ws, "plugin", plugin.path, {**plain(plugin), "plugin": known})
    named: dict[Kind, Mapping[str, msgspec.Struct]] = {
        "model": {model.id: model for model in config.models},
        "webhook": {webhook.name: webhook for webhook in config.webhooks},
        "hook": {hook.name: hook for hook in config.hooks},
        "widget": {widget.name: widget for widget in config.widgets},
        "sign_in": {provider.name: provider for provider in config.sign_in},
        "channel": {entry.name: entry for entry in config.channels},
        "tool": entries_by_key(config.tools),
        "skill": {path: SkillFolder(path=path) for path in config.skills},
        "workspace": {workspace.name: workspace for workspace in config.workspaces},
    }
    for kind, entries in named.items():
        for name, entry in entries.items():
            settings.put(tx, ws, kind, name, plain(entry))
    single: dict[Kind, msgspec.Struct | None] = {
        "retention": config.retention,
        "working_folders": config.working_folders,
        "audit_anchors": config.audit_anchors,
        "cors": config.cors,
        "master_key": KeyReferences(keys=config.master_key) if config.master_key else None,
        "pause_key": KeyReferences(keys=config.pause_key) if config.pause_key else None,
    }
    for kind, policy in single.items():
        if policy is not None:
            settings.put(tx, ws, kind, POLICY, plain(policy))
    for spec in config.agents:
        agents.apply(tx, ws, spec, made_by=actor)
    for change in new.changes:  # first: there may be room for the new ones only then
        if (change.kind, change.change) == ("schedule", "removed"):
            schedules.delete(tx, ws, change.name)
    for schedule in config.schedules:
        schedules.put(tx, ws, schedule, actor)
    for change in new.changes:
        _write_change(tx, ws, change, actor)
    if any(change.change in _EFFECTIVE for change in new.changes):
        installation.change_revision(tx)  # other hosts of the database look for it


def _write_change(tx: Tx, workspace_id: str, change: Change, actor: str) -> None:
    if change.change == "removed":
        if change.kind == "agent":
            known = agents.current_version(tx, workspace_id, change.name)
            if agents.delete(tx, workspace_id, change.name) and known is not None:
                schedule_removal.drop_of_agent(tx, workspace_id, known[0], change.name, actor)
        elif change.kind != "schedule":  # those were removed before others were stored
            settings.delete(tx, workspace_id, change.kind, change.name)
        if change.kind == "plugin":
            plugin_pins.forget(tx, workspace_id, change.name)
    elif change.kind == "plugin" and change.before is not None and change.before["path"] != change.name:
        settings.delete(tx, workspace_id, "plugin", change.before["path"])  # the plugin moved to another path
    if change.change in _EFFECTIVE:
        action = f"{change.kind}.{change.change}"
        audit.record(tx, workspace_id, actor=actor, action=action, target=change.name, body={})


def plain(entry: msgspec.Struct) -> dict[str, Any]:
    """Convert an entry to plain data."""
    data: dict[str, Any] = msgspec.to_builtins(entry)
    return data
