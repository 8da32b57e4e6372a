"""A Slack server: the Web API, sockets of Socket Mode, files, and people who write.

Methods, answers, errors, envelopes and events have the shapes of https://docs.slack.dev.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from support.platform_server import PlatformServer, application, taken
from support.slack_methods import ADA, BOT, Call, Refused, SlackMethods, authorized

__all__ = ["ADA", "BOT", "Call", "Refused", "SlackServer"]

Answer = Refused | int | str
"""In place of the usual answer: an error, an HTTP status with a page, `cut`, `lost`, or another text."""


@dataclass(slots=True)
class Link:
    """A socket, and the envelopes that were sent through it."""

    ws: web.WebSocketResponse
    sent: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SlackServer(SlackMethods, PlatformServer):
    """A running server, and what the app did on it."""

    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    """By method: what comes in place of the next answers. At `cut` and `mute` it is done, at `lost` and
    `held` not; `mute` and `held` are not answered."""
    silent: str | None = None
    """A method whose calls are carried out, and not answered."""
    public: str | None = None
    """The address that the app is told; None: that of this server."""
    held: asyncio.Event | None = None
    """Downloads wait for it."""
    downloading: int = 0
    """How many downloads were begun."""
    links: list[Link] = field(default_factory=list)
    opened: int = 0
    """How many sockets there were."""
    hello: Any = None
    """What a socket says first in place of `hello`."""
    acknowledged: list[str] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """Envelopes for which there is no socket yet."""
    broken_files: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By file id: statuses of the next downloads; `cut` breaks one in the middle, `login` is Slack's page."""
    uploads_broken: list[int] = field(default_factory=list)
    _number: int = 0

    # -- the server -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        app = application()
        app.router.add_post("/api/{method}", self._serve)
        app.router.add_get("/link", self._link)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_get("/files/{id}", self._download)
        await self.listen(app)

    @property
    def address(self) -> str:
        return self.origin

    async def until_called(self, method: str, count: int = 1) -> list[Call]:
        """Wait until a method has been called so often, and return these calls."""
        await self.until_true(lambda: len(self.called(method)) >= count)
        return self.called(method)

    async def until_acknowledged(self, *envelopes: str) -> None:
        """Wait until the app has acknowledged envelopes."""
        await self.until_true(lambda: set(envelopes) <= set(self.acknowledged))

    async def until_links(self, count: int) -> None:
        """Wait until so many sockets are open."""
        await self.until_true(lambda: len(self.links) == count)

    # -- events -----------------------------------------------------------------------------------

    def envelope(
        self, kind: str, payload: dict[str, Any], *, retry: int = 0, through: Link | None = None
    ) -> str:
        """Send an envelope, as soon as there is a socket; return its id."""
        self._number += 1
        envelope_id = f"57d6a792-4d35-4d0b-b6aa-{self._number:012d}"
        envelope = {
            "envelope_id": envelope_id,
            "type": kind,
            "accepts_response_payload": kind != "events_api",
            "payload": payload,
        }
        if kind == "events_api":
            envelope |= {"retry_attempt": retry, "retry_reason": "timeout" if retry else ""}
        self.waiting.append(envelope)
        self._flush(through)
        return envelope_id

    def raw(self, text: str | bytes) -> None:
        """Send a frame that is no envelope."""
        ws = self.links[-1].ws
        sending = ws.send_str(text) if isinstance(text, str) else ws.send_bytes(text)
        self._spawn(sending)

    def disconnect(self, reason: str) -> None:
        """Say that the socket is about to be closed."""
        self.raw(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}}))

    async def close_link(self, number: int = 0) -> None:
        """Close a socket in order."""
        await self.links[number].ws.close()

    def _flush(self, through: Link | None = None) -> None:
        link = through or (self.links[-1] if self.links else None)
        while link is not None and self.waiting:
            envelope = self.waiting.pop(0)
            link.sent.append(envelope["envelope_id"])
            self._spawn(link.ws.send_str(json.dumps(envelope)))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if request.query.get("ticket") not in self.tickets:
            return web.Response(status=403)
        self.tickets.discard(request.query["ticket"])
        self._open.add(request.transport)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self.opened += 1
        link = Link(ws)
        hello = {
            "type": "hello",
            "num_connections": len(self.links) + 1,
            "debug_info": {"host": "applink-1", "approximate_connection_time": 18060},
            "connection_info": {"app_id": "A111"},
        }
        first = hello if self.hello is None else self.hello
        try:
            await ws.send_str(first if isinstance(first, str) else json.dumps(first))
            self.links.append(link)
            self._flush()
            self._changed.set()
            async for frame in ws:
                if frame.type is WSMsgType.TEXT:
                    self.acknowledged.append(json.loads(frame.data)["envelope_id"])
                    self._changed.set()
        except ConnectionError:
            pass  # it was cut
        finally:
            if link in self.links:
                self.links.remove(link)
            self._open.discard(request.transport)
            self._changed.set()
        return ws

    # -- the Web API ------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._open.add(request.transport)
        try:
            call = await self._read(request)
            self.calls.append(call)
            other = taken(self.answers, f"{call.method} {call.params.get('channel')}", call.method)
            self._changed.set()
            if isinstance(other, Refused):
                raise other
            if isinstance(other, int):
                return web.Response(status=other, text="<html>error</html>", content_type="text/html")
            if other == "lost":
                request.transport.abort()
                await asyncio.Event().wait()
            if other not in {None, "cut", "held", "mute"}:
                return web.Response(text=other, content_type=self.other_type)
            if other == "held":
                await asyncio.Event().wait()
            result = self.carry_out(call, self.public or self.address)
            self._changed.set()
            if other == "cut":
                request.transport.abort()
            if other in {"cut", "mute"} or self.silent == call.method:
                await asyncio.Event().wait()
            return web.json_response({"ok": True, **result})
        except Refused as refused:
            self._changed.set()
            headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
            body = {"ok": False, "error": refused.error, **refused.more}
            return web.json_response(body, status=refused.status, headers=headers)
        finally:
            self._open.discard(request.transport)

    async def _read(self, request: web.Request) -> Call:
        method = request.match_info["method"]
        params = {name: str(value) for name, value in (await request.post()).items()}
        params |= dict(request.query)
        authorized(method, request.headers.get("Authorization", ""), self)
        return Call(method, params)

    # -- files ------------------------------------------------------------------------------------

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        if self.uploads_broken:
            return web.Response(status=self.uploads_broken.pop(0))
        content = await request.read()
        file_id = request.match_info["id"]
        assert len(content) == self.pending[file_id]["size"]
        self.pending[file_id]["content"] = content
        return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=302, headers={"location": "/?redir=files"})
        self.downloading += 1
        self._changed.set()
        if self.held is not None:
            await self.held.wait()
        file_id = request.match_info["id"]
        waiting = self.broken_files[file_id]
        status = waiting.pop(0) if waiting else 200
        if status == "login":
            return web.Response(text="<!DOCTYPE html><html>sign in</html>", content_type="text/html")
        content = self.files.get(file_id)
        if content is None:
            return web.Response(status=404)
        if status == "cut":
            response = web.StreamResponse(headers={"content-length": str(len(content))})
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        return web.Response(status=status, body=content)
