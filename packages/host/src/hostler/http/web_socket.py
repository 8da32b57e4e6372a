"""uvicorn's WebSocket connection, for remote plugins and clients."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class BoundedSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, which counts a refused handshake as complete, not as a server error.

    It is the `socket` in the `state` of its ASGI scope.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app_state = {**self.app_state, "socket": self}

    async def send(self, message: Any) -> None:
        """Send an ASGI message."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Break the connection off: a peer that answers no ping would not take what is buffered, either."""
        super().keepalive_timeout()
        self.abort()

    def abort(self) -> None:
        """Break the connection off at once, dropping everything buffered."""
        self.transport.abort()
