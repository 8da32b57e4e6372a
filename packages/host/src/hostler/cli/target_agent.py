"""The agent behind a command's TARGET: a stored one, or one made for a plugin on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from hostler.cli.client import Api
from hostler.cli.output import note
from hostler.cli.routes import route
from hostler.cli.targets import (
    RunTarget,
    local_plugin,
    runner_name,
    same_name_note,
    unknown_agent,
    with_model,
)
from hostler.domain.agents import AgentSpec, Scope
from hostler.plugins.source import Folder, SingleFile, identity_of
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.manifest import AgentRunnerManifest

MAX_AGENTS = 10_000
ServePlugin: TypeAlias = Callable[[Folder | SingleFile], AbstractAsyncContextManager[None]]
"""Keeps a plugin of this machine connected to the host during a block."""


@asynccontextmanager
async def target_agent(
    api: Api,
    target: RunTarget,
    serve: ServePlugin,
    *,
    config: Mapping[str, Any],
    model: str | None,
    keep: bool,
) -> AsyncIterator[str]:
    """Enter with the name of the target's agent.

    For a plugin on this machine, `serve` connects it during the block, and an agent is made for it with
    `config` and `model`. Unless `keep`, the agent is removed at the end. State belongs to an agent: to
    continue a conversation, the agent must stay, and the next run of the same runner finds it by its name.
    """
    is_agent = not target.is_path and await _has_agent(api, target.text)
    plugin = local_plugin(target, is_agent=is_agent)
    if plugin is None:
        if not is_agent:
            names = [agent["name"] for agent in await api.items("/v1/agents", limit=MAX_AGENTS)]
            raise unknown_agent(target.text, names)
        _check_agent(target, has_settings=bool(config) or model is not None)
        yield target.text
        return
    identity = identity_of(plugin.source)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve(plugin.source))
        offered = (await api.get(route("plugins", identity.key)))["runners"]
        runner_id = identity.runner_id(runner_name(plugin, offered))
        manifest = msgspec.convert(await api.get(route("runners", runner_id)), AgentRunnerManifest)
        spec = AgentSpec(
            name=f"run.{runner_id.removeprefix('plugin:').replace('/', '.')}",
            runner=runner_id,
            config=with_model(config, manifest.config_schema, model),
            event_types=[],
            scope=Scope(type="agent"),
        )
        is_new = not await _has_agent(api, spec.name)
        await api.put(route("agents", spec.name), spec)
        if is_new and not keep:
            stack.push_async_callback(_remove, api, spec.name)
        yield spec.name


def _check_agent(target: RunTarget, *, has_settings: bool) -> None:
    """Refuse --set and --model for a stored agent; note where a file or folder has its name as well."""
    same_name = same_name_note(target)
    if has_settings:
        hint = (
            f" ({target.text!r} is an agent: for the folder or file, write {target.as_path})"
            if same_name
            else ""
        )
        raise InvalidArgumentError(
            f"--set and --model are for plugin folders and files; an agent has its own configuration{hint}"
        )
    if same_name is not None:
        note(same_name)


async def _has_agent(api: Api, name: str) -> bool:
    try:
        await api.get(route("agents", name))
    except NotFoundError:
        return False
    return True


async def _remove(api: Api, agent: str) -> None:
    with contextlib.suppress(HostlerError):  # a server that has gone keeps it; no event is routed to it
        await api.delete(route("agents", agent))
