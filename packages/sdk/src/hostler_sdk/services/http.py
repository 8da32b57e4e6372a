"""Requests to a service over HTTP, and what can go wrong with them. Needs httpx."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import msgspec

from hostler_sdk.network import how_to_allow
from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.json_values import as_object, reason_in, shortened
from hostler_sdk.services.limits import (
    CONNECT_SECONDS,
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_LINE_BYTES,
    MIB,
)
from hostler_sdk.services.request import Request

_SANDBOX = "HOSTLER_PLUGIN_WORKSPACE"
"""Set in every sandbox; `HTTPS_PROXY` is set where the sandbox has a network."""
MIN_SECRET_CHARS = 6
"""Shorter values are not taken out of texts, as the host does not: they occur in ordinary words."""
_DENIED = "http_request_denied"
"""What the sandbox's proxy says (RFC 9209) of an endpoint that the operator does not allow."""
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose status is one of success. `pieces` are its bytes, at most MAX_ANSWER_BYTES."""

    content_type: str
    pieces: AsyncIterator[bytes]

    @property
    def is_events(self) -> bool:
        """Whether it is a stream of server-sent events."""
        return self.content_type == "text/event-stream"


class ServiceHttp:
    """Requests to one service. Each failure is a ServiceFailure; none of its texts holds one of `secrets`.

    Redirects are not followed, so that no key goes to another place. The machine's cookies and `.netrc` are
    not used; proxies are those of the environment, which in a sandbox lead to what the plugin may reach.
    """

    def __init__(
        self,
        title: str,
        base_url: str,
        *,
        setting: str = "base-url",
        headers: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
        key_setting: str = "api-key",
    ) -> None:
        self._title = title
        self._base_url = base_url
        self._setting = setting
        self._key_setting = key_setting
        self._secrets = sorted(
            (secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS), key=len, reverse=True
        )
        self._client = self._built_client(headers or {}, hooks=[])

    def _built_client(self, headers: Mapping[str, str], hooks: list[Any]) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "hostler", **headers},
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            follow_redirects=False,
            verify=_tls(),
            event_hooks={"response": hooks},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @property
    def place(self) -> str:
        """The service's host and port."""
        parts = urlsplit(self._base_url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Reply]:
        """Send a request, and give its answer as it comes. Raises ServiceFailure."""
        try:
            response = await self._client.send(self._built(request), stream=True)
        except httpx.HTTPError as error:
            raise self.failure_of(error) from None
        except httpx.InvalidURL as error:
            raise ServiceFailure(
                "config_invalid", f"config `{self._setting}` is not an address: {error}"
            ) from None
        try:
            if response.status_code not in request.accepted:
                raise await self._refused(response)
            self._check_encoding(response)
            yield Reply(_type_of(response), self._pieces(response))
        finally:
            await response.aclose()

    def client(self) -> httpx.AsyncClient:
        """Return a client for a library that makes its own requests; close it.

        An answer that is not 200, neither JSON nor a stream of events, or too large raises ServiceFailure
        through the library; `failure_of` says what other errors mean.
        """
        return self._built_client({}, hooks=[self._check_answer])

    def failure_of(self, error: httpx.HTTPError) -> ServiceFailure:
        """Return the failure for a request that could not be sent, or whose answer broke off."""
        match error:
            case httpx.ProxyError() if str(error).startswith("403"):
                return self._not_allowed(str(error))
            case httpx.ProxyError():
                return self._unreachable(f"the way out of the sandbox answered {error}")
            case httpx.TimeoutException():
                return self._unreachable("no connection within the time for it")
            case _:
                return self._unreachable(str(error) or type(error).__name__)

    def broken(self) -> ServiceFailure:
        """Return the failure for an answer that broke off."""
        return ServiceFailure(
            "stream_broken",
            f"the connection to {self._title} broke in the middle of its answer; ask again",
            retryable=True,
        )

    async def json(self, request: Request) -> dict[str, object]:
        """Send a request, and return the JSON object of its answer. Raises ServiceFailure."""
        async with self.open(request) as reply:
            return self.decoded(await self.body(reply))

    async def body(self, reply: Reply) -> bytes:
        """Read a whole answer. Raises ServiceFailure if it has over MAX_BODY_BYTES."""
        body = bytearray()
        async for piece in reply.pieces:
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise ServiceFailure(
                    "answer_too_long",
                    f"{self._title} answered with over {MAX_BODY_BYTES // MIB} MiB, the maximum",
                )
        return bytes(body)

    def decoded(self, body: bytes) -> dict[str, object]:
        """Decode a JSON object. Raises ServiceFailure."""
        try:
            return as_object(msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ServiceFailure(
                "response_invalid",
                f"the answer of {self._title} is not JSON ({error}); check config `{self._setting}`",
            ) from None

    def without_secrets(self, text: str) -> str:
        """Return a text without the secrets that it repeats."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def clean(self, text: str) -> str:
        """Return a text of the service for a message: short, on one line, and without secrets."""
        return shortened(self.without_secrets(text)).rstrip(".")

    def _check_encoding(self, response: httpx.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ServiceFailure(
                "response_invalid",
                f"{self._title} sent its answer as {encoding:.40}, unasked; turn that off",
            )

    async def _check_answer(self, response: httpx.Response) -> None:
        """Raise ServiceFailure for an answer that a library should not see; bound the others."""
        if response.status_code != 200:
            raise await self._refused(response)
        self._check_encoding(response)
        kind = _type_of(response)
        if kind not in ("application/json", "text/event-stream") and not kind.endswith("+json"):
            raise ServiceFailure(
                "response_invalid",
                f"{self._title} answered {kind or 'without a type'} where JSON or a stream of "
                "events was expected; check the address in the settings",
            )
        response.stream = _Bounded(response.stream, self._title)

    def _built(self, request: Request) -> httpx.Request:
        parts: dict[str, Any] = {}
        if request.files:
            parts["files"] = [(name, (file.name, file.data, file.mime_type)) for name, file in request.files]
            parts["data"] = dict(request.fields)
        elif request.json is not None:
            parts["content"] = msgspec.json.encode(request.json)
            parts["headers"] = {"content-type": "application/json"}
        parts["headers"] = {**parts.get("headers", {}), **request.headers}
        if request.query:
            parts["params"] = dict(request.query)
        return self._client.build_request(request.method, self._base_url + request.path, **parts)

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise ServiceFailure(
                        "answer_too_long",
                        f"{self._title} streamed over {MAX_ANSWER_BYTES // MIB} MiB, the maximum",
                    )
                yield piece
        except httpx.HTTPError:
            raise self.broken() from None

    async def _refused(self, response: httpx.Response) -> ServiceFailure:
        status = response.status_code
        why = await self._reason(response)
        proxied = response.headers.get("proxy-status", "")
        if proxied.startswith("hostler;"):
            return self._not_allowed(why) if proxied.endswith(f"={_DENIED}") else self._unreachable(why)
        said = f"{self._title} answered {status}" + (f": {why}" if why else "")
        if status in (401, 403):
            return ServiceFailure("auth_error", f"{said}; check config `{self._key_setting}`", status=status)
        if 300 <= status < 400:
            where = self.clean(response.headers.get("location", "").partition("?")[0])
            return ServiceFailure(
                "http_error",
                f"{said}, a redirect to {where or 'nowhere'}; put the right address into config "
                f"`{self._setting}`, since redirects are not followed",
            )
        advice = {
            404: f"check config `{self._setting}` and what the request names",
            413: "send less",
            429: "ask more slowly, or raise the limit there",
        }.get(status, "try again later" if status in _BUSY else "check the settings of this runner")
        return ServiceFailure("http_error", f"{said}; {advice}", status in _BUSY, status)

    async def _reason(self, response: httpx.Response) -> str:
        """Return what the service says about its error, or an empty text."""
        body = bytearray()
        try:
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_ERROR_BYTES:
                    return ""
        except httpx.HTTPError:
            return ""
        if response.headers.get("content-type", "").startswith("text/plain"):
            return self.clean(body.decode(errors="replace"))
        try:
            data = msgspec.json.decode(bytes(body))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return self.clean(reason_in(data))

    def _not_allowed(self, why: str) -> ServiceFailure:
        return ServiceFailure(
            "unreachable",
            f"{self.place} cannot be reached from the plugin's sandbox ({self.clean(why)}); allow it by an "
            f"entry in the configuration: {how_to_allow(self.place)}",
        )

    def _unreachable(self, why: str) -> ServiceFailure:
        if os.environ.get(_SANDBOX) and not os.environ.get("HTTPS_PROXY"):
            return self._not_allowed("its sandbox has no network")
        return ServiceFailure(
            "unreachable",
            f"{self._title} cannot be reached at {self.place} ({self.clean(why)}); check config "
            f"`{self._setting}`, and whether it runs",
            retryable=True,
        )


class _Bounded(httpx.AsyncByteStream):
    """The bytes of an answer that a library reads: no line over MAX_LINE_BYTES, MAX_ANSWER_BYTES in all."""

    def __init__(self, stream: Any, title: str) -> None:
        self._stream = stream
        self._title = title

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = line = 0
        async for piece in self._stream:
            size += len(piece)
            line = len(piece) - piece.rfind(b"\n") - 1 if b"\n" in piece else line + len(piece)
            if line > MAX_LINE_BYTES or size > MAX_ANSWER_BYTES:
                raise ServiceFailure(
                    "answer_too_long",
                    f"{self._title} sent an event of over {MAX_LINE_BYTES:,} bytes, or over "
                    f"{MAX_ANSWER_BYTES // MIB} MiB in all, the maximum",
                )
            yield piece

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def _type_of(response: httpx.Response) -> str:
    found: str = response.headers.get("content-type", "")
    return found.partition(";")[0].strip().lower()


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()
