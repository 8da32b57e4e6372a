"""The only way from a sandbox to a network: an HTTP proxy that connects to the allowed endpoints.

Supports CONNECT, and plain http:// requests in absolute form, one on each connection, as its answers say. Its
listening socket is inside the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from urllib.parse import urlsplit

from hostler.domain.endpoints import HostPort, parse_host_port
from hostler.sandbox.port import Violation

MAX_HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 30.0
CONNECT_SECONDS = 30.0
MAX_CONNECTIONS = 128
"""Connections of one sandbox at once; more are closed."""
ATTEMPT_SECONDS = 0.25
"""After so long without an answer the next address of a name is tried, beside those before (RFC 8305)."""
MAX_ADDRESSES = 16
CHUNK_BYTES = 64 * 1024
HTTP_PORT = 80
_log = logging.getLogger(__name__)


class _Refused(Exception):  # noqa: N818 - a response, not a mistake
    """`error` is a type of RFC 9209, by which a client tells the proxy's answer from that of the service."""

    def __init__(self, status: str, text: str, error: str = "http_request_denied") -> None:
        super().__init__(text)
        self.status = status
        self.error = error


class Proxy:
    """The proxy of one sandbox, until it is closed."""

    def __init__(self, name: str, allowed: Iterable[str], report: Callable[[Violation], None]) -> None:
        self.name = name
        self.allowed = frozenset(parse_host_port(text) for text in allowed)
        self._report = report
        self._reported: set[HostPort] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, listener: socket.socket) -> None:
        """Accept connections from `listener`, which listens inside the sandbox."""
        listener.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._accept(listener))
        self._keep(task)

    def close(self) -> None:
        """Cancel all connections."""
        for task in list(self._tasks):
            task.cancel()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    client, _ = await loop.sock_accept(listener)
                except OSError as error:
                    _log.debug("%s: its proxy ends: %s", self.name, error)
                    return
                if len(self._tasks) > MAX_CONNECTIONS:
                    client.close()
                    continue
                self._keep(loop.create_task(self._serve(client)))

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=MAX_HEAD_BYTES)
        try:
            await self._exchange(reader, writer)
        except _Refused as refused:
            writer.write(_answer(refused.status, str(refused), refused.error))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            _log.debug("%s: a connection of its proxy ended: %s", self.name, error)
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        endpoint, first = _parse_head(head)
        if endpoint not in self.allowed:
            self._refuse(endpoint)
        theirs, ours = await _connect(endpoint)
        try:
            if first is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay(_copy(reader, ours), _copy(theirs, writer))
            else:
                ours.write(first)
                await _relay(_copy(reader, ours), _copy_answer(theirs, writer))
        finally:
            ours.close()

    def _refuse(self, endpoint: HostPort) -> None:
        known = ", ".join(sorted(map(str, self.allowed)))
        text = f"{endpoint} is not among what it may reach ({known})"
        if endpoint not in self._reported and len(self._reported) < MAX_CONNECTIONS:
            self._reported.add(endpoint)
            _log.warning("%s: %s", self.name, text)
            self._report(Violation("network", str(endpoint), text))
        raise _Refused("403 Forbidden", text)


def _parse_head(head: bytes) -> tuple[HostPort, bytes | None]:
    """Return a request's endpoint, and the bytes to send there first; None for CONNECT."""
    line, _, fields = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            return parse_host_port(target), None
        url = urlsplit(target)
        if url.scheme != "http" or not url.hostname:
            raise ValueError("a proxy takes whole http:// addresses")
        endpoint = parse_host_port(f"[{url.hostname}]:{url.port or HTTP_PORT}")
    except (UnicodeDecodeError, ValueError) as error:
        raise _Refused("400 Bad Request", str(error), "http_request_error") from None
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [field for field in fields.split(b"\r\n") if field and not _is_hop(field)]
    first = b"\r\n".join([f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""])
    return endpoint, first


def _is_hop(field: bytes) -> bool:
    return field.partition(b":")[0].strip().lower() in (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
    )


async def _connect(endpoint: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await loop.getaddrinfo(endpoint.name, endpoint.port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))[:MAX_ADDRESSES]
            for address in addresses:
                _check_address(endpoint, address)
            return await _first_to_answer(addresses, endpoint.port)
    except TimeoutError:
        raise _Refused("504 Gateway Timeout", f"{endpoint} did not answer", "connection_timeout") from None
    except OSError as error:
        why = f"{endpoint} cannot be reached: {error.strerror or error}"
        raise _Refused("502 Bad Gateway", why, "destination_unavailable") from None


async def _first_to_answer(
    addresses: list[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of these addresses that answers. Raises OSError if none does.

    The next one is tried when one fails, or says nothing for a while: a name may have an IPv6 address that
    leads nowhere.
    """
    waiting = deque(addresses)
    trying: set[asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = set()
    errors: list[BaseException] = []
    try:
        while waiting or trying:
            if waiting:
                attempt = asyncio.open_connection(waiting.popleft(), port, limit=CHUNK_BYTES)
                trying.add(asyncio.create_task(attempt))
            done, _ = await asyncio.wait(
                trying, timeout=ATTEMPT_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for ended in done:
                trying.discard(ended)
                if (error := ended.exception()) is None:
                    trying |= done - {ended}
                    return ended.result()
                errors.append(error)
    finally:
        for late in trying:
            late.add_done_callback(_close_late)
            late.cancel()
    raise errors[0]


def _close_late(attempt: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Close a connection that another one came before."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result()[1].close()


def _check_address(endpoint: HostPort, address: str) -> None:
    """Refuse a name that resolves to this machine, or to link-local addresses with a cloud's secrets."""
    if endpoint.name == "localhost" or _is_address(endpoint.name):
        return
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast:
        raise _Refused("403 Forbidden", f"{endpoint} leads to {address}, which is not reached by a name")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _relay(*directions: Coroutine[None, None, None]) -> None:
    async with asyncio.TaskGroup() as both:
        for one in directions:
            both.create_task(one)


async def _copy_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy the answer to a plain request, and say in it that nothing follows on this connection.

    Otherwise a client would keep the connection, and send its next request into the end of it. What is no
    answer is passed on as it is: the client judges it as without a proxy.
    """
    with contextlib.suppress(OSError, asyncio.LimitOverrunError):
        try:
            while _is_interim(line := await reader.readuntil(b"\n")):
                await _copy_fields(line, reader, writer)
            if line.startswith(b"HTTP/1."):
                line += b"Connection: close\r\n"
            await _copy_fields(line, reader, writer)
        except asyncio.IncompleteReadError as ended:
            writer.write(ended.partial)
    await _copy(reader, writer)


def _is_interim(status_line: bytes) -> bool:
    """Whether another answer follows, as after 100 Continue. 101 is the last: another protocol follows it."""
    version, _, status = status_line.partition(b" ")
    return version.startswith(b"HTTP/1.") and status.startswith(b"1") and not status.startswith(b"101")


async def _copy_fields(first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy the lines of a head up to the empty one, without what belongs to the connection to the server."""
    line, dropped = first, False
    while line.strip(b"\r\n"):
        dropped = _is_hop(line) or (dropped and line.startswith((b" ", b"\t")))
        if not dropped:
            writer.write(line)
            await writer.drain()
        line = await reader.readuntil(b"\n")
    writer.write(line)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _answer(status: str, text: str, error: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    head += f"Proxy-Status: hostler; error={error}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
