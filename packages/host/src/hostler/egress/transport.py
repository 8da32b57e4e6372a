"""The guard as the transport of an HTTP client: checks the address of each request and each connection.

The client still uses the host's name for `Host` and TLS; only the socket connects to the checked address.
Redirects pass through here like any other request. The same code serves httpx and httpx2 (which the MCP SDK
uses), each with its own httpcore; both are imported when first used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hostler.egress.errors import EgressError
from hostler.egress.limits import CONNECT_SECONDS, KEPT_SECONDS, MAX_CONNECTIONS, MAX_KEPT_CONNECTIONS
from hostler.egress.network import Guard
from hostler.egress.policy import Target

if TYPE_CHECKING:
    import httpx2


class GuardedBackend:
    """A network backend for httpcore that connects only to addresses that the guard allows."""

    def __init__(self, guard: Guard, core: Any) -> None:
        self._guard = guard
        self._core = core
        self._network = guard.network.backend(core)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        """Connect to one of the host's addresses, tried in turn."""
        seconds = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        addresses = await self._guard.addresses(Target("http", host.removesuffix(".").lower(), port))
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    str(address), port, seconds, local_address, socket_options
                )
            except (self._core.ConnectError, self._core.ConnectTimeout) as error:
                failed = error
        assert failed is not None
        raise failed

    async def connect_unix_socket(self, *_: Any, **__: Any) -> Any:
        """Refuse: a path is not a host."""
        raise self._core.ConnectError("Unix sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        """Wait between retries, which httpcore does not make here."""
        await asyncio.sleep(seconds)


class GuardedTransport:
    """A transport for an `AsyncClient` of httpx or httpx2.

    A refusal is raised as the library's `ConnectError`, with an EgressError as its `__cause__`.
    """

    def __init__(self, guard: Guard, *, library: str = "httpx", tls: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._http: Any = import_module(library)
        self._core: Any = import_module(library.replace("httpx", "httpcore"))
        self._body = _body_class(library)
        self._pool = self._core.AsyncConnectionPool(
            ssl_context=tls or tls_context(),
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_KEPT_CONNECTIONS,
            keepalive_expiry=KEPT_SECONDS,
            network_backend=GuardedBackend(guard, self._core),
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, and return the response with its body unread."""
        with _translated(self._http, self._core, request):
            self._guard.check_url(str(request.url))
            core_request = self._core.Request(
                method=request.method,
                url=self._core.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                # a client must not set another host for TLS than the checked one
                extensions={k: v for k, v in request.extensions.items() if k in ("timeout", "trace")},
            )
            answer = await self._pool.handle_async_request(core_request)
        return self._http.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=self._body(answer.stream, request, self._core),
            extensions=answer.extensions,
            request=request,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def __aenter__(self) -> GuardedTransport:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._pool.__aexit__(*error)


@cache
def _body_class(library: str) -> type[Any]:
    """Return a class for the stream of a response, derived from the library's own."""
    http: Any = import_module(library)

    async def iterate(self: Any) -> AsyncIterator[bytes]:
        with _translated(http, self.core, self.request):
            async for piece in self.stream:
                yield piece

    async def aclose(self: Any) -> None:
        with _translated(http, self.core, self.request):
            await self.stream.aclose()

    def begin(self: Any, stream: Any, request: Any, core: Any) -> None:
        self.stream, self.request, self.core = stream, request, core

    methods = {"__init__": begin, "__aiter__": iterate, "aclose": aclose}
    return type("GuardedBody", (http.AsyncByteStream,), methods)


@contextlib.contextmanager
def _translated(http: Any, core: Any, request: Any) -> Iterator[None]:
    """Raise httpcore's errors as the library's errors of the same name, like its own transport does."""
    try:
        yield
    except EgressError as error:
        raise http.ConnectError(error.message, request=request) from error
    except (core.TimeoutException, core.NetworkError, core.ProtocolError, core.UnsupportedProtocol) as error:
        kind = getattr(http, type(error).__name__, http.TransportError)
        raise kind(str(error), request=request) from error


@cache
def tls_context() -> ssl.SSLContext:
    """Load certifi's certificates, or those in SSL_CERT_FILE. Cached, as loading takes 20 ms."""
    import certifi  # noqa: PLC0415  comes with httpx

    return ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or certifi.where())


def httpx2_client(guard: Guard, **options: Any) -> httpx2.AsyncClient:
    """Return a guarded client for the MCP SDK, without the machine's proxies and netrc.

    `options` are those of `httpx2.AsyncClient`; redirects are not followed unless they say so.
    """
    http: Any = import_module("httpx2")
    arguments = {"trust_env": False, "follow_redirects": False, **options}
    client: httpx2.AsyncClient = http.AsyncClient(
        transport=GuardedTransport(guard, library="httpx2"), **arguments
    )
    return client
