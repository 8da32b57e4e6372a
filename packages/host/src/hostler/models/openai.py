"""Models of OpenAI-compatible services: `POST /chat/completions`, `/rerank` and `/embeddings`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
import msgspec

from hostler.models.attachments import with_artifacts
from hostler.models.call_timeouts import CallClock
from hostler.models.chat_request import request_body
from hostler.models.chat_response import ChatStream, read_answer
from hostler.models.dialect import Dialect
from hostler.models.embeddings import embed_body, embed_reply
from hostler.models.errors import ModelEndpoint, ModelUnsupportedError
from hostler.models.http_exchange import ExchangeTask
from hostler.models.limits import (
    CHUNK_SECONDS,
    CONNECT_SECONDS,
    ERROR_BODY_SECONDS,
    MAX_BODY_BYTES,
    MAX_CONNECTIONS,
    MAX_ERROR_BODY_BYTES,
)
from hostler.models.port import EmbedRequest, MayRepeat, ModelRequest, RerankRequest, TokenCount
from hostler.models.provider_data import for_source
from hostler.models.rerank import rerank_body, rerank_reply
from hostler.models.retry import RetryLater, with_retries
from hostler.models.retry_policy import RETRIED_STATUSES, RetryPolicy, retry_after
from hostler.models.token_counts import count_tokens
from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.calls import (
    EmbedReply,
    ModelChunk,
    ModelDelta,
    ModelReply,
    RerankReply,
    ToolCallDelta,
)
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostlerError, InvalidArgumentError

_OPTIONAL = ("rerank", "embeddings")
"""Paths that not all services have."""
_NO_PATH = frozenset({404, 405, 501})


class OpenAIModel:
    """One model of an OpenAI-compatible service.

    `silence_seconds` limits the wait for the head of an answer, `chunk_seconds` the wait between two pieces.
    `transport` sends requests in place of the machine's network.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        base_url: str,
        api_key: str | None = None,
        defaults: dict[str, Any] | None = None,
        retries: RetryPolicy = RetryPolicy(),  # noqa: B008 - immutable
        silence_seconds: float = 300.0,
        chunk_seconds: float = CHUNK_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._base_url = _parse_base_url(base_url, endpoint)
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._defaults = dict(defaults or {})
        self._retries = retries
        self._silence = silence_seconds
        self._chunk_silence = min(chunk_seconds, silence_seconds)
        self._transport = transport
        self._dialect = Dialect()
        self._exchanges: set[asyncio.Task[None]] = set()

    @functools.cached_property
    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            transport=self._transport,
            verify=_tls(),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
            cookies=CookieJar(
                DefaultCookiePolicy(allowed_domains=[])
            ),  # none: they would link all workspaces
            trust_env=not _is_loopback(self._base_url.host),  # a proxy cannot reach this machine's loopback
        )

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = await self._body(request)
        async with self._chat_answer(body, clock, request.may_repeat) as (_, exchange):
            data = await self._whole(exchange, clock)
        return read_answer(data, self._endpoint)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = await self._body(request) | {"stream": True, "stream_options": {"include_usage": True}}
        async with self._chat_answer(body, clock, request.may_repeat) as (response, exchange):
            if response.headers.get("content-type", "").startswith("application/json"):
                reply = read_answer(await self._whole(exchange, clock), self._endpoint)
                if (chunk := _as_chunk(reply)) is not None:
                    yield chunk
                yield reply
                return
            answer = ChatStream(self._endpoint)
            while not answer.done:
                try:
                    data = await clock.wait(exchange.piece(), self._chunk_silence, self._too_silent)
                except httpx.HTTPError as error:
                    if answer.answered:
                        break
                    raise self._endpoint.broken(_reason(error)) from error
                if data is None:
                    break
                for chunk in answer.receive(data):
                    yield chunk
            exchange.complete()
            yield answer.finish()

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = rerank_body(self._endpoint.model, request)
        async with self._answer("rerank", body, clock, request.may_repeat) as (_, exchange):
            data = await self._whole(exchange, clock)
        return rerank_reply(data, len(request.documents), request.top_k, self._endpoint)

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = embed_body(self._endpoint.model, request, self._defaults)
        async with self._answer("embeddings", body, clock, request.may_repeat) as (_, exchange):
            data = await self._whole(exchange, clock)
        return embed_reply(data, len(request.inputs), self._endpoint)

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        return await count_tokens(self._endpoint.model, for_source(messages, self._endpoint.source), tools)

    async def close(self) -> None:
        """See ModelProvider."""
        for task in list(self._exchanges):
            task.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        own = for_source(request.messages, self._endpoint.source)
        messages = await with_artifacts(own, request.read_artifact)
        build = functools.partial(
            request_body, self._endpoint.model, messages, request.tools, request.extra_args, self._defaults
        )
        if any(isinstance(message.content, list) for message in messages):
            return await asyncio.to_thread(build)  # files are encoded off the event loop
        return build()

    @contextlib.asynccontextmanager
    async def _chat_answer(
        self, body: dict[str, Any], clock: CallClock, may_repeat: MayRepeat | None
    ) -> AsyncIterator[tuple[httpx.Response, ExchangeTask]]:
        """Enter with the answer to a chat. Fields that the service refuses or requires are corrected."""
        async with contextlib.AsyncExitStack() as stack:

            async def ask(given: dict[str, Any]) -> tuple[httpx.Response, ExchangeTask]:
                answer = self._answer("chat/completions", given, clock, may_repeat)
                return await stack.enter_async_context(answer)

            yield await self._dialect.ask(body, ask)

    @contextlib.asynccontextmanager
    async def _answer(
        self, path: str, body: dict[str, Any], clock: CallClock, may_repeat: MayRepeat | None
    ) -> AsyncIterator[tuple[httpx.Response, ExchangeTask]]:
        """Enter with an answer of status 200, its body unread. Leaving early closes the connection.

        Requests are retried, within limits, until an answer begins.
        """
        url = self._base_url.copy_with(path=f"{self._base_url.path.rstrip('/')}/{path}")
        content = msgspec.json.encode(body)
        response, exchange = await with_retries(
            lambda: self._try(url, content, clock), self._retries, clock, may_repeat
        )
        try:
            yield response, exchange
        finally:
            exchange.leave()

    async def _try(
        self, url: httpx.URL, content: bytes, clock: CallClock
    ) -> tuple[httpx.Response, ExchangeTask] | RetryLater:
        exchange = ExchangeTask(self._client, self._client.build_request("POST", url, content=content))
        self._exchanges.add(exchange.task)
        exchange.task.add_done_callback(self._exchanges.discard)
        with contextlib.ExitStack() as stack:
            stack.callback(exchange.leave)
            try:
                response = await clock.wait(
                    exchange.head(), self._silence, lambda: self._endpoint.silent("no answer", self._silence)
                )
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
                return RetryLater(self._endpoint.unreachable(_reason(error)))
            except httpx.PoolTimeout:
                return RetryLater(self._endpoint.unreachable(f"{MAX_CONNECTIONS} calls are open already"))
            except httpx.TransportError as error:
                return RetryLater(self._endpoint.broken(_reason(error)))
            if response.status_code != httpx.codes.OK:
                return self._refused(response, await self._error_text(response, exchange), url)
            stack.pop_all()
            return response, exchange

    def _refused(self, response: httpx.Response, text: str, url: httpx.URL) -> RetryLater:
        """Return RetryLater for a temporary refusal; raise the error of another one."""
        status = response.status_code
        path = url.path.rpartition("/")[2]
        if path in _OPTIONAL and status in _NO_PATH:
            raise ModelUnsupportedError(
                f"model {self._endpoint.model_id!r}: {self._endpoint.url} has no {path} for "
                f"{self._endpoint.model!r} ({status}); use a service that offers POST /{path}"
            )
        pause = retry_after(response.headers, time.time())
        refusal = self._endpoint.refused(status, text, pause)
        if status in RETRIED_STATUSES and refusal.retryable:
            return RetryLater(refusal, pause)
        raise refusal

    async def _whole(self, exchange: ExchangeTask, clock: CallClock) -> bytes:
        body = bytearray()
        while True:
            try:
                data = await clock.wait(exchange.piece(), self._chunk_silence, self._too_silent)
            except httpx.HTTPError as error:
                raise self._endpoint.broken(_reason(error)) from error
            if data is None:
                return bytes(body)
            body += data
            if len(body) > MAX_BODY_BYTES:
                raise self._endpoint.too_large(MAX_BODY_BYTES)

    async def _error_text(self, response: httpx.Response, exchange: ExchangeTask) -> str:
        body = bytearray()
        with contextlib.suppress(httpx.HTTPError, TimeoutError):  # the status is enough
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                while len(body) < MAX_ERROR_BODY_BYTES and (data := await exchange.piece()) is not None:
                    body += data
        location = response.headers.get("location", "")
        return f"{_error_message(bytes(body[:MAX_ERROR_BODY_BYTES]))} {location}".strip()

    def _too_silent(self) -> HostlerError:
        return self._endpoint.silent("nothing more", self._chunk_silence)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _parse_base_url(base_url: str, endpoint: ModelEndpoint) -> httpx.URL:
    example = "like https://api.example.com/v1"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(
            f"model {endpoint.model_id!r}: base_url is no address ({error}); write it {example}",
            field="base_url",
        ) from error
    if url.scheme not in ("http", "https") or not url.host:
        text = f"model {endpoint.model_id!r}: base_url must be an http address {example}"
        raise InvalidArgumentError(text, field="base_url")
    if url.userinfo:
        raise InvalidArgumentError(
            f"model {endpoint.model_id!r}: base_url holds a user name or password; put the key into api_key",
            field="base_url",
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _as_chunk(reply: ModelReply) -> ModelChunk | None:
    message = reply.message
    calls = [
        ToolCallDelta(index=n, id=call.id, name=call.function.name, arguments=call.function.arguments)
        for n, call in enumerate(message.tool_calls)
    ]
    if not (message.content or message.reasoning or calls):
        return None
    delta = ModelDelta(content=message.content or None, reasoning=message.reasoning, tool_calls=calls)
    return ModelChunk(delta=delta)


def _error_message(body: bytes) -> str:
    """Return the message in the body of an error, in one of the forms that services use."""
    text = body.decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return text
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return error if isinstance(error, str) else text
    parts = [error[key] for key in ("code", "type", "message", "detail") if isinstance(error.get(key), str)]
    return " ".join(parts) or text


def _reason(error: BaseException) -> str:
    """Return why a connection failed; the innermost cause is the most specific."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "the host name is not known"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {cause.reason or cause}"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
