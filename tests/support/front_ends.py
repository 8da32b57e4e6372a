"""Front-end tokens of a served host, and the neighbours that they must not reach."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

from support.http_host import Served

ORIGIN = "https://app.example.com"


async def make_token(served: Served, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """Make a token, with the administrator's key or another one."""
    body = {"agent": "puppet", **fields}
    if key is None:
        answer = await served.client.post("/v1/tokens", json=body)
    else:
        async with served.as_key(key) as client:
            answer = await client.post("/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@dataclass
class FrontEnd:
    """A page with a token."""

    client: httpx.AsyncClient
    made: dict[str, Any]

    @property
    def conversation(self) -> str:
        return str(self.made["conversation_id"])

    async def send(self, text: str, *, wait: float | None = 30, **fields: Any) -> httpx.Response:
        """Send a message, without naming agent or conversation."""
        body = {"event_type": "message.received", "input": {"text": text}, **fields}
        return await self.client.post("/v1/events", json=body, params={} if wait is None else {"wait": wait})


@contextlib.asynccontextmanager
async def front_end(served: Served, key: str | None = None, **fields: Any) -> AsyncIterator[FrontEnd]:
    """A page with a new token."""
    made = await make_token(served, key, **fields)
    async with served.as_key(made["token"]) as client:
        yield FrontEnd(client, made)
