"""The Telegram channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from support.platform_desk import CHANNELS, PlatformDesk, desk_of
from support.telegram_server import TelegramServer

FOLDER = CHANNELS / "telegram"

desk = desk_of(FOLDER)


def config_of(server: TelegramServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {"token": server.token, "base-url": server.url} | more


platform = PlatformDesk(TelegramServer, config_of)
serving = platform.serving
connected = platform.connected
