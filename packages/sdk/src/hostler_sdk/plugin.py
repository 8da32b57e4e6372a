"""A loaded plugin: its identity, runners, tools and channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler_protocol.channels import ChannelManifest
from hostler_protocol.ids import PluginIdentity
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_sdk.runner import Runner, manifest_of
from hostler_sdk.tools import Tool

if TYPE_CHECKING:
    from hostler_sdk.channels import Channel


@dataclass(frozen=True, slots=True)
class OfferedRunner:
    """A runner and its manifest."""

    manifest: AgentRunnerManifest
    runner: Runner


@dataclass(frozen=True, slots=True)
class OfferedChannel:
    """A channel's class and its manifest."""

    manifest: ChannelManifest
    kind: type[Channel]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plugin: runners and channels by name, tools by `<plugin name>.<function>`."""

    identity: PluginIdentity
    runners: Mapping[str, OfferedRunner]
    tools: Mapping[str, Tool] = field(default_factory=dict)
    channels: Mapping[str, OfferedChannel] = field(default_factory=dict)


def plugin_of(runner: Runner, identity: PluginIdentity | None = None) -> Plugin:
    """Wrap a single runner in a plugin, under the name `default`."""
    identity = identity or PluginIdentity(author="local", name=type(runner).__name__)
    manifest = manifest_of(type(runner), identity)
    return Plugin(identity, {manifest.name: OfferedRunner(manifest, runner)})
