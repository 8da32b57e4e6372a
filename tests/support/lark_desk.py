"""The Lark channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from hostler_protocol.channels import ChannelSent
from support.channel_desk import OpenChannel
from support.lark_methods import DM, SECRET
from support.lark_server import LarkServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "lark"

desk = desk_of(FOLDER)


def config_of(server: LarkServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {"app-id": server.app_id, "app-secret": SECRET, "base-url": server.address} | more


platform = PlatformDesk(LarkServer, config_of)
serving = platform.serving
connected = platform.connected


async def send(channel: OpenChannel, text: str = "", chat: str = DM, **more: Any) -> ChannelSent:
    """Send a message, to the private chat if no other is named."""
    return await channel.send(text, chat, **more)
