"""The `plugins` entries of a configuration: the identity of each plugin, and how it is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.config_changes import ConfigProblem
from hostler.domain.config_mistakes import Mistake
from hostler.domain.endpoints import ANY
from hostler.domain.trials import TRIAL_PLUGIN
from hostler.host.bundled import shipped_plugin
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.stored_config import StoredConfig
from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.plugins.manifest import read_manifest, stated_runner
from hostler.plugins.source import Folder, identity_of, launch_of
from hostler.plugins.supervisor import Supervisor
from hostler.sandbox.port import MIB, SandboxLimits
from hostler_protocol.errors import PluginError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest


def plugin_entries(config: ConfigFile) -> list[PluginEntry]:
    """Return the entries, each in its long form."""
    return [PluginEntry(path=entry) if isinstance(entry, str) else entry for entry in config.plugins]


def identify(
    config: ConfigFile, stored: StoredConfig
) -> tuple[dict[str, PluginEntry], list[tuple[int, Mistake]]]:
    """Return the entries of a configuration by identity (`author/name`), and mistakes by their numbers.

    A mistake is a folder without a plugin (a warning if the entry is stored unchanged), or a second entry for
    a plugin. Reads the folders, and blocks.
    """
    known = {entry.path: entry for entry in plugin_entries(stored.config)}
    by_key: dict[str, PluginEntry] = {}
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
        first = by_key.setdefault(key, entry)
        if first.path != entry.path:
            mistakes.append((number, Mistake("", f"{_both(key, first, entry)}: name one of them, {_RENAME}")))
        elif first is not entry:
            mistakes.append(
                (number, Mistake("", f"{entry.path} is named twice: keep one of the two entries"))
            )
    return by_key, mistakes


def identify_stored(stored: StoredConfig) -> tuple[dict[str, PluginEntry], list[ConfigProblem]]:
    """Return the stored entries by identity, and problems of entries without a plugin of their own.

    An entry whose folder cannot be read keeps its recorded identity. Reads the folders, and blocks.
    """
    by_key: dict[str, PluginEntry] = {}
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
        first = by_key.setdefault(key, entry)
        if first is not entry:
            remove = f"`hostler plugins remove {entry.path}` removes the entry"
            why = f"{_both(key, first, entry)}, and the first is served: {remove}"
            problems.append(ConfigProblem(kind="plugin", name=entry.path, problem=why))
    return by_key, problems


_RENAME = "or give one another name in its hostler.yaml"


def _both(key: str, first: PluginEntry, second: PluginEntry) -> str:
    return f"{first.path} and {second.path} both say that they are {key}"


def folder_of(entry: PluginEntry) -> Folder:
    """Return the plugin source of an entry."""
    level = entry.level or "sandboxed"
    return Folder(
        Path(entry.path),
        level=level,
        network=tuple(entry.network),
        allow_requires=tuple(entry.allow_requires),
        limits=_limits(entry),
        pin="files" if entry.pin else "requirements",
    )


def add_shipped_runner(supervisor: Supervisor, runner_id: str) -> None:
    """Let the supervisor serve a runner that comes with the host, unless an entry has the same plugin key."""
    try:
        plugin_key, _ = split_runner_id(runner_id)
    except ValueError:
        return  # of an agent that was stored unchecked: its runs fail with the reason
    add_shipped_plugin(supervisor, plugin_key)


def add_shipped_plugin(supervisor: Supervisor, plugin_key: str) -> None:
    """Let the supervisor serve a plugin that comes with the host, unless an entry has the same key."""
    if plugin_key not in supervisor and (folder := shipped_plugin(plugin_key)) is not None:
        supervisor.put(plugin_key, shipped_folder(folder))


def stated_shipped_runner(runner_id: str) -> AgentRunnerManifest | None:
    """Return a runner that comes with the host as its hostler.yaml states it: nothing is started.

    None for all others, and for those of tests, which state less than their classes. Blocks.
    """
    try:
        plugin_key, name = split_runner_id(runner_id)
    except ValueError:
        return None
    folder = None if plugin_key == TRIAL_PLUGIN else shipped_plugin(plugin_key)
    return None if folder is None else stated_runner(read_manifest(folder), name)


def trial_plugin(plugin_key: str) -> Folder | None:
    """Return the plugin that carries out tests of models and tools; None for any other key."""
    folder = shipped_plugin(plugin_key) if plugin_key == TRIAL_PLUGIN else None
    return None if folder is None else shipped_folder(folder)


def shipped_folder(folder: Path) -> Folder:
    """Return the source of a runner that comes with the host and that no entry names.

    It may reach the endpoints that its manifest names: the host's own code says where its service is.
    """
    named = tuple(text for text in read_manifest(folder).file.network if text != ANY)
    return Folder(folder, network=named)


def stored_by_name(stored: StoredConfig) -> Mapping[str, PluginEntry]:
    """Return the stored entries by identity, or by path if that is unknown or taken. Blocks."""
    by_key, problems = identify_stored(stored)
    paths = {problem.name for problem in problems}
    return by_key | {entry.path: entry for entry in plugin_entries(stored.config) if entry.path in paths}


def _limits(entry: PluginEntry) -> SandboxLimits:
    limits: dict[str, Any] = {} if entry.limits is None else msgspec.to_builtins(entry.limits)
    changed = {name: value for name, value in limits.items() if value is not None}
    for name in ("memory", "disk", "tmp"):
        if (mib := changed.pop(f"{name}_mib", None)) is not None:
            changed[f"{name}_bytes"] = mib * MIB
    return msgspec.structs.replace(PLUGIN_LIMITS, **changed)
