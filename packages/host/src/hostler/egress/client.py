"""Sending a request to an address that somebody else chose, within bounds of time, size and redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urldefrag, urljoin

from hostler.egress.decompression import ACCEPTED, Decoder
from hostler.egress.errors import (
    EgressAnswerError,
    EgressError,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
)
from hostler.egress.limits import CONNECT_SECONDS, MAX_PIECES_WITHOUT_OUTPUT, ExchangeLimits
from hostler.egress.policy import EgressPolicy, target_of
from hostler.egress.resolver import Guard, Resolver
from hostler.egress.transport import GuardedTransport, tls_context
from hostler.version import VERSION

if TYPE_CHECKING:  # the longest of all imports: it comes with the first request
    import httpx

Redirects = Literal["never", "same-origin", "anywhere"]
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
"""The headers that follow a redirect to another origin."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `headers`: names in lower case, the values of equal names joined by commas.

    `url` is the address that answered, after redirects. `truncated`: the body went on beyond the limit.
    """

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes = b""
    truncated: bool = False


class Egress:
    """Sends requests under one policy. Close it; its connections are kept for some seconds between requests.

    It has no cookies, no proxies and no credentials of the machine: what goes out is what was given.
    """

    def __init__(
        self, policy: EgressPolicy, *, resolver: Resolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.guard = Guard(policy, resolver)
        self._tls = tls
        self._transport: GuardedTransport | None = None
        self._under_way = 0
        self._closed = False

    def check_url(self, url: str) -> None:
        """Refuse an address by what is written in it. EgressRefusedError."""
        self.guard.check_url(url)

    async def close(self) -> None:
        """Close all connections, once what is under way is over: a change of configuration breaks no call."""
        self._closed = True
        if not self._under_way:
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
    ) -> Answer:
        """Send, and read the body up to the limit. EgressErrors; `sent` tells whether it may have arrived."""
        limits = limits or ExchangeLimits()
        async with self.stream(
            method, url, headers=headers, content=content, limits=limits, redirects=redirects
        ) as (answer, pieces):
            body = bytearray()
            async for piece in pieces:
                body += piece
                if len(body) > limits.max_bytes:
                    break
        return Answer(
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
    ) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """The same, with the body as it comes, decompressed, in pieces of at most 64 KiB; the limit of bytes
        is the reader's to hold here. Leaving the block closes what is not read.
        """
        limits = limits or ExchangeLimits()
        sending = _Sending(method, urldefrag(url).url, _headers(headers), content)
        transport, http = await self._ready()
        self._under_way += 1
        try:
            async with asyncio.timeout(limits.seconds):
                response = await _send_along(transport, http, sending, limits, redirects)
                try:
                    answer = Answer(response.status_code, _joined(response), sending.url)
                    yield answer, _pieces(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            text = f"no answer within {limits.seconds:g} s"
            raise EgressTimeoutError(text) if sending.begun else EgressUnreachableError(text) from None
        except (http.ConnectError, http.ConnectTimeout, http.PoolTimeout) as error:
            if isinstance(error.__cause__, EgressError):
                raise error.__cause__ from None
            raise EgressUnreachableError(f"{target_of(sending.url)} cannot be reached") from None
        except http.TimeoutException:
            raise EgressTimeoutError(f"no answer within {limits.seconds:g} s") from None
        except (http.TransportError, http.InvalidURL, OSError) as error:
            # The error's own text may hold the address; its kind says enough.
            raise EgressAnswerError(f"the exchange broke off: {type(error).__name__}") from None
        finally:
            self._under_way -= 1
            if self._closed and not self._under_way:
                await self._close()

    async def _ready(self) -> tuple[GuardedTransport, Any]:
        http = await asyncio.to_thread(import_module, "httpx")  # beside the loop
        tls = self._tls or await asyncio.to_thread(tls_context)
        if self._transport is None:
            self._transport = GuardedTransport(self.guard, tls=tls)
        return self._transport, http


@dataclass(slots=True)
class _Sending:
    """A request on its way through redirects."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes
    begun: bool = False


async def _send_along(
    transport: GuardedTransport,
    http: Any,
    sending: _Sending,
    limits: ExchangeLimits,
    redirects: Redirects,
) -> httpx.Response:
    """Send, and follow what may be followed: only what reads, and from https never back to http."""
    timeout = {"connect": min(CONNECT_SECONDS, limits.seconds), "pool": limits.seconds}
    timeout |= {"read": limits.seconds, "write": limits.seconds}
    for _ in range(limits.max_redirects + 1):
        request = http.Request(
            sending.method,
            sending.url,
            headers=sending.headers,
            content=sending.content or None,
            extensions={"timeout": timeout},
        )
        sending.begun = True
        response: httpx.Response = await transport.handle_async_request(request)
        location = response.headers.get("location")
        if response.status_code not in REDIRECTS or location is None or redirects == "never":
            return response
        try:
            following = _followed(sending, location, redirects)
        except EgressError:
            await response.aclose()
            raise
        if following is None:
            return response
        await response.aclose()
        if target_of(following) != target_of(sending.url):
            sending.headers = {k: v for k, v in sending.headers.items() if k in _HARMLESS}
        sending.url = following
    raise EgressAnswerError(f"it redirects more than {limits.max_redirects} times")


def _followed(sending: _Sending, location: str, redirects: Redirects) -> str | None:
    """Where a redirect leads, None where it is not followed. EgressRefusedError where that is no address."""
    if sending.method not in ("GET", "HEAD"):
        return None
    try:
        following = urldefrag(urljoin(sending.url, location)).url
    except ValueError:
        raise EgressRefusedError("it redirects to what is no address") from None
    before, after = target_of(sending.url), target_of(following)
    if redirects == "same-origin":
        return following if before == after else None
    return None if before.scheme == "https" and after.scheme == "http" else following


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    decoder = Decoder(response.headers.get("content-encoding", ""))
    fruitless = 0
    async for data in cast(AsyncIterator[bytes], response.stream):
        fruitless += 1
        for piece in decoder.feed(data):
            fruitless = 0
            yield piece
        if fruitless > MAX_PIECES_WITHOUT_OUTPUT:
            raise EgressAnswerError("its body goes on without saying anything")
    decoder.end()


def _headers(given: Mapping[str, str] | None) -> dict[str, str]:
    headers = {"accept": "*/*", "accept-encoding": ACCEPTED, "user-agent": f"hostler/{VERSION}"}
    return headers | {name.lower(): value for name, value in (given or {}).items()}


def _joined(response: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
