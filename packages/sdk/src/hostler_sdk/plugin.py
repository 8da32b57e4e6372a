"""A loaded plugin: its identity, runners and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler_protocol.ids import PluginIdentity
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_sdk.runner import Runner, manifest_of
from hostler_sdk.tools import Tool


@dataclass(frozen=True, slots=True)
class OfferedRunner:
    """A runner and its manifest."""

    manifest: AgentRunnerManifest
    runner: Runner


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plugin: runners by name, tools by `<plugin name>.<function>`."""

    identity: PluginIdentity
    runners: Mapping[str, OfferedRunner]
    tools: Mapping[str, Tool] = field(default_factory=dict)


def plugin_of(runner: Runner, identity: PluginIdentity | None = None) -> Plugin:
    """Wrap a single runner in a plugin, under the name `default`."""
    identity = identity or PluginIdentity(author="local", name=type(runner).__name__)
    manifest = manifest_of(type(runner), identity)
    return Plugin(identity, {manifest.name: OfferedRunner(manifest, runner)})
