"""A Lark server: its API, long connections, files, and people who write."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from support.lark_frames import CONTROL, DATA, WireFrame, decode
from support.lark_methods import ADA, BOT, DM, SECRET, Call, LarkMethods, Refused
from support.platform_server import PlatformServer, application, taken

__all__ = ["ADA", "BOT", "DM", "Call", "LarkServer", "Refused"]

Answer = Refused | int | str
"""In place of the usual answer: a code, an HTTP status with a page, `cut` (done and not answered), `mute`
(the same, and the connection stays), `lost` (neither), `held` (never answered, nor done), or another text."""
_WRITES = {"message.create": "send", "message.reply": "send", "message.patch": "edit"}
ROUTES = {
    "POST /open-apis/auth/v3/tenant_access_token/internal": "token",
    "GET /open-apis/bot/v3/info": "bot.info",
    "POST /open-apis/im/v1/messages": "message.create",
    "GET /open-apis/im/v1/messages": "message.list",
    "GET /open-apis/im/v1/messages/{message_id}": "message.get",
    "PATCH /open-apis/im/v1/messages/{message_id}": "message.patch",
    "DELETE /open-apis/im/v1/messages/{message_id}": "message.delete",
    "POST /open-apis/im/v1/messages/{message_id}/reply": "message.reply",
    "POST /open-apis/im/v1/messages/{message_id}/forward": "message.forward",
    "POST /open-apis/im/v1/messages/{message_id}/reactions": "reaction.create",
    "GET /open-apis/im/v1/messages/{message_id}/reactions": "reaction.list",
    "DELETE /open-apis/im/v1/messages/{message_id}/reactions/{reaction_id}": "reaction.delete",
    "POST /open-apis/im/v1/pins": "message.pin",
    "POST /open-apis/im/v1/images": "image.create",
    "POST /open-apis/im/v1/files": "file.create",
    "GET /open-apis/im/v1/chats/{chat_id}": "chat.get",
    "PUT /open-apis/im/v1/chats/{chat_id}": "chat.update",
    "GET /open-apis/im/v1/chats/{chat_id}/members": "members.list",
    "DELETE /open-apis/im/v1/chats/{chat_id}/members": "members.delete",
    "GET /open-apis/contact/v3/users/{user_id}": "user.get",
}


@dataclass(slots=True)
class LarkServer(LarkMethods, PlatformServer):
    """A running server, and what the app did on it."""

    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By call, or by `send` or `edit` and a chat."""
    links: list[web.WebSocketResponse] = field(default_factory=list)
    opened: int = 0
    """How many long connections there were."""
    handshakes: list[dict[str, str]] = field(default_factory=list)
    """Headers of the next refusals of a long connection."""
    url: str | None = None
    """The address that is given for one, in place of this server's."""
    pings: int = 0
    acknowledged: dict[str, Any] = field(default_factory=dict)
    """By frame: the payload of its acknowledgement."""
    broken_files: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By key: what comes in place of the next downloads."""
    held: asyncio.Event | None = None
    """Downloads wait for it."""
    downloading: int = 0
    _tasks: set[Any] = field(default_factory=set)

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        for route, name in ROUTES.items():
            verb, path = route.split(" ")
            app.router.add_route(verb, path, self._serving(name))
        app.router.add_post("/callback/ws/endpoint", self._serving("endpoint"))
        app.router.add_get("/ws/v2", self._link)
        path = "/open-apis/im/v1/messages/{message_id}/resources/{file_key}"
        app.router.add_get(path, self._download)
        await self.listen(app)

    @property
    def address(self) -> str:
        return self.origin

    async def until_called(self, name: str, count: int = 1) -> list[Call]:
        """Wait until a call was made so often, and return these calls."""
        await self.until_true(lambda: len(self.called(name)) >= count)
        return self.called(name)

    async def until_links(self, count: int) -> None:
        """Wait until so many long connections are open."""
        await self.until_true(lambda: len(self.links) == count)

    async def acknowledgement(self, frame: str) -> Any:
        """Wait until the app has acknowledged a frame, and return what it says."""
        await self.until_true(lambda: frame in self.acknowledged)
        return self.acknowledged[frame]

    # -- events -----------------------------------------------------------------------------------

    def push(self, payload: Any, *, kind: str = "event", parts: int = 1, link: int = -1) -> str:
        """Send an event through a long connection, in so many frames; return the id of its frames."""
        frame_id = self.id_of("frame")
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        size = -(-len(content) // parts)
        frames = []
        for number in range(parts):
            headers = {
                "type": kind,
                "message_id": frame_id,
                "trace_id": "trace",
                "sum": str(parts),
                "seq": str(number),
                "timestamp": str(int(time.time() * 1000)),
            }
            part = content[number * size : (number + 1) * size]
            frames.append(WireFrame(DATA, headers, part, seq=number + 1))
        self.frames(*frames, link=link)
        return frame_id

    def frames(self, *frames: WireFrame | bytes | str, link: int = -1) -> None:
        """Send frames through a long connection, in order."""
        ws = self.links[link]

        async def send() -> None:
            for one in frames:
                if isinstance(one, str):
                    await ws.send_str(one)
                else:
                    await ws.send_bytes(one if isinstance(one, bytes) else one.encode())

        task = asyncio.ensure_future(send())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if self.handshakes:
            return web.Response(status=403, headers=self.handshakes.pop(0))
        if request.query.get("ticket") != f"ticket-{self.opened}":
            headers = {"Handshake-Status": "514", "Handshake-Msg": "ticket", "Handshake-Autherrcode": "1"}
            return web.Response(status=403, headers=headers)
        self._open.add(request.transport)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self.opened += 1
        self.links.append(ws)
        self._changed.set()
        try:
            async for frame in ws:
                if frame.type is WSMsgType.BINARY:
                    await self._framed(ws, decode(frame.data))
                    self._changed.set()
        except ConnectionError:
            pass  # it was cut
        finally:
            self.links.remove(ws)
            self._open.discard(request.transport)
            self._changed.set()
        return ws

    async def _framed(self, ws: web.WebSocketResponse, frame: WireFrame) -> None:
        if frame.method == CONTROL:
            assert frame.headers == {"type": "ping"}
            assert frame.service == 33554678
            self.pings += 1
            config = json.dumps(self.client_config).encode()
            await ws.send_bytes(WireFrame(CONTROL, {"type": "pong"}, config).encode())
            return
        assert frame.headers["biz_rt"].isdecimal()
        told = frame.json()
        if "data" in told:
            told["data"] = json.loads(base64.b64decode(told["data"]))
        self.acknowledged[frame.headers["message_id"]] = told

    client_config = {
        "ReconnectCount": -1,
        "ReconnectInterval": 0,
        "ReconnectNonce": 0,
        "PingInterval": 120,
    }

    def do_endpoint(self, call: Call) -> dict[str, Any]:
        if call.body != {"AppID": self.app_id, "AppSecret": SECRET}:
            raise Refused(1000040345, "app_id or app_secret is invalid", status=200)
        scheme = "wss" if self.tls else "ws"
        query = f"device_id=1&service_id=33554678&access_key=key&ticket=ticket-{self.opened}"
        url = self.url or f"{scheme}://127.0.0.1:{self.port}/ws/v2?{query}"
        return {"data": {"URL": url, "ClientConfig": self.client_config}}

    # -- the API ----------------------------------------------------------------------------------

    def _serving(self, name: str) -> Any:
        async def serve(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            self._open.add(request.transport)
            call = await _read(name, request)
            self.calls.append(call)
            other = taken(self.answers, f"{_WRITES.get(name)} {self._chat_of(call)}", name)
            self._changed.set()
            try:
                return await self._answer(request, call, other)
            except Refused as refused:
                self._changed.set()
                body = {"code": refused.code, "msg": refused.msg, **refused.more}
                return web.json_response(body, status=refused.status, headers=refused.headers)
            finally:
                self._open.discard(request.transport)

        return serve

    async def _answer(self, request: web.Request, call: Call, other: Answer | None) -> web.StreamResponse:
        assert request.transport is not None
        if isinstance(other, Refused):
            raise other
        if isinstance(other, int):
            return web.Response(status=other, text="<html>error</html>", content_type="text/html")
        if other == "held":
            await asyncio.Event().wait()
        if other == "lost":
            request.transport.abort()
            await asyncio.Event().wait()
        if other not in {None, "cut", "mute"}:
            return web.Response(text=other, content_type="application/json")
        given = request.headers.get("Authorization", "")
        if call.name not in {"token", "endpoint"} and given != f"Bearer {self.token}":
            raise Refused(99991663, "Invalid access token for authorization. Please make a test attempt")
        result = self.carry_out(call)
        self._changed.set()
        if other == "cut":
            request.transport.abort()
        if other in {"cut", "mute"}:
            await asyncio.Event().wait()
        return web.json_response({"code": 0, "msg": "success", **result})

    def _chat_of(self, call: Call) -> str | None:
        """The chat to which a call writes."""
        if call.name == "message.create":
            return str(call.body["receive_id"])
        message = self.messages.get(call.path.get("message_id", ""))
        return None if message is None else str(message["chat_id"])

    # -- files ------------------------------------------------------------------------------------

    async def _download(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        key = request.match_info["file_key"]
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"code": 99991663, "msg": "Invalid access token"}, status=400)
        assert request.query["type"] == ("image" if key.startswith("img") else "file")
        self.downloading += 1
        self._changed.set()
        if self.held is not None:
            await self.held.wait()
        waiting = self.broken_files[key]
        broken = waiting.pop(0) if waiting else None
        if isinstance(broken, Refused):
            return web.json_response({"code": broken.code, "msg": broken.msg}, status=broken.status)
        if key not in self.files:
            return web.json_response({"code": 234003, "msg": "File not in msg."}, status=400)
        content, kind = self.files[key]
        if broken == "cut":
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            request.transport.close()
            return response
        return web.Response(body=content, content_type=kind)


async def _read(name: str, request: web.Request) -> Call:
    query, path = dict(request.query), dict(request.match_info)
    if request.content_type.startswith("multipart/"):
        fields, files = {}, {}
        for key, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                files[key] = (value.filename, value.file.read(), value.content_type)
            else:
                fields[key] = value
        return Call(name, path, query, fields, files)
    body = await request.read()
    return Call(name, path, query, json.loads(body) if body else None)
