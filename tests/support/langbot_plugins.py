"""Plugins of LangBot, written for the tests in both generations of its SDK, which is installed once."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.manifest import read_manifest
from hostler.plugins.supervisor import environments_folder
from hostler_protocol.errors import PluginStartError
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
