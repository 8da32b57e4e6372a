"""OpenAI's client for Python at `/v1/chat/completions`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk

from support.http_host import ADMIN_KEY


def client_of(url: str, key: str = ADMIN_KEY, **options: Any) -> AsyncOpenAI:
    """The official client."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, **{"timeout": 60.0, **options})


def user(text: str) -> Any:
    """A message of a person."""
    return {"role": "user", "content": text}


@dataclass
class Told:
    """What the chunks of a stream add up to."""

    texts: dict[int, str] = field(default_factory=dict)
    """Key of a message of the run -> its text."""
    incomplete: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    """Text of no message: what waits for people, and links to files."""
    calls: dict[str, str] = field(default_factory=dict)
    content: str = ""
    finish_reason: str | None = None
    usage: Any = None
    completion_id: str = ""

    @property
    def messages(self) -> list[str]:
        """The complete messages."""
        return [text for key, text in self.texts.items() if key not in self.incomplete]

    def take(self, chunk: Any) -> None:
        """Add a chunk of the client's."""
        self.completion_id = chunk.id
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            self.finish_reason = choice.finish_reason or self.finish_reason
            self._take(choice.delta, getattr(chunk, "hostler", None))

    def add(self, following: Told) -> None:
        """Add the answer that goes on after this one."""
        for key, text in following.texts.items():
            self.texts[key] = self.texts.get(key, "") + text
        self.incomplete |= following.incomplete
        self.notes += following.notes

    def _take(self, delta: Any, shown: Any) -> None:
        self.content += delta.content or ""
        if shown and shown.get("incomplete"):
            self.incomplete.add(shown["message"])
        elif shown:
            key = shown["message"]
            self.texts[key] = self.texts.get(key, "") + delta.content
        elif delta.content and delta.content != "\n\n":
            self.notes.append(delta.content)
        for call in delta.tool_calls or []:
            self.calls[call.id] = call.function.arguments


async def told(client: AsyncOpenAI, messages: list[Any], model: str = "player", **options: Any) -> Told:
    """Ask, and read the whole stream."""
    found = Told()
    async for chunk in await client.chat.completions.create(
        model=model, messages=messages, stream=True, **options
    ):
        found.take(chunk)
    return found


async def followed(client: AsyncOpenAI, completion_id: str, dice: random.Random, *, at_most: int = 5) -> Told:
    """Read the stream of an answer with the client, disconnected at random places.

    The client does not show the ids of events; there is one event to each chunk, so it counts them.
    """
    found, seen = Told(), 0
    while found.finish_reason is None:
        stream = await client.get(
            f"/chat/completions/{completion_id}",
            cast_to=ChatCompletionChunk,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
            options={"params": {"stream": True}, "headers": {"Last-Event-ID": str(seen)}},
        )
        left = dice.randint(1, at_most)
        async with stream:
            async for chunk in stream:
                found.take(chunk)
                seen += 1
                left -= 1
                if not left and found.finish_reason is None:
                    break
    return found


async def transcript(url: str, key: str, run_id: str, dice: random.Random) -> list[str]:
    """Follow a run through all its answers; the complete messages of the agent."""
    async with client_of(url, key) as client:
        whole, after = Told(), 0
        while True:
            answer = await followed(client, f"chatcmpl_{run_id}" + (f"_{after}" if after else ""), dice)
            whole.add(answer)
            if answer.finish_reason != "tool_calls":
                return whole.messages
            after = await _asked(client, run_id, {call_id.split("_", 2)[2] for call_id in answer.calls})


async def _asked(client: AsyncOpenAI, run_id: str, call_ids: set[str]) -> int:
    """The sequence of the last request for these calls, after which the next answer begins."""
    journal: Any = await client.get(f"/runs/{run_id}/journal", cast_to=object)
    return max(
        int(entry["sequence"])
        for entry in journal["items"]
        if entry["type"] == "interaction.requested" and entry["data"]["call_id"] in call_ids
    )
