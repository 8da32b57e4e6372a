"""Requests to addresses from untrusted sources, with limits of time, size and redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urldefrag, urljoin

from hostler.domain.record import Record
from hostler.egress.decompression import ACCEPTED, Decoder
from hostler.egress.errors import (
    EgressAnswerError,
    EgressError,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
)
from hostler.egress.limits import CONNECT_SECONDS, MAX_PIECES_WITHOUT_OUTPUT, ExchangeLimits
from hostler.egress.network import Guard, Network
from hostler.egress.policy import EgressPolicy, target_of
from hostler.egress.transport import GuardedTransport, tls_context
from hostler.version import VERSION

if TYPE_CHECKING:  # the slowest import: done at the first request
    import httpx

Redirects = Literal["never", "same-origin", "anywhere"]
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
"""The headers that are kept when a redirect leads to another origin."""


class HttpAnswer(Record):
    """An HTTP answer. `headers` have names in lower case; values of equal names are joined by commas.

    `url` is the final address, after redirects. `truncated`: the body is longer than the limit.
    """

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes = b""
    truncated: bool = False


class Egress:
    """Sends requests under one policy, and keeps connections for 15 s between requests. Must be closed.

    It uses no cookies, proxies or credentials of the machine: it sends only what the caller passes.
    """

    def __init__(
        self, policy: EgressPolicy, *, network: Network | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.guard = Guard(policy, network)
        self._tls = tls
        self._transport: GuardedTransport | None = None
        self._active = 0
        self._closed = False

    def check_url(self, url: str) -> None:
        """Check an address by its text, without resolving it. EgressRefusedError."""
        self.guard.check_url(url)

    async def close(self) -> None:
        """Close all connections after the active requests, so that a configuration change breaks no call."""
        self._closed = True
        if not self._active:
            await self._close()

    async def _close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        limits: ExchangeLimits | None = None,
        redirects: Redirects = "never",
    ) -> HttpAnswer:
        """Send a request and read the body up to the limit. EgressError; its `sent`: it may have arrived."""
        limits = limits or ExchangeLimits()
        async with self.stream(
            method, url, headers=headers, content=content, limits=limits, redirects=redirects
        ) as (answer, pieces):
            body = bytearray()
            async for piece in pieces:
                body += piece
                if len(body) > limits.max_bytes:
                    break
        return HttpAnswer(
            answer.status,
            answer.headers,
            answer.url,
            bytes(body[: limits.max_bytes]),
            len(body) > limits.max_bytes,
        )

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        limits: ExchangeLimits | None = None,
        redirects: Redirects = "never",
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[bytes]]]:
        """Send a request, and enter with the answer and the decompressed body in pieces of at most 64 KiB.

        The caller must enforce the limit of bytes. Leaving the block closes an unread body. EgressError.
        """
        limits = limits or ExchangeLimits()
        outgoing = _Request(method, urldefrag(url).url, _headers(headers), content)
        transport, http = await self._ready()
        self._active += 1
        try:
            async with asyncio.timeout(limits.seconds):
                response = await _send_following(transport, http, outgoing, limits, redirects)
                try:
                    answer = HttpAnswer(response.status_code, _header_values(response), outgoing.url)
                    yield answer, _pieces(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            text = f"no answer within {limits.seconds:g} s"
            raise EgressTimeoutError(text) if outgoing.begun else EgressUnreachableError(text) from None
        except (http.ConnectError, http.ConnectTimeout, http.PoolTimeout) as error:
            if isinstance(error.__cause__, EgressError):
                raise error.__cause__ from None
            raise EgressUnreachableError(f"{target_of(outgoing.url)} cannot be reached") from None
        except http.TimeoutException:
            raise EgressTimeoutError(f"no answer within {limits.seconds:g} s") from None
        except (http.TransportError, http.InvalidURL, OSError) as error:
            # The error's text may contain the address, so only its kind is shown.
            raise EgressAnswerError(f"the exchange broke off: {type(error).__name__}") from None
        finally:
            self._active -= 1
            if self._closed and not self._active:
                await self._close()

    async def _ready(self) -> tuple[GuardedTransport, Any]:
        http = await asyncio.to_thread(import_module, "httpx")  # slow: off the event loop
        tls = self._tls or await asyncio.to_thread(tls_context)
        if self._transport is None:
            self._transport = GuardedTransport(self.guard, tls=tls)
        return self._transport, http


@dataclass(slots=True)
class _Request:
    """A request; `url` and `headers` change with redirects. `begun`: it was sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes
    begun: bool = False


async def _send_following(
    transport: GuardedTransport, http: Any, outgoing: _Request, limits: ExchangeLimits, redirects: Redirects
) -> httpx.Response:
    """Send, and follow redirects: only of GET and HEAD, and never from https to http."""
    timeout = {"connect": min(CONNECT_SECONDS, limits.seconds), "pool": limits.seconds}
    timeout |= {"read": limits.seconds, "write": limits.seconds}
    for _ in range(limits.max_redirects + 1):
        request = http.Request(
            outgoing.method,
            outgoing.url,
            headers=outgoing.headers,
            content=outgoing.content or None,
            extensions={"timeout": timeout},
        )
        outgoing.begun = True
        response: httpx.Response = await transport.handle_async_request(request)
        location = response.headers.get("location")
        if response.status_code not in REDIRECTS or location is None or redirects == "never":
            return response
        try:
            following = _redirect_target(outgoing, location, redirects)
        except EgressError:
            await response.aclose()
            raise
        if following is None:
            return response
        await response.aclose()
        if target_of(following) != target_of(outgoing.url):
            outgoing.headers = {k: v for k, v in outgoing.headers.items() if k in _HARMLESS}
        outgoing.url = following
    raise EgressAnswerError(f"it redirects more than {limits.max_redirects} times")


def _redirect_target(outgoing: _Request, location: str, redirects: Redirects) -> str | None:
    """Return the URL of a redirect, None if it is not followed. EgressRefusedError if it is not a URL."""
    if outgoing.method not in ("GET", "HEAD"):
        return None
    try:
        following = urldefrag(urljoin(outgoing.url, location)).url
    except ValueError:
        raise EgressRefusedError("it redirects to what is no address") from None
    before, after = target_of(outgoing.url), target_of(following)
    if redirects == "same-origin":
        return following if before == after else None
    return None if before.scheme == "https" and after.scheme == "http" else following


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    decoder = Decoder(response.headers.get("content-encoding", ""))
    without_output = 0
    async for data in cast(AsyncIterator[bytes], response.stream):
        without_output += 1
        for piece in decoder.feed(data):
            without_output = 0
            yield piece
        if without_output > MAX_PIECES_WITHOUT_OUTPUT:
            raise EgressAnswerError("its body goes on without saying anything")
    decoder.end()


def _headers(extra: Mapping[str, str] | None) -> dict[str, str]:
    headers = {"accept": "*/*", "accept-encoding": ACCEPTED, "user-agent": f"hostler/{VERSION}"}
    return headers | {name.lower(): value for name, value in (extra or {}).items()}


def _header_values(response: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
