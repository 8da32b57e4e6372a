"""uvicorn's WebSocket connection, for remote plugins."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class BoundedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, which counts a refused handshake as complete, not as a server error."""

    async def send(self, message: Any) -> None:
        """Send an ASGI message."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
