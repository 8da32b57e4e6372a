"""The WebSockets of the host: the path says which one a client wants."""

from __future__ import annotations

from typing import Any

from hostler.http import plugin_socket, worker_socket
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.live import socket as live_socket
from hostler.http.problems import PROBLEM_TYPE, encode_problem, problem_of, status_of
from hostler.http.request import ApiRequest, headers_of
from hostler.http.state import AppState
from hostler_protocol.errors import HostlerError, NotFoundError

_SERVED = {
    plugin_socket.PATH: plugin_socket.serve_plugin,
    worker_socket.PATH: worker_socket.serve_worker,
    live_socket.PATH: live_socket.serve_live,
}


async def serve(state: AppState, path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a WebSocket from its handshake to its end."""
    await receive()  # websocket.connect
    request = ApiRequest(state, scope, receive, "GET", path, {}, headers_of(scope))
    try:
        served = _SERVED.get(path)
        if served is None:
            raise NotFoundError(f"there is no WebSocket at {path}; they are at {', '.join(_SERVED)}")
        await served(state, request, scope, receive, send)
    except HostlerError as error:
        await _deny(scope, send, error)


async def _deny(scope: Scope, send: Send, error: HostlerError) -> None:
    """Refuse the handshake with a problem document if the server supports that; else close it."""
    body = encode_problem(problem_of(error))
    extensions: dict[str, Any] = scope.get("extensions") or {}
    if "websocket.http.response" not in extensions:
        await send(
            {"type": "websocket.close", "code": live_socket.POLICY_VIOLATION, "reason": error.message[:100]}
        )
        return
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    start: Any = {"type": "websocket.http.response.start", "status": status_of(error), "headers": headers}
    await send(start)
    end: Any = {"type": "websocket.http.response.body", "body": body, "more_body": False}
    await send(end)
