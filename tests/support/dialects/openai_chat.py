"""OpenAI's client for Python at `/v1/chat/completions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI

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
