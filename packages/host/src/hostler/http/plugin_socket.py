"""`/v1/plugins/connect`: the WebSocket of remote plugin processes.

The token of a process is bound to one plugin identity, which its manifest has to match.
"""

from __future__ import annotations

import logging

from hostler.http.asgi import Receive, Scope, Send
from hostler.http.auth import require_right
from hostler.http.middleware import admit_key
from hostler.http.open_keys import ENDED
from hostler.http.request import ApiRequest
from hostler.http.state import AppState
from hostler_protocol.errors import HostlerError, UnauthorizedError, UnavailableError

PATH = "/v1/plugins/connect"
_POLICY_VIOLATION = 1008
_MAX_CLOSE_REASON_BYTES = 120
log = logging.getLogger("hostler.http")


class SocketChannel:
    """A WebSocket as a channel for plugins/remote.py, and for remote workers.

    It is accepted at its first use. A refusal before that is a plain HTTP response, which a plugin process
    can tell from a broken connection.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self.accepted = False
        self._receive = receive
        self._send = send
        self._closed = False
        self._refused = False

    def refuse(self) -> None:
        """Close with the code of a refusal, whoever closes: the token is no longer valid."""
        self._refused = True

    async def _accept(self) -> None:
        if not self.accepted:
            self.accepted = True
            await self._send({"type": "websocket.accept", "subprotocol": None, "headers": []})

    async def receive(self) -> str | bytes | None:
        """Return the next frame; None once the connection is closed."""
        if self._closed:
            return None
        await self._accept()
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        text: str | None = message.get("text")
        return text if text is not None else bytes(message.get("bytes") or b"")

    async def send(self, data: str | bytes) -> None:
        """Send one frame; wait while the peer accepts none. ConnectionError once closed."""
        if self._closed:
            raise ConnectionResetError("the WebSocket is closed")
        try:
            await self._accept()
            await self._send({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})
        except (OSError, RuntimeError) as error:  # uvicorn raises RuntimeError after a close
            self._closed = True
            raise ConnectionResetError("the WebSocket was closed") from error

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; does nothing if it is closed."""
        if self._closed or not self.accepted:
            return
        self._closed = True
        if self._refused:
            code, reason = _POLICY_VIOLATION, ENDED
        short = reason.encode()[:_MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": short})
        except (OSError, RuntimeError):
            log.debug("a plugin's WebSocket was gone before it could be closed")


async def serve_plugin(
    state: AppState, request: ApiRequest, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a plugin process from its handshake to its end. HostlerError if the handshake is refused."""
    channel = SocketChannel(receive, send)
    try:
        await admit_key(state, request)
        plugin = _plugin_of(request)
        async with state.open_keys.held(request.holder, before=channel.refuse):
            await state.host.supervisor.serve_remote(plugin, channel)
    except HostlerError as error:
        if not channel.accepted:
            raise
        log.warning("remote plugin %s: %s", plugin, error.message)
        await channel.close(_POLICY_VIOLATION, error.message)


def _plugin_of(request: ApiRequest) -> str:
    require_right(request.caller, "plugins:connect")
    plugin = request.holder.plugin if request.holder is not None else None
    if plugin is None:
        raise UnauthorizedError("this key is not the token of a plugin: create one with plugin 'author/name'")
    if request.state.host.state != "ready":
        raise UnavailableError("the host is not ready: try again")
    return plugin
