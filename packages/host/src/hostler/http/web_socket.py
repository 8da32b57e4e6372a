"""uvicorn's WebSocket connection, as plugins that dial in use it."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class BoundedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection; a refused handshake is complete, and no error of the server."""

    async def send(self, message: Any) -> None:
        """Send a message of the application."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
