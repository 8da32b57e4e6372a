"""Which runners and tools the plugins have, as last seen."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.domain.config_checks import referring_default, referring_defaults
from hostler_protocol.ids import PluginIdentity, split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest, RunnerList, ToolManifest

MAX_RUNNERS = 1000
"""Of one plugin."""


def read_runners(
    identity: PluginIdentity, listed: RunnerList
) -> tuple[dict[str, AgentRunnerManifest], list[str]]:
    """The valid runner manifests by name, and what was wrong with the others; one hides no other."""
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
    return f"the name {manifest.name!r} stands twice" if manifest.name in known else None


class Catalog:
    """Manifests of runners and tools of all plugins, kept also while a plugin is not running."""

    def __init__(self) -> None:
        self._plugins: dict[str, dict[str, AgentRunnerManifest]] = {}
        self._tools: dict[str, dict[str, ToolManifest]] = {}
        self.revision = 0
        """Rises whenever something is learnt or forgotten."""

    def learn(
        self,
        plugin_key: str,
        runners: Mapping[str, AgentRunnerManifest],
        tools: Mapping[str, ToolManifest] | None = None,
    ) -> None:
        """Take what a plugin has just said of itself."""
        self._plugins[plugin_key] = dict(runners)
        self._tools[plugin_key] = dict(tools or {})
        self.revision += 1

    def forget(self, plugin_key: str) -> None:
        """The plugin was removed."""
        self._plugins.pop(plugin_key, None)
        self._tools.pop(plugin_key, None)
        self.revision += 1

    def tools(self) -> dict[str, dict[str, ToolManifest]]:
        """The tools of each plugin, by its key and their own names."""
        return {key: dict(tools) for key, tools in self._tools.items() if tools}

    def find(self, runner_id: str) -> AgentRunnerManifest | None:
        """The manifest of `plugin:author/name/runner`, where that plugin was seen."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError:
            return None
        return self._plugins.get(plugin_key, {}).get(name)

    def of_plugin(self, plugin_key: str) -> dict[str, AgentRunnerManifest]:
        """The runners of one plugin by name."""
        return dict(self._plugins.get(plugin_key, {}))

    def all(self) -> list[AgentRunnerManifest]:
        """Every runner that was seen, ordered by id."""
        found = [manifest for runners in self._plugins.values() for manifest in runners.values()]
        return sorted(found, key=lambda manifest: manifest.id)
