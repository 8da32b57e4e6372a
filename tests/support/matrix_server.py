"""A homeserver: HTTP as the client-server API of Matrix 1.11 has it, for one bot.

Paths, answers and errors have the shapes of https://spec.matrix.org/v1.11/client-server-api/.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.matrix_methods import ROUTES, Call, Methods, Refusal
from support.matrix_rooms import ADA, BOB, DM, GROUP, ME
from support.platform_server import PlatformServer, application, taken

__all__ = ["ADA", "BOB", "DM", "GROUP", "ME", "MatrixServer", "Refusal"]

TOKEN = "syt_aGVscGVy_not-a-real-token"


@dataclass
class MatrixServer(Methods, PlatformServer):
    """A running homeserver, and what the bot did on it."""

    calls: list[Call] = field(default_factory=list)
    refusals: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By method: what comes in place of the usual answers: a Refusal, a text that is no JSON, `cut`; `late`
    does what was asked, and cuts the connection in place of the answer; `held` never answers, and `mute`
    does what was asked and does not answer."""
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By method: what comes in place of the usual JSON, with status 200."""
    silent: bool = False
    """What is sent is carried out and not answered."""
    token: str = TOKEN
    broken_files: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By file: statuses of the next downloads; `cut` breaks one in the middle."""
    is_old: bool = False
    """Files are where homeservers before Matrix 1.11 have them."""
    waits: list[int] = field(default_factory=list)
    """Of each sync, how long it would wait for news, in milliseconds."""
    since: list[str | None] = field(default_factory=list)
    rewinds: bool = False
    """The next sync gives all that ever happened once more."""

    def __post_init__(self) -> None:
        self.stream.make(DM, ADA, ME)
        self.stream.make(GROUP, BOB, ADA, ME, name="The group")

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        for method, path, name in ROUTES:
            app.router.add_route(method, path, self._route(name))
        app.router.add_route("*", "/{rest:.*}", self._route("unknown"))
        await self.listen(app)

    @property
    def url(self) -> str:
        return self.origin

    async def until(self, name: str, count: int = 1) -> list[Call]:
        """Wait until a method has been called so often, and return these calls."""
        while len(found := self.called(name)) < count:
            await self._change()
        return found

    async def until_synced(self) -> None:
        """Wait until the bot waits for what comes after all that happened."""
        while not (self.since and self.since[-1] == self._token()):
            await self._change()

    async def until_held(self, name: str) -> None:
        """Wait until the bot has made the call that is not answered."""
        while "held" in self.refusals[name]:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def called(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def texts(self, room_id: str = DM) -> list[str]:
        """The messages of the bot, as they are after its edits."""
        found: dict[str, str] = {}
        for event in self.sent(room_id):
            relates = event["content"].get("m.relates_to", {})
            if relates.get("rel_type") == "m.replace":
                found[relates["event_id"]] = event["content"]["m.new_content"]["body"]
            elif event["type"] == "m.room.message":
                found[event["event_id"]] = event["content"]["body"]
        return list(found.values())

    # -- people -----------------------------------------------------------------------------------

    def say(
        self, text: str, more: dict[str, Any] | None = None, *, room: str = DM, by: str = ADA, **content: Any
    ) -> str:
        """Somebody writes a message; return its id. `more`, `content`: of the event's content."""
        whole = {"msgtype": "m.text", "body": text, **(more or {}), **content}
        return self.happen("m.room.message", whole, room=room, by=by)

    def put(self, event: Any, *, room: str = DM) -> None:
        """An event comes as it is."""
        self.stream.put(room, event)
        self._changed.set()

    def invite(self, room_id: str, *, by: str = ADA, is_direct: bool = True) -> None:
        """Somebody invites the bot."""
        self.stream.invite(room_id, by, is_direct=is_direct)
        self._changed.set()

    # -- the bot ----------------------------------------------------------------------------------

    def _route(self, name: str) -> Any:
        async def serve(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            self._open.add(request.transport)
            try:
                return await self._serve(name, request)
            except Refusal as refusal:
                self._changed.set()
                return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
            finally:
                self._open.discard(request.transport)

        return serve

    async def _serve(self, name: str, request: web.Request) -> web.StreamResponse:
        assert "access_token" not in request.query, "it would be in logs"
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refusal(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.")
        content = await request.read()
        call = Call(name, dict(request.match_info), dict(request.query), None, content, request.content_type)
        if content and request.content_type == "application/json" and name != "upload":
            call.body = json.loads(content)
        self.calls.append(call)
        other = taken(self.refusals, f"{name} {request.match_info.get('room')}", name)
        if isinstance(other, Refusal):
            raise other
        if other == "cut":
            return await self._break(request)
        if other == "held":
            self._changed.set()
            await asyncio.Event().wait()
        if other not in {None, "late", "mute"}:
            self._changed.set()
            return web.Response(status=502, text=other, content_type="text/html")
        if self.answers[name]:
            self._changed.set()
            return web.Response(text=self.answers[name].pop(0), content_type="application/json")
        if name == "sync":
            return web.json_response(await self._sync(call))
        if name in {"download", "old_download"}:
            return await self._download(call, request)
        answer = getattr(self, f"_{name}")(call)
        self._changed.set()
        if other == "late":
            return await self._break(request)
        if other == "mute" or (self.silent and name in {"send", "redact", "upload"}):
            await asyncio.Event().wait()
        return web.json_response(answer)

    async def _break(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._changed.set()
        request.transport.close()
        await asyncio.Event().wait()
        raise AssertionError

    def _token(self) -> str:
        return f"s{len(self.stream.events)}"

    async def _sync(self, call: Call) -> dict[str, Any]:
        since, wait = call.query.get("since"), int(call.query["timeout"])
        self.since.append(since)
        self.waits.append(wait)
        self._changed.set()
        if since is not None and not re.fullmatch(r"s\d+", since):
            raise Refusal(400, "M_INVALID_PARAM", "Invalid stream token")
        place = 0 if since is None or self.rewinds else int(since[1:])
        self.rewinds = False
        asked = json.loads(call.query["filter"])["room"]["timeline"]["limit"]
        ends = time.monotonic() + wait / 1000
        while len(self.stream.events) == place and (left := ends - time.monotonic()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                break
        rooms = self.stream.since(place, min(asked, self.most))
        return {
            "next_batch": self._token(),
            "rooms": rooms,
            "presence": {"events": []},
            "to_device": {"events": []},
        }

    async def _download(self, call: Call, request: web.Request) -> web.StreamResponse:
        if self.is_old != (call.name == "old_download"):
            raise Refusal(404, "M_UNRECOGNIZED", "Unrecognized request")
        media_id = call.params["media"]
        waiting = self.broken_files[media_id]
        status = waiting.pop(0) if waiting else 200
        if media_id not in self.files:
            raise Refusal(404, "M_NOT_FOUND", "Not found")
        content = self.files[media_id]
        if status == "cut":
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(status=status, body=content if status == 200 else b"")
