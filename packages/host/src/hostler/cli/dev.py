"""`hostler dev PLUGIN`: serve a plugin to a running host from its folder, and restart it at each change."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption, data_directory
from hostler.cli.output import note, report_errors, show_error
from hostler.cli.routes import route
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.plugins.source import Folder, SingleFile

POLL_SECONDS = 0.3
"""How often the plugin's files are checked for changes."""


def dev(
    plugin: Annotated[str, typer.Argument(help="A plugin folder, or file.py:Class.")],
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Serve a plugin to a running host while you work on it; each change restarts it.

    Meanwhile, each of its runners has an agent named dev.AUTHOR.NAME.RUNNER:
    chat with it in another terminal. Ctrl-C stops the command.
    """
    from hostler.cli.targets import plugin_source

    with report_errors():
        asyncio.run(_dev(plugin_source(plugin), url, key, data))


async def _dev(source: Folder | SingleFile, url: str | None, key: str | None, data: Path | None) -> None:
    from hostler.cli.remote_plugin import plugin_state, token_for
    from hostler.cli.server_address import reach
    from hostler.plugins.source import identity_of
    from hostler_protocol.errors import ConflictError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    plugin_key = identity_of(source).key
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(reach(url, key, data, running=True))
        if await plugin_state(api, plugin_key) not in (None, "disconnected"):
            raise ConflictError(
                f"the server at {api.url} already has a plugin {plugin_key}: remove it with "
                f"`hostler plugins remove {plugin_key}`, or give yours another name"
            )
        token = await stack.enter_async_context(token_for(api, plugin_key))
        await _serve_until(stop, api, source, token, data_directory(data))


async def _serve_until(
    stop: asyncio.Event, api: Api, source: Folder | SingleFile, token: str, data_dir: Path
) -> None:
    """Serve the plugin, and restart it after each change. Report a version that does not start."""
    from hostler.cli.remote_plugin import connected_process
    from hostler.plugins.source import fingerprint
    from hostler_protocol.errors import PluginError

    agents: set[str] = set()
    try:
        while not stop.is_set():
            seen = fingerprint(source)
            try:
                async with connected_process(api, source, token, data_dir, echo=True) as plugin:
                    agents |= await _add_agents(api, source)
                    ended = asyncio.create_task(plugin.ended())
                    await _wait_for_change(source, seen, stop, ended)
                    if ended.done():
                        show_error(plugin.why())
                    ended.cancel()
                    await asyncio.gather(ended, return_exceptions=True)
                if ended.done() and not ended.cancelled():
                    await _wait_for_change(source, seen, stop, None)
            except PluginError as error:
                show_error(error.message)
                await _wait_for_change(source, seen, stop, None)
            if not stop.is_set():
                note("the plugin changed: restarting it")
    finally:
        await _remove_agents(api, agents)


async def _wait_for_change(
    source: Folder | SingleFile, seen: object, stop: asyncio.Event, ended: asyncio.Task[Any] | None
) -> None:
    """Wait until the files differ from `seen`, the process has ended, or `stop` is set."""
    from hostler.plugins.source import fingerprint

    stopping = asyncio.create_task(stop.wait())
    tasks: list[asyncio.Task[Any]] = [stopping] if ended is None else [stopping, ended]
    try:
        while await asyncio.to_thread(fingerprint, source) == seen:
            done, _ = await asyncio.wait(tasks, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
    finally:
        stopping.cancel()


async def _add_agents(api: Api, source: Folder | SingleFile) -> set[str]:
    """Add an agent for each runner of the plugin. Return their names."""
    from rich.text import Text

    from hostler.domain.agents import AgentSpec, Scope
    from hostler.plugins.source import identity_of

    identity = identity_of(source)
    runners = (await api.get(route("plugins", identity.key)))["runners"]
    names = set()
    for runner in runners:
        name = f"dev.{identity.author}.{identity.name}.{runner}"
        spec = AgentSpec(
            name=name, runner=identity.runner_id(runner), event_types=[], scope=Scope(type="agent")
        )
        await api.put(route("agents", name), spec)
        names.add(name)
        out().print(
            Text.assemble(("✓ ", "green"), f"{runner} is ready; ", ("hostler chat ", "cyan"), (name, "cyan")),
            soft_wrap=True,
        )
    return names


async def _remove_agents(api: Api, agents: set[str]) -> None:
    from hostler_protocol.errors import HostlerError

    for name in agents:
        with contextlib.suppress(HostlerError):  # the server has stopped: no event is routed to the agent
            await api.delete(route("agents", name))
