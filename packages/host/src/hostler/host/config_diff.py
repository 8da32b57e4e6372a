"""The changes that applying a configuration makes, entry by entry, and those that are refused. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from hostler.domain.channels import MAX_CHANNELS
from hostler.domain.config_changes import Change, ChangeType, ConfigProblem, Kind, Shown, compare, sparse
from hostler.domain.hooks import MAX_HOOKS
from hostler.domain.record import Record
from hostler.domain.schedules import MAX_SCHEDULES
from hostler.domain.suggestions import did_you_mean
from hostler.domain.tool_entries import MAX_TOOL_ENTRIES
from hostler.domain.webhooks import MAX_WEBHOOKS
from hostler.domain.widgets import MAX_WIDGETS
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_entries import EntryKind, entries_by_kind
from hostler.host.stored_config import NewConfig, StoredConfig
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError

_MOST: Mapping[Kind, int] = {
    "tool": MAX_TOOL_ENTRIES,
    "webhook": MAX_WEBHOOKS,
    "hook": MAX_HOOKS,
    "schedule": MAX_SCHEDULES,
    "channel": MAX_CHANNELS,
    "widget": MAX_WIDGETS,
}
"""Kind -> the most entries of it that can be stored."""


class Entries(Record):
    """Stored entries by kind and name. A plugin's name is `author/name`, or its path if that is unknown."""

    readable: Mapping[Kind, Mapping[str, msgspec.Struct]]
    unreadable: Sequence[ConfigProblem]

    def get(self, kind: EntryKind, name: str) -> msgspec.Struct:
        """Return an entry. NotFoundError; InvalidArgumentError if it cannot be read."""
        entries = self.readable[kind.kind]
        if name in entries:
            return entries[name]
        for entry in entries.values():
            if isinstance(entry, PluginEntry) and entry.path == name:
                return entry
        for problem in self.unreadable:
            if (problem.kind, problem.name) == (kind.kind, name):
                raise InvalidArgumentError(f"{kind.kind} {name!r}: {problem.problem}")
        hint = did_you_mean(name, entries) if entries else "none is stored"
        raise NotFoundError(f"the configuration has no {kind.kind} {name!r}: {hint}")

    def removal(self, kind: EntryKind, name: str, shown: Shown) -> Change:
        """Return the change that removes an entry. NotFoundError."""
        if any((problem.kind, problem.name) == (kind.kind, name) for problem in self.unreadable):
            return Change(kind=kind.kind, name=name, change="removed")
        entry = self.get(kind, name)
        stored_as = entry.path if isinstance(entry, PluginEntry) else name
        return Change(kind=kind.kind, name=stored_as, change="removed", before=sparse(shown(entry)))


def changes_of(
    stored: StoredConfig,
    known: Mapping[str, PluginEntry],
    config: ConfigFile,
    plugins: Mapping[str, PluginEntry],
    *,
    prune: bool,
    shown: Shown,
) -> list[Change]:
    """Return the changes of applying `config`. `known`, `plugins`: the stored and new plugins by identity.

    `shown`: what of an entry may be read.
    """
    paths = {entry.path for entry in plugins.values()}
    known = {key: entry for key, entry in known.items() if key in plugins or entry.path not in paths}
    before, after = entries_by_kind(stored.config, known), entries_by_kind(config, plugins)
    changes: list[Change] = []
    for kind in before:
        changes += compare(kind, before[kind], after[kind], prune=prune, shown=shown)
    changes = [_by_path(change, plugins, known) for change in changes]
    for problem in stored.problems:  # entries that cannot be read can still be removed
        if problem.name not in after[problem.kind]:
            end: ChangeType = "removed" if prune else "kept"
            changes.append(Change(kind=problem.kind, name=problem.name, change=end))
    return changes


def _by_path(change: Change, plugins: Mapping[str, PluginEntry], known: Mapping[str, PluginEntry]) -> Change:
    """Return a change with the path of its plugin entry as name, under which it is stored."""
    if change.kind != "plugin":
        return change
    entry = plugins.get(change.name) or known[change.name]
    return msgspec.structs.replace(change, name=entry.path)


def refuse_too_many(changes: Sequence[Change]) -> None:
    """Raise InvalidArgumentError for changes that add an entry to more of its kind than can be stored."""
    for kind, most in _MOST.items():
        left = sum(change.kind == kind and change.change != "removed" for change in changes)
        if left > most and any(change.kind == kind and change.change == "added" for change in changes):
            raise InvalidArgumentError(f"{kind}s: there would be {left}; at most {most} can be stored")


def must_be_new(new: NewConfig) -> None:
    """Raise ConflictError for an entry that exists. A guard of `apply`."""
    entries = entries_by_kind(new.config, {entry.path: entry for entry in new.plugins.values()})
    for change in new.changes:
        if change.name not in entries[change.kind] or change.change == "added":
            continue
        if change.kind != "plugin" or change.before is None or change.before["path"] == change.name:
            raise ConflictError(f"there is a {change.kind} {change.name!r} already: change that one")
        key = next(key for key, entry in new.plugins.items() if entry.path == change.name)
        raise ConflictError(
            f"plugin {key} is there already, from {change.before['path']}, and {change.name} says that it is "
            f"{key} too: `hostler plugins change {key} path={change.name}` moves it, and "
            f"`hostler plugins remove {key}` removes it"
        )


def must_be_named(kind: EntryKind, name: str) -> Callable[[NewConfig], None]:
    """Return a guard of `apply` that raises InvalidArgumentError for an entry with another name."""

    def guard(new: NewConfig) -> None:
        (actual,) = entries_by_kind(new.config, new.plugins)[kind.kind]
        if actual != name:
            raise InvalidArgumentError(f"this is the {kind.kind} {actual!r}, and not {name!r}")

    return guard
