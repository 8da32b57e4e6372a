"""A host with a channel to the platform of the tests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import outbox
from hostler.storage.stores.channel_connections import Connection
from hostler.storage.stores.outbox_rows import Delivery
from support.chat_platform import TOKEN, ChatPlatform
from support.http_host import WORKSPACE, Served, serving
from support.trust import trusted

WIRES = Path(__file__).with_name("plugins") / "wires"
LOOK_SECONDS = 0.02


def entry_for(port: int, token_file: Path, channel: str = "keyed", **fields: Any) -> ChannelEntry:
    """An entry of `channels` for a platform."""
    token_file.write_text(TOKEN)
    config = {"port": port, "token": f"file:{token_file}"}
    given = {"name": "chat", "channel": f"plugin:test/wires/{channel}", "config": config, **fields}
    return ChannelEntry(**given)


def config_for(entry: ChannelEntry, **agent: Any) -> ConfigFile:
    """A configuration with a channel and an agent that says what it is told."""
    echo = AgentSpec(name="echo", runner="plugin:test/wires/echo", **agent)
    return ConfigFile(plugins=[trusted(WIRES)], agents=[echo], channels=[entry])


class Chatting:
    """A served host with a channel, `chat`."""

    def __init__(self, served: Served, platform: ChatPlatform) -> None:
        self.served = served
        self.platform = platform

    @property
    def host(self) -> Host:
        return self.served.host

    async def connection(self) -> Connection:
        """How the connection stands."""
        found = await self.host.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
        assert found is not None
        return found

    async def outbox(self, **filters: Any) -> list[Delivery]:
        """Its messages, oldest first."""
        found = await self.host.db.read(lambda tx: outbox.page(tx, WORKSPACE, **filters))
        return sorted(found, key=lambda one: one.position)

    async def until(self, holds: Callable[[], Awaitable[Any]]) -> Any:
        """Wait until something holds, and return it."""
        while not (found := await holds()):
            await asyncio.sleep(LOOK_SECONDS)
        return found

    async def health(self, *wanted: str) -> Connection | None:
        """Return the connection if it stands so."""
        found = await self.host.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
        return found if found is not None and found.health in wanted else None

    async def ignored(self, count: int) -> bool:
        """Whether so many events were left out, no more."""
        return (await self.connection()).ignored == count

    async def asked(self, count: int) -> bool:
        """Whether a limited message is noted as such, after so many requests."""
        return len(self.platform.requests) >= count and any(one.error for one in await self.outbox())

    async def logins(self, count: int) -> bool:
        """Whether the bot has logged in so often."""
        return self.platform.logins >= count

    async def bots(self, count: int) -> bool:
        """Whether so many bots are logged in."""
        return self.platform.bots == count

    async def ended(self, count: int) -> bool:
        """Whether so many runs have ended."""
        runs = (await self.served.client.get("/v1/runs")).json()["items"]
        return sum(run["status"] in {"completed", "failed"} for run in runs) == count

    async def files_of(self, run: dict[str, Any]) -> list[Any]:
        """The files of a run's conversation."""
        answer = await self.served.client.get(
            "/v1/artifacts", params={"conversation_id": run["conversation_id"]}
        )
        return list(answer.json()["items"])

    @staticmethod
    def content(file: dict[str, Any]) -> bytes:
        """The bytes of a file on the platform."""
        return base64.b64decode(file["content"])

    def plugin_pid(self) -> int:
        """The process of the channel's plugin."""
        (found,) = [one.pid for one in self.host.supervisor.status() if one.key == "test/wires"]
        assert found is not None
        return found

    async def change(self, entry: ChannelEntry) -> None:
        """Change the entry."""
        await self.host.apply(ConfigFile(channels=[entry]), actor="test")

    async def settled(self, count: int) -> list[Delivery]:
        """Wait until the outbox has so many messages, and none of them waits."""

        async def look() -> list[Delivery]:
            found = await self.outbox()
            return found if len(found) >= count and all(one.due_at is None for one in found) else []

        return list(await self.until(look))

    async def connected(self) -> Connection:
        """Wait until the channel is connected."""

        async def look() -> Connection | None:
            found = await self.host.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
            return found if found is not None and found.health == "connected" else None

        found: Connection = await self.until(look)
        return found


@asynccontextmanager
async def chatting(
    folder: Path,
    platform: ChatPlatform,
    channel: str = "keyed",
    *,
    agent: dict[str, Any] | None = None,
    config_more: dict[str, Any] | None = None,
    database: str | None = None,
    **fields: Any,
) -> AsyncIterator[Chatting]:
    """A host with a channel to a platform. `fields`: of the entry; `agent`: of the agent."""
    async with serving(folder / "host", agent=False, database=database) as served:
        served.host.channels.hurry(0.05)
        entry = entry_for(platform.port, folder / "token", channel, **fields)
        entry.config.update(config_more or {})
        await served.host.apply(config_for(entry, **(agent or {})), actor="test")
        yield Chatting(served, platform)
