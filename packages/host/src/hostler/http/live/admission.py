"""Who may open `/v1/ws`: the holder of a key, or a page in a browser with a front-end token as a subprotocol.

Cookies are not looked at: browsers send them with WebSockets that other sites open.
"""

from __future__ import annotations

from hostler.http.live import wanted
from hostler.http.middleware import admit_socket
from hostler.http.request import ApiRequest
from hostler.http.state import AppState
from hostler_protocol.errors import UnavailableError


async def admit_client(state: AppState, request: ApiRequest) -> str | None:
    """Authenticate the caller into `request.holder`; return the subprotocol to accept it with, if any.

    UnauthenticatedError without a valid key or token; UnauthorizedError without the right to read runs.
    """
    protocol = await admit_socket(state, request, narrow=True)
    wanted.check_access(request.caller)
    if state.host.state != "ready":
        raise UnavailableError("the host is not ready: try again")
    return protocol
