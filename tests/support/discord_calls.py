"""Calls of Discord's API as the server of tests reads them, and its answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from aiohttp import web


class Refusal(Exception):
    """An answer of the API that is an error."""

    def __init__(self, status: int, message: str, code: int = 0, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = more.pop("headers", {})
        self.body: dict[str, Any] = {"message": message, "code": code, **more}


def limited(seconds: float, **more: Any) -> Refusal:
    """A rate limit, as Discord tells it."""
    headers = {"Retry-After": str(int(seconds) or 1), "X-RateLimit-Scope": "user"}
    return Refusal(429, "You are being rate limited.", headers=headers, retry_after=seconds, **more)


@dataclass(slots=True)
class Call:
    """One call of the bot. `files`: name and content."""

    method: str
    path: str
    body: Any
    query: dict[str, str]
    files: list[tuple[str, bytes]]
    reason: str | None

    @property
    def name(self) -> str:
        """Verb and path, with `*` for ids."""
        return f"{self.method} " + re.sub(r"/\d+", "/*", self.path)


def as_json(status: int, body: Any, headers: dict[str, str]) -> web.Response:
    """Answer as Discord does, whose content type names no character set."""
    headers = {**headers, "Content-Type": "application/json"}
    return web.Response(status=status, body=json.dumps(body).encode(), headers=headers)


async def read_call(request: web.Request) -> Call:
    """Read a call, with its files."""
    body: Any = None
    files = []
    if request.content_type == "multipart/form-data":
        form = await request.post()
        described_in = form["payload_json"]
        assert isinstance(described_in, str | bytes | bytearray)
        body = json.loads(described_in)
        for described in body["attachments"]:
            part = form[f"files[{described['id']}]"]
            assert isinstance(part, web.FileField)
            files.append((described["filename"], part.file.read()))
    elif request.can_read_body:
        body = await request.json()
    path = "/" + request.match_info["path"]
    reason = request.headers.get("X-Audit-Log-Reason")
    return Call(request.method, path, body, dict(request.query), files, reason)
