"""Models of OpenAI-compatible services: `POST /chat/completions`, streamed or whole, and `POST /rerank`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

import httpx
import msgspec

from hostler.models.attachments import with_artifacts
from hostler.models.attempts import NotNow, with_retries
from hostler.models.chat_answer import ChatStream, read_answer
from hostler.models.chat_request import request_body
from hostler.models.clock import CallClock
from hostler.models.errors import Endpoint, ModelUnsupportedError
from hostler.models.limits import (
    CHUNK_SECONDS,
    CONNECT_SECONDS,
    END_OF_STREAM_SECONDS,
    ERROR_BODY_SECONDS,
    MAX_BODY_BYTES,
    MAX_CONNECTIONS,
    MAX_ERROR_BODY_BYTES,
)
from hostler.models.port import ModelRequest, RerankRequest, TokenCount
from hostler.models.rerank import rerank_body, rerank_reply
from hostler.models.retrying import RETRIED_STATUSES, RetryPolicy, retry_after
from hostler.models.tokens import count_tokens
from hostler_protocol.calls import ModelChunk, ModelDelta, ModelReply, RerankReply, ToolCallDelta
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostlerError, InvalidArgumentError

_NO_RERANK = frozenset({404, 405, 501})


class OpenAIModel:
    """One model of an OpenAI-compatible service.

    `silence_seconds` bounds the wait for an answer's first byte, `chunk_seconds` that between two pieces.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        base_url: str,
        api_key: str | None = None,
        defaults: dict[str, Any] | None = None,
        retries: RetryPolicy = RetryPolicy(),  # noqa: B008 - immutable
        silence_seconds: float = 300.0,
        chunk_seconds: float = CHUNK_SECONDS,
    ) -> None:
        self._endpoint = endpoint
        self._base_url = _checked(base_url, endpoint)
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._defaults = dict(defaults or {})
        self._retries = retries
        self._silence = silence_seconds
        self._chunk_silence = min(chunk_seconds, silence_seconds)
        self._asks_for_usage = True

    @functools.cached_property
    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=self._headers,
            verify=_tls(),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
            trust_env=not _is_loopback(self._base_url.host),  # a proxy cannot reach this machine's own
        )

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = await self._body(request)
        async with self._answer("chat/completions", body, clock) as response:
            data = await self._whole(response, clock)
        return read_answer(data, self._endpoint)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = await self._body(request)
        async with self._streaming_answer(body, clock) as response:
            if response.headers.get("content-type", "").startswith("application/json"):
                reply = read_answer(await self._whole(response, clock), self._endpoint)
                if (chunk := _as_chunk(reply)) is not None:
                    yield chunk
                yield reply
                return
            answer = ChatStream(self._endpoint)
            async with contextlib.aclosing(_pieces(response)) as pieces:
                while not answer.done:
                    try:
                        data = await clock.wait(anext(pieces, None), self._chunk_silence, self._too_silent)
                    except httpx.HTTPError as error:
                        if answer.answered:
                            break
                        raise self._endpoint.broken(_reason(error)) from error
                    if data is None:
                        break
                    for chunk in answer.receive(data):
                        yield chunk
                with contextlib.suppress(httpx.HTTPError, TimeoutError):
                    async with asyncio.timeout(END_OF_STREAM_SECONDS):
                        await anext(pieces, None)
            yield answer.finish()

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        body = rerank_body(self._endpoint.model, request)
        async with self._answer("rerank", body, clock) as response:
            data = await self._whole(response, clock)
        return rerank_reply(data, len(request.documents), request.top_k, self._endpoint)

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        return await count_tokens(self._endpoint.model, messages, tools)

    async def close(self) -> None:
        """See ModelProvider."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        messages = await with_artifacts(request.messages, request.read_artifact)
        build = functools.partial(
            request_body, self._endpoint.model, messages, request.tools, request.extra_args, self._defaults
        )
        if any(isinstance(message.content, list) for message in messages):
            return await asyncio.to_thread(build)  # files are encoded off the event loop
        return build()

    @contextlib.asynccontextmanager
    async def _streaming_answer(
        self, body: dict[str, Any], clock: CallClock
    ) -> AsyncIterator[httpx.Response]:
        asked = self._asks_for_usage
        options = {"stream_options": {"include_usage": True}} if asked else {}
        async with contextlib.AsyncExitStack() as stack:
            try:
                opened = self._answer("chat/completions", {**body, "stream": True, **options}, clock)
                response = await stack.enter_async_context(opened)
            except InvalidArgumentError as error:
                if not asked or "stream_options" not in error.message:
                    raise
                self._asks_for_usage = False  # a service from before usage was given in streams
                opened = self._answer("chat/completions", {**body, "stream": True}, clock)
                response = await stack.enter_async_context(opened)
            yield response

    @contextlib.asynccontextmanager
    async def _answer(
        self, path: str, body: dict[str, Any], clock: CallClock
    ) -> AsyncIterator[httpx.Response]:
        """An answer of status 200, its body still to be read; leaving early closes the connection.

        Tries again, within bounds, as long as nothing of an answer has arrived.
        """
        url = self._base_url.copy_with(path=f"{self._base_url.path.rstrip('/')}/{path}")
        content = msgspec.json.encode(body)
        outcome = await with_retries(lambda: self._try(url, content, clock), self._retries, clock)
        whole = False
        try:
            yield outcome
            whole = True
        finally:
            if not whole:
                _hang_up(outcome)
            await outcome.aclose()

    async def _try(self, url: httpx.URL, content: bytes, clock: CallClock) -> httpx.Response | NotNow:
        request = self._client.build_request("POST", url, content=content)
        try:
            response = await clock.wait(
                self._client.send(request, stream=True),
                self._silence,
                lambda: self._endpoint.silent("no answer", self._silence),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            return NotNow(self._endpoint.unreachable(_reason(error)))
        except httpx.PoolTimeout:
            return NotNow(self._endpoint.unreachable(f"{MAX_CONNECTIONS} calls are open already"))
        except httpx.TransportError as error:
            return NotNow(self._endpoint.broken(_reason(error)))
        status = response.status_code
        if status == httpx.codes.OK:
            return response
        try:
            text = await self._error_text(response)
        finally:
            await response.aclose()
        if url.path.endswith("/rerank") and status in _NO_RERANK:
            raise ModelUnsupportedError(
                f"model {self._endpoint.model_id!r}: {self._endpoint.url} has no rerank for "
                f"{self._endpoint.model!r} ({status}); use a service that offers POST /rerank"
            )
        pause = retry_after(response.headers, time.time())
        refusal = self._endpoint.refused(status, text, pause)
        if status in RETRIED_STATUSES and refusal.retryable:
            return NotNow(refusal, pause)
        raise refusal

    async def _whole(self, response: httpx.Response, clock: CallClock) -> bytes:
        body = bytearray()
        async with contextlib.aclosing(_pieces(response)) as pieces:
            while True:
                try:
                    data = await clock.wait(anext(pieces, None), self._chunk_silence, self._too_silent)
                except httpx.HTTPError as error:
                    raise self._endpoint.broken(_reason(error)) from error
                if data is None:
                    return bytes(body)
                body += data
                if len(body) > MAX_BODY_BYTES:
                    raise self._endpoint.too_large(MAX_BODY_BYTES)

    async def _error_text(self, response: httpx.Response) -> str:
        body = bytearray()
        try:
            async with (
                asyncio.timeout(ERROR_BODY_SECONDS),
                contextlib.aclosing(_pieces(response)) as pieces,
            ):
                async for data in pieces:
                    body += data[: MAX_ERROR_BODY_BYTES - len(body)]
                    if len(body) >= MAX_ERROR_BODY_BYTES:
                        break
        except (httpx.HTTPError, TimeoutError):
            pass  # the status alone is an answer
        location = response.headers.get("location", "")
        return f"{_error_message(bytes(body))} {location}".strip()

    def _too_silent(self) -> HostlerError:
        return self._endpoint.silent("nothing more", self._chunk_silence)


def _pieces(response: httpx.Response) -> AsyncGenerator[bytes]:
    return cast("AsyncGenerator[bytes]", response.aiter_bytes())  # declared as an iterator, is a generator


def _hang_up(response: httpx.Response) -> None:
    """End the connection at once: closing it awaits, and a second cancellation would leave it open."""
    stream = response.extensions.get("network_stream")
    wire = None if stream is None else stream.get_extra_info("socket")
    if wire is not None:
        with contextlib.suppress(OSError):  # the other side may have been first
            wire.shutdown(socket.SHUT_RDWR)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _checked(base_url: str, endpoint: Endpoint) -> httpx.URL:
    example = "like https://api.example.com/v1"
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(
            f"model {endpoint.model_id!r}: base_url is no address ({error}); write it {example}"
        ) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidArgumentError(f"model {endpoint.model_id!r}: base_url must be an http address {example}")
    if url.userinfo:
        raise InvalidArgumentError(
            f"model {endpoint.model_id!r}: base_url holds a user name or password; put the key into api_key"
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
    """What an error body says, of the forms that services use."""
    text = body.decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return error if isinstance(error, str) else text
    said = [error[key] for key in ("code", "type", "message", "detail") if isinstance(error.get(key), str)]
    return " ".join(said) or text


def _reason(error: BaseException) -> str:
    """Why a connection failed, in words; the innermost cause says most."""
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
