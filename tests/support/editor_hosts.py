"""Hosts with a scripted agent, and editors at them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.command_line import EXAMPLES
from support.editors import Editing, editing
from support.server_process import KEY, PLUGINS, HostProcess, config_file, serving
from support.shop import SHOP

POLICY = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.book": "required"}}


def agent(name: str = "helper", runner: str = "resumable", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "runner": f"plugin:test/stepper/{runner}",
        "resource_policy": POLICY,
        "concurrency": {"on_busy": "queue"},
        **fields,
    }


@contextlib.asynccontextmanager
async def a_host(folder: Path, *agents: dict[str, Any], **fields: Any) -> AsyncIterator[HostProcess]:
    """A host with the stepper, a shop, the toolbox, and agents."""
    shop = shutil.copytree(SHOP, folder / "shop", ignore=shutil.ignore_patterns("*.sqlite3*"))
    listed = list(agents) or [agent()]
    listed.append({"name": "echo", "runner": "plugin:acme/echo/default"})
    plugins = [PLUGINS / "stepper", PLUGINS / "listener", PLUGINS / "toolbox", shop, EXAMPLES / "echo"]
    config = config_file(folder / "hostler.yaml", plugins=plugins, agents=listed)
    async with serving(HostProcess(folder / "data", config, **fields)) as host:
        yield host


@contextlib.asynccontextmanager
async def at(
    host: HostProcess, folder: Path, *arguments: str, key: str = KEY, **more: Any
) -> AsyncIterator[Editing]:
    """An editor at a host."""
    target = () if arguments and not arguments[0].startswith("-") else ("helper",)
    async with editing(*target, *arguments, "--url", host.url, "--key", key, folder=folder, **more) as editor:
        yield editor
