"""Connections to servers that speak no HTTP: through the sandbox's proxy where there is one, else directly.

In a sandbox nothing else leads out. Libraries of HTTP find the proxy by `HTTPS_PROXY`; what speaks over TCP
asks for a connection here: `open_connection` with asyncio, `connect` where a library blocks.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl as tls
from collections.abc import Generator
from urllib.parse import urlsplit

PROXY = "HOSTLER_SANDBOX_PROXY"
"""Set in a sandbox with a network, and nowhere else."""
CONNECT_SECONDS = 35.0
"""Time for a connection. The proxy itself gives up, and says why, after 30."""
MAX_ANSWER_BYTES = 16 * 1024
"""Of the proxy, when it refuses."""
STREAM_LIMIT = 64 * 1024
_WORKSPACE = "HOSTLER_PLUGIN_WORKSPACE"
_DENIED = "http_request_denied"
_ERROR = re.compile(rb"^proxy-status:[^\r\n]*;\s*error=([a-z_]+)", re.IGNORECASE | re.MULTILINE)


class NotAllowedError(ConnectionError):
    """The plugin's `network` does not allow the endpoint. The text says what to write there."""


class UnreachableError(ConnectionError):
    """Nothing answers at the endpoint: it does not exist, refuses connections, or is silent."""


async def open_connection(
    host: str,
    port: int,
    *,
    ssl: tls.SSLContext | bool | None = None,
    seconds: float = CONNECT_SECONDS,
    limit: int = STREAM_LIMIT,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, as `asyncio.open_connection` does. `ssl` speaks with the server itself, not with the proxy.

    Raises NotAllowedError, UnreachableError, and ssl.SSLError if the server has the wrong certificate.
    """
    place, name = place_of(host, port), host if ssl else None
    try:
        async with asyncio.timeout(seconds):
            proxy = _proxy_for(host)
            if proxy is None:
                return await asyncio.open_connection(host, port, ssl=ssl, server_hostname=name, limit=limit)
            line = await _through(proxy, host, port)
            try:
                return await asyncio.open_connection(sock=line, ssl=ssl, server_hostname=name, limit=limit)
            except BaseException:
                line.close()
                raise
    except (NotAllowedError, UnreachableError, tls.SSLError):
        raise
    except TimeoutError:
        raise UnreachableError(f"{place} did not answer within {seconds:g} seconds") from None
    except OSError as error:
        raise _unreachable(place, error) from error


def connect(host: str, port: int, *, seconds: float = CONNECT_SECONDS) -> socket.socket:
    """Return a connected socket, without TLS. It blocks: call it in a thread.

    Raises NotAllowedError, UnreachableError.
    """
    place, proxy = place_of(host, port), _proxy_for(host)
    try:
        if proxy is None:
            return socket.create_connection((host, port), seconds)
        line = socket.create_connection(proxy, seconds)
        try:
            steps = _ask(host, port)
            line.sendall(next(steps))
            while True:
                try:
                    steps.send(line.recv(1))
                except StopIteration:
                    return line
        except BaseException:
            line.close()
            raise
    except (NotAllowedError, UnreachableError):
        raise
    except TimeoutError:
        raise UnreachableError(f"{place} did not answer within {seconds:g} seconds") from None
    except OSError as error:
        raise _unreachable(place, error) from error


def place_of(host: str, port: int) -> str:
    """Return an endpoint as `network` names it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def how_to_allow(place: str) -> str:
    """Return what an operator writes into the configuration to allow an endpoint to this plugin."""
    plugin = f"{os.environ.get('HOSTLER_PLUGIN_AUTHOR', '')}/{os.environ.get('HOSTLER_PLUGIN_NAME', '')}"
    path = plugin if plugin.startswith("hostler/") else "..."
    return f'`plugins: [{{path: {path}, network: ["{place}"]}}]`'


# -- through the proxy --------------------------------------------------------------------------------


def _proxy_for(host: str) -> tuple[str, int] | None:
    address = os.environ.get(PROXY)
    if not address or host in _direct():
        return None
    parts = urlsplit(address)
    return parts.hostname or "127.0.0.1", parts.port or 3128


def _direct() -> set[str]:
    """Return the hosts within the sandbox, such as the address of the model door."""
    return {one.strip() for one in os.environ.get("NO_PROXY", "").split(",")}


async def _through(proxy: tuple[str, int], host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    line = socket.socket()
    try:
        line.setblocking(False)
        await loop.sock_connect(line, proxy)
        steps = _ask(host, port)
        await loop.sock_sendall(line, next(steps))
        while True:
            try:
                steps.send(await loop.sock_recv(line, 1))
            except StopIteration:
                return line
    except BaseException:
        line.close()
        raise


def _ask(host: str, port: int) -> Generator[bytes, bytes, None]:
    """Yield the request for a connection first, then take the proxy's answer, byte by byte: what comes after
    its head is of the server. Returns once there is a connection.
    """
    place = place_of(host, port)
    head = yield f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()
    while not head.endswith(b"\r\n\r\n"):
        head += (piece := (yield b""))
        if not piece or len(head) > MAX_ANSWER_BYTES:
            raise UnreachableError(f"{place} cannot be reached: the proxy of the sandbox gave no answer")
    status = head.split(b"\r\n", 1)[0].split(b" ", 2)[1:2]
    if status == [b"200"]:
        return
    said = b""
    while len(said) < MAX_ANSWER_BYTES and (piece := (yield b"")):
        said += piece
    raise _refusal(place, head, said.decode("utf-8", "replace").strip())


def _refusal(place: str, head: bytes, said: str) -> ConnectionError:
    found = _ERROR.search(head)
    if found is not None and found[1].decode() == _DENIED:
        text = f"{place} cannot be reached from the plugin's sandbox ({said}); allow it by an entry in the"
        return NotAllowedError(f"{text} configuration: {how_to_allow(place)}")
    return UnreachableError(said or f"{place} cannot be reached: {head.splitlines()[0].decode('latin-1')}")


def _unreachable(place: str, error: OSError) -> UnreachableError:
    why = f"{place} cannot be reached: {error.strerror or error}"
    if os.environ.get(_WORKSPACE) and not os.environ.get(PROXY):
        why += f"; in a sandbox, allow it by an entry in the configuration: {how_to_allow(place)}"
    return UnreachableError(why)
