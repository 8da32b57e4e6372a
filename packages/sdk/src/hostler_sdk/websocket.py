"""WebSocket transport: the plugin dials a host elsewhere, and dials again when the connection is lost."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections import deque

from hostler_protocol.limits import MAX_MESSAGE_BYTES
from hostler_sdk.client import HostConnection
from hostler_sdk.loading import PluginLoadError
from hostler_sdk.plugin import Plugin
from hostler_sdk.stdio import FLUSH_SECONDS, STOP_SECONDS, WRITE_BUFFER_BYTES

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
except ImportError as error:
    raise PluginLoadError("--connect needs the extra: pip install 'hostler-sdk[remote]'") from error

FIRST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 30.0
"""Waits between attempts double from the first to the longest. Each is shortened at random by up to half."""
STEADY_SECONDS = 10.0
"""A connection that lasted at least this long resets the wait to the first."""
_FINAL_STATUSES = frozenset({400, 401, 403, 404})
"""HTTP statuses after which dialling again is useless. (Not 409: an older connection may be about to end.)"""


class _Socket:
    """Outgoing messages of one WebSocket. Over WRITE_BUFFER_BYTES, runners have to wait."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()

    def write(self, data: bytes) -> None:
        for message in data.splitlines():
            self._messages.append(message)
            self._bytes += len(message)
        self._ready.set()
        self._idle.clear()
        if self._bytes > WRITE_BUFFER_BYTES:
            self._room.clear()

    async def drain(self) -> None:
        await self._room.wait()

    async def flushed(self) -> None:
        await self._idle.wait()

    async def send_all(self) -> None:
        """Send messages until the socket is closed."""
        try:
            while True:
                await self._ready.wait()
                while self._messages:
                    message = self._messages.popleft()
                    await self._socket.send(message, text=True)
                    self._bytes -= len(message)
                    if self._bytes <= WRITE_BUFFER_BYTES:
                        self._room.set()
                self._ready.clear()
                self._idle.set()
        except ConnectionClosed:
            pass  # the reader gets the same error, and reports it
        finally:
            self._room.set()
            self._idle.set()


async def serve_websocket(plugin: Plugin, url: str, token: str, give_up_after: float) -> bool:
    """Dial the host at `url` and serve it until it shuts the plugin down.

    Dials again when the connection is lost. Return whether the code of all runs has ended. Raises
    PluginLoadError if the host refuses the plugin, or cannot be reached for `give_up_after` seconds.
    """
    if (serving := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    wait, cut_off_since = FIRST_RETRY_SECONDS, time.monotonic()
    while True:
        try:
            socket = await connect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"},
                max_size=MAX_MESSAGE_BYTES,
                compression=None,
            )
        except (OSError, InvalidHandshake, InvalidURI) as error:
            _raise_if_final(error, url)
            reason = str(error)
        else:
            connected = time.monotonic()
            connection = await _converse(plugin, socket)
            if not connection.reason:
                return await connection.stopped(STOP_SECONDS)
            reason, cut_off_since = connection.reason, time.monotonic()
            if cut_off_since - connected >= STEADY_SECONDS:
                wait = FIRST_RETRY_SECONDS
        if time.monotonic() - cut_off_since >= give_up_after:
            raise PluginLoadError(f"no connection to {url} for {give_up_after:.0f} seconds: {reason}")
        sys.stderr.write(f"no connection to {url} ({reason}); next attempt in about {wait:.1f} s\n")
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, hides nothing
        wait = min(2 * wait, LONGEST_RETRY_SECONDS)


def _raise_if_final(error: Exception, url: str) -> None:
    if isinstance(error, InvalidURI):
        raise PluginLoadError(f"{url!r} is not a WebSocket address; write ws://host:port/path") from error
    if isinstance(error, InvalidStatus) and error.response.status_code in _FINAL_STATUSES:
        status = error.response.status_code
        hint = "check the address" if status == 404 else "check the plugin's token and identity"
        raise PluginLoadError(f"{url} answered {status}: {hint}") from error


async def _converse(plugin: Plugin, socket: ClientConnection) -> HostConnection:
    outgoing = _Socket(socket)
    connection = HostConnection(plugin, outgoing)
    reading = asyncio.create_task(_read(socket, connection))
    sending = asyncio.create_task(outgoing.send_all())
    try:
        await connection.closed.wait()
        connection.flush()
        if not connection.reason:
            async with asyncio.timeout(FLUSH_SECONDS):
                await outgoing.flushed()
    except TimeoutError:
        sys.stderr.write("the host did not read the last messages in time\n")
    finally:
        sending.cancel()
        await socket.close()
        reading.cancel()
        await asyncio.gather(reading, sending, return_exceptions=True)
    return connection


async def _read(socket: ClientConnection, connection: HostConnection) -> None:
    reason = "the host closed the connection"
    try:
        async for message in socket:
            connection.received_frame(message)
    except ConnectionClosed as error:
        reason = str(error)
    connection.lost(reason)
