"""DingTalk: its calls over HTTP, connections of stream mode, files, and people who write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from support.dingtalk_calls import ADA, CLIENT_ID, GROUP, Call, DingTalkCalls, Refused
from support.platform_server import PlatformServer, application, taken

MESSAGES = "/v1.0/im/bot/messages/get"
CARDS = "/v1.0/card/instances/callback"
BOT = "$:LWCP_v1:$bot"


@dataclass(slots=True)
class DingTalkServer(DingTalkCalls, PlatformServer):
    """A running server, and what the robot did on it."""

    links: list[web.WebSocketResponse] = field(default_factory=list)
    opened: int = 0
    """How many connections there were."""
    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id of a frame: what the robot answered."""
    waiting: list[str] = field(default_factory=list)
    """Frames for which there is no connection yet."""
    held: asyncio.Event | None = None
    """Downloads wait for it."""
    downloading: int = 0
    broken_files: list[int] = field(default_factory=list)
    """Statuses of the next downloads; 0 breaks one in the middle."""
    _tasks: set[Any] = field(default_factory=set)

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_get("/connect", self._link)
        app.router.add_get("/files/{code}", self._download)
        app.router.add_post("/media/upload", self._upload)
        app.router.add_route("*", "/{path:.*}", self._serve)
        await self.listen(app)
        self.address = self.origin
        self.endpoint = f"ws{'s' if self.tls else ''}://127.0.0.1:{self.port}/connect"

    async def until_called(self, path: str, count: int = 1) -> list[Call]:
        """Wait until a call has been made so often, and return these."""
        await self.until_true(lambda: len(self.called(path)) >= count)
        return self.called(path)

    async def until_acknowledged(self, frame_id: str) -> dict[str, Any]:
        """Wait until the robot has acknowledged a frame; return its answer."""
        await self.until_true(lambda: frame_id in self.acknowledged)
        return self.acknowledged[frame_id]

    async def until_links(self, count: int) -> None:
        """Wait until so many connections are open."""
        await self.until_true(lambda: len(self.links) == count)

    # -- what comes through connections -----------------------------------------------------------

    def frame(self, kind: str, topic: str, data: Any, **headers: Any) -> str:
        """Send a frame as soon as there is a connection; return its id."""
        frame_id = headers.pop("messageId", None) or f"212b9d7c_165f_19bfa1a500a_{self.number():x}"
        told = {
            "appId": "765ed67b-b170-4e12-ba38-6b59dc404ddb",
            "connectionId": "2f9c95bd-fe85-11f0-bee8-0eb3b764c0bb",
            "contentType": "application/json",
            "messageId": frame_id,
            "time": "1769851697756",
            "topic": topic,
        }
        text = data if isinstance(data, str) else json.dumps(data)
        self.raw(json.dumps({"specVersion": "1.0", "type": kind, "headers": told | headers, "data": text}))
        return str(frame_id)

    def raw(self, text: str) -> None:
        """Send a text, as soon as there is a connection."""
        self.waiting.append(text)
        self._flush()

    def say(self, said: str = "", **more: Any) -> str:
        """Write to the robot as a person; return the frame's id."""
        return self.frame("CALLBACK", MESSAGES, self.message(said, **more))

    def message(self, said: str = "", *, group: bool = False, **more: Any) -> dict[str, Any]:
        """A message as DingTalk sends it. `more` replaces fields."""
        return {
            "conversationId": GROUP if group else "cidPrivate==",
            "atUsers": [{"dingtalkId": BOT}],
            "chatbotCorpId": "dingcorp",
            "chatbotUserId": BOT,
            "msgId": f"msg{self.number()}==",
            "senderNick": "Ada L.",
            "isAdmin": True,
            "senderStaffId": ADA,
            "sessionWebhookExpiredTime": 1769857097744,
            "createAt": 1769851697611,
            "senderCorpId": "dingcorp",
            "conversationType": "2" if group else "1",
            "senderId": "$:LWCP_v1:$ada",
            "conversationTitle": "Team" if group else None,
            "isInAtList": group,
            "sessionWebhook": "https://oapi.dingtalk.com/robot/sendBySession?session=abc",
            "text": {"content": said},
            "robotCode": CLIENT_ID,
            "msgtype": "text",
        } | more

    def press(self, track_id: str, button_id: str, *, by: str = ADA, **more: Any) -> str:
        """Press a button of a card; return the frame's id."""
        return self.frame("CALLBACK", CARDS, self.press_of(track_id, button_id, by=by, **more))

    def press_of(self, track_id: str, button_id: str, *, by: str = ADA, **more: Any) -> dict[str, Any]:
        """The press of a button as DingTalk sends it. `more` replaces fields."""
        content = {"cardPrivateData": {"actionIds": [button_id], "params": {}}}
        return {
            "extension": "{}",
            "corpId": "dingcorp",
            "spaceType": "IM",
            "userIdType": 1,
            "type": "actionCallback",
            "userId": by,
            "content": json.dumps(content),
            "outTrackId": track_id,
        } | more

    def event(self, kind: str, data: dict[str, Any], event_id: str = "e7ee3e9b") -> str:
        """Send an event of the organization."""
        told = {"eventType": kind, "eventId": event_id, "eventCorpId": "dingcorp"}
        return self.frame("EVENT", "*", data, **told, eventBornTime="1684467623381")

    def _flush(self) -> None:
        while self.links and self.waiting:
            task = asyncio.ensure_future(self.links[-1].send_str(self.waiting.pop(0)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if request.query.get("ticket") not in self.tickets:
            return web.Response(status=401)
        self.tickets.discard(request.query["ticket"])
        self._open.add(request.transport)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self.opened += 1
        self.links.append(ws)
        try:
            self._flush()
            self._changed.set()
            async for frame in ws:
                if frame.type is WSMsgType.TEXT:
                    answer = json.loads(frame.data)
                    self.acknowledged[answer["headers"]["messageId"]] = answer
                    self._changed.set()
        except ConnectionError:
            pass  # it was cut
        finally:
            self.links.remove(ws)
            self._open.discard(request.transport)
            self._changed.set()
        return ws

    # -- calls over HTTP --------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        call = Call(f"/{request.match_info['path']}", body, dict(request.query))
        token = request.headers.get("x-acs-dingtalk-access-token", "")
        return await self._answered(request, call, lambda: self.carry_out(call, token))

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        media = form["media"]
        assert isinstance(media, web.FileField)
        call = Call("/media/upload", {"type": form["type"]}, dict(request.query))

        async def work() -> dict[str, Any]:
            self._check(call, "")
            return self.upload(str(form["type"]), media.filename, media.file.read())

        return await self._answered(request, call, work)

    async def _answered(
        self, request: web.Request, call: Call, work: Callable[[], Any]
    ) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        self.calls.append(call)
        other = taken(self.answers, f"{call.path} {self.chat_of(call.body)}", call.path)
        self._changed.set()
        try:
            if isinstance(other, Refused):
                raise other
            if isinstance(other, dict):
                return _last(web.json_response(other))
            if isinstance(other, int):
                return _last(web.Response(status=other, text="<html>error</html>", content_type="text/html"))
            if other == "lost":
                request.transport.abort()
            if other in {"lost", "held"}:
                await asyncio.Event().wait()
            if other not in {None, "cut", "mute"}:
                return _last(web.Response(text=other))
            answer = await work()
            self._changed.set()
            if other == "cut":
                request.transport.abort()
            if other in {"cut", "mute"}:
                await asyncio.Event().wait()
            return _last(web.json_response(answer))
        except Refused as refused:
            return _last(web.json_response(refused.body, status=refused.status, headers=refused.headers))
        finally:
            self._open.discard(request.transport)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        self.downloading += 1
        self._changed.set()
        if self.held is not None:
            await self.held.wait()
        content = self.files[request.match_info["code"]]
        status = self.broken_files.pop(0) if self.broken_files else 200
        if status == 0:
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(status=status, body=content)


def _last(response: web.Response) -> web.Response:
    """End the connection with an answer: the next call makes one, and none is sent into a closed one."""
    response.force_close()
    return response
