"""The `plugins` entries of a configuration: which plugin each stands for, and how it is started."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.config_changes import ConfigProblem
from hostler.domain.config_mistakes import Mistake
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.stored_config import StoredConfig
from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.plugins.source import Folder, identity_of, launch_of
from hostler.sandbox.port import MIB, SandboxLimits
from hostler_protocol.errors import PluginError


def plugin_entries(config: ConfigFile) -> list[PluginEntry]:
    """The entries, each in its long form."""
    return [PluginEntry(path=entry) if isinstance(entry, str) else entry for entry in config.plugins]


def identify(
    config: ConfigFile, stored: StoredConfig
) -> tuple[dict[str, PluginEntry], list[tuple[int, Mistake]]]:
    """The entries of a configuration by identity (`author/name`). Reads their folders, and blocks.

    Also what is wrong with them, by their numbers: a folder that is no plugin (a warning where its entry is
    stored like this already), and two entries for one plugin.
    """
    known = {entry.path: entry for entry in plugin_entries(stored.config)}
    found: dict[str, PluginEntry] = {}
    mistakes: list[tuple[int, Mistake]] = []
    for number, entry in enumerate(plugin_entries(config)):
        try:
            key = launch_of(folder_of(entry)).identity.key
        except PluginError as error:
            mistake = Mistake("", error.message)
            if known.get(entry.path) != entry:
                mistakes.append((number, mistake))
                continue
            mistakes.append((number, mistake.as_warning()))
            key = stored.plugin_keys.get(entry.path, entry.path)
        first = found.setdefault(key, entry)
        if first.path != entry.path:
            mistakes.append((number, Mistake("", f"{_both(key, first, entry)}: name one of them, {_RENAME}")))
        elif first is not entry:
            mistakes.append((number, Mistake("", f"{entry.path} stands twice: keep one of the two entries")))
    return found, mistakes


def identify_stored(stored: StoredConfig) -> tuple[dict[str, PluginEntry], list[ConfigProblem]]:
    """The stored entries by identity, and those that stand for no plugin. Reads their folders, and blocks.

    An entry whose folder cannot be read has the identity that it had when it was applied.
    """
    found: dict[str, PluginEntry] = {}
    problems: list[ConfigProblem] = []
    for entry in plugin_entries(stored.config):
        try:
            key = identity_of(Folder(Path(entry.path))).key
        except PluginError as error:
            recorded = stored.plugin_keys.get(entry.path)
            if recorded is None:
                problems.append(ConfigProblem(kind="plugin", name=entry.path, problem=error.message))
                continue
            key = recorded
        first = found.setdefault(key, entry)
        if first is not entry:
            remove = f"`hostler plugins remove {entry.path}` removes the entry"
            why = f"{_both(key, first, entry)}, and the first is served: {remove}"
            problems.append(ConfigProblem(kind="plugin", name=entry.path, problem=why))
    return found, problems


_RENAME = "or give one another name in its hostler.yaml"


def _both(key: str, first: PluginEntry, second: PluginEntry) -> str:
    return f"{first.path} and {second.path} both say that they are {key}"


def folder_of(entry: PluginEntry) -> Folder:
    """What is started for an entry."""
    level = entry.level or "sandboxed"
    return Folder(
        Path(entry.path),
        level=level,
        network=tuple(entry.network),
        allow_requires=tuple(entry.allow_requires),
        limits=_limits(entry),
    )


def stored_by_name(stored: StoredConfig) -> Mapping[str, PluginEntry]:
    """The stored entries by identity, or by path where that is unknown or another's. Blocks."""
    by_key, problems = identify_stored(stored)
    left = {problem.name for problem in problems}
    return by_key | {entry.path: entry for entry in plugin_entries(stored.config) if entry.path in left}


def _limits(entry: PluginEntry) -> SandboxLimits:
    said: dict[str, Any] = {} if entry.limits is None else msgspec.to_builtins(entry.limits)
    changed = {name: value for name, value in said.items() if value is not None}
    for name in ("memory", "disk", "tmp"):
        if (mib := changed.pop(f"{name}_mib", None)) is not None:
            changed[f"{name}_bytes"] = mib * MIB
    return dataclasses.replace(PLUGIN_LIMITS, **changed)
