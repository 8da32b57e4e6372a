"""`Idempotency-Key`: a POST that is sent again gets the first one's answer, and is not done again.

The key belongs to the caller's API key. While the first request is under way a second one is answered 409;
with another body it is answered 422. A request that was refused has done nothing and leaves no trace, so that
it can be corrected and sent again under the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler.http.limits import MAX_IDEMPOTENCY_KEY_CHARS, MAX_STORED_ANSWER_BYTES
from hostler.http.problems import KeyReusedError
from hostler.http.request import ApiRequest
from hostler.http.responses import ApiResponse, Json, RawBody
from hostler.storage.stores import idempotency
from hostler_protocol.errors import ConflictError, InvalidArgumentError
from hostler_protocol.ids import digest

HEADER = "idempotency-key"


def idempotency_key(request: ApiRequest) -> str | None:
    """The header's value; None where it is missing. InvalidArgumentError for one that cannot be a key."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not key or len(key) > MAX_IDEMPOTENCY_KEY_CHARS or not key.isascii() or not key.isprintable():
        raise InvalidArgumentError(
            f"Idempotency-Key: expected 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters"
        )
    return key


def request_digest(request: ApiRequest, body_sha256: str) -> str:
    """What makes two requests the same one: method, path, query and body."""
    query = request.scope["query_string"].decode("latin-1")
    return digest([request.method, request.path, query, body_sha256])


async def run_once(
    request: ApiRequest, body_sha256: str, act: Callable[[], Awaitable[ApiResponse]]
) -> ApiResponse:
    """Do `act`, or answer what it answered the first time.

    KeyReusedError, ConflictError while the first is under way; what `act` raises.
    """
    key = idempotency_key(request)
    if key is None:
        return await act()
    db, workspace, caller = request.state.host.db, request.workspace_id, request.caller.key_id
    asked = request_digest(request, body_sha256)
    match await db.write(lambda tx: idempotency.begin(tx, workspace, caller, key, asked)):
        case idempotency.Replay(status=status, answer=kept):
            return RawBody(kept.encode(), "application/json", status, [(b"idempotent-replay", b"true")])
        case idempotency.Different():
            raise KeyReusedError("this Idempotency-Key was used for another request: take a new one")
        case idempotency.InProgress():
            raise ConflictError(
                "the first request with this Idempotency-Key is still under way", retry_after=1.0
            )
        case _:
            return await _first(request, key, act)


async def _first(request: ApiRequest, key: str, act: Callable[[], Awaitable[ApiResponse]]) -> ApiResponse:
    db, workspace, caller = request.state.host.db, request.workspace_id, request.caller.key_id
    answer: ApiResponse | None = None
    try:
        answer = await act()
    finally:
        # Shielded: a client that goes away now must not leave the key "under way" for ten minutes.
        kept = answer.keep().decode() if isinstance(answer, Json) else None
        if kept is not None and len(kept) <= MAX_STORED_ANSWER_BYTES and isinstance(answer, Json):
            status = answer.status
            await asyncio.shield(
                db.write(
                    lambda tx: idempotency.finish(tx, workspace, caller, key, status=status, answer=kept)
                )
            )
        else:
            await asyncio.shield(db.write(lambda tx: idempotency.forget(tx, workspace, caller, key)))
    return answer
