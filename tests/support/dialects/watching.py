"""Watchers of a run: each follows it in one dialect, with random disconnects, over kills of the host.

A watcher is a coroutine function `(watched, dice) -> the complete texts of the assistant, in order`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx
import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from websockets.exceptions import WebSocketException

from support.databases import TEST_SECONDS
from support.dialects.a2a import BINDINGS as A2A_BINDINGS
from support.dialects.a2a import transcript as a2a_transcript
from support.dialects.langgraph import transcript
from support.dialects.mcp import transcript as mcp_transcript
from support.dialects.openai_chat import Told
from support.dialects.openai_responses import Reading
from support.followed import Seen
from support.live_socket import LiveClient, live
from support.loopback import NO_CERTIFICATES

LOST = (httpx.TransportError, OSError)
"""What a client sees of a host that was killed."""


@dataclass(frozen=True)
class Watched:
    """A run of a host that may be killed and started again at the same address."""

    url: str
    key: str
    run_id: str


Watcher = Callable[[Watched, random.Random], Coroutine[Any, Any, list[str]]]


class CutError(OSError):
    """The watcher breaks its connection off."""


async def lines(
    watched: Watched, path: str, dice: random.Random, headers: dict[str, str] | None = None
) -> AsyncIterator[str]:
    """Yield the lines of one stream. Raises one of LOST where it breaks, or the watcher has had enough."""
    given = {"authorization": f"Bearer {watched.key}", "accept": "text/event-stream", **(headers or {})}
    left = dice.randrange(1, 60) if dice.random() < 0.8 else 10**9
    client = httpx.AsyncClient(base_url=watched.url, verify=NO_CERTIFICATES, timeout=TEST_SECONDS)
    async with client, client.stream("GET", path, headers=given) as answer:
        if answer.status_code >= 500:
            raise CutError
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            yield line
            left -= 1
            if left <= 0:
                raise CutError


async def events(watched: Watched, path: str, dice: random.Random) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON of the events of a stream that goes on by Last-Event-ID, each once, to its end."""
    last: str | None = None
    while True:
        seen, data = None, ""
        try:
            async for line in lines(watched, path, dice, {} if last is None else {"last-event-id": last}):
                if line.startswith("id: "):
                    seen = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                elif not line and data:
                    last = seen or last
                    if data != "[DONE]":
                        yield json.loads(data)
                    data = ""
        except LOST:
            await asyncio.sleep(0.02)
        else:
            return


async def native(watched: Watched, dice: random.Random) -> list[str]:
    """The run's own stream."""
    complete: dict[str, str] = {}
    async for result in events(watched, f"/v1/runs/{watched.run_id}/stream", dice):
        if result["type"] == "message.completed":
            message = result["data"]["message"]
            complete[message["message_id"]] = message["content"]
    return list(complete.values())


async def chat_completions(watched: Watched, dice: random.Random) -> list[str]:
    """OpenAI Chat Completions."""
    told = Told()
    async for chunk in events(watched, f"/v1/chat/completions/chatcmpl_{watched.run_id}?stream=true", dice):
        told.take(ChatCompletionChunk.model_validate(chunk))
    return told.messages


async def ai_sdk(watched: Watched, dice: random.Random) -> list[str]:
    """AI SDK: a message is replayed from its start, however often."""
    path = f"/ai-sdk/player/c/stream?message_id=msg_{watched.run_id}"
    while True:
        texts: dict[str, str] = {}
        step: list[str] = []
        try:
            async for line in lines(watched, path, dice):
                data = line.removeprefix("data: ")
                if not line.startswith("data: ") or data == "[DONE]":
                    continue
                chunk = json.loads(data)
                match chunk["type"]:
                    case "start-step":
                        step = []
                    case "reset-step":
                        for text_id in step:
                            texts.pop(text_id, None)
                    case "text-start":
                        step.append(chunk["id"])
                        texts[chunk["id"]] = ""
                    case "text-delta":
                        texts[chunk["id"]] += chunk["delta"]
                    case "finish" | "error" | "abort":
                        return list(texts.values())
        except LOST:
            await asyncio.sleep(0.02)


async def responses(watched: Watched, dice: random.Random) -> list[str]:
    """OpenAI Responses, with the official client."""
    options: dict[str, Any] = {"max_retries": 0, "timeout": TEST_SECONDS}
    reading = Reading()
    async with AsyncOpenAI(base_url=f"{watched.url}/v1", api_key=watched.key, **options) as client:
        while reading.final is None:
            left = dice.randrange(1, 40)
            after: dict[str, Any] = {} if reading.last < 0 else {"starting_after": reading.last}
            try:
                stream = await client.responses.retrieve(f"resp_{watched.run_id}", stream=True, **after)
                async for event in stream:
                    reading.take(event)
                    if (left := left - 1) <= 0:
                        break
                await stream.close()
            except (openai.APIConnectionError, openai.InternalServerError, *LOST):
                await asyncio.sleep(0.02)
    return reading.texts


async def ag_ui(watched: Watched, dice: random.Random) -> list[str]:
    """AG-UI: a thread is connected to, and connected to again."""
    texts: dict[str, str] = {}
    complete: list[str] = []
    async for event in events(watched, "/ag-ui/player/c/connect", dice):
        match event["type"]:
            case "TEXT_MESSAGE_START":
                texts[event["messageId"]] = ""
            case "TEXT_MESSAGE_CONTENT":
                texts[event["messageId"]] += event["delta"]
            case "TEXT_MESSAGE_END":
                complete.append(texts[event["messageId"]])
    return complete


async def langgraph(watched: Watched, dice: random.Random) -> list[str]:
    """LangGraph, with the official client, in modes that change from one reading to the next."""
    modes = ["values", *(["messages-tuple"] if dice.random() < 0.5 else [])]
    return await transcript(watched.url, watched.key, "c", f"run_{watched.run_id}", dice, modes)


async def mcp(watched: Watched, dice: random.Random) -> list[str]:
    """MCP: the result of the run's task, whose stream goes on after its last event."""
    return await mcp_transcript(watched.url, watched.key, watched.run_id, dice)


class Overheard:
    """The messages and the end of one run, among the entries of a stream over many runs."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.texts: list[str] = []
        self.over = False

    def take(self, type_: str, data: dict[str, Any]) -> None:
        if data.get("run_id") != self._run_id:
            return
        if type_ == "message.completed":
            self.texts.append(data["data"]["message"]["content"])
        self.over = self.over or (type_ == "run.status" and data["status"] == "completed")


async def conversation(watched: Watched, dice: random.Random) -> list[str]:
    """The stream of the conversation, from its start."""
    heard = Overheard(watched.run_id)
    async for data in events(watched, "/v1/conversations/c/stream?from=start", dice):
        heard.take(data.get("type") or ("run.status" if "status_before" in data else ""), data)
        if heard.over:
            break
    return heard.texts


async def web_socket(watched: Watched, dice: random.Random) -> list[str]:
    """A subscription of the WebSocket, which goes on after the last cursor over another connection."""
    heard = Overheard(watched.run_id)
    place: dict[str, str] = {"from": "start"}
    while not heard.over:
        left = dice.randrange(1, 60)
        try:
            async with live(watched.url, watched.key) as client:
                await client.follow("s", conversation_id="c", **place)
                while not heard.over and left > 0:
                    entry = await next_of(client)
                    heard.take(entry.type, entry.data)
                    place, left = {"cursor": entry.cursor}, left - 1
        except (*LOST, WebSocketException, TimeoutError):
            await asyncio.sleep(0.02)
    return heard.texts


async def next_of(client: LiveClient) -> Seen:
    """The next event of the subscription. CutError once the connection has ended without one."""
    waiting = asyncio.ensure_future(client.events["s"].get())
    closed = asyncio.ensure_future(client.socket.wait_closed())
    try:
        await asyncio.wait([waiting, closed], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise CutError
    finally:
        waiting.cancel()
        closed.cancel()


async def a2a(watched: Watched, dice: random.Random) -> list[str]:
    """A2A, with the official client: a task is subscribed to, and subscribed to again."""
    binding = dice.choice(A2A_BINDINGS)
    return await a2a_transcript(watched.url, watched.key, watched.run_id, dice, binding=binding)


WATCHERS: dict[str, Watcher] = {
    "a2a": a2a,
    "native": native,
    "conversation": conversation,
    "web-socket": web_socket,
    "chat-completions": chat_completions,
    "ai-sdk": ai_sdk,
    "responses": responses,
    "ag-ui": ag_ui,
    "langgraph": langgraph,
    "mcp": mcp,
}
