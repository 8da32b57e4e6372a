"""`/v1/workers/connect`: the WebSocket of remote workers, with a key that has the right `workers:connect`."""

from __future__ import annotations

import logging

from hostler.http.asgi import Receive, Scope, Send
from hostler.http.auth import require_right
from hostler.http.middleware import admit_key
from hostler.http.open_keys import ENDED
from hostler.http.plugin_socket import SocketChannel
from hostler.http.request import ApiRequest
from hostler.http.state import AppState
from hostler.plugins.remote_workers.wire import End, encode
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    RateLimitedError,
    StorageError,
    UnauthorizedError,
    UnavailableError,
)

PATH = "/v1/workers/connect"
_POLICY_VIOLATION = 1008
_PASSING = (ConflictError, RateLimitedError, StorageError, UnavailableError)
"""Refusals after which a worker tries again."""
log = logging.getLogger("hostler.http")


async def serve_worker(
    state: AppState, request: ApiRequest, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a worker from its handshake to its end. HostlerError if the handshake is refused."""
    await admit_key(state, request)
    require_right(request.caller, "workers:connect")
    if request.holder is not None and request.holder.plugin is not None:
        raise UnauthorizedError(
            "the token of a plugin connects no worker: create a key with `workers:connect`"
        )
    if request.state.host.state != "ready":
        raise UnavailableError("the host is not ready: try again")
    channel = SocketChannel(receive, send)
    why = "done"
    try:
        async with state.open_keys.held(request.holder, before=channel.refuse):
            why = await state.host.remote_workers.serve(
                request.workspace_id, request.caller.credential_id, channel
            )
    except HostlerError as error:
        why = error.message
        log.warning("a remote worker: %s", why)
        if channel.accepted and why != ENDED:
            await _tell(channel, End(reason=why, again=isinstance(error, _PASSING)))
        elif not channel.accepted:
            raise
    await channel.close(_POLICY_VIOLATION if why == ENDED else 1000, why)


async def _tell(channel: SocketChannel, message: End) -> None:
    try:
        await channel.send(encode(message))
    except ConnectionError:
        log.debug("a worker was gone before it was told why")
