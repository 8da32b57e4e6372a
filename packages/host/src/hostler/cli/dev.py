"""`hostler dev PLUGIN`: a plugin served to a running host from its folder, anew after each change."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, KeyOption, UrlOption, data_directory
from hostler.cli.output import errors_told, note, out, show_error
from hostler.cli.routes import route

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.plugins.source import Folder, SingleFile

LOOK_SECONDS = 0.3
"""How often the plugin's files are looked at."""


def dev(
    plugin: Annotated[str, typer.Argument(help="A plugin folder, or file.py:Class.")],
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Serve a plugin to a running host while you work on it: at each change it is started anew.

    For each of its runners there is an agent of the name dev.AUTHOR.NAME.RUNNER meanwhile: talk with it in
    another terminal. Ctrl-C ends it.
    """
    from hostler.cli.targets import plugin_source

    with errors_told():
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
                f"the server at {api.url} has a plugin {plugin_key} already: remove it with "
                f"`hostler plugins remove {plugin_key}`, or give yours another name"
            )
        token = await stack.enter_async_context(token_for(api, plugin_key))
        await _serve_until(stop, api, source, token, data_directory(data))


async def _serve_until(
    stop: asyncio.Event, api: Api, source: Folder | SingleFile, token: str, data_dir: Path
) -> None:
    """Serve, and serve anew after each change; a version that does not start is told, and waited on."""
    from hostler.cli.remote_plugin import dialled
    from hostler.plugins.source import fingerprint
    from hostler_protocol.errors import PluginError

    agents: set[str] = set()
    try:
        while not stop.is_set():
            seen = fingerprint(source)
            try:
                async with dialled(api, source, token, data_dir, echo=True) as plugin:
                    agents |= await _offer(api, source)
                    ended = asyncio.create_task(plugin.ended())
                    await _changed(source, seen, stop, ended)
                    if ended.done():
                        show_error(plugin.why())
                    ended.cancel()
                    await asyncio.gather(ended, return_exceptions=True)
                if ended.done() and not ended.cancelled():
                    await _changed(source, seen, stop, None)
            except PluginError as error:
                show_error(error.message)
                await _changed(source, seen, stop, None)
            if not stop.is_set():
                note("changed: starting it anew")
    finally:
        await _withdraw(api, agents)


async def _changed(
    source: Folder | SingleFile, seen: object, stop: asyncio.Event, ended: asyncio.Task[Any] | None
) -> None:
    """Wait until the files differ from `seen`, the process ended, or it is time to stop."""
    from hostler.plugins.source import fingerprint

    stopping = asyncio.create_task(stop.wait())
    tasks: list[asyncio.Task[Any]] = [stopping] if ended is None else [stopping, ended]
    try:
        while await asyncio.to_thread(fingerprint, source) == seen:
            done, _ = await asyncio.wait(tasks, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
    finally:
        stopping.cancel()


async def _offer(api: Api, source: Folder | SingleFile) -> set[str]:
    """Make an agent for each runner; their names."""
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
            Text.assemble(
                ("✓ ", "green"), f"{runner} is served; ", ("hostler chat ", "cyan"), (name, "cyan")
            ),
            soft_wrap=True,
        )
    return names


async def _withdraw(api: Api, agents: set[str]) -> None:
    from hostler_protocol.errors import HostlerError

    for name in agents:
        with contextlib.suppress(HostlerError):  # the server is gone: nothing is routed to it anyway
            await api.delete(route("agents", name))
