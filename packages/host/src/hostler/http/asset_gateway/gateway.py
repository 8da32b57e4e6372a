"""`/mcp`: MCP's streamable HTTP for the holder of a run token.

token -> rate limit -> message -> session -> the run's own calls, with its gate and ledger. An invalid token
gets 401 as a problem document, and is audited. The response of a slow call is a stream, kept open by comment
lines. A disconnect cancels the call of a stateless client, and nothing of a client with a session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import msgspec

from hostler.calls.run_tokens import TOKEN_PREFIX, AssetRefusedError, RunAccess
from hostler.http.asgi import Scope
from hostler.http.asset_gateway.limits import (
    COMMENT_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_TOOLS_ON_PAGE,
    QUICK_SECONDS,
)
from hostler.http.asset_gateway.sessions import ExternalCall, McpSession, Sessions
from hostler.http.asset_gateway.tool_list import call_of, definitions
from hostler.http.auth import failed_authentications
from hostler.http.limits import MAX_TOKEN_CHARS
from hostler.http.mcp.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SESSION_HEADER,
    RpcError,
    RpcMessage,
    RpcReply,
    encode_error,
    encode_result,
    initialize_result,
    read_message,
    server_info,
    tool_error,
    tool_result,
)
from hostler.http.mcp.origins import check_origin
from hostler.http.middleware import HttpExchange, send_problem
from hostler.http.problems import MethodNotAllowedError, UnauthenticatedError
from hostler.http.proxies import rate_key
from hostler.http.request import ApiRequest, check_headers, check_json_type, headers_of, read_body
from hostler.http.responses import COMMON_HEADERS, Empty, Headers, RawBody
from hostler.http.state import AppState
from hostler.storage.stores import audit
from hostler.tools.caller_tools import tools_of_run
from hostler_protocol.calls import ToolCallReply
from hostler_protocol.errors import HostError, HostlerError, RateLimitedError, to_fault

log = logging.getLogger("hostler.http")

_ABOUT = {
    "capabilities": {"tools": {}},
    "instructions": "The assets of one run: its conversation's history, its knowledge, state and artifacts, "
    "and the tools that it may use. They exist as long as the run.",
}
_ALLOWED = ["DELETE", "OPTIONS", "POST"]
_STREAM_HEADERS: Headers = [
    *COMMON_HEADERS,
    (b"content-type", b"text/event-stream"),
    (b"x-accel-buffering", b"no"),
]


def has_run_token(scope: Scope) -> bool:
    """Whether a request is for this server: it has, or claims to have, a run token. All others are for
    `http/mcp`.
    """
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(found) == 1 and found[0].partition(b" ")[2].strip().startswith(TOKEN_PREFIX.encode())


class AssetGateway:
    """The MCP server of all runs of a host."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._host = state.host
        self.sessions = Sessions()
        self._failures = failed_authentications(time.monotonic)

    async def serve(self, exchange: HttpExchange) -> None:
        """Serve one HTTP request."""
        try:
            await self._serve(exchange)
        except RpcError as error:
            await self._send(exchange, encode_error(error), error.status)
        except HostlerError as error:
            await send_problem(error, exchange)
        except Exception:
            # The top of a request: the client gets a response, the log the traceback.
            log.exception("%s %s failed", exchange.scope["method"], exchange.path)
            if exchange.started:
                raise
            failed = HostError("the host failed to answer this request; its log has the details")
            await send_problem(failed, exchange)

    async def _serve(self, exchange: HttpExchange) -> None:
        scope = exchange.scope
        check_headers(scope)
        headers = headers_of(scope)
        request = ApiRequest(
            self._state, scope, exchange.receive, scope["method"], exchange.path, {}, headers
        )
        if request.method == "OPTIONS":
            await Empty(204, [(b"allow", ", ".join(_ALLOWED).encode())]).send(
                scope, exchange.receive, exchange.send
            )
            return
        await check_origin(request)
        access = await self._admit(request)
        if request.method == "DELETE":
            self.sessions.end(await self._session(request, access))
            await Empty(204).send(scope, exchange.receive, exchange.send)
        elif request.method == "POST":
            check_json_type(headers.get("content-type"))
            message = read_message(await read_body(request, limit=MAX_MESSAGE_BYTES), headers)
            if isinstance(message, RpcReply) or message.id is None:
                await self._serve_notification(request, access, message)
                await Empty(202).send(scope, exchange.receive, exchange.send)
            else:
                await self._serve_request(exchange, request, access, message)
        else:
            raise MethodNotAllowedError(request.method, _ALLOWED)

    # -- the token --------------------------------------------------------------------------------

    async def _admit(self, request: ApiRequest) -> RunAccess:
        """Return the run of the token.

        UnauthenticatedError without a valid one; RateLimitedError over the rate of the token, or after too
        many invalid ones from this address.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARS:
            raise UnauthenticatedError(
                "a run token is required: send the header 'Authorization: Bearer TOKEN'"
            )
        try:
            access = self._host.assets.find(token)
        except AssetRefusedError as refused:
            raise await self._refused(request, refused) from None
        wait = self._state.rates.take(f"run {access.run_id}")
        if wait:
            raise RateLimitedError("too many requests with this run token", round(wait, 3))
        return access

    async def _refused(self, request: ApiRequest, refused: AssetRefusedError) -> HostlerError:
        """Audit a refused token; return the error for the client."""
        wait = self._failures.take(rate_key(request.address))
        if wait:
            return RateLimitedError("too many invalid run tokens from this address", wait)
        workspace = refused.workspace_id or self._host.settings.workspace
        target = refused.run_id or "unknown"
        body = {"reason": refused.reason, "address": request.address}
        await self._host.db.write(
            lambda tx: audit.record(tx, workspace, "asset gateway", "assets.refused", target, body)
        )
        return UnauthenticatedError(refused.message, reason=refused.reason)

    async def _session(self, request: ApiRequest, access: RunAccess) -> McpSession:
        name = request.headers.get(SESSION_HEADER)
        if name is None:
            raise RpcError(INVALID_REQUEST, f"the header {SESSION_HEADER} is missing: start with initialize")
        try:
            return self.sessions.find(access, name)
        except AssetRefusedError as refused:
            raise await self._refused(request, refused) from None

    # -- messages ---------------------------------------------------------------------------------

    async def _serve_notification(
        self, request: ApiRequest, access: RunAccess, message: RpcMessage | RpcReply
    ) -> None:
        if isinstance(message, RpcReply) or message.stateless:
            return  # a response, or a notification of a stateless client, which has none for servers
        session = await self._session(request, access)
        if message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            if isinstance(request_id, str | int) and (call := session.calls.get(request_id)) is not None:
                call.give_up()

    async def _serve_request(
        self, exchange: HttpExchange, request: ApiRequest, access: RunAccess, message: RpcMessage
    ) -> None:
        headers: Headers = []
        session = None
        if message.method == "initialize" and not message.stateless:
            session = self.sessions.begin(access)
            headers = [(SESSION_HEADER.encode(), session.session_id.encode())]
            body = encode_result(message, initialize_result(message, _ABOUT))
        elif message.method == "server/discover":
            body = encode_result(message, server_info(_ABOUT), is_list=True)
        else:
            if not message.stateless:
                session = await self._session(request, access)
            match message.method:
                case "ping":
                    body = encode_result(message, {})
                case "tools/list":
                    body = encode_result(message, self._tool_page(access, message), is_list=True)
                case "tools/call":
                    await self._call(exchange, access, session, message)
                    return
                case _:
                    known = "initialize, ping, tools/list, tools/call"
                    raise RpcError(
                        METHOD_NOT_FOUND,
                        f"there is no {message.method!r:.100}; there are {known}",
                        id_=message.id,
                    )
        await self._send(exchange, body, 200, headers)

    def _tool_page(self, access: RunAccess, message: RpcMessage) -> dict[str, Any]:
        own = tools_of_run(self._host.tools, access.grant)
        offered = {} if own is None else own.offered(access.workspace_id)
        tools = list(definitions(access, offered))
        cursor = message.params.get("cursor")
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 9):
            raise RpcError(INVALID_PARAMS, "the cursor did not come from tools/list", id_=message.id)
        start = 0 if cursor is None else int(cursor)
        end = start + MAX_TOOLS_ON_PAGE
        more = {"nextCursor": str(end)} if end < len(tools) else {}
        return {"tools": tools[start:end], **more}

    # -- calls ------------------------------------------------------------------------------------

    async def _call(
        self, exchange: HttpExchange, access: RunAccess, session: McpSession | None, message: RpcMessage
    ) -> None:
        if message.id is None:
            raise RuntimeError("a call is a request")
        try:
            method, params = call_of(access, message.params)
        except RpcError as error:
            error.id = message.id
            raise
        if session is not None and message.id in session.calls:
            raise RpcError(INVALID_REQUEST, "a request with this id is in progress already", id_=message.id)
        try:
            self.sessions.enter(access)
        except RateLimitedError as error:
            await self._send(exchange, encode_result(message, _failed(error)), 200)
            return
        call = ExternalCall(access)
        if session is not None:
            session.calls[message.id] = call
        call.outcome.add_done_callback(lambda _: self._finish(access, session, message, call))
        call.begin(method, params)
        await self._respond(exchange, call, message)

    def _finish(
        self, access: RunAccess, session: McpSession | None, message: RpcMessage, call: ExternalCall
    ) -> None:
        self.sessions.leave(access)
        access.over(call.call_id)
        if session is not None and message.id is not None:
            session.calls.pop(message.id, None)
        if not call.outcome.cancelled():
            call.outcome.exception()  # retrieved, because no task may have waited for it

    async def _respond(self, exchange: HttpExchange, call: ExternalCall, message: RpcMessage) -> None:
        """Wait for the outcome and send it: as JSON within QUICK_SECONDS, later as an event stream."""
        disconnect = asyncio.create_task(_disconnected(exchange))
        try:
            streaming = False
            while not (call.outcome.done() or disconnect.done()):
                seconds = COMMENT_SECONDS if streaming else QUICK_SECONDS
                waited: set[asyncio.Future[Any]] = {call.outcome, disconnect}
                done, _ = await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    break
                if not streaming:
                    start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
                    await exchange.send(start)
                    streaming = True
                await exchange.send({"type": "http.response.body", "body": b": \n", "more_body": True})
            if disconnect.done() and not call.outcome.done():
                if message.stateless:
                    call.give_up()
                return
            body = encode_result(message, await _outcome(call))
            if streaming:
                event = b"event: message\ndata: %s\n\n" % body
                await exchange.send({"type": "http.response.body", "body": event, "more_body": False})
            else:
                await self._send(exchange, body, 200)
        finally:
            disconnect.cancel()
            await asyncio.gather(disconnect, return_exceptions=True)

    async def _send(
        self, exchange: HttpExchange, body: bytes, status: int, headers: Headers | None = None
    ) -> None:
        if not exchange.body_over:
            await exchange.drain()
        response = RawBody(body, "application/json", status, headers or [])
        await response.send(exchange.scope, exchange.receive, exchange.send)


async def _outcome(call: ExternalCall) -> dict[str, Any]:
    """Return the MCP result of a call that has ended."""
    try:
        reply = await call.outcome
    except HostlerError as error:
        return _failed(error)
    if isinstance(reply, ToolCallReply):
        reply = reply.result
    return tool_result(msgspec.json.decode(msgspec.json.encode(reply)))


def _failed(error: HostlerError) -> dict[str, Any]:
    fault = to_fault(error)
    return tool_error(fault.code, fault.message, retryable=fault.retryable)


async def _disconnected(exchange: HttpExchange) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass
