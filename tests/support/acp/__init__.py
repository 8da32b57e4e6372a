"""The scripted coding agent, and what it has seen."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

AGENT = Path(__file__).with_name("scripted_agent.py")
WAIT_SECONDS = 60.0


def command(*flags: str, python: str = sys.executable, agent: Path = AGENT) -> str:
    """The command that starts the agent."""
    return shlex.join([python, str(agent), *flags])


def steps(*listed: Any) -> str:
    """The message that makes the agent take these steps."""
    return json.dumps(list(listed))


def seen(folder: Path, what: str | None = None) -> list[dict[str, Any]]:
    """What the agent noted in its folder."""
    log = folder / "agent.log"
    lines = log.read_text().splitlines() if log.exists() else []
    found = [json.loads(line) for line in lines]
    return [one for one in found if what in (None, one["what"])]


async def until_seen(folder: Path, what: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until the agent has noted it."""
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found := seen(folder, what)) < count:
            await asyncio.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is not only left to be waited for."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def until_gone(*pids: int) -> None:
    """Wait until none of the processes runs."""
    async with asyncio.timeout(WAIT_SECONDS):
        while any(map(is_alive, pids)):
            await asyncio.sleep(0.02)
