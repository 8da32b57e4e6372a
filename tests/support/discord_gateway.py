"""The gateway of the Discord server of tests: identify, resume, heartbeats, compression, close codes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

MESSAGE_CONTENT = 1 << 15
MEMBERS = 1 << 1


@dataclass(slots=True)
class Session:
    """A session: what happened in it, and the connection that has it now, if one has."""

    session_id: str
    intents: int
    events: list[tuple[int, str, Any]] = field(default_factory=list)
    socket: Socket | None = None

    def event(self, name: str, data: Any) -> tuple[int, str, Any]:
        self.events.append((len(self.events) + 1, name, data))
        return self.events[-1]


class Socket:
    """One connection; everything it sends is one compressed stream, as its address asks for."""

    def __init__(self, socket: web.WebSocketResponse, compress: str | None) -> None:
        self.socket = socket
        self._compress: Callable[[bytes], bytes]
        if compress == "zlib-stream":
            zlib_stream = zlib.compressobj()
            self._compress = lambda data: zlib_stream.compress(data) + zlib_stream.flush(zlib.Z_SYNC_FLUSH)
        else:
            import zstandard  # where it is there, discord.py asks for it

            assert compress == "zstd-stream", compress
            stream = zstandard.ZstdCompressor().compressobj()
            self._compress = lambda data: (
                stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            )

    async def frame(self, text: str) -> None:
        """Send a frame."""
        data = self._compress(text.encode())
        with contextlib.suppress(ConnectionResetError):  # the bot is gone
            if not self.socket.closed:
                await self.socket.send_bytes(data)

    async def send(self, op: int, data: Any = None, seq: int | None = None, name: str | None = None) -> None:
        await self.frame(json.dumps({"op": op, "d": data, "s": seq, "t": name}))


class Gateway:
    """The sessions of one bot."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.token = ""
        self.url = ""
        self.me: dict[str, Any] = {}
        self.guilds: dict[str, dict[str, Any]] = {}
        """By id: what `GUILD_CREATE` says."""
        self.sessions: dict[str, Session] = {}
        self.received: list[dict[str, Any]] = []
        """What bots sent: identify, resume, heartbeats."""
        self.queries: list[dict[str, str]] = []
        """Of each connection: how it is to be."""
        self.refused_intents = 0
        self.closes: list[int] = []
        """Codes with which the next connections are closed at once."""
        self.shows_guilds = True
        self._changed = changed
        self._number = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        assert (request.query["v"], request.query["encoding"]) == ("10", "json")
        self.queries.append(dict(request.query))
        socket = Socket(response, request.query.get("compress"))
        await socket.send(10, {"heartbeat_interval": 41_250, "_trace": ["[]"]})
        async for message in response:
            if message.type is WSMsgType.TEXT:
                said = json.loads(message.data)
                self.received.append(said)
                await self._take(socket, said)
                self._changed()
        for session in self.sessions.values():
            if session.socket is socket:
                session.socket = None
        self._changed()
        return response

    async def _take(self, socket: Socket, said: dict[str, Any]) -> None:
        match said["op"]:
            case 1:
                await socket.send(11)
            case 2 | 6 if self.closes:
                await socket.socket.close(code=self.closes.pop(0))
            case 2:
                await self._identify(socket, said["d"])
            case 6:
                await self._resume(socket, said["d"])

    async def _identify(self, socket: Socket, data: dict[str, Any]) -> None:
        if data["token"] != self.token:
            await socket.socket.close(code=4004, message=b"Authentication failed.")
            return
        if data["intents"] & self.refused_intents:
            await socket.socket.close(code=4014, message=b"Disallowed intent(s).")
            return
        self._number += 1
        session = Session(f"session-{self._number}", data["intents"], socket=socket)
        self.sessions[session.session_id] = session
        ready = {
            "v": 10,
            "user": self.me,
            "guilds": [{"id": id_, "unavailable": True} for id_ in self.guilds],
            "session_id": session.session_id,
            "resume_gateway_url": self.url,
            "session_type": "normal",
            "application": {"id": self.me["id"], "flags": 0},
            "private_channels": [],
        }
        await self._send(session, "READY", ready)
        if self.shows_guilds:
            for guild in list(self.guilds.values()):
                await self._send(session, "GUILD_CREATE", guild)

    async def _resume(self, socket: Socket, data: dict[str, Any]) -> None:
        session = self.sessions.get(data["session_id"])
        if data["token"] != self.token:
            await socket.socket.close(code=4004)
        elif session is None or data["seq"] > len(session.events):
            await socket.send(9, False)
        else:
            session.socket = None
            for seq, name, event in session.events[data["seq"] :]:
                await socket.send(0, event, seq, name)
            session.socket = socket
            await self._send(session, "RESUMED", {"_trace": []})

    async def _send(self, session: Session, name: str, data: Any) -> None:
        seq, _, _ = session.event(name, data)
        if session.socket is not None:
            await session.socket.send(0, data, seq, name)

    async def dispatch(self, name: str, data: Any) -> None:
        """Something happens: each session has it, whether or not a bot is connected."""
        for session in self.sessions.values():
            await self._send(session, name, data)

    @property
    def connected(self) -> list[Session]:
        return [session for session in self.sessions.values() if session.socket is not None]

    async def to_all(self, work: Callable[[Socket], Any]) -> None:
        """Do something with each connection."""
        for session in self.connected:
            assert session.socket is not None
            await work(session.socket)

    def forget(self) -> None:
        """Forget all sessions: they took too long to come back."""
        self.sessions.clear()

    @property
    def newest(self) -> str:
        """The session that was begun last."""
        return f"session-{self._number}"

    def said(self, op: int) -> list[dict[str, Any]]:
        return [one["d"] for one in self.received if one["op"] == op]

    async def close(self) -> None:
        await self.to_all(lambda socket: socket.socket.close(code=1001))
        await asyncio.sleep(0)
