"""The Matrix channel at work: one process for all tests of a module, a server for each."""

from __future__ import annotations

from typing import Any

from support.matrix_server import MatrixServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "matrix"

desk = desk_of(FOLDER)


def config_of(server: MatrixServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    return {"homeserver": server.url, "access-token": server.token} | more


platform = PlatformDesk(MatrixServer, config_of)
serving = platform.serving
connected = platform.connected
