"""LangGraph's official client, unmodified, against a host; and a run as that client reads it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
from langgraph_sdk import get_client

from support.databases import TEST_SECONDS
from support.dialects.players import script
from support.http_host import ADMIN_KEY

AGENT = "player"
NODE_CLIENT = ("@langchain/langgraph-sdk@1.15.0", "@langchain/core@1.4.0")
"""The client for JavaScript, as `node_clients` installs it."""


@contextlib.asynccontextmanager
async def langgraph(url: str, key: str = ADMIN_KEY) -> AsyncIterator[Any]:
    """The official client of a host."""
    client = get_client(url=f"{url}/langgraph", api_key=key, timeout=TEST_SECONDS)
    async with client:
        yield client


def said(*steps: list[Any], **more: Any) -> dict[str, Any]:
    """An input that has the agent take these steps."""
    return {"messages": [{"type": "human", "content": script(*steps)}], **more}


def plain(text: Any, **more: Any) -> dict[str, Any]:
    """An input of one message."""
    return {"messages": [{"type": "human", "content": text}], **more}


def texts_of(values: Any) -> list[str]:
    """The texts of the agent's complete messages in a state."""
    found = [one["content"] for one in values["messages"] if one["type"] == "ai" and not one["tool_calls"]]
    return [text if isinstance(text, str) else text[0].get("text", "") for text in found]


def told(parts: list[Any]) -> dict[str, str]:
    """The texts of the messages whose tokens a stream told, by id."""
    texts: dict[str, str] = {}
    for part in parts:
        if part.event == "messages":
            message, _ = part.data
            if message["type"] == "AIMessageChunk":
                texts[message["id"]] = texts.get(message["id"], "") + message["content"]
    return texts


def last_values(parts: list[Any]) -> dict[str, Any]:
    """The newest state that a stream told."""
    found: dict[str, Any] = [part.data for part in parts if part.event == "values"][-1]
    return found


def names(parts: list[Any]) -> list[str]:
    """The names of the events, each once in a row."""
    found: list[str] = []
    for part in parts:
        if not found or found[-1] != part.event:
            found.append(part.event)
    return found


def interrupts_of(parts: list[Any]) -> list[dict[str, Any]]:
    """What the thread waits for at the end of a stream."""
    found: list[dict[str, Any]] = last_values(parts).get("__interrupt__", [])
    return found


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    """All events of a stream."""
    async with asyncio.timeout(TEST_SECONDS):
        return [part async for part in stream]


async def transcript(
    url: str, key: str, thread_id: str, run_id: str, dice: random.Random, modes: list[str] | None = None
) -> list[str]:
    """Follow a run with the official client, with random disconnects; the texts of complete messages."""
    last = "-1"
    values: dict[str, Any] = {"messages": []}
    while True:
        left = dice.randrange(1, 40) if dice.random() < 0.8 else 10**9
        async with langgraph(url, key) as client:
            try:
                stream = client.runs.join_stream(
                    thread_id, run_id, stream_mode=modes or ["values", "messages-tuple"], last_event_id=last
                )
                async with contextlib.aclosing(stream):
                    async for part in stream:
                        last = part.id or last
                        if part.event == "values":
                            values = part.data
                        left -= 1
                        if left <= 0:
                            break
                    else:
                        return texts_of(values)
            except (httpx.HTTPError, OSError):
                await asyncio.sleep(0.02)


def of_json(text: str) -> Any:
    """JSON as a value."""
    return json.loads(text)
