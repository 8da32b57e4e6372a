"""What comes with the host: its runners, and the agents of the demo."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.domain.trials import TRIAL_PLUGIN
from hostler.host.bundled import bundled, shipped_runners
from hostler.host.demo_agents import demo_config
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.plugins.manifest import read_manifest
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError


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


class Catalogue(Strict):
    """`runners` by name, of those that the workspace may use; without those of tests. `demo`: the
    configuration with the agents of `hostler demo`, for `POST /v1/config`; null without the right
    `installation`, or if it is not installed.
    """

    runners: list[CatalogueRunner]
    demo: dict[str, Any] | None


@endpoint("GET", "/v1/catalogue", right="plugins:read", tag="plugins")
async def get_catalogue(request: ApiRequest) -> Catalogue:
    """Get the runners that come with the host, whether agents use them or not, and the agents of the demo."""
    may = request.state.host.allowances.of(request.workspace_id)
    runners = await asyncio.to_thread(_shipped)
    demo = await asyncio.to_thread(_demo) if has_right(request.caller, "installation") else None
    return Catalogue(runners=[one for one in runners if may.runner(one.runner)], demo=demo)


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
