"""A server that speaks Discord's REST API and gateway, as far as the channel uses them.

Paths, JSON, error codes and rate limit headers are those of https://discord.com/developers/docs. A test
writes as Ada, and looks at what the bot did.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.discord_calls import Call, Refusal, as_json, limited, read_call
from support.discord_gateway import Gateway
from support.platform_server import PlatformServer, application, taken

__all__ = ["DiscordServer", "Refusal", "limited"]

TOKEN = "MTA0MjQy.not-a-real.token_of-a-bot"
ME = {"id": "4242", "username": "helper", "discriminator": "0", "global_name": "Helper", "bot": True}
ADA = {"id": "7", "username": "ada", "discriminator": "0", "global_name": "Ada L.", "avatar": None}
PRIVATE = "100"
GENERAL = "200"
NEWS = "201"
THREAD = "300"
ROOMS = ("401", "402", "403", "404", "405", "406")
"""Channels of the server in which nothing was said yet."""
GUILD = "900"
EPOCH_MS = 1_420_070_400_000
_CHANNELS: dict[str, dict[str, Any]] = {
    PRIVATE: {"type": 1, "recipients": [ADA]},
    GENERAL: {"type": 0, "guild_id": GUILD, "name": "general"},
    NEWS: {"type": 5, "guild_id": GUILD, "name": "news"},
    THREAD: {"type": 11, "guild_id": GUILD, "name": "a thread", "parent_id": GENERAL},
}
_CHANNELS |= {id_: {"type": 0, "guild_id": GUILD, "name": f"room {id_}"} for id_ in ROOMS}


def guild(**more: Any) -> dict[str, Any]:
    """A server as `GUILD_CREATE` shows it."""
    channels = [
        {"id": id_, "last_message_id": None, **channel}
        for id_, channel in _CHANNELS.items()
        if id_ in {GENERAL, NEWS, *ROOMS}
    ]
    shown = {"id": GUILD, "name": "The server", "system_channel_id": GENERAL, "unavailable": False}
    shown |= {"joined_at": "2024-01-01T00:00:00.000000+00:00", "member_count": 2, "channels": channels}
    return {**shown, "threads": [{"id": THREAD, "last_message_id": None, **_CHANNELS[THREAD]}], **more}


@dataclass(slots=True)
class DiscordServer(PlatformServer):
    """A running server, and what the bot did on it."""

    calls: list[Call] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """All messages by id, as they are now."""
    refusals: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By name of a call: what comes in place of the usual answers: a Refusal, a text, `cut`, `cut after`;
    `held` never answers, and `mute` does what was asked and does not answer."""
    tells: bool = True
    """The gateway tells the bot of its own messages, too."""
    silent: bool = False
    """Calls are carried out and not answered."""
    token: str = TOKEN
    files: dict[str, bytes] = field(default_factory=dict)
    broken_files: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By name: statuses of the next downloads; `cut` breaks one in the middle, `hang` does not answer."""
    starts_left: int = 900
    remaining: list[tuple[int, float]] = field(default_factory=list)
    """Of the next calls: how many more are allowed, and for how many seconds."""
    _nonces: dict[tuple[str, str], str] = field(default_factory=dict)
    _number: int = 0
    gateway: Gateway = field(init=False)

    def __post_init__(self) -> None:
        self.gateway = Gateway(self._changed_now)
        self.gateway.me, self.gateway.guilds = ME, {GUILD: guild()}

    def _changed_now(self) -> None:
        self._changed.set()

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/attachments/{name}", self._download)
        app.router.add_route("*", "/api/v10/{path:.*}", self._serve)
        await self.listen(app)
        self.gateway.token, self.gateway.url = self.token, f"{self.origin.replace('http', 'ws', 1)}/gateway/"

    @property
    def url(self) -> str:
        return f"{self.origin}/api"

    async def until(self, name: str, count: int = 1) -> list[Call]:
        """Wait until a call was made so often, and return these calls."""
        await self.until_true(lambda: len(self.called(name)) >= count)
        return self.called(name)

    def called(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def texts(self) -> list[str]:
        """Return the texts that the bot has sent, as they are now."""
        return [one["content"] for one in self.messages.values() if one["author"]["id"] == ME["id"]]

    # -- people -----------------------------------------------------------------------------------

    def snowflake(self, seconds: float | None = None) -> str:
        """Return a new id."""
        self._number += 1
        now = int((time.time() if seconds is None else seconds) * 1000)
        return str((now - EPOCH_MS << 22) + self._number)

    def write(self, text: str = "", channel: str = PRIVATE, **more: Any) -> dict[str, Any]:
        """Keep a message that Ada wrote, which no gateway tells."""
        message = {
            "id": self.snowflake(),
            "channel_id": channel,
            "type": 0,
            "author": ADA,
            "content": text,
            "timestamp": "2025-11-24T16:00:00.123000+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            **more,
        }
        self.messages[message["id"]] = message
        for known in self.gateway.guilds.values():
            for place in [*known["channels"], *known["threads"]]:
                if place["id"] == channel:
                    place["last_message_id"] = message["id"]
        return message

    async def say(self, text: str = "", channel: str = PRIVATE, **more: Any) -> dict[str, Any]:
        """Ada writes a message; return it."""
        message = self.write(text, channel, **more)
        await self.gateway.dispatch("MESSAGE_CREATE", _in_guild(message))
        return message

    async def press(self, message_id: str | None, value: str, channel: str = GENERAL, **more: Any) -> str:
        """Ada presses a button; return the id of the interaction."""
        number = self.snowflake()
        who = {"user": ADA} if channel == PRIVATE else {"member": {"user": ADA, "nick": "Countess"}}
        interaction = {
            "id": number,
            "application_id": ME["id"],
            "type": 3,
            "token": "a-token-of-an-interaction",
            "version": 1,
            "channel_id": channel,
            "channel": {"id": channel, **_CHANNELS[channel]},
            "message": {"id": message_id, "author": ME},
            "data": {"component_type": 2, "custom_id": value, "id": 2},
            **who,
            **more,
        }
        await self.gateway.dispatch("INTERACTION_CREATE", _in_guild(interaction))
        return number

    # -- the bot ----------------------------------------------------------------------------------

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        try:
            return await self.gateway.serve(request)
        finally:
            self._open.discard(request.transport)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        headers = self._headers()
        try:
            if request.headers.get("Authorization") != f"Bot {self.token}":
                raise Refusal(401, "401: Unauthorized")
            call = await read_call(request)
            self.calls.append(call)
            other = taken(self.refusals, f"{call.name} {''.join(call.path.split('/')[2:3])}", call.name)
            if isinstance(other, Refusal):
                raise other
            if other == "held":
                self._changed.set()
                await asyncio.Event().wait()
            result = self._answer(call) if other in {None, "cut after", "mute"} else other
            if call.name == "POST /channels/*/messages" and isinstance(result, dict) and self.tells:
                await self.gateway.dispatch("MESSAGE_CREATE", _in_guild(result))
            self._changed.set()
            if other in {"cut", "cut after"}:
                request.transport.close()
            if self.silent or other in {"cut", "cut after", "mute"}:
                await asyncio.Event().wait()
            if isinstance(result, str):
                return web.Response(status=200, text=result, content_type="text/html", headers=headers)
            if result is None:
                return web.Response(status=204, headers=headers)
            return as_json(200, result, headers)
        except Refusal as refusal:
            self._changed.set()
            return as_json(refusal.status, refusal.body, {**headers, **refusal.headers})
        finally:
            self._open.discard(request.transport)

    def _headers(self) -> dict[str, str]:
        left, seconds = self.remaining.pop(0) if self.remaining else (4, 1.0)
        return {
            "Via": "1.1 google",
            "X-RateLimit-Limit": "5",
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": f"{time.time() + seconds:.3f}",
            "X-RateLimit-Reset-After": f"{seconds:.3f}",
        }

    def _answer(self, call: Call) -> Any:
        channel = call.path.split("/")[2] if call.path.startswith("/channels/") else ""
        if channel and channel not in _CHANNELS:
            raise Refusal(404, "Unknown Channel", 10003)
        match call.name:
            case "GET /users/@me":
                return ME
            case "GET /gateway/bot":
                limit = {"total": 1000, "remaining": self.starts_left, "reset_after": 60_000}
                return {
                    "url": self.gateway.url,
                    "shards": 1,
                    "session_start_limit": {**limit, "max_concurrency": 1},
                }
            case "POST /channels/*/messages":
                return self._create(call, channel)
            case "GET /channels/*/messages":
                return self._history(call, channel)
            case "PATCH /channels/*/messages/*":
                return self._edit(call)
            case "GET /channels/*/messages/*":
                return self._known(call)
            case "DELETE /channels/*/messages/*":
                self.messages.pop(call.path.split("/")[4], None)
            case "GET /channels/*":
                return {"id": channel, **_CHANNELS[channel]}
            case "GET /guilds/*":
                return {"id": GUILD, "name": "The server", "system_channel_id": GENERAL}
            case "GET /guilds/*/members/*":
                return {"user": ADA, "nick": "Countess", "roles": []}
            case "GET /guilds/*/members":
                return [{"user": ADA, "roles": []}]
            case "GET /nonsense":
                raise Refusal(404, "404: Not Found")
        return None

    def _known(self, call: Call) -> dict[str, Any]:
        message = self.messages.get(call.path.split("/")[4])
        if message is None:
            raise Refusal(404, "Unknown Message", 10008)
        return message

    def _create(self, call: Call, channel: str) -> dict[str, Any]:
        body = call.body
        assert body["enforce_nonce"] is True
        assert 0 < len(body["nonce"]) <= 25
        if (known := self._nonces.get((channel, body["nonce"]))) is not None:
            return self.messages[known]
        content = body.get("content", "")
        if not content and not call.files and not {"poll", "message_reference"} & set(body):
            raise Refusal(400, "Cannot send an empty message", 50006)
        _check(body)
        message = self.write(content, channel, author=ME, nonce=body["nonce"])
        message["components"] = body.get("components", [])
        message["attachments"] = [
            {"id": self.snowflake(), "filename": name, "size": len(content), "url": f"{self.url}/a"}
            for name, content in call.files
        ]
        self._nonces[channel, body["nonce"]] = message["id"]
        return message

    def _edit(self, call: Call) -> dict[str, Any]:
        message = self._known(call)
        if message["author"] != ME:
            raise Refusal(403, "Cannot edit a message authored by another user", 50005)
        _check(call.body)
        message |= {"content": call.body["content"], "components": call.body["components"]}
        return message

    def forget_nonces(self) -> None:
        """Some minutes pass."""
        self._nonces.clear()

    def _history(self, call: Call, channel: str) -> list[dict[str, Any]]:
        after, before = int(call.query.get("after", 0)), int(call.query.get("before", 2**63))
        found = [
            {key: value for key, value in one.items() if key != "nonce"}
            for one in self.messages.values()
            if one["channel_id"] == channel and after < int(one["id"]) < before
        ]
        found.sort(key=lambda one: int(one["id"]))
        limit = int(call.query.get("limit", 50))
        return (found[:limit] if "after" in call.query else found[-limit:])[::-1]

    async def _download(self, request: web.Request) -> web.StreamResponse:
        assert "Authorization" not in request.headers
        name = request.match_info["name"]
        waiting = self.broken_files[name]
        status = waiting.pop(0) if waiting else 200
        self._changed.set()
        content = self.files[name]
        if status == "hang":
            await asyncio.Event().wait()
        if status == "cut":
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(status=status, body=content)

    def attachment(self, name: str, content: bytes, **more: Any) -> dict[str, Any]:
        """A file that Ada sends."""
        self.files[name] = content
        url = f"{self.origin}/attachments/{name}?ex=1&is=2&hm=3"
        return {"id": self.snowflake(), "filename": name, "size": len(content), "url": url, **more}


def _in_guild(data: dict[str, Any]) -> dict[str, Any]:
    guild_id = _CHANNELS[data["channel_id"]].get("guild_id")
    if guild_id is None:
        return data
    member = {"member": {"nick": "Countess", "roles": []}} if "author" in data else {}
    return {"guild_id": guild_id, **member, **data}


def _check(body: dict[str, Any]) -> None:
    """Check a message as Discord does."""
    if len(body.get("content", "")) > 2000:
        told = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "2000 or fewer"}]}}
        raise Refusal(400, "Invalid Form Body", 50035, errors=told)
    rows = body.get("components", [])
    assert len(rows) <= 5
    for row in rows:
        assert row["type"] == 1
        assert 0 < len(row["components"]) <= 5
        assert all(len(one["label"]) <= 80 and len(one["custom_id"]) <= 100 for one in row["components"])
