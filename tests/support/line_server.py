"""A LINE server: the Messaging API, files of people, access tokens, and the calls of its webhook.

Paths, answers, errors and events have the shapes of https://developers.line.biz/en/reference/messaging-api.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.platform_server import PlatformServer, application, taken

SECRET = "8c570fa6dd201bb328f1c1eac23a96d8"
CHANNEL_ID = "1234567890"
BOT = "U" + "b" * 32
ADA = "U" + "a" * 32
EVE = "U" + "e" * 32
GROUP = "C" + "1" * 32
ROOM = "R" + "2" * 32
ROOMS = tuple("C" + digit * 32 for digit in "3456789")

Answer = int | str | tuple[int, dict[str, Any], dict[str, str]]
"""In place of the usual answer: an HTTP status with a page, `cut`, `mute`, `lost`, `held`, or all of it."""


class Refused(Exception):
    """An error of the API."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, **more}


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the bot made."""

    method: str
    path: str
    body: Any
    query: dict[str, str]
    headers: dict[str, str]


def limited(retry_after: str | None = None, *, monthly: bool = False) -> Answer:
    """The answer of 429."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    rate = "The API rate limit has been exceeded. Try again later."
    return 429, {"message": "You have reached your monthly limit." if monthly else rate}, headers


def signed(payload: Any, secret: str = SECRET) -> dict[str, Any]:
    """A call of the webhook, as the plugin gets it."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
    digest = hmac.new(secret.encode(), body, hashlib.sha256).digest()
    return {
        "method": "POST",
        "headers": {
            "content-type": "application/json; charset=utf-8",
            "user-agent": "LineBotWebhook/2.0",
            "x-line-signature": base64.b64encode(digest).decode(),
        },
        "body_base64": base64.b64encode(body).decode(),
    }


@dataclass(slots=True)
class LineServer(PlatformServer):
    """A running server, and what the bot did on it."""

    token: str = "long/lived+token="
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By the last part of a path, with or without a chat: what comes in place of the next answers. At `cut`
    and `mute` it is done, else not."""
    silent: str | None = None
    """The last part of a path whose calls are carried out, and not answered."""
    sent: list[dict[str, Any]] = field(default_factory=list)
    """Messages that came to chats: `to`, and the message object."""
    people: dict[str, str] = field(default_factory=lambda: {ADA: "Ada", EVE: "Eve"})
    files: dict[str, bytes] = field(default_factory=dict)
    preparing: dict[str, int] = field(default_factory=dict)
    """By message: how often 202 comes before the file."""
    transcoding: str = "processing"
    endpoint: dict[str, Any] | None = None
    ids_of_tokens: dict[str, str] = field(default_factory=dict)
    """Reply tokens that were given out: their chats. A used one is gone."""
    accepted: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """By retry key: the messages that were sent."""
    issued: int = 0
    known_quotes: set[str] = field(default_factory=set)
    _number: int = 0

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        await self.listen(app)

    @property
    def address(self) -> str:
        return self.origin

    def called(self, ending: str) -> list[Call]:
        """The calls of a path with this ending."""
        return [call for call in self.calls if call.path.endswith(ending)]

    async def until_called(self, ending: str, count: int = 1) -> list[Call]:
        """Wait until a path has been called so often, and return these calls."""
        await self.until_true(lambda: len(self.called(ending)) >= count)
        return self.called(ending)

    def texts(self, chat: str = ADA) -> list[str]:
        """The texts that came to a chat."""
        return [one["message"].get("text", "") for one in self.sent if one["to"] == chat]

    # -- events -----------------------------------------------------------------------------------

    def event(self, kind: str, source: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """An event of the webhook."""
        self._number += 1
        return {
            "type": kind,
            "mode": "active",
            "timestamp": int(time.time() * 1000),
            "source": source or {"type": "user", "userId": ADA},
            "webhookEventId": f"01FZ74A0TDDPYRVKNK77XK{self._number:04d}",
            "deliveryContext": {"isRedelivery": False},
            **more,
        }

    def message(
        self, kind: str = "text", source: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """The event of a message, with a reply token."""
        self._number += 1
        message_id = str(468789577898262530 + self._number)
        event = self.event("message", source)
        chat = event["source"].get("groupId") or event["source"].get("roomId") or event["source"]["userId"]
        event["replyToken"] = self.reply_token(chat)
        message: dict[str, Any] = {"id": message_id, "type": kind}
        if kind in {"text", "sticker", "image", "video"}:
            message["quoteToken"] = f"q3Plxr4AgKd{self._number}"
            self.known_quotes.add(message["quoteToken"])
        return {**event, "message": message | more}

    def reply_token(self, chat: str = ADA) -> str:
        """A new reply token of a chat."""
        self._number += 1
        token = f"{self._number:032x}"
        self.ids_of_tokens[token] = chat
        return token

    def webhook(self, *events: Any) -> dict[str, Any]:
        """A signed call with events."""
        return signed({"destination": BOT, "events": list(events)})

    # -- the API ----------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ending = request.path.rsplit("/", 1)[-1]
        raw = await request.read()
        is_json = "json" in request.headers.get("Content-Type", "") and raw
        self.calls.append(
            Call(
                request.method,
                request.path,
                json.loads(raw) if is_json else raw.decode("latin-1"),
                dict(request.query),
                dict(request.headers),
            )
        )
        other = taken(self.answers, f"{ending} {self._chat_of(self.calls[-1].body)}", ending)
        self._changed.set()
        if isinstance(other, int):
            return web.Response(status=other, text="<html>error</html>", content_type="text/html")
        if isinstance(other, tuple):
            return web.json_response(other[1], status=other[0], headers=other[2])
        if other == "lost":
            request.transport.abort()
        if other in {"lost", "held"}:
            await asyncio.Event().wait()
        try:
            answer = self._carry_out(self.calls[-1])
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status, headers={"x-line-request-id": "r"})
        self._changed.set()
        if other == "cut":
            request.transport.abort()
        if other in {"cut", "mute"} or self.silent == ending:
            await asyncio.Event().wait()
        if isinstance(answer, bytes):
            response = web.Response(body=answer, content_type="application/octet-stream")
            if other == "half":
                stream = web.StreamResponse(headers={"content-length": str(len(answer))})
                await stream.prepare(request)
                await stream.write(answer[: len(answer) // 2])
                request.transport.abort()
                return stream
            return response
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(body, status=status, headers={"x-line-request-id": "r"})

    def _chat_of(self, body: Any) -> Any:
        """The chat to which a call writes."""
        if not isinstance(body, dict):
            return None
        return body.get("to") or self.ids_of_tokens.get(body.get("replyToken", ""))

    def _carry_out(self, call: Call) -> Any:  # the table of the API
        if call.path == "/oauth2/v3/token":
            return self._issue(call)
        if call.headers.get("Authorization") != f"Bearer {self.token}":
            text = (
                "Authentication failed. Confirm that the access token in the authorization header is valid."
            )
            raise Refused(401, text)
        if "X-Line-Retry-Key" in call.headers and not call.path.endswith("/push"):
            raise Refused(400, "X-Line-Retry-Key is not supported by this API")
        match call.path.removeprefix("/v2/bot/").split("/"):
            case ["info"]:
                return {
                    "userId": BOT,
                    "basicId": "@216ru...",
                    "displayName": "Helper",
                    "chatMode": "bot",
                    "markAsReadMode": "auto",
                }
            case ["channel", "webhook", "endpoint"]:
                return self._endpoint(call)
            case ["message", "reply"]:
                return self._reply(call.body)
            case ["message", "push"]:
                return self._push(call)
            case ["message", message_id, "content", *rest]:
                return self._content(message_id, rest)
            case ["chat", "loading", "start"]:
                assert call.body["chatId"].startswith("U")
                assert call.body["loadingSeconds"] in range(5, 61, 5)
                return 202, {}
            case ["profile", person] | ["group" | "room", _, "member", person]:
                if person not in self.people:
                    raise Refused(404, "Not found")
                return {"userId": person, "displayName": self.people[person]}
            case ["group", group, "summary"]:
                return {"groupId": group, "groupName": "The crew"}
            case ["group" | "room", _, "members", "count"]:
                return {"count": 3}
            case ["group" | "room", _, "members", "ids"]:
                more = {} if call.query.get("start") else {"next": "more"}
                return {"memberIds": [EVE] if call.query.get("start") else [ADA], **more}
            case ["group" | "room", _, "leave"]:
                return {}
            case ["followers", "ids"]:
                return {"userIds": [ADA]}
        raise Refused(404, "Not found")

    def _issue(self, call: Call) -> Any:
        fields = dict(one.split("=") for one in call.body.split("&"))
        assert fields["grant_type"] == "client_credentials"
        if (fields["client_id"], fields["client_secret"]) != (CHANNEL_ID, SECRET):
            refused = Refused(400, "")
            refused.body = {"error": "invalid_client", "error_description": "invalid client_secret"}
            raise refused
        self.issued += 1
        self.token = f"stateless.{self.issued}"
        return {"token_type": "Bearer", "access_token": self.token, "expires_in": 900}

    def _endpoint(self, call: Call) -> Any:
        if call.method == "PUT":
            self.endpoint = {"endpoint": call.body["endpoint"], "active": True}
            return {}
        if self.endpoint is None:
            raise Refused(404, "Not found")
        return self.endpoint

    def _reply(self, body: dict[str, Any]) -> Any:
        self._check(body["messages"])
        chat = self.ids_of_tokens.pop(body["replyToken"], None)
        if chat is None:
            raise Refused(400, "Invalid reply token")
        return {"sentMessages": self._send(chat, body["messages"])}

    def _push(self, call: Call) -> Any:
        key, to = call.headers.get("X-Line-Retry-Key"), call.body["to"]
        if key is not None and not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", key):
            raise Refused(400, "The property, 'X-Line-Retry-Key', is invalid")
        if key in self.accepted:
            assert key is not None
            raise Refused(409, "The retry key is already accepted", sentMessages=self.accepted[key])
        self._check(call.body["messages"])
        if to not in {*self.people, GROUP, ROOM, *ROOMS}:
            raise Refused(400, "Failed to send messages")
        sent = self._send(to, call.body["messages"])
        if key is not None:
            self.accepted[key] = sent
        return {"sentMessages": sent}

    def _check(self, messages: list[dict[str, Any]]) -> None:
        problems = []
        if not 1 <= len(messages) <= 5:
            problems.append({"message": "Size must be between 1 and 5", "property": "messages"})
        for number, one in enumerate(messages):
            place = f"messages[{number}]"
            if one["type"] == "text" and not 0 < len(one["text"].encode("utf-16-le")) // 2 <= 5000:
                problems.append({"message": "Length must be between 0 and 5000", "property": f"{place}.text"})
            if one.get("quoteToken") is not None and one["quoteToken"] not in self.known_quotes:
                problems.append({"message": "is invalid", "property": f"{place}.quoteToken"})
            if one["type"] == "flex":
                assert len(json.dumps(one["contents"])) <= 30_000
                for button in one["contents"]["body"]["contents"]:
                    if button["type"] == "button":
                        assert 0 < len(button["action"]["label"]) <= 20
                        assert 0 < len(button["action"]["data"]) <= 300
        if problems:
            raise Refused(400, "The request body has 1 error(s)", details=problems)

    def _send(self, to: str, messages: list[dict[str, Any]]) -> list[dict[str, str]]:
        sent = []
        for message in messages:
            self._number += 1
            sent.append({"id": str(461230966842064897 + self._number), "quoteToken": f"IStG5h{self._number}"})
            self.known_quotes.add(sent[-1]["quoteToken"])
            self.sent.append({"to": to, "message": message, "id": sent[-1]["id"]})
        return sent

    def _content(self, message_id: str, rest: list[str]) -> Any:
        if rest == ["transcoding"]:
            return {"status": self.transcoding}
        if self.preparing.get(message_id, 0) > 0:
            self.preparing[message_id] -= 1
            return 202, {}
        if message_id not in self.files:
            raise Refused(404, "Not found")
        return self.files[message_id]
