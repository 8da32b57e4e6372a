"""A host in a process of its own with a channel, to be killed at a step of the channel's plugin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.chat_platform import TOKEN, ChatPlatform, platform
from support.http_host import Served
from support.server_process import PLUGINS, HostProcess, config_file
from support.wire_client import ask

SECONDS = 60
LOOK_SECONDS = 0.02
CONSTANTS = {
    "hostler.domain.outbox_steps.FIRST_WAIT_SECONDS": 0.05,
    "hostler.channels.channel_service.FIRST_WAIT_SECONDS": 0.1,
}


@dataclass
class World:
    """A host with a channel, a platform, and the trap at which the host is killed."""

    host: HostProcess
    chat: ChatPlatform
    trap: Path

    def kill_at(self, step: str) -> None:
        """Set the trap."""
        new = self.trap.with_suffix(".new")
        new.write_text(step)
        new.replace(self.trap)

    async def died(self) -> None:
        """Wait until the plugin is at the step, and kill the host."""
        while self.trap.exists():
            self.host.check()
            await asyncio.sleep(LOOK_SECONDS)
        self.host.kill()

    async def settled(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many messages are settled."""
        return await settled(self.host, count)


async def items(host: HostProcess | Served, path: str) -> list[dict[str, Any]]:
    """What a list of the host has."""
    answer = await host.client.get(path) if isinstance(host, Served) else await ask(host.url, "GET", path)
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def settled(host: HostProcess | Served, count: int) -> list[dict[str, Any]]:
    """Wait until so many messages are settled; return them, the oldest first."""
    while True:
        found = await items(host, "/v1/outbox")
        if len(found) >= count and all(one["due_at"] is None for one in found):
            return found[::-1]
        await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def world(
    tmp_path: Path,
    channel: str,
    *,
    acts: Path | None = None,
    policy: dict[str, Any] | None = None,
    agent: dict[str, Any] | None = None,
    channels: list[dict[str, Any]] | None = None,
    **entry: Any,
) -> AsyncIterator[World]:
    """A host that was started. `acts`: where the channel notes its actions; `policy`: of the agent.

    `agent`, `channels`: further fields of the agent, and further channels.
    """
    trap, token = tmp_path / "trap", tmp_path / "token"
    token.write_text(TOKEN)
    async with platform() as chat:
        config = {"port": chat.port, "token": f"file:{token}", "trap": str(trap)}
        config |= {} if acts is None else {"acts": str(acts)}
        given = {"name": "chat", "channel": f"plugin:test/wires/{channel}", "config": config, **entry}
        echo = {
            "name": "echo",
            "runner": "plugin:test/wires/echo",
            "recovery": {"max_attempts": 100},
            "resource_policy": policy or {},
            **(agent or {}),
        }
        file = config_file(
            tmp_path / "config.yaml",
            plugins=[PLUGINS / "wires"],
            agents=[echo],
            channels=[given, *(channels or [])],
        )
        host = HostProcess(tmp_path / "host", file, constants=CONSTANTS)
        try:
            async with asyncio.timeout(SECONDS):
                await host.start()
                yield World(host, chat, trap)
        except BaseException:
            print(host.log)
            raise
        finally:
            host.end()
