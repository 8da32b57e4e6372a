"""The kinds of entries that a configuration has: the key, type and name of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.audit_anchors import AuditAnchors
from hostler.domain.channels import ChannelEntry
from hostler.domain.config_changes import Kind
from hostler.domain.config_mistakes import Mistake
from hostler.domain.cors import CorsEntry
from hostler.domain.hooks import Hook
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.retention import Retention
from hostler.domain.schedules import Schedule
from hostler.domain.sign_in import SignInEntry
from hostler.domain.suggestions import did_you_mean
from hostler.domain.tool_entries import ToolEntry, entries_by_key
from hostler.domain.type_fit import fit
from hostler.domain.webhooks import Webhook
from hostler.domain.widgets import Widget
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_file import ConfigSource, absolute, entry_mistakes, entry_name
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError

POLICY = "policy"
"""The name of the entry of a kind with a single entry, such as `retention`."""


class KeyReferences(Strict):
    """References to keys, the current one first: the entry of `pause_key` or `master_key`."""

    keys: list[str]


class SkillFolder(Strict):
    """An entry of `skills`."""

    path: str


class EntryKind(Record):
    """A kind of entry.

    `field`: its key in a configuration file. `named_by`: the field that names a new entry.
    """

    kind: Kind
    field: str
    type: type[msgspec.Struct]
    named_by: str | None = None

    @property
    def single(self) -> bool:
        """Whether there is at most one entry, named POLICY."""
        return self.type in {Retention, KeyReferences, WorkingFolderSettings, AuditAnchors, CorsEntry}


ENTRY_KINDS: Mapping[str, EntryKind] = {
    kind.field: kind
    for kind in (
        EntryKind("plugin", "plugins", PluginEntry, "path"),
        EntryKind("model", "models", ModelEntry, "id"),
        EntryKind("tool", "tools", ToolEntry),
        EntryKind("skill", "skills", SkillFolder, "path"),
        EntryKind("workspace", "workspaces", WorkspaceEntry, "name"),
        EntryKind("agent", "agents", AgentSpec, "name"),
        EntryKind("webhook", "webhooks", Webhook, "name"),
        EntryKind("hook", "hooks", Hook, "name"),
        EntryKind("schedule", "schedules", Schedule, "name"),
        EntryKind("widget", "widgets", Widget, "name"),
        EntryKind("sign_in", "sign_in", SignInEntry, "name"),
        EntryKind("channel", "channels", ChannelEntry, "name"),
        EntryKind("retention", "retention", Retention),
        EntryKind("master_key", "master_key", KeyReferences),
        EntryKind("pause_key", "pause_key", KeyReferences),
        EntryKind("working_folders", "working_folders", WorkingFolderSettings),
        EntryKind("audit_anchors", "audit_anchors", AuditAnchors),
        EntryKind("cors", "cors", CorsEntry),
    )
}
"""Key in a configuration file -> kind of entry."""


def entry_kind(field: str) -> EntryKind:
    """Return the kind with this key. NotFoundError suggests the nearest."""
    kind = ENTRY_KINDS.get(field)
    if kind is None:
        raise NotFoundError(f"a configuration has no {field!r}: {did_you_mean(field, ENTRY_KINDS)}")
    return kind


def with_entry(kind: EntryKind, entry: Any, base: Path | None = None) -> ConfigFile:
    """Return a configuration with this entry only.

    Its relative paths are resolved from `base` if that is set.
    """
    value: Any = entry
    if isinstance(entry, SkillFolder):
        value = entry.path
    if isinstance(entry, KeyReferences):
        value = entry.keys
    elif not kind.single:
        value = [value]
    return absolute(ConfigFile(**{kind.field: value}), base)


def read_entry(kind: EntryKind, data: Any, base: Path | None = None) -> tuple[Any, ConfigSource]:
    """Read as much of an entry as possible, for `with_entry`; its mistakes are in the source.

    The entry is None if nothing of it can be read. Relative paths are mistakes unless `base` is set.
    """
    entry, mistakes = fit(data, kind.type)
    place = kind.field if kind.single else f"{kind.field}[0]"
    name = entry_name(kind.field, data)
    label = f"{kind.kind} {name!r}" if name else kind.kind
    source = ConfigSource(label, tuple(mistake.within(place) for mistake in mistakes), entry=place)
    if entry is None:
        return None, source
    config = with_entry(kind, entry, base)
    more = [*entry_mistakes(config, source), *relative_paths(config, source)]
    return entry, replace(source, mistakes=(*source.mistakes, *more))


def relative_paths(config: ConfigFile, source: ConfigSource) -> Iterator[Mistake]:
    """Yield a mistake for each relative path of a configuration that has no base folder."""
    plugins = [entry if isinstance(entry, str) else entry.path for entry in config.plugins]
    for section, paths in (("plugins", plugins), ("skills", config.skills)):
        for number, path in enumerate(paths):
            if not Path(path).is_absolute():
                below = "path" if source.entry else ""
                mistake = Mistake(below, "this is a relative path: send the absolute one")
                yield mistake.within(source.place(section, number))


def entries_by_kind(
    config: ConfigFile, plugins: Mapping[str, PluginEntry]
) -> Mapping[Kind, Mapping[str, msgspec.Struct]]:
    """Return all entries by kind and name, in the order in which changes are reported."""
    return {
        "plugin": plugins,
        "model": {model.id: model for model in config.models},
        "retention": {} if config.retention is None else {POLICY: config.retention},
        "master_key": _keys(config.master_key),
        "pause_key": _keys(config.pause_key),
        "working_folders": {} if config.working_folders is None else {POLICY: config.working_folders},
        "audit_anchors": {} if config.audit_anchors is None else {POLICY: config.audit_anchors},
        "cors": {} if config.cors is None else {POLICY: config.cors},
        "skill": {path: SkillFolder(path=path) for path in config.skills},
        "tool": entries_by_key(config.tools),
        "workspace": {entry.name: entry for entry in config.workspaces},
        "webhook": {webhook.name: webhook for webhook in config.webhooks},
        "hook": {hook.name: hook for hook in config.hooks},
        "widget": {widget.name: widget for widget in config.widgets},
        "sign_in": {entry.name: entry for entry in config.sign_in},
        "agent": {spec.name: spec for spec in config.agents},
        "schedule": {schedule.name: schedule for schedule in config.schedules},
        "channel": {entry.name: entry for entry in config.channels},
    }


def _keys(references: list[str]) -> dict[str, KeyReferences]:
    return {POLICY: KeyReferences(keys=references)} if references else {}
