"""The runners and tools that plugins offer, as last seen."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from hostler.domain.config_checks import referring_default, referring_defaults
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.ids import PluginIdentity, split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest, RunnerList, ToolManifest

_log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_RUNNERS = 1000
"""Runners of one plugin."""


def read_runners(
    identity: PluginIdentity, listed: RunnerList
) -> tuple[dict[str, AgentRunnerManifest], list[str]]:
    """Return the valid runner manifests by name, and warnings about the others."""
    runners: dict[str, AgentRunnerManifest] = {}
    warnings: list[str] = []
    if len(listed.runners) > MAX_RUNNERS:
        warnings.append(f"{len(listed.runners)} runners are listed; the first {MAX_RUNNERS} count")
    for index, raw in enumerate(listed.runners[:MAX_RUNNERS], 1):
        try:
            manifest = msgspec.json.decode(raw, type=AgentRunnerManifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            warnings.append(f"runner {index} skipped: {error}")
            continue
        wrong = _wrong(identity, manifest, runners)
        if wrong is None:
            runners[manifest.name] = manifest
            warnings += [
                f"runner {manifest.name!r}: {referring_default(item)}"
                for item in referring_defaults(manifest.config_schema)
            ]
        else:
            warnings.append(f"runner {index} skipped: {wrong}")
    return runners, warnings


def _wrong(
    identity: PluginIdentity, manifest: AgentRunnerManifest, known: dict[str, AgentRunnerManifest]
) -> str | None:
    expected = identity.runner_id(manifest.name)
    if manifest.id != expected:
        return f"its id is {manifest.id!r}; the runner {manifest.name!r} of this plugin is {expected!r}"
    try:
        split_runner_id(expected)
    except ValueError as error:
        return str(error)
    return f"the name {manifest.name!r} is used twice" if manifest.name in known else None


def _resumable(runners: Mapping[str, AgentRunnerManifest]) -> list[str]:
    return sorted(name for name, manifest in runners.items() if manifest.capabilities.resumable)


def _forms(runners: Mapping[str, AgentRunnerManifest]) -> dict[str, dict[str, str]]:
    return {
        name: {item.name: item.kind for item in manifest.config_schema} for name, manifest in runners.items()
    }


class _Memory(Generic[T]):
    """A fact about each plugin, by its key, in a file; in memory only without one."""

    def __init__(self, file: Path | None, fact: type[T]) -> None:
        self._file = file
        self.facts: dict[str, T] = {} if file is None else _read(file, dict[str, fact])  # type: ignore[valid-type]

    def put(self, plugin_key: str, fact: T) -> None:
        self._replace({**self.facts, plugin_key: fact})

    def drop(self, plugin_key: str) -> None:
        self._replace({key: fact for key, fact in self.facts.items() if key != plugin_key})

    def _replace(self, facts: dict[str, T]) -> None:
        if facts == self.facts:
            return
        self.facts = facts
        if self._file is not None:
            try:
                _write(self._file, msgspec.json.encode(facts))
            except OSError as error:  # only the next start misses it
                _log.warning("%s cannot be written: %s", self._file, error)


def _read(file: Path, expected: type[dict[str, T]]) -> dict[str, T]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=expected)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("%s cannot be read: %s", file, error)
        return {}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    new.replace(path)


class PluginCatalog:
    """Manifests of the runners and tools of all plugins, including those not running.

    `memory` is a folder with what is remembered of plugins that did not start yet. `runners.json`: the
    runners that were resumable, since a host settles the runs of its predecessor at its start, without
    waiting for a slow plugin. `forms.json`: the kinds of the items of their forms, since those say what is a
    secret.
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._resumable = _Memory(None if memory is None else memory / "runners.json", list[str])
        self._forms = _Memory(None if memory is None else memory / "forms.json", dict[str, dict[str, str]])
        self._plugins: dict[str, dict[str, AgentRunnerManifest]] = {}
        self._tools: dict[str, dict[str, ToolManifest]] = {}
        self._channels: dict[str, dict[str, ChannelManifest]] = {}
        self._versions: dict[str, str] = {}
        self.revision = 0
        """Increases whenever something is learnt or forgotten."""

    def learn(
        self,
        plugin_key: str,
        runners: Mapping[str, AgentRunnerManifest],
        tools: Mapping[str, ToolManifest] | None = None,
        channels: Mapping[str, ChannelManifest] | None = None,
        version: str = "",
    ) -> None:
        """Record what a plugin offers, in which version."""
        self._versions[plugin_key] = version
        self._plugins[plugin_key] = dict(runners)
        self._tools[plugin_key] = dict(tools or {})
        self._channels[plugin_key] = dict(channels or {})
        self.revision += 1
        self._resumable.put(plugin_key, _resumable(runners))
        self._forms.put(plugin_key, _forms(runners))

    def forget(self, plugin_key: str) -> None:
        """Remove a plugin's runners, tools and channels."""
        self._plugins.pop(plugin_key, None)
        self._tools.pop(plugin_key, None)
        self._channels.pop(plugin_key, None)
        self._versions.pop(plugin_key, None)
        self.revision += 1
        self._resumable.drop(plugin_key)
        self._forms.drop(plugin_key)

    def knows(self, plugin_key: str) -> bool:
        """Whether the plugin was seen since it was last forgotten."""
        return plugin_key in self._plugins

    def channels_of(self, plugin_key: str) -> dict[str, ChannelManifest]:
        """Return the channels of one plugin by name."""
        return dict(self._channels.get(plugin_key, {}))

    def channels(self) -> dict[str, dict[str, ChannelManifest]]:
        """Return the channels of each plugin that was seen, by its key and their own names."""
        return {key: dict(channels) for key, channels in self._channels.items() if channels}

    def tools(self) -> dict[str, dict[str, ToolManifest]]:
        """Return the tools of each plugin, by its key and their own names."""
        return {key: dict(tools) for key, tools in self._tools.items() if tools}

    def version_of(self, plugin_key: str) -> str:
        """Return a plugin's own version, as last seen; empty if it was not."""
        return self._versions.get(plugin_key, "")

    def find(self, runner_id: str) -> AgentRunnerManifest | None:
        """Return the manifest of `plugin:author/name/runner`, or None if its plugin was not seen."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError:
            return None
        return self._plugins.get(plugin_key, {}).get(name)

    def is_resumable(self, runner_id: str) -> bool:
        """Whether a runner continues from its journal, by its manifest or by its last known one."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError:
            return False
        if plugin_key in self._plugins:
            found = self._plugins[plugin_key].get(name)
            return found is not None and found.capabilities.resumable
        return name in self._resumable.facts.get(plugin_key, ())

    def form_of(self, runner_id: str) -> Mapping[str, str] | None:
        """Return the kinds of a runner's form items by name, as last seen, or None."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError:
            return None
        return self._forms.facts.get(plugin_key, {}).get(name)

    def of_plugin(self, plugin_key: str) -> dict[str, AgentRunnerManifest]:
        """Return the runners of one plugin by name."""
        return dict(self._plugins.get(plugin_key, {}))

    def all(self) -> list[AgentRunnerManifest]:
        """Return every runner seen, ordered by id."""
        found = [manifest for runners in self._plugins.values() for manifest in runners.values()]
        return sorted(found, key=lambda manifest: manifest.id)
