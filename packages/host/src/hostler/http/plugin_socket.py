"""`/v1/plugins/connect`: a plugin process elsewhere dials in.

Its token is bound to one plugin identity; what the process says of itself is checked against that.
"""

from __future__ import annotations

import logging
from typing import Any

from hostler.http.asgi import Receive, Scope, Send
from hostler.http.auth import demand
from hostler.http.middleware import admit
from hostler.http.problems import PROBLEM_TYPE, encode_problem, problem_of, status_of
from hostler.http.request import ApiRequest, headers_of
from hostler.http.state import AppState
from hostler_protocol.errors import HostlerError, NotFoundError, UnauthorizedError, UnavailableError

PATH = "/v1/plugins/connect"
_POLICY_VIOLATION = 1008
_MAX_CLOSE_REASON_BYTES = 120
log = logging.getLogger("hostler.http")


class SocketChannel:
    """A WebSocket as plugins/remote.py wants it.

    It is accepted when it is first used, so that a refusal before that is a plain HTTP answer, which a
    plugin's process can tell from a connection that broke.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self.accepted = False
        self._receive = receive
        self._send = send
        self._closed = False

    async def _accept(self) -> None:
        if not self.accepted:
            self.accepted = True
            await self._send({"type": "websocket.accept", "subprotocol": None, "headers": []})

    async def receive(self) -> str | bytes | None:
        """The next frame; None once the connection is closed."""
        if self._closed:
            return None
        await self._accept()
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        text: str | None = message.get("text")
        return text if text is not None else bytes(message.get("bytes") or b"")

    async def send(self, data: str) -> None:
        """Send one frame; waits while the other side takes none. ConnectionError once closed."""
        if self._closed:
            raise ConnectionResetError("the WebSocket is closed")
        try:
            await self._accept()
            await self._send({"type": "websocket.send", "text": data})
        except (OSError, RuntimeError) as error:  # RuntimeError: uvicorn's word for "closed meanwhile"
            self._closed = True
            raise ConnectionResetError("the WebSocket was closed") from error

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; harmless where it is closed."""
        if self._closed or not self.accepted:
            return
        self._closed = True
        short = reason.encode()[:_MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": short})
        except (OSError, RuntimeError):
            log.debug("a plugin's WebSocket was gone before it could be closed")


async def serve(state: AppState, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a WebSocket, from its handshake to its end."""
    await receive()  # websocket.connect
    request = ApiRequest(state, scope, receive, "GET", path, {}, headers_of(scope))
    channel = SocketChannel(receive, send)
    try:
        if path != PATH:
            raise NotFoundError(f"there is no WebSocket at {path}; there is one at {PATH}")
        await admit(state, request)
        plugin = _plugin_of(request)
        await state.host.supervisor.serve_remote(plugin, channel)
    except HostlerError as error:
        if not channel.accepted:
            await _deny(scope, send, error)
            return
        log.warning("remote plugin %s: %s", plugin, error.message)
        await channel.close(_POLICY_VIOLATION, error.message)


def _plugin_of(request: ApiRequest) -> str:
    demand(request.caller, "plugins:connect")
    plugin = request.holder.plugin if request.holder is not None else None
    if plugin is None:
        raise UnauthorizedError("this key is not the token of a plugin: make one with plugin 'author/name'")
    if request.state.host.state != "ready":
        raise UnavailableError("the host is not ready: try again")
    return plugin


async def _deny(scope: Scope, send: Send, error: HostlerError) -> None:
    """Answer the handshake with a problem document, where the server can; else close it."""
    body = encode_problem(problem_of(error))
    extensions: dict[str, Any] = scope.get("extensions") or {}
    if "websocket.http.response" not in extensions:
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.message[:100]})
        return
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    start: Any = {"type": "websocket.http.response.start", "status": status_of(error), "headers": headers}
    await send(start)
    end: Any = {"type": "websocket.http.response.body", "body": body, "more_body": False}
    await send(end)
