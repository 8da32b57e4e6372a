"""The steps in front of every route, in one order.

method -> key -> rate limit -> right -> path, query and body -> Idempotency-Key -> the route -> its response.
Every error, expected or not, becomes a problem document.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.domain.events import Caller
from hostler.domain.narrow_callers import filled_in
from hostler.http.asgi import Message, Receive, Scope, Send
from hostler.http.auth import require_right
from hostler.http.dialects.dialect import Dialect
from hostler.http.endpoint import ANY_KEY, Endpoint
from hostler.http.idempotency import run_once
from hostler.http.limits import DRAIN_BYTES, DRAIN_SECONDS
from hostler.http.narrow import SUBPROTOCOL, check_narrow, check_path, socket_token, take_query_token
from hostler.http.own_address import own_address
from hostler.http.problems import (
    CHALLENGE,
    PROBLEM_TYPE,
    MethodNotAllowedError,
    UnauthenticatedError,
    caller_blamed,
    encode_problem,
    problem_of,
)
from hostler.http.problems import headers_of as problem_headers
from hostler.http.proxies import rate_key
from hostler.http.request import (
    ApiRequest,
    check_headers,
    check_json_type,
    check_not_encoded,
    decode_json,
    decode_lenient,
    decode_query,
    headers_of,
    path_segment,
    read_body,
)
from hostler.http.responses import COMMON_HEADERS, ApiResponse, Empty, Headers, Json, is_body
from hostler.http.state import AppState
from hostler_protocol.errors import (
    HostError,
    HostlerError,
    NotFoundError,
    RateLimitedError,
    UnavailableError,
)

log = logging.getLogger("hostler.http")


class HttpExchange:
    """One request, and whether its response has started."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        self.scope = scope
        self.path = path
        self.parameters: dict[str, str] = {}
        self.body_over = not _has_body(scope)
        self.started = False
        self._receive = receive
        self._send = send

    async def receive(self) -> Any:
        """Return the next ASGI message of the request."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.body_over = True
        return message

    async def send(self, message: Message) -> None:
        """Send one ASGI message of the response."""
        self.started = True
        await self._send(message)

    async def drain(self) -> None:
        """Read and drop an unread body, up to DRAIN_BYTES and DRAIN_SECONDS.

        Many clients miss the response if the connection is closed while they still send.
        """
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.body_over and size < DRAIN_BYTES:
                    size += len((await self.receive()).get("body", b""))


async def respond(state: AppState, routes: dict[str, Endpoint], exchange: HttpExchange) -> None:
    """Respond to a request whose path has these `routes` (by method)."""
    scope = exchange.scope
    started_at = time.perf_counter()
    name, status = "none", 500
    dialect: Dialect | None = None
    try:
        method = scope["method"]
        if method == "OPTIONS":
            status = await _options(routes).send(scope, exchange.receive, exchange.send)
            return
        endpoint = routes.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            dialect = next((other.dialect for other in routes.values()), None)
            raise MethodNotAllowedError(method, _allowed(routes))
        name, dialect = endpoint.name, endpoint.dialect
        response = await _response_of(state, endpoint, exchange)
        status = await response.send(scope, exchange.receive, exchange.send)
    except HostlerError as error:
        base = own_address(state.host.settings.public_url, scope)
        status = await send_problem(error, exchange, dialect, base=base)
    except asyncio.CancelledError:
        # The server cancels what it has not answered when its time to stop is over; the task ends here.
        if exchange.started:
            raise
        status = await send_problem(_cut_off(exchange), exchange, dialect, at_once=True)
    except Exception:
        # The top of a request: the client gets a response, the log the traceback.
        log.exception("%s %s failed", scope["method"], exchange.path)
        if exchange.started:
            raise
        status = await send_problem(
            HostError("the host failed to answer this request; its log has the details"), exchange, dialect
        )
    finally:
        state.metrics.count_request(name, status, time.perf_counter() - started_at)


def _cut_off(exchange: HttpExchange) -> HostlerError:
    """Return what is said of a request that the end of the host cut off."""
    if not exchange.body_over or exchange.scope["method"] in ("GET", "HEAD"):
        return UnavailableError("the host is stopping, and has done nothing of this request; ask again")
    return HostError("the host stopped before this request was done; parts of it may be")


async def respond_not_found(state: AppState, exchange: HttpExchange) -> None:
    """Respond to a request for an unknown path."""
    missing = NotFoundError(f"there is no {exchange.path}; /docs lists all paths")
    state.metrics.count_request("none", await send_problem(missing, exchange), 0.0)


async def respond_preflight(state: AppState, exchange: HttpExchange, headers: Callable[[], Headers]) -> None:
    """Respond to the question of a browser with `headers()`, or with the problem that it raises."""
    try:
        response = Empty(204, headers())
        status = await response.send(exchange.scope, exchange.receive, exchange.send)
    except HostlerError as error:
        status = await send_problem(error, exchange)
    state.metrics.count_request("preflight", status, 0.0)


async def send_problem(
    error: HostlerError,
    exchange: HttpExchange,
    dialect: Dialect | None = None,
    *,
    base: str = "",
    at_once: bool = False,
) -> int:
    """Respond with a problem document, or with what the dialect says instead; return the status.

    `base`: the host's address. `at_once`: without waiting for a body that is still to come.
    Raises the error if a response has started already.
    """
    problem = problem_of(error)
    status, body, media_type = problem.status, encode_problem(problem), PROBLEM_TYPE
    extra: tuple[tuple[bytes, bytes], ...] = ()
    challenge = CHALLENGE
    if dialect is not None:
        refusal = dialect.refuse(problem)
        status, body, media_type = refusal.status, refusal.encode(), refusal.media_type
        extra = refusal.headers
        challenge = dialect.challenge(base)
    if not caller_blamed(error):
        log.warning("%s %s: %s", exchange.scope["method"], exchange.path, error.message)
    if exchange.started:
        raise error
    headers = [
        *COMMON_HEADERS,
        *problem_headers(error, status, challenge),
        *extra,
        (b"content-type", media_type.encode("ascii")),
    ]
    if not exchange.body_over and not at_once:
        await exchange.drain()
    if not exchange.body_over:
        headers.append((b"connection", b"close"))
    headers.append((b"content-length", b"%d" % len(body)))
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})
    shown = b"" if exchange.scope["method"] == "HEAD" else body
    await exchange.send({"type": "http.response.body", "body": shown, "more_body": False})
    return status


async def _response_of(state: AppState, endpoint: Endpoint, exchange: HttpExchange) -> ApiResponse:
    scope = exchange.scope
    check_headers(scope)
    request = ApiRequest(
        state, scope, exchange.receive, scope["method"], exchange.path, {}, headers_of(scope)
    )
    if endpoint.dialect is not None and (key := endpoint.dialect.authorization(request.headers)) is not None:
        request.headers["authorization"] = key
    await _admit_to(state, endpoint, request)
    request.parameters = {name: path_segment(raw) for name, raw in exchange.parameters.items()}
    if request.holder is not None:
        await check_path(request)
    arguments: dict[str, Any] = {}
    if endpoint.query is not None:
        query = decode_query(scope["query_string"], endpoint.query)
        if request.holder is not None and endpoint.narrow:
            fields = {name: getattr(query, name) for name in endpoint.narrow}
            query = msgspec.structs.replace(query, **filled_in(request.caller, fields))
        arguments["query"] = query
    if endpoint.reads_body or (endpoint.method == "POST" and endpoint.media is None):
        if endpoint.reads_body:
            check_json_type(request.headers.get("content-type"))
            check_not_encoded(request.headers.get("content-encoding"))
        request.body = await read_body(request)
    if endpoint.reads_body:
        body = request.body or (b"{}" if endpoint.body_optional else b"")
        decode = decode_lenient if endpoint.lenient_body else decode_json
        arguments["body"] = decode(body, endpoint.body)
    if endpoint.idempotent and not endpoint.handles_idempotency:
        return await run_once(
            request, hashlib.sha256(request.body).hexdigest(), lambda: _call(endpoint, request, arguments)
        )
    return await _call(endpoint, request, arguments)


async def _admit_to(state: AppState, endpoint: Endpoint, request: ApiRequest) -> None:
    """Authenticate the caller of a route into `request.holder`, and check its right."""
    if endpoint.signed_in:
        await admit_person(state, request)
        return
    if endpoint.right is None:
        return
    narrow = endpoint.narrow is not None
    if narrow and endpoint.streams and (token := take_query_token(request.scope)) is not None:
        request.headers.setdefault("authorization", f"Bearer {token}")
    await admit(state, request, narrow=narrow)
    needed = endpoint.right
    if request.caller.scope is not None and endpoint.narrow_right is not None:
        needed = endpoint.narrow_right
    if needed != ANY_KEY:
        require_right(request.caller, needed)


async def admit(state: AppState, request: ApiRequest, *, narrow: bool = False) -> None:
    """Authenticate the caller into `request.holder`: by key or, without one, by session.

    `narrow`: whether front-end tokens are taken (http/narrow.py). UnauthenticatedError without a valid one;
    RateLimitedError over its rate; UnauthorizedError for a write of a session that another site may have
    sent, and for a front-end token where none is taken.
    """
    if "authorization" not in request.headers:
        token = state.sessions.token_of(request.headers)
        if token is not None:
            await _admit_session(state, request, token)
            return
    await admit_key(state, request, narrow=narrow)


async def admit_key(state: AppState, request: ApiRequest, *, narrow: bool = False) -> None:
    """Authenticate the caller by key alone: browsers open WebSockets of other sites with cookies."""
    authorization = request.headers.get("authorization")
    holder = await state.keys.authenticate(authorization, request.address)
    take_rate(state, holder.caller)
    check_narrow(holder, request.headers.get("origin"), allowed=narrow)
    if holder.caller.scope is not None:
        caller = dataclasses.replace(holder.caller, address=rate_key(request.address))
        holder = msgspec.structs.replace(holder, caller=caller)
    request.holder = holder


async def admit_socket(state: AppState, request: ApiRequest, *, narrow: bool = False) -> str | None:
    """Authenticate the caller of a WebSocket: by key or, with `narrow`, by a token among its subprotocols.

    Return the subprotocol to accept it with. Errors as `admit`.
    """
    token = socket_token(request.headers) if narrow else None
    if token is not None:
        request.headers.setdefault("authorization", f"Bearer {token}")
    await admit_key(state, request, narrow=narrow)
    return None if token is None else SUBPROTOCOL


async def admit_person(state: AppState, request: ApiRequest) -> None:
    """Authenticate a person who has signed in into `request.holder`. Errors as `admit`."""
    token = state.sessions.token_of(request.headers)
    if token is None:
        raise UnauthenticatedError("this is for people who have signed in: keys are not taken here")
    await _admit_session(state, request, token)


async def _admit_session(state: AppState, request: ApiRequest, token: str) -> None:
    request.holder = await state.sessions.authenticate(
        token, request.method, request.headers, request.address
    )
    take_rate(state, request.holder.caller)


def take_rate(state: AppState, caller: Caller) -> None:
    """Count a request of a caller. RateLimitedError over its rate."""
    scope, counted_by = caller.scope, caller.key_id
    if scope is not None:
        counted_by = scope.counted_by
        wait = state.token_rates.take(caller.credential_id)
        if wait:
            raise RateLimitedError(
                f"this token sends more than {state.token_rates.rate:g} requests per second", round(wait, 3)
            )
    wait = state.rates.take(counted_by)
    if wait:
        raise RateLimitedError(
            f"this key sends more than {state.rates.rate:g} requests per second", round(wait, 3)
        )


async def _call(endpoint: Endpoint, request: ApiRequest, arguments: dict[str, Any]) -> ApiResponse:
    result = await endpoint.function(request, **arguments)
    if is_body(result):
        return Json(result, endpoint.status)
    response: ApiResponse = result
    return response


def _allowed(routes: dict[str, Endpoint]) -> list[str]:
    return sorted({*routes, *(["HEAD"] if "GET" in routes else []), "OPTIONS"})


def _options(routes: dict[str, Endpoint]) -> Empty:
    return Empty(204, [(b"allow", ", ".join(_allowed(routes)).encode("ascii"))])


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )
