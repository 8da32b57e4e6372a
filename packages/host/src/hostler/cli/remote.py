"""One run through a running server: of an agent it has, or of a plugin of this machine that dials in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.cli.client import Api
from hostler.cli.configuration import send_config
from hostler.cli.once import (
    Wanted,
    agent_meant,
    envelope_for,
    exit_status,
    spec_for_one_run,
    tell_what_next,
)
from hostler.cli.output import FAILED, PAUSED, show_error
from hostler.cli.remote_plugin import GONE, dialled, plugin_state, token_for, turn_of, wait_gone
from hostler.cli.routes import route
from hostler.cli.run_output import Show, follow, interrupts, until_paused
from hostler.cli.server_address import Address
from hostler.cli.targets import LocalTarget, Target, plugin_meant, runner_name, unknown_agent
from hostler.host.config_file import read_config_file
from hostler.plugins.source import Folder, identity_of
from hostler_protocol.errors import ConflictError, HostlerError, NotFoundError, UnauthorizedError
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_protocol.runs import TERMINAL_STATUSES

MAX_AGENTS = 10_000
MAX_PAUSES = 10
"""Of one run: one of them waits."""


async def run_through_server(wanted: Wanted, target: Target, data_dir: Path, address: Address) -> int:
    """Run, show what comes, and give the exit status."""
    api = Api.at(address.url, address.key)
    try:
        if wanted.config_file is not None:
            config, source = read_config_file(wanted.config_file)
            await send_config(api, config, source)
        async with agent_on_server(api, wanted, target, data_dir) as name:
            return await _run(api, wanted, name)
    finally:
        await api.close()


@asynccontextmanager
async def agent_on_server(api: Api, wanted: Wanted, target: Target, data_dir: Path) -> AsyncIterator[str]:
    """The name of the agent to run: one the server has, or one made for the time of the block."""
    is_agent = not target.is_path and await _has_agent(api, target.text)
    plugin = plugin_meant(target, is_agent=is_agent)
    if plugin is None:
        if not is_agent:
            names = [agent["name"] for agent in await api.items("/v1/agents", limit=MAX_AGENTS)]
            raise unknown_agent(target.text, names)
        agent_meant(wanted, target)
        yield target.text
        return
    identity = identity_of(plugin.source)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_served(api, plugin, identity.key, data_dir))
        runner = runner_name(plugin, await _offered(api, identity.key))
        runner_id = identity.runner_id(runner)
        found = await api.get(route("runners", runner_id))
        form = msgspec.convert(found, AgentRunnerManifest).config_schema
        spec = spec_for_one_run(wanted, runner_id, form)
        known = await _has_agent(api, spec.name)
        await api.put(route("agents", spec.name), spec)
        if not known and wanted.conversation is None:
            stack.push_async_callback(_remove, api, spec.name)
        yield spec.name


@asynccontextmanager
async def _served(api: Api, target: LocalTarget, plugin_key: str, data_dir: Path) -> AsyncIterator[None]:
    """Have the plugin connected to the server for the time of the block, by a process of ours where needed.

    Which process serves it is looked at only with the turn: the plugin of another command is gone with it.
    """
    if await _is_the_servers_own(api, target, plugin_key):
        yield
        return
    async with AsyncExitStack() as stack:
        left_in_order = await stack.enter_async_context(turn_of(api, plugin_key))
        if not left_in_order:
            await wait_gone(api, plugin_key)
        if await _is_connected(api, plugin_key):
            await stack.aclose()  # by `hostler dev`, or from elsewhere: it takes runs side by side
        else:
            token = await stack.enter_async_context(token_for(api, plugin_key))
            await stack.enter_async_context(dialled(api, target.source, token, data_dir))
        yield


async def _has_agent(api: Api, name: str) -> bool:
    try:
        await api.get(route("agents", name))
    except NotFoundError:
        return False
    return True


async def _is_connected(api: Api, plugin_key: str) -> bool:
    return await plugin_state(api, plugin_key) not in GONE


async def _is_the_servers_own(api: Api, target: LocalTarget, plugin_key: str) -> bool:
    """Whether the server runs this very folder itself. ConflictError where it has another of that name."""
    try:
        source = (await api.get(route("plugins", plugin_key)))["source"]
    except NotFoundError:
        return False
    if source == "remote":
        return False
    if isinstance(target.source, Folder):
        entries = (await api.get("/v1/config"))["plugins"]
        folders = [entry if isinstance(entry, str) else entry["path"] for entry in entries]
        if str(target.source.path) in folders:
            return True
    raise ConflictError(
        f"the server at {api.url} has a plugin {plugin_key} from another place: give yours another name, or "
        "use another data directory with --data"
    )


async def _offered(api: Api, plugin_key: str) -> list[str]:
    runners: list[str] = (await api.get(route("plugins", plugin_key)))["runners"]
    return runners


async def _remove(api: Api, agent: str) -> None:
    with contextlib.suppress(HostlerError):  # it stays where the server is gone; nothing is routed to it
        await api.delete(route("agents", agent))


async def _run(api: Api, wanted: Wanted, agent: str) -> int:
    show = Show(as_json=wanted.as_json)
    async with interrupts() as interrupted:
        accepted = await api.post("/v1/events", envelope_for(wanted, agent))
        run: dict[str, Any] | None = accepted["run"]
        if run is None:
            show_error(f"the agent took no run: {accepted['outcome']}")
            return FAILED
        try:
            await follow(
                until_paused(api.results(run["run_id"])),
                show.result,
                interrupted,
                lambda: api.post(
                    route("runs", run["run_id"], "cancel"), {"reason": "interrupted at the terminal"}
                ),
            )
        finally:
            show.end()
        record = await api.get(route("runs", run["run_id"]))
        if record["status"] not in TERMINAL_STATUSES:
            tell_what_next(await _pauses(api, run["run_id"]))
            return PAUSED
        return exit_status(record["status"], interrupted=interrupted.is_set())


async def _pauses(api: Api, run_id: str) -> list[dict[str, Any]]:
    """What the run waits for; nothing where the key may not see it."""
    try:
        return await api.items("/v1/pauses", limit=MAX_PAUSES, run_id=run_id)
    except UnauthorizedError:
        return []
