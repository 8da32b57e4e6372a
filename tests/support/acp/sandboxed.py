"""The shipped plugin in its sandbox: what it requires, installed once, and the agent in its workspace."""

from __future__ import annotations

import asyncio
import functools
import shutil
from pathlib import Path
from typing import Any

import psutil
import yaml

from hostler.host.config import PluginEntry
from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.supervisor import environments_folder
from hostler_protocol.errors import PluginStartError
from support.acp import AGENT
from support.cached_installs import alone, missing

FOLDER = Path(__file__).parents[3] / "runners" / "acp"
RUNNER = "plugin:hostler/acp/default"
ENTRY = PluginEntry(path=str(FOLDER))


@functools.cache
def _environments() -> Path | str:
    """The folder of environments with what the plugin requires; a text says why there is none."""
    requires = yaml.safe_load((FOLDER / "hostler.yaml").read_text())["requires"]
    with alone("acp", "plugin") as cache:
        environments = Environments(cache / "environments", DEFAULT_START_LIMITS)
        try:
            asyncio.run(environments.python_for(requires, base=FOLDER))
        except PluginStartError as error:
            return f"what the plugin requires cannot be installed: {error}"
    return environments.folder


class Workspace:
    """The plugin's workspace in a data directory, with the agent's program."""

    def __init__(self, data: Path) -> None:
        self.root = data / "plugins" / "workspaces" / "hostler" / "acp"
        self.folder = self.root / "work"
        """Where the agent works."""
        self.agent = self.root / AGENT.name

    def config(self, *flags: str, **settings: Any) -> dict[str, Any]:
        """The configuration of an agent."""
        command = " ".join(["python", str(self.agent), *flags])
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        return {"provider": "custom", "command": command, "workspace": "work", **given}

    def processes(self) -> list[int]:
        """The processes of agents, as seen from outside of the sandbox."""
        found = psutil.process_iter(["cmdline"])
        return [one.pid for one in found if str(self.agent) in (one.info["cmdline"] or [])]

    async def until_empty(self) -> None:
        """Wait until no agent runs."""
        async with asyncio.timeout(60):
            while self.processes():
                await asyncio.sleep(0.05)


async def prepared(data: Path) -> Workspace:
    """Put the environment and the agent where a host over `data` finds them."""
    found = await asyncio.to_thread(_environments)
    if isinstance(found, str):
        missing(found)
    data.mkdir(mode=0o700, exist_ok=True)
    target = environments_folder(data)
    target.parent.mkdir(exist_ok=True, mode=0o700)
    target.symlink_to(found)
    workspace = Workspace(data)
    workspace.root.mkdir(parents=True)
    shutil.copy(AGENT, workspace.agent)
    return workspace
