"""Plugins of LangBot, written for the tests in both generations of its SDK, which is installed once."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.manifest import read_manifest
from hostler.plugins.supervisor import environments_folder
from hostler_langbot.bridge import Bridge, BridgedRunner
from hostler_langbot.peer import Peer
from hostler_langbot.process import initialize, plugin_process
from hostler_protocol.errors import PluginStartError
from hostler_sdk.testing import Driven
from support.cached_installs import alone, missing

PLUGINS = Path(__file__).with_name("plugins") / "langbot"


@functools.cache
def installed() -> tuple[Path, str] | str:
    """The folder of environments with the SDK, and its interpreter; a text says why there is none."""
    requires = read_manifest(PLUGINS / "current").file.requires
    with alone("langbot", "sdk") as cache:
        environments = Environments(cache / "environments", DEFAULT_START_LIMITS)
        try:
            python = asyncio.run(environments.python_for(requires, base=PLUGINS / "current"))
        except PluginStartError as error:
            return f"langbot-plugin cannot be installed: {error}"
    return environments.folder, python


async def sdk_python() -> str:
    """The interpreter of an environment with the SDK and the bridge."""
    found = await asyncio.to_thread(installed)
    if isinstance(found, str):
        missing(found)
    return found[1]


async def prepared(data: Path) -> None:
    """Let a host over `data` use what is installed."""
    await sdk_python()
    found = installed()
    assert not isinstance(found, str)
    data.mkdir(mode=0o700, exist_ok=True)
    target = environments_folder(data)
    target.parent.mkdir(exist_ok=True, mode=0o700)
    target.symlink_to(found[0])


class Puppet:
    """A plugin's process with its bridge, without a host."""

    def __init__(self, bridge: Bridge, peer: Peer, process: asyncio.subprocess.Process) -> None:
        self.bridge = bridge
        self.peer = peer
        self.process = process
        self.runner = BridgedRunner("default", bridge, peer)


@contextlib.asynccontextmanager
async def started(
    files: Path, generation: str = "current", command: Sequence[str] | None = None
) -> AsyncIterator[Puppet]:
    """Start one of the plugins with the real SDK, or another command in its place."""
    argv = command or [await sdk_python(), "-m", "hostler_langbot.child"]
    bridge = Bridge()
    async with plugin_process(bridge, files, argv, PLUGINS / generation) as (peer, process):
        await initialize(bridge, peer)
        yield Puppet(bridge, peer, process)


def steps(*taken: Sequence[Any]) -> str:
    """The message that lets the plugin take these steps."""
    return json.dumps([list(step) for step in taken])


def told(driven: Driven) -> list[Any]:
    """What its steps met."""
    found: list[Any] = json.loads(driven.text)
    return found
