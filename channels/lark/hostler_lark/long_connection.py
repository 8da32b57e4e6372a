"""The long connection: an address for a WebSocket, frames that come through it, and their acknowledgement.

The library's own client has one loop for all of a process, acknowledges an event before its handler can wait
for anything, begins all events at once, drops those of cards, and knows no proxy. So its frames and its
addresses are used, and the sockets are kept here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from hostler_lark import frames
from hostler_lark.api import Api, RefusedError
from hostler_lark.frames import FrameError, Frames, Sent
from hostler_lark.library import (
    AUTH_FAILED,
    EXCEED_CONN_LIMIT,
    FORBIDDEN,
    GEN_ENDPOINT_URI,
    HEADER_HANDSHAKE_AUTH_ERRCODE,
    HEADER_HANDSHAKE_MSG,
    HEADER_HANDSHAKE_STATUS,
    INTERNAL_ERROR,
    SERVICE_ID,
    SYSTEM_BUSY,
)
from hostler_sdk.channels import Channel, NotSent, UnclearError

OPEN_SECONDS = 20.0
HEARTBEAT_SECONDS = 20.0
"""Between pings of the WebSocket; a connection that answers none for as long is lost."""
MAX_FRAME_BYTES = 4 * 1024 * 1024
FIRST_WAIT_SECONDS = 1.0
STEADY_SECONDS = 60.0
"""A connection that lasted so long is made again at once; else waits become longer."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Pace:
    """How often Lark wants to be asked, in seconds: it says so with the address, and in its pongs."""

    ping: float = 120.0
    interval: float = 120.0
    """The longest wait between two tries."""
    jitter: float = 30.0
    """The longest wait before the first try, of which each connection takes a random part."""

    def read(self, told: Any) -> None:
        """Take what the server says."""
        told = told if isinstance(told, dict) else {}
        self.ping = _seconds(told.get("PingInterval"), self.ping, least=1.0)
        self.interval = _seconds(told.get("ReconnectInterval"), self.interval, least=0.2)
        self.jitter = _seconds(told.get("ReconnectNonce"), self.jitter)


@dataclass(slots=True)
class Socket:
    """An open connection."""

    ws: ClientConnection
    service_id: int
    since: float
    frames: Frames = field(default_factory=Frames)

    async def answer(self, sent: Sent, code: int, data: Any, began: float) -> None:
        """Tell Lark that an event is durable here. If that fails, Lark sends it again."""
        passed = int(1000 * (time.monotonic() - began))
        try:
            await self.ws.send(frames.answer(sent, code, data, passed))
        except ConnectionClosed as error:
            logger.info("an event could not be acknowledged: %s", error)


class LongConnection:
    """Keeps one connection open. `take` is given each event, and returns once there is room for another."""

    def __init__(self, api: Api, channel: Channel, take: Callable[[Socket, Sent], Awaitable[None]]) -> None:
        self._api = api
        self._channel = channel
        self._take = take
        self._pace = Pace()
        self._socket: Socket | None = None

    async def open(self) -> Socket:
        """Open a connection. Raises NotSent, UnclearError."""
        try:
            place = await self._api.endpoint(GEN_ENDPOINT_URI)
        except RefusedError as error:
            raise _endpoint_error(error) from None
        self._pace.read(place.get("ClientConfig"))
        url, service_id = _address(place.get("URL"))
        try:
            ws = await connect(
                url,
                open_timeout=OPEN_SECONDS,
                ping_interval=HEARTBEAT_SECONDS,
                ping_timeout=HEARTBEAT_SECONDS,
                close_timeout=1.0,
                max_size=MAX_FRAME_BYTES,
                user_agent_header=None,
            )
        except InvalidStatus as error:
            raise _handshake_error(error) from None
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise NotSent(f"the connection could not be opened: {_text(error)}") from None
        self._socket = Socket(ws, service_id, asyncio.get_running_loop().time())
        return self._socket

    async def run(self, socket: Socket) -> None:
        """Read connections until cancelled. Raises ConnectionError if Lark refuses the app."""
        failures = 0
        while True:
            reason = await self._read(socket)
            self._channel.connecting(reason)
            await self.close()
            steady = asyncio.get_running_loop().time() - socket.since >= STEADY_SECONDS
            failures = 0 if steady else failures + 1
            socket = await self._opened_again(failures)
            self._channel.connected()

    async def close(self) -> None:
        """Close the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.ws.close()

    async def _opened_again(self, failures: int) -> Socket:
        """Open a connection, however often that fails, as rarely as Lark wants it."""
        wait = random.random() * self._pace.jitter  # noqa: S311 - it spreads load
        if failures > 1:
            wait += min(FIRST_WAIT_SECONDS * 2 ** min(failures - 2, 10), self._pace.interval)
        tries = 0
        while True:
            await asyncio.sleep(wait)
            try:
                return await self.open()
            except (NotSent, UnclearError) as error:
                if isinstance(error, RefusedError) and error.retry_after is None:
                    raise ConnectionError(error.message) from None
                self._channel.connecting(str(error))
                wait = min(FIRST_WAIT_SECONDS * 2 ** min(tries, 10), self._pace.interval)
                if isinstance(error, NotSent) and error.retry_after is not None:
                    wait = max(wait, error.retry_after)
                tries += 1

    async def _read(self, socket: Socket) -> str:
        """Take what comes until the connection ends; return why it did."""
        pings = asyncio.create_task(self._ping(socket), name="ping Lark")
        try:
            async for content in socket.ws:
                try:
                    sent = socket.frames.read(content if isinstance(content, bytes) else content.encode())
                except FrameError as error:
                    logger.warning("a frame of Lark was left out: %s", error)
                    continue
                if sent is None:
                    continue
                if sent.is_config:
                    self._pace.read(_json(sent.payload))
                else:
                    await self._take(socket, sent)
        except (ConnectionClosed, OSError) as error:
            return f"the connection to Lark broke: {_text(error)}"
        finally:
            pings.cancel()
        return f"Lark closed the connection (code {socket.ws.close_code})"

    async def _ping(self, socket: Socket) -> None:
        """Tell Lark that the app is there; its answer says how often it wants that."""
        try:
            while True:
                await socket.ws.send(frames.ping(socket.service_id))
                await asyncio.sleep(self._pace.ping)
        except (ConnectionClosed, OSError):
            pass  # the reader sees it, too


def _address(url: Any) -> tuple[str, int]:
    """Return the address of a connection, and the service that its frames name. Raises NotSent."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        (service_id,) = parse_qs(parts.query)[SERVICE_ID]
        number = int(service_id)
    except (ValueError, KeyError):
        raise NotSent("the address that Lark gave for a connection names no service") from None
    if parts.scheme not in {"ws", "wss"} or not parts.hostname or not 0 <= number < 2**31:
        raise NotSent("the address that Lark gave for a connection is none: wss:// is expected")
    return str(url), number


def _endpoint_error(error: RefusedError) -> NotSent:
    if error.code in {SYSTEM_BUSY, INTERNAL_ERROR} or error.retry_after is not None:
        return NotSent(error.message, retry_after=error.retry_after)
    if error.code == EXCEED_CONN_LIMIT:
        return NotSent("too many programs are connected to this app: Lark takes 50 at once")
    text = f"Lark gives no connection: check `app-id`, `app-secret` and `domain` ({error.message})"
    return RefusedError(text, error.code)


def _handshake_error(error: InvalidStatus) -> NotSent:
    """Return what a refused handshake means."""
    headers = error.response.headers
    code = headers.get(HEADER_HANDSHAKE_STATUS, "")
    told = str(headers.get(HEADER_HANDSHAKE_MSG, ""))[:200]
    if headers.get(HEADER_HANDSHAKE_AUTH_ERRCODE) == str(EXCEED_CONN_LIMIT):
        return NotSent("too many programs are connected to this app: Lark takes 50 at once")
    if code == str(FORBIDDEN):
        return RefusedError(f"Lark refuses the connection: {told}", FORBIDDEN)
    if code == str(AUTH_FAILED):  # the ticket of the address is old: another one is asked for
        return NotSent(f"Lark did not take the ticket of the connection: {told}")
    return NotSent(f"the connection could not be opened: status {error.response.status_code} {told}")


def _seconds(value: Any, otherwise: float, *, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3_600:
        return otherwise
    return max(float(value), least)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _text(error: BaseException) -> str:
    """Return an error's text without an address, which may hold a ticket."""
    return f"{type(error).__name__}: {error}".split("ws://", 1)[0].split("wss://", 1)[0][:300]
