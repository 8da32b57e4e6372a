"""The LINE channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from support.channel_desk import OpenChannel
from support.line_server import SECRET, LineServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "line"

desk = desk_of(FOLDER)


def config_of(server: LineServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    known = {"token": server.token, "channel-secret": SECRET}
    return known | {"base-url": server.address, "data-url": server.address} | more


platform = PlatformDesk(LineServer, config_of)
serving = platform.serving
connected = platform.connected


async def deliver(channel: OpenChannel, server: LineServer, *events: Any) -> int:
    """Have LINE call with events; return the status of the answer."""
    response = await channel.request(**server.webhook(*events))
    return response.status
