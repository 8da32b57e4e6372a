"""The Discord channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from hostler_protocol.channels import ChannelFound
from support.channel_desk import OpenChannel
from support.discord_server import GENERAL, DiscordServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "discord"
POST = "POST /channels/*/messages"

desk = desk_of(FOLDER)


def config_of(server: DiscordServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {"token": server.token, "base-url": server.url} | more


platform = PlatformDesk(DiscordServer, config_of)
serving = platform.serving
connected = platform.connected


async def found(
    channel: OpenChannel, text: str, since: float, key: str = "k", **message: Any
) -> ChannelFound:
    """Have the channel look for a message in GENERAL."""
    return await channel.find(text, GENERAL, since=since, key=key, **message)
