"""The gateway over discord.py: identify, resume, heartbeats, compression; events undecoded by its models.

discord.py's own loop cannot resume the session of an earlier process, and hands events on without order or
acknowledgement. Here each connection is its `DiscordWebSocket`, and what it receives is read one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import discord
from aiohttp import ClientError, ClientWebSocketResponse
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from yarl import URL

from hostler_discord.rest import Rest
from hostler_sdk.channels import NotSent, SetupError

CONNECT_SECONDS = 60.0
KEEP_SESSION = 4000
"""A close code after which Discord keeps the session; after 1000 it ends it."""


def _zstd_errors() -> Iterator[type[Exception]]:
    """Yield what the libraries raise with which discord.py decompresses, where they are there."""
    for library in ("zstandard", "compression.zstd"):
        with contextlib.suppress(ImportError):
            yield import_module(library).ZstdError


_BROKEN: tuple[type[Exception], ...] = (
    # of the connection
    discord.DiscordException,
    ReconnectWebSocket,
    ClientError,
    OSError,
    # of a frame that cannot be read
    zlib.error,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    EOFError,
    RecursionError,
    *_zstd_errors(),
)
_FINAL = {
    4004: "Discord does not know this bot: check `token`",
    4010: "Discord refuses the shard",
    4011: "this bot is in more servers than one connection may have (2,500)",
    4012: "Discord has switched off this version of its API: update the plugin",
    4013: "Discord does not know an intent: update the plugin",
    4014: "Discord refuses an intent: switch on `Message Content Intent` (and `Server Members Intent` "
    "with `members`) in the Developer Portal under Bot, or switch off `message-content` and `members` here",
}


class GatewayLostError(Exception):
    """The connection is lost. `resume`: whether the session may be resumed."""

    def __init__(self, reason: str, *, resume: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume = resume


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the gateway, up to an event of it."""

    session_id: str
    url: str
    seq: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An event of the gateway. `session`: the one that it ends; its number is part of it."""

    name: str
    session: Session
    data: dict[str, Any]


class _Socket(DiscordWebSocket):
    """discord.py's socket, which keeps the frames that it received."""

    def __init__(self, socket: ClientWebSocketResponse, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(socket, loop=loop)
        self.frames: list[str] = []

    def log_receive(self, message: Any, /) -> None:
        """Keep a frame."""
        self.frames.append(message)


class Gateway:
    """One connection at a time. `token` is in no text of its errors."""

    def __init__(self, rest: Rest, intents: discord.Intents) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody speaks here
        self._rest = rest
        self._client = discord.Client(intents=intents)
        self._client.http = rest.http
        self._client._connection.parsers = {}  # its models would keep all servers in memory
        self._socket: _Socket | None = None

    async def open(self) -> None:
        """Prepare discord.py for the running loop."""
        await self._client._async_setup_hook()

    async def connect(self, session: Session | None, *, anew: bool = False) -> None:
        """Connect, and resume a session or begin one. `anew`: at an address that Discord gives now.

        Raises GatewayLostError, SetupError, UnclearError, and NotSent if Discord allows no session for now.
        """
        url = await self._address() if session is None or anew else session.url
        opening = _Socket.from_client(
            self._client,
            initial=True,  # else discord.py waits before a new session, as `connection` does
            gateway=URL(url),
            session=None if session is None else session.session_id,
            sequence=None if session is None else session.seq,
            resume=session is not None,
        )
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._socket = await opening
        except _BROKEN as error:
            raise self._lost(error) from None

    async def _address(self) -> str:
        found = await self._rest.call("GET", "/gateway/bot")
        try:
            limit = found["session_start_limit"]
            left, seconds, url = int(limit["remaining"]), limit["reset_after"] / 1000, str(found["url"])
        except (KeyError, TypeError, ValueError):
            raise GatewayLostError(
                "what came was no answer of Discord: of a proxy, or an error page"
            ) from None
        if left <= 0:  # to identify nonetheless would cost the bot its token
            raise NotSent("Discord allows this bot no further session for now", retry_after=seconds)
        return url

    async def next(self) -> list[Dispatch]:
        """Wait for what comes next, and return its events. Raises GatewayLostError, SetupError."""
        socket = self._socket
        assert socket is not None, "connect comes first"
        try:
            await socket.poll_event()
            frames, socket.frames = socket.frames, []
            return [found for frame in frames if (found := self._dispatch(socket, frame)) is not None]
        except _BROKEN as error:
            raise self._lost(error) from None

    def _dispatch(self, socket: _Socket, frame: str) -> Dispatch | None:
        message = json.loads(frame)
        if message.get("op") != DiscordWebSocket.DISPATCH:
            return None
        name, data, seq = message["t"], message["d"], message["s"]
        if not isinstance(name, str) or not isinstance(seq, int):
            raise ValueError("an event without name or number")
        session = Session(str(socket.session_id), str(socket.gateway), seq)
        return Dispatch(name, session, data if isinstance(data, dict) else {"of": data})

    def _lost(self, error: BaseException) -> GatewayLostError | SetupError:
        """Return what an error of a connection means."""
        match error:
            case ReconnectWebSocket(resume=True):
                code = None if self._socket is None else self._socket.socket.close_code
                return GatewayLostError(f"Discord asks for a new connection (code {code})")
            case ReconnectWebSocket():
                return GatewayLostError("Discord has ended the session", resume=False)
            case discord.ConnectionClosed(code=code) if code in _FINAL:
                return SetupError(_FINAL[code])
            case TimeoutError():
                return GatewayLostError("the gateway of Discord did not answer in time")
            case ClientError() | OSError() | discord.DiscordException():
                return GatewayLostError(f"the gateway of Discord: {self._rest.clean(error)}")
        # what it would repeat when the session is resumed, so that another one begins
        text = f"the gateway of Discord sent what cannot be read: {type(error).__name__}"
        return GatewayLostError(text, resume=False)

    async def drop(self) -> None:
        """Close the connection so that its session can be resumed."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close(KEEP_SESSION)

    async def close(self) -> None:
        """Close the connection; the session can be resumed by another process."""
        await self.drop()
