"""Start a plugin's process with LangBot's SDK, and register and initialize it as LangBot's runtime does."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler_langbot import SDK_REQUIREMENT
from hostler_langbot.bridge import Bridge
from hostler_langbot.form import defaults_of
from hostler_langbot.peer import ActionFailed, Peer, PluginGone
from hostler_sdk.loading import PluginLoadError

COMMAND = (sys.executable, "-m", "hostler_langbot.child")
REGISTER_SECONDS = 50.0
"""From the start to the end of `initialize_plugin`; a host waits 60 s for a plugin."""
PING_SECONDS = 10.0
SILENCE_SECONDS = 30.0
"""A process that leaves a ping unanswered for so long is stuck; a host treats its plugins the same way."""
LEAVE_SECONDS = 2.0
"""Time to end after standard input is closed, before it is killed."""
LOOK_SECONDS = 0.5
"""How often the end of the process is looked for, besides the end of its output."""
LAST_READ_SECONDS = 0.5
"""Time for its last output to be read."""
READ_BYTES = 64 * 1024
_DROPPED = ("HOSTLER_PLUGIN_MANIFEST", "HOSTLER_PLUGIN_TOKEN")


def environment_of(bridge: Bridge, files: Path, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the plugin's process."""
    passed = {name: value for name, value in inherited.items() if name not in _DROPPED}
    return {
        **passed,
        "LANGBOT_PLUGIN_REGISTRATION_CAPABILITY": bridge.capability,
        "LANGBOT_PLUGIN_FILE_STORAGE_DIR": str(files),
        "PYTHONUNBUFFERED": "1",
    }


def check_sdk() -> None:
    """Raise PluginLoadError if LangBot's SDK is not installed in this environment."""
    if importlib.util.find_spec("langbot_plugin") is None:
        raise PluginLoadError(
            f"LangBot's SDK is not installed in the plugin's environment: it needs {SDK_REQUIREMENT}, "
            'which is the extra "plugin" of hostler-langbot'
        )


@asynccontextmanager
async def plugin_process(
    bridge: Bridge, files: Path, command: Sequence[str] = COMMAND, folder: Path | None = None
) -> AsyncIterator[tuple[Peer, asyncio.subprocess.Process]]:
    """Start the plugin of a folder, by default the current one; its process ends with the block.

    `files`: the folder for its transfers of files.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment_of(bridge, files),
        cwd=folder,
    )
    assert process.stdin is not None
    try:
        async with asyncio.TaskGroup() as tasks:
            peer = Peer(process.stdin, bridge, tasks)
            reading = tasks.create_task(_read(process, peer))
            watching = tasks.create_task(_watch(process, peer, reading))
            try:
                yield peer, process
            finally:
                peer.close("it is being ended")
                await _end(process)
                reading.cancel()
                watching.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await _wait(process)


async def _read(process: asyncio.subprocess.Process, peer: Peer) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(READ_BYTES):
        peer.received(data)  # nothing happens to what comes after the connection is closed
    await _wait(process)
    peer.close(_ending(process.returncode))


async def _watch(process: asyncio.subprocess.Process, peer: Peer, reading: asyncio.Task[None]) -> None:
    """Close the connection once the process has ended, even if one that it started still holds its pipes."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio tells of it only when the pipes are closed
        await asyncio.sleep(LOOK_SECONDS)
    await asyncio.wait([reading], timeout=LAST_READ_SECONDS)
    peer.close(_ending(process.returncode))


def _ending(status: int | None) -> str:
    if status is None:
        return "it closed its standard output"
    return f"its process ended with status {status}" if status >= 0 else f"signal {-status} ended its process"


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        assert process.stdin is not None
        process.stdin.close()
        await _wait(process)
    if process.returncode is None:
        process.kill()
        await _wait(process)


async def _wait(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, which asyncio sees only once nobody holds its pipes any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await process.wait()


async def initialize(bridge: Bridge, peer: Peer) -> dict[str, Any]:
    """Wait until the plugin has registered, and initialize it. Return what it says about itself.

    Raises PluginLoadError with the plugin's own reason.
    """
    try:
        async with asyncio.timeout(REGISTER_SECONDS):
            container = await _registration(bridge, peer)
            config = defaults_of(_config_of(container))
            settings = {"enabled": True, "priority": 0, "plugin_config": config}
            await peer.request("initialize_plugin", {"plugin_settings": settings}, REGISTER_SECONDS)
    except TimeoutError:
        raise PluginLoadError(f"the plugin was not ready within {REGISTER_SECONDS:g} seconds") from None
    except PluginGone as error:
        raise PluginLoadError(f"the plugin did not start: {error}; its log says why") from error
    except ActionFailed as error:
        raise PluginLoadError(f"the plugin cannot be initialized: {error}") from error
    return container


async def _registration(bridge: Bridge, peer: Peer) -> dict[str, Any]:
    lost = asyncio.create_task(peer.lost.wait())
    waits: list[asyncio.Future[Any]] = [bridge.registered, lost]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost.cancel()
    if not bridge.registered.done():
        raise PluginGone(peer.reason)
    return bridge.registered.result()


def _config_of(container: Mapping[str, Any]) -> Any:
    """Return the form of the whole plugin's settings, from its manifest as it registered."""
    found: Any = container
    for field in ("manifest", "manifest", "spec", "config"):
        found = found.get(field) if isinstance(found, Mapping) else None
    return found


async def keep_pinging(peer: Peer, interval: float = PING_SECONDS, silence: float = SILENCE_SECONDS) -> None:
    """Ping the plugin until it does not answer any more, and close the connection then."""
    while not peer.lost.is_set():
        try:
            await peer.request("__ping", {}, silence)
        except TimeoutError:
            peer.close(f"it has not answered for {silence:g} seconds")
        except ActionFailed:
            continue  # an answer, if a strange one; or it is gone
        await asyncio.sleep(interval)
