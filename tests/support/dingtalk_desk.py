"""The DingTalk channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hostler_protocol.channels import ChannelEvent
from support.channel_desk import ChannelDesk, OpenChannel
from support.dingtalk_calls import CLIENT_ID, SECRET
from support.dingtalk_server import DingTalkServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "dingtalk"

desk = desk_of(FOLDER)


def config_of(server: DingTalkServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    urls = {"base-url": server.address, "files-url": server.address}
    return {"client-id": CLIENT_ID, "client-secret": SECRET, **urls} | more


async def _ready(server: DingTalkServer) -> None:
    await server.until_links(1)


platform = PlatformDesk(DingTalkServer, config_of, _ready)
serving = platform.serving


def connected(
    desk: ChannelDesk,
    body: Callable[[OpenChannel, DingTalkServer], Awaitable[None]],
    *,
    cards: bool = True,
    **settings: Any,
) -> None:
    """Run a test on a channel that is connected. `cards`: it is the one with cards."""
    desk.channel = "dingtalk" if cards else "markdown"
    platform.connected(desk, body, **settings)


def place(event: ChannelEvent) -> tuple[str, str]:
    """The kind and id of the chat of an event."""
    assert event.chat is not None
    return event.chat.kind, event.chat.chat_id
