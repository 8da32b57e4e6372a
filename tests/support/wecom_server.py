"""WeCom's server API: tokens, messages, cards, files and members.

Paths, answers and errors have the shapes of https://developer.work.weixin.qq.com. As the makers say of it,
texts are cut off at 2,048 bytes, a member gets 30 messages a minute, and repetitions are dropped: in silence.
They do not say how a repetition is answered, nor with which code a card whose task is known.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.platform_server import PlatformServer, application, taken
from support.wecom_envelopes import AGENT, CORP

SECRET = "the-secret-of-the-application"
MAX_TEXT_BYTES = 2_048
MAX_PER_MINUTE = 30
KINDS = {"image": 10 * 2**20, "voice": 2 * 2**20, "video": 10 * 2**20, "file": 20 * 2**20}


@dataclass(slots=True)
class Call:
    """One call of the application."""

    method: str
    query: dict[str, str]
    body: Any


def refused(code: int, text: str = "refused", **more: Any) -> dict[str, Any]:
    """An answer with an error."""
    return {"errcode": code, "errmsg": f"{text}, hint: [1700000000123456789], from ip: 192.0.2.1", **more}


def visible(text: str) -> str:
    """Return a text without invisible characters."""
    return re.sub("[\u200b\u200c]", "", text)


@dataclass(slots=True)
class WecomServer(PlatformServer):
    """A running server, and what the application did on it."""

    calls: list[Call] = field(default_factory=list)
    delivered: list[dict[str, Any]] = field(default_factory=list)
    """What members got: the messages as they were sent, with their `msgid`."""
    dropped: list[dict[str, Any]] = field(default_factory=list)
    """Repetitions, and what was over the limit."""
    recalled: list[str] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By method, with or without a member: in place of the next answers, an answer, an HTTP status, or
    `page`, `held`, `lost`, `silent` or `cut`: at the last two it is carried out."""
    tokens: int = 0
    """How many were given; the newest is valid."""
    token_again: bool = False
    """The same token is given as before."""
    lasts: int = 7200
    members: dict[str, str] = field(default_factory=lambda: {"ada": "Ada 李", "bob": "Bob"})
    media: dict[str, tuple[bytes, str, str]] = field(default_factory=dict)
    """By id: content, type, name."""
    broken_media: list[Any] = field(default_factory=list)
    """For the next downloads: an answer, a status, or `cut`."""
    held_media: asyncio.Event | None = None
    codes: set[str] = field(default_factory=lambda: {"code-1"})
    """Those by which a card may be changed, once each."""
    _checked: set[str] = field(default_factory=set)
    _tasks: set[str] = field(default_factory=set)
    _number: int = 0

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_route("*", "/cgi-bin/{method:.+}", self._serve)
        await self.listen(app)

    @property
    def url(self) -> str:
        return self.origin

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def texts(self) -> list[str]:
        """Return the texts that members got, without invisible characters."""
        found = [one[one["msgtype"]].get("content") for one in self.delivered]
        return [visible(one) for one in found if one is not None]

    async def until_called(self, method: str, count: int = 1) -> list[Call]:
        """Wait until a method has been called so often, and return these calls."""
        await self.until_true(lambda: len(self.called(method)) >= count)
        return self.called(method)

    # -- calls ------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        content = await request.read()
        is_json = request.content_type == "application/json"
        body = json.loads(content) if is_json and content else content
        self.calls.append(Call(method, dict(request.query), body))
        self._changed.set()
        user = body.get("touser") if isinstance(body, dict) else request.query.get("userid")
        answer = taken(self.answers, f"{method} {user}", method)
        if answer == "held":
            await asyncio.Event().wait()
        if isinstance(answer, int):
            return web.Response(status=answer, text="<html>bad gateway</html>", content_type="text/html")
        if answer == "page":
            return web.Response(text="<html>sign in to the network</html>", content_type="text/html")
        if method == "media/get":
            return await self._media_get(request, answer)
        assert request.transport is not None
        if answer == "lost":
            request.transport.abort()
            return web.Response()
        found = answer if isinstance(answer, dict) else self._carry_out(request, method, body)
        self._changed.set()
        if answer == "silent":
            await asyncio.Event().wait()
        if answer == "cut":
            request.transport.abort()
        return web.json_response(found, headers={"Error-Code": str(found.get("errcode"))})

    def _carry_out(self, request: web.Request, method: str, body: Any) -> dict[str, Any]:
        if method == "gettoken":
            return self._token(request.query)
        if (error := self._without_token(request.query)) is not None:
            return error
        ok = {"errcode": 0, "errmsg": "ok"}
        match request.method, method:
            case "GET", "agent/get":
                return {**ok, "agentid": AGENT, "name": "助手", "close": 0}
            case "GET", "user/get":
                name = self.members.get(request.query["userid"])
                return refused(60111, "userid not found") if name is None else {**ok, "name": name}
            case "POST", "message/send":
                return self._send(body)
            case "POST", "message/recall":
                self.recalled.append(body["msgid"])
                return ok
            case "POST", "message/update_template_card":
                if body["response_code"] not in self.codes:
                    return refused(40058, "invalid response_code")
                self.codes.discard(body["response_code"])
                return {**ok, "invaliduser": []}
            case "POST", "media/upload":
                return self._upload(request, body)
        return {**ok, "called": method, "by": request.method}

    def _token(self, query: Any) -> dict[str, Any]:
        if query["corpid"] != CORP:
            return refused(40013, "invalid corpid")
        if query["corpsecret"] != SECRET:
            return refused(40001, "invalid credential")
        self.tokens += 0 if self.token_again and self.tokens else 1
        return {"errcode": 0, "errmsg": "ok", "access_token": self._newest, "expires_in": self.lasts}

    @property
    def _newest(self) -> str:
        return f"token-{self.tokens}"

    def _without_token(self, query: Any) -> dict[str, Any] | None:
        given = query.get("access_token")
        if not given:
            return refused(41001, "access_token missing")
        return None if given == self._newest else refused(40014, "invalid access_token")

    def expire(self) -> None:
        """Let the token expire."""
        self.tokens += 1

    def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        kind, user = body["msgtype"], body["touser"]
        if body["agentid"] != AGENT:
            return refused(301002, "not allow operate another agent with this accesstoken")
        if user not in self.members:
            return refused(81013, "user & party & tag all invalid", invaliduser=user)
        if "media_id" in body[kind] and body[kind]["media_id"] not in self.media:
            return refused(40007, "invalid media_id")
        ok: dict[str, Any] = {"errcode": 0, "errmsg": "ok", "invaliduser": ""}
        if body.get("enable_duplicate_check"):
            assert body["duplicate_check_interval"] <= 4 * 3600
            said = json.dumps(body, sort_keys=True)
            if said in self._checked:
                self.dropped.append(body)
                return ok
            self._checked.add(said)
        if kind == "template_card":
            if (error := self._card(body[kind])) is not None:
                return error
            ok["response_code"] = "code-of-the-card"
        self._number += 1
        if sum(one["touser"] == user for one in self.delivered) >= MAX_PER_MINUTE:
            self.dropped.append(body)
        else:
            whole = json.loads(json.dumps(body))
            if "content" in whole[kind]:
                raw = whole[kind]["content"].encode()[:MAX_TEXT_BYTES]
                whole[kind]["content"] = raw.decode("utf-8", "ignore")
            self.delivered.append({**whole, "msgid": f"msg-{self._number}"})
        return {**ok, "msgid": f"msg-{self._number}"}

    def _card(self, card: dict[str, Any]) -> dict[str, Any] | None:
        assert card["main_title"]["title"] or card.get("sub_title_text")
        assert 1 <= len(card["button_list"]) <= 6
        assert re.fullmatch(r"[A-Za-z0-9_@-]{1,128}", card["task_id"])
        if card["task_id"] in self._tasks:
            return refused(40058, "task_id is duplicated")
        self._tasks.add(card["task_id"])
        return None

    def forget(self) -> None:
        """Let the time pass for which repetitions are dropped."""
        self._checked.clear()

    # -- files ------------------------------------------------------------------------------------

    def _upload(self, request: web.Request, body: bytes) -> dict[str, Any]:
        kind = request.query["type"]
        boundary = str(request.content_type and request.headers["content-type"]).split("boundary=")[1]
        assert body.endswith(f"\r\n--{boundary}--\r\n".encode())
        head, _, rest = body.partition(b"\r\n\r\n")
        content = rest.removesuffix(f"\r\n--{boundary}--\r\n".encode())
        found = re.search(rb'name="media"; ?filename="([^"]*)"; ?filelength=(\d+)', head)
        assert found is not None
        assert int(found[2]) == len(content)
        typed = re.search(rb"Content-Type: (\S+)", head)
        assert typed is not None
        if not 5 < len(content) <= KINDS[kind]:
            return refused(40006, "invalid file size")
        if kind == "image" and not content.startswith((b"\x89PNG", b"\xff\xd8")):
            return refused(40009, "invalid image size")
        self._number += 1
        media_id = f"media-{self._number}"
        self.media[media_id] = (content, typed[1].decode(), found[1].decode())
        return {"errcode": 0, "errmsg": "", "type": kind, "media_id": media_id, "created_at": "1380000000"}

    async def _media_get(self, request: web.Request, answer: Any) -> web.StreamResponse:
        if self.held_media is not None:
            await self.held_media.wait()
        answer = self.broken_media.pop(0) if answer is None and self.broken_media else answer
        error = self._without_token(request.query) if answer is None else None
        media = self.media.get(request.query["media_id"])
        if error is None and media is None:
            error = refused(40007, "invalid media_id")
        if isinstance(answer, int):
            return web.Response(status=answer)
        if isinstance(answer, dict) or error is not None:
            return web.json_response(answer if isinstance(answer, dict) else error)
        assert media is not None
        content, mime_type, name = media
        headers = {"content-type": mime_type, "content-disposition": f'attachment; filename="{name}"'}
        if answer == "cut":
            response = web.StreamResponse(headers={**headers, "content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(body=content, headers=headers)
