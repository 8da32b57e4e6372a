"""The model door of runs of a scripted host, as clients in the run see it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from hostler_sdk import RunContext, Runner
from hostler_sdk.testing import Driven, ScriptedHost

ASK = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}


@dataclass
class Client:
    """A client of one run's door, over a socket or in memory."""

    http: httpx.AsyncClient
    ctx: RunContext

    async def post(self, path: str, **body: Any) -> Any:
        """The answer to a request, which has to succeed."""
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def chat(self, **more: Any) -> Any:
        return await self.post("/chat/completions", **ASK | more)

    async def refused(self, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        """Status and error of a request that is refused."""
        answer = await self.http.post(path, json=body)
        return answer.status_code, answer.json().get("error")

    async def events(self, path: str, **body: Any) -> list[Any]:
        """The events of a stream, as JSON; `[DONE]` as it is."""
        async with self.http.stream("POST", path, json=body | {"stream": True}) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = [line async for line in answer.aiter_lines()]
        found = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [one if one == "[DONE]" else json.loads(one) for one in found]


@contextlib.asynccontextmanager
async def client_of(ctx: RunContext, *, memory: bool = False) -> AsyncIterator[Client]:
    if memory:
        http = ctx.models.openai_http_client()
    else:
        headers = {"authorization": f"Bearer {ctx.models.openai_key}"}
        http = httpx.AsyncClient(base_url=ctx.models.openai_url, headers=headers, verify=False)
    async with http:
        yield Client(http, ctx)


def at_door(
    use: Callable[[Client], Awaitable[None]], *, memory: bool = False, seconds: float = 60.0, **options: Any
) -> Driven:
    """Drive a run that uses its door; it has to succeed."""

    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            async with client_of(ctx, memory=memory) as client:
                await use(client)
            return "used"

    driven = ScriptedHost().drive_sync(User, "x", seconds=seconds, **options)
    assert driven.text == "used", driven.error
    return driven


def sent(driven: Driven, place: int = -1) -> Any:
    """The parameters of a call."""
    return driven.calls[place].params
