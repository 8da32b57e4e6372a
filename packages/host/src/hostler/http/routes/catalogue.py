"""What comes with the host: its runners and channels, and the agents of the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hostler.domain.trials import TRIAL_PLUGIN
from hostler.host.bundled import bundled, shipped_channels, shipped_runners
from hostler.host.demo_agents import demo_config
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.plugins.manifest import read_manifest
from hostler_protocol._base import Strict
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.errors import NotFoundError
from hostler_protocol.manifest import FormItem


class CatalogueRunner(Strict):
    """A runner that comes with the host: an agent that names it starts it.

    `label` and `description` are texts, or texts by language. `network`: the addresses that it reaches.
    """

    runner: str
    plugin: str
    label: dict[str, str] | str | None
    description: dict[str, str] | str | None
    network: list[str]
    requires: list[str]


class CatalogueChannel(Strict):
    """A channel that an entry of `channels` can name, `plugin:author/name/channel`.

    `config_schema`: the form of its `config`; null while its plugin has not started since the host did.
    """

    channel: str
    label: dict[str, str] | str | None
    description: dict[str, str] | str | None
    config_schema: list[FormItem] | None


class Catalogue(Strict):
    """`runners` by name, of those that the workspace may use; without those of tests. `channels`: those that
    come with the host and those of configured plugins, by name; empty without the right `installation`.
    `demo`: the configuration with the agents of `hostler demo`, for `POST /v1/config`; null without that
    right, or if it is not installed.
    """

    runners: list[CatalogueRunner]
    channels: list[CatalogueChannel]
    demo: dict[str, Any] | None


@endpoint("GET", "/v1/catalogue", right="plugins:read", tag="plugins")
async def get_catalogue(request: ApiRequest) -> Catalogue:
    """Get what comes with the host, whether it is used or not: runners, channels, the agents of the demo."""
    may = request.state.host.allowances.of(request.workspace_id)
    runners = [one for one in await asyncio.to_thread(_shipped) if may.runner(one.runner)]
    if not has_right(request.caller, "installation"):
        return Catalogue(runners=runners, channels=[], demo=None)
    seen = request.state.host.supervisor.catalog.channels()
    channels = await asyncio.to_thread(_channels, seen)
    return Catalogue(runners=runners, channels=channels, demo=await asyncio.to_thread(_demo))


def _channels(seen: Mapping[str, Mapping[str, ChannelManifest]]) -> list[CatalogueChannel]:
    found = {
        f"plugin:{plugin}/{name}": CatalogueChannel(
            channel=f"plugin:{plugin}/{name}",
            label=dict(manifest.label),
            description=manifest.description,
            config_schema=manifest.config_schema,
        )
        for plugin, channels in seen.items()
        for name, manifest in channels.items()
    }
    for plugin in shipped_channels():
        file = read_manifest(bundled("channels", plugin.partition("/")[2])).file
        for channel in file.channels:
            key = f"plugin:{plugin}/{channel.name}"
            one = CatalogueChannel(
                channel=key,
                label=file.plugin.label,
                description=file.plugin.description,
                config_schema=None,
            )
            found.setdefault(key, one)
    return [found[key] for key in sorted(found)]


def _shipped() -> list[CatalogueRunner]:
    found = []
    for plugin in shipped_runners():
        if plugin == TRIAL_PLUGIN:
            continue  # of the tests of models and tools
        file = read_manifest(bundled("runners", plugin.partition("/")[2])).file
        found += [
            CatalogueRunner(
                runner=f"plugin:{plugin}/{runner.name}",
                plugin=plugin,
                label=runner.label,
                description=runner.description,
                network=list(file.network),
                requires=list(file.requires),
            )
            for runner in file.runners
        ]
    return found


def _demo() -> dict[str, Any] | None:
    try:
        return demo_config()
    except NotFoundError:
        return None
