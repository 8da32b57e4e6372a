"""`python -m hostler_langbot.serve`: the process of a plugin of LangBot, as a host starts it.

The host passes the plugin's manifest, translated from its YAML, in HOSTLER_PLUGIN_MANIFEST. The plugin itself
runs in a child process of this one, in the same folder, environment and sandbox. If it ends, this process
ends as well: to the host, it is one plugin that crashed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from hostler_langbot.bridge import Bridge, BridgedRunner
from hostler_langbot.peer import ActionFailed, Peer
from hostler_langbot.process import check_sdk, initialize, keep_pinging, plugin_process
from hostler_sdk.loading import MANIFEST_VARIABLE, PluginFile, PluginLoadError, read_plugin_file
from hostler_sdk.plugin import OfferedRunner, Plugin
from hostler_sdk.runner import ManifestError, manifest_of
from hostler_sdk.serve import CANNOT_SERVE, ERROR_PREFIX
from hostler_sdk.stdio import Wires, check_stdio, serve_stdio, take_stdio

CRASHED = 1
SHUTDOWN_SECONDS = 1.0


def main() -> int:
    """Run the command, and return its exit status."""
    logging.basicConfig(level=logging.INFO, format="hostler-langbot: %(message)s")
    try:
        check_stdio()
        wires = take_stdio()
        stated = stated_plugin(os.environ)
        check_sdk()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the host's to act on
        return asyncio.run(_serve(stated, wires))
    except PluginLoadError as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"{ERROR_PREFIX}{text}\n")
        return CANNOT_SERVE


def stated_plugin(environment: Mapping[str, str]) -> PluginFile:
    """Return the translated manifest that the host passes. Raises PluginLoadError."""
    given = environment.get(MANIFEST_VARIABLE)
    if given is None:
        raise PluginLoadError(
            f"{MANIFEST_VARIABLE} is not set: a plugin of LangBot is started through a host, "
            "like hostler run ./the-plugin"
        )
    try:
        return read_plugin_file(json.loads(given), MANIFEST_VARIABLE)
    except json.JSONDecodeError as error:
        raise PluginLoadError(f"{MANIFEST_VARIABLE} is not JSON: {error}") from error


def plugin_of(stated: PluginFile, bridge: Bridge, peer: Peer) -> Plugin:
    """Return the plugin with its runners. Raises PluginLoadError."""
    runners = {}
    for one in stated.runners:
        try:
            manifest = manifest_of(BridgedRunner, stated.identity, one)
        except (ManifestError, TypeError, AttributeError) as error:
            raise PluginLoadError(f"runner {one.name!r}: {error}") from error
        runners[one.name] = OfferedRunner(manifest, BridgedRunner(one.name, bridge, peer))
    return Plugin(stated.identity, runners)


async def _serve(stated: PluginFile, wires: Wires) -> int:
    bridge = Bridge()
    with tempfile.TemporaryDirectory(prefix="langbot-", ignore_cleanup_errors=True) as files:
        async with plugin_process(bridge, Path(files)) as (peer, process):
            outcome = await _serve_host(stated, wires, bridge, peer, process)
    if isinstance(outcome, PluginLoadError):
        raise outcome
    return outcome


async def _serve_host(
    stated: PluginFile, wires: Wires, bridge: Bridge, peer: Peer, process: asyncio.subprocess.Process
) -> int | PluginLoadError:
    try:
        await initialize(bridge, peer)
        plugin = plugin_of(stated, bridge, peer)
    except PluginLoadError as error:
        return error
    pinging = asyncio.create_task(keep_pinging(peer))
    serving = asyncio.create_task(serve_stdio(plugin, wires))
    lost = asyncio.create_task(peer.lost.wait())
    try:
        await asyncio.wait([serving, lost], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            _crash(process, peer.reason)
        if not serving.result():
            os._exit(0)  # code that ignores its cancellation must not keep the process of a gone host
        with contextlib.suppress(ActionFailed, TimeoutError):
            await peer.request("shutdown", {}, SHUTDOWN_SECONDS)
        return 0
    finally:
        for task in (pinging, lost):
            task.cancel()


def _crash(process: asyncio.subprocess.Process, reason: str) -> NoReturn:
    """End this process at once: the host sees a crash, and settles the runs by their agents' policies."""
    sys.stderr.write(f"hostler-langbot: the plugin is gone: {reason}\n")
    sys.stderr.flush()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    os._exit(CRASHED)


if __name__ == "__main__":
    sys.exit(main())
