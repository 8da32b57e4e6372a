"""`Idempotency-Key`: a repeated POST gets the first one's response and is not carried out again.

Keys are separate per API key. While the first request is in progress a second one gets 409; one with another
body gets 422. A refused request changed nothing and leaves no trace, so that it can be corrected and sent
again under the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler.http.limits import MAX_STORED_ANSWER_BYTES
from hostler.http.problems import KeyReusedError
from hostler.http.request import ApiRequest
from hostler.http.responses import ApiResponse, Json, RawBody
from hostler.storage.stores import idempotency
from hostler_protocol.errors import ConflictError
from hostler_protocol.ids import digest


def request_digest(request: ApiRequest, body_sha256: str) -> str:
    """Return the digest that identifies a request: of method, path, query and body."""
    query = request.scope["query_string"].decode("latin-1")
    return digest([request.method, request.path, query, body_sha256])


async def run_once(
    request: ApiRequest, body_sha256: str, act: Callable[[], Awaitable[ApiResponse]]
) -> ApiResponse:
    """Await `act()` and store its response under the Idempotency-Key, or return the stored response.

    KeyReusedError if the key was used for another request, ConflictError while the first is in progress; and
    the errors of `act`.
    """
    key = request.idempotency_key()
    if key is None:
        return await act()
    db, workspace, caller = request.state.host.db, request.workspace_id, request.caller.key_id
    identity = request_digest(request, body_sha256)
    match await db.write(lambda tx: idempotency.begin(tx, workspace, caller, key, identity)):
        case idempotency.Replay(status=status, answer=stored):
            return RawBody(stored.encode(), "application/json", status, [(b"idempotent-replay", b"true")])
        case idempotency.Different():
            raise KeyReusedError("this Idempotency-Key was used for another request: use a new one")
        case idempotency.InProgress():
            raise ConflictError(
                "the first request with this Idempotency-Key is still in progress", retry_after=1.0
            )
        case _:
            return await _run_first(request, key, act)


async def _run_first(request: ApiRequest, key: str, act: Callable[[], Awaitable[ApiResponse]]) -> ApiResponse:
    db, workspace, caller = request.state.host.db, request.workspace_id, request.caller.key_id
    response: ApiResponse | None = None
    try:
        response = await act()
    finally:
        # Shielded: a client that disconnects now must not leave the key in progress for ten minutes.
        stored = response.keep().decode() if isinstance(response, Json) else None
        if stored is not None and len(stored) <= MAX_STORED_ANSWER_BYTES and isinstance(response, Json):
            status = response.status
            await asyncio.shield(
                db.write(
                    lambda tx: idempotency.finish(tx, workspace, caller, key, status=status, answer=stored)
                )
            )
        else:
            await asyncio.shield(db.write(lambda tx: idempotency.forget(tx, workspace, caller, key)))
    return response
