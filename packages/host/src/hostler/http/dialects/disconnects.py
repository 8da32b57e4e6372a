"""What a client wants to become of its run when it disconnects."""

from __future__ import annotations

from hostler.http.auth import require_right
from hostler.http.request import ApiRequest
from hostler_protocol.errors import InvalidArgumentError

ON_DISCONNECT_HEADER = "hostler-on-disconnect"
"""`cancel`: the run is cancelled when the client disconnects. Default: `continue`."""


def cancels_when_gone(request: ApiRequest) -> bool:
    """Whether the run shall be cancelled when the client disconnects.

    InvalidArgumentError for another word, UnauthorizedError without the right to cancel: before anything is
    sent, since who is refused sends it again.
    """
    wish = request.headers.get(ON_DISCONNECT_HEADER, "continue")
    if wish not in ("continue", "cancel"):
        raise InvalidArgumentError(f"{ON_DISCONNECT_HEADER}: expected continue or cancel, not {wish[:40]!r}")
    if wish == "cancel":
        require_right(request.caller, "runs:write")
    return wish == "cancel"
