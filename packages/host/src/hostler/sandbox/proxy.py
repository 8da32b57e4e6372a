"""The only way from a sandbox to a network: a proxy that knows a few names, on a socket inside it.

Speaks what HTTP clients speak to their proxies: CONNECT for everything encrypted, and plain requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from hostler.domain.endpoints import HostPort, parse_host_port
from hostler.sandbox.port import Told

MAX_HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 30.0
CONNECT_SECONDS = 30.0
MAX_CONNECTIONS = 128
"""Of one sandbox at once; more are refused."""
CHUNK_BYTES = 64 * 1024
HTTP_PORT = 80
_log = logging.getLogger(__name__)


class _Refused(Exception):  # noqa: N818 - an answer, no mistake
    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Proxy:
    """Serves one sandbox until it is closed."""

    def __init__(self, name: str, allowed: Iterable[str], tell: Callable[[Told], None]) -> None:
        self.name = name
        self.allowed = frozenset(parse_host_port(text) for text in allowed)
        self._tell = tell
        self._told: set[HostPort] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, door: socket.socket) -> None:
        """Accept what is connected to `door`, which listens inside the sandbox."""
        door.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._accept(door))
        self._keep(task)

    def close(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with door:
            while True:
                try:
                    client, _ = await loop.sock_accept(door)
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
            await self._speak(reader, writer)
        except _Refused as refused:
            writer.write(_answer(refused.status, str(refused)))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            _log.debug("%s: a connection of its proxy ended: %s", self.name, error)
        finally:
            writer.close()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        target, first = _understand(head)
        if target not in self.allowed:
            self._refuse(target)
        theirs, ours = await _connect(target)
        try:
            if first is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                ours.write(first)
            await _relay(reader, ours, theirs, writer)
        finally:
            ours.close()

    def _refuse(self, target: HostPort) -> None:
        known = ", ".join(sorted(map(str, self.allowed)))
        text = f"{target} is not among what it may reach ({known})"
        if target not in self._told and len(self._told) < MAX_CONNECTIONS:
            self._told.add(target)
            _log.warning("%s: %s", self.name, text)
            self._tell(Told("network", str(target), text))
        raise _Refused("403 Forbidden", text)


def _understand(head: bytes) -> tuple[HostPort, bytes | None]:
    """Where a request goes, and how it begins there; None for CONNECT."""
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
        raise _Refused("400 Bad Request", str(error)) from None
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [field for field in fields.split(b"\r\n") if field and not _is_hop(field)]
    first = b"\r\n".join([f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""])
    return endpoint, first


def _is_hop(field: bytes) -> bool:
    return field.partition(b":")[0].strip().lower() in (
        b"connection",
        b"proxy-connection",
        b"proxy-authorization",
    )


async def _connect(target: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await loop.getaddrinfo(target.name, target.port, type=socket.SOCK_STREAM)
            addresses = [entry[4][0] for entry in found]
            for address in addresses:
                _check(target, str(address))
            return await asyncio.open_connection(str(addresses[0]), target.port, limit=CHUNK_BYTES)
    except TimeoutError:
        raise _Refused("504 Gateway Timeout", f"{target} did not answer") from None
    except OSError as error:
        raise _Refused("502 Bad Gateway", f"{target} cannot be reached: {error.strerror or error}") from None


def _check(target: HostPort, address: str) -> None:
    """A name that is somebody else's must not lead to this machine or to its cloud's secrets."""
    if target.name == "localhost" or _is_address(target.name):
        return
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast:
        raise _Refused("403 Forbidden", f"{target} leads to {address}, which is not reached by a name")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _relay(
    from_client: asyncio.StreamReader,
    to_server: asyncio.StreamWriter,
    from_server: asyncio.StreamReader,
    to_client: asyncio.StreamWriter,
) -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(_copy(from_client, to_server))
        both.create_task(_copy(from_server, to_client))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _answer(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
