"""OpenAI's client for Python as a reader of responses, which is disconnected at random places."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI

from support.http_host import ADMIN_KEY

ENDS = frozenset({"response.completed", "response.failed", "response.incomplete"})


def client_of(url: str, key: str = ADMIN_KEY, **options: Any) -> AsyncOpenAI:
    """The official client."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, **{"timeout": 60.0, **options})


@dataclass
class Item:
    """An item of the output, as its events make it."""

    kind: str
    item_id: str
    status: str | None = None
    phase: str | None = None
    text: str = ""
    arguments: str = ""


@dataclass
class Reading:
    """A response as its events make it, whatever disconnected in between.

    It checks the order of events: numbers without a gap, items before their content, what is done as it was
    said piece by piece.
    """

    items: list[Item] = field(default_factory=list)
    last: int = -1
    types: list[str] = field(default_factory=list)
    final: Any = None

    def take(self, event: Any) -> None:
        assert self.final is None, "an event follows the last"
        assert event.sequence_number == self.last + 1
        self.last = event.sequence_number
        self.types.append(event.type)
        match event.type:
            case "response.created" | "response.in_progress":
                assert event.response.output == []
            case "response.output_item.added":
                assert event.output_index == len(self.items)
                item = event.item
                phase = getattr(item, "phase", None)
                self.items.append(Item(item.type, item.id, getattr(item, "status", None), phase))
            case "response.output_item.done":
                self._done(self.items[event.output_index], event.item)
            case kind if kind in ENDS:
                self.final = event.response
                assert [item.id for item in self.final.output] == [item.item_id for item in self.items]
            case kind:
                assert kind.startswith(
                    (
                        "response.output_text.",
                        "response.content_part.",
                        "response.mcp_call",
                        "response.function_call",
                        "response.reasoning_text.",
                    )
                ), kind
                self._content(event)

    def _content(self, event: Any) -> None:
        item = self.items[event.output_index]
        assert item.item_id == event.item_id
        assert item.status == "in_progress"
        match event.type:
            case "response.output_text.delta" | "response.reasoning_text.delta":
                assert event.delta
                item.text += event.delta
            case "response.output_text.done" | "response.reasoning_text.done":
                assert event.text == item.text
            case "response.mcp_call_arguments.delta" | "response.function_call_arguments.delta":
                item.arguments += event.delta
            case "response.mcp_call_arguments.done" | "response.function_call_arguments.done":
                assert event.arguments == item.arguments

    def _done(self, item: Item, said: Any) -> None:
        assert (item.kind, item.item_id) == (said.type, said.id)
        item.status = getattr(said, "status", None)
        assert item.status != "in_progress"
        if item.kind == "message":
            assert said.content[0].text == item.text
        elif item.kind in ("function_call", "mcp_call"):
            assert said.arguments == item.arguments

    @property
    def texts(self) -> list[str]:
        """The texts of the agent's complete messages."""
        return [
            one.text
            for one in self.items
            if one.status == "completed" and one.kind == "message" and not one.phase
        ]


async def read(client: AsyncOpenAI, response_id: str, dice: random.Random | None = None) -> Reading:
    """Read a response from its beginning to its end; with `dice` disconnect every few events."""
    reading = Reading()
    while reading.final is None:
        await _read_on(client, response_id, reading, None if dice is None else dice.randint(1, 7))
    return reading


async def _read_on(client: AsyncOpenAI, response_id: str, reading: Reading, room: int | None) -> None:
    """Read at most `room` further events."""
    after: dict[str, Any] = {} if reading.last < 0 else {"starting_after": reading.last}
    stream = await client.responses.retrieve(response_id, stream=True, **after)
    try:
        async for event in stream:
            reading.take(event)
            if room is not None and (room := room - 1) <= 0:
                break
    finally:
        await stream.close()


async def transcript(client: AsyncOpenAI, response_ids: list[str], dice: random.Random) -> list[str]:
    """The complete messages of a run, given the responses that it was, in order."""
    texts: dict[str, str] = {}
    complete: list[str] = []
    for response_id in response_ids:
        for item in (await read(client, response_id, dice)).items:
            if item.kind != "message" or item.phase is not None:
                continue
            texts[item.item_id] = texts.get(item.item_id, "") + item.text
            if item.status == "completed":
                complete.append(item.item_id)
    return [texts[item_id] for item_id in complete]
