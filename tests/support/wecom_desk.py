"""The WeCom channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

import base64
from typing import Any

from hostler_protocol.channels import ChannelFound
from support.channel_desk import OpenChannel
from support.platform_desk import CHANNELS, PlatformDesk, desk_of
from support.wecom_envelopes import AES_KEY, AGENT, CORP, TOKEN, call_of
from support.wecom_server import SECRET, WecomServer

FOLDER = CHANNELS / "wecom"

desk = desk_of(FOLDER)


def config_of(server: WecomServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {
        "corp-id": CORP,
        "agent-id": AGENT,
        "secret": SECRET,
        "callback-token": TOKEN,
        "callback-aes-key": AES_KEY,
        "base-url": server.url,
    } | more


platform = PlatformDesk(WecomServer, config_of)
serving = platform.serving
connected = platform.connected


async def come(channel: OpenChannel, content: bytes | str, **sealed: Any) -> int:
    """Let WeCom call the address with a message; return the status of the answer, which says nothing."""
    answer = await channel.request(**call_of(content, **sealed))
    assert base64.b64decode(answer.body_base64) == b""
    return answer.status


async def find(channel: OpenChannel, since: float, text: str = "x", chat: str = "ada") -> ChannelFound:
    return await channel.find(text, chat, since=since)
