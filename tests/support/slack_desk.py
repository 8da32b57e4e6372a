"""The Slack channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from hostler_protocol.channels import ChannelEvent
from support.platform_desk import CHANNELS, PlatformDesk, desk_of
from support.slack_methods import DM
from support.slack_server import SlackServer

FOLDER = CHANNELS / "slack"

desk = desk_of(FOLDER)


def config_of(server: SlackServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {"token": server.token, "app-token": server.app_token, "base-url": f"{server.address}/api/"} | more


platform = PlatformDesk(SlackServer, config_of)
serving = platform.serving
connected = platform.connected


def place(event: ChannelEvent) -> tuple[str, str, str | None]:
    """The kind, chat and thread of an event."""
    assert event.chat is not None
    return event.chat.kind, event.chat.chat_id, event.chat.thread_id


def say(server: SlackServer, text: str, chat: str = DM, **more: Any) -> str:
    """Somebody writes, and Slack sends it; the envelope's id."""
    return server.envelope("events_api", server.said(server.write(text, chat, **more), chat))
