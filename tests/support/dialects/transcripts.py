"""What a dialect showed of a run, and the watcher that reads it: in pieces, over broken connections."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.databases import TEST_SECONDS
from support.loopback import NO_CERTIFICATES

ASKED = "asked"
"""The mark of the request for a decision; other marks are texts."""
Entry = tuple[str, ...]
"""`("said", TEXT)`, or `("called", TOOL, ARGUMENTS, OUTCOME)`."""


class CutError(OSError):
    """The watcher breaks its connection off."""


LOST = (httpx.TransportError, OSError)
"""What a client sees of a host that was killed."""


@dataclass(frozen=True)
class Shown:
    """A run as a dialect's own client has it at the end.

    `withdrawn`: texts that are marked as incomplete; None: the client keeps no trace of them over a
    reconnection.
    """

    entries: list[Entry]
    withdrawn: list[str] | None = None


@dataclass
class Watch:
    """One watcher of a run of a host that may be killed and started again at the same address.

    `dice`: when it disconnects; None: never.
    """

    url: str
    key: str
    run_id: str
    conversation_id: str
    dice: random.Random | None
    marks: dict[str, asyncio.Event]
    """Text -> set once the watcher was shown it."""
    decided: asyncio.Event
    over: asyncio.Event
    """Set once the run has ended."""
    last: str
    """What the agent says last."""
    cuts: int = 0
    _told: str = field(default="", init=False)

    def room(self, most: int = 60) -> int:
        """Return after how many pieces the watcher disconnects."""
        if self.dice is None or self.dice.random() > 0.8:
            return 10**9
        self.cuts += 1
        return self.dice.randrange(1, most)

    def bytes(self, most: int) -> list[int]:
        """Return after how many bytes of each response the watcher disconnects."""
        if self.dice is None:
            return []
        made = [self.dice.randrange(1, most) for _ in range(self.dice.randrange(1, 6))]
        self.cuts += len(made)
        return made

    def tell(self, text: str) -> None:
        """Note a further piece of the text that the watcher is shown."""
        self._told += text
        for mark, seen in self.marks.items():
            if mark in self._told:
                seen.set()

    def ask(self) -> None:
        """Note that the watcher is shown a request for a decision."""
        self.marks[ASKED].set()

    async def lost(self) -> None:
        """Wait a moment before the next attempt to connect."""
        await asyncio.sleep(0.02)

    def client(self) -> httpx.AsyncClient:
        """A client of the host's own API."""
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, verify=NO_CERTIFICATES, timeout=TEST_SECONDS
        )

    async def place_of_request(self) -> int:
        """The sequence of the last request for a decision: it names the answer that goes on after it."""
        path = f"/v1/runs/{self.run_id}/journal?limit=500"
        while True:
            try:
                async with self.client() as client:
                    journal = (await client.get(path)).raise_for_status().json()
            except (*LOST, httpx.HTTPStatusError):
                await self.lost()
                continue
            kinds = ((entry["type"], entry.get("sequence")) for entry in journal["items"])
            return max(int(sequence) for kind, sequence in kinds if kind == "interaction.requested")

    async def wait_decided(self) -> None:
        """Wait until what is asked was decided, by whomever."""
        self.ask()
        async with asyncio.timeout(2 * TEST_SECONDS):
            await self.decided.wait()


Watcher = Callable[[Watch], Coroutine[Any, Any, Shown]]


def outcome_text(value: Any) -> str:
    """An outcome of a call as text: as it is, or as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


class Transcript:
    """Collects messages and calls in order; a call that is shown again is the same."""

    def __init__(self) -> None:
        self._entries: list[Entry | str] = []
        self._calls: dict[str, tuple[str, str, str]] = {}
        self._said: dict[str, str] = {}

    def say(self, text: str, message_id: str | None = None) -> None:
        """Add a complete message. `message_id`: the same one again is the same message."""
        if message_id is not None:
            assert self._said.get(message_id, text) == text, "a complete message has changed"
            if message_id in self._said:
                return
            self._said[message_id] = text
        self._entries.append(("said", text))

    def call(self, call_id: str, name: str, arguments: Any) -> None:
        if call_id not in self._calls:
            self._entries.append(call_id)
            self._calls[call_id] = (name, json.dumps(arguments, ensure_ascii=False, sort_keys=True), "")

    def answer(self, call_id: str, outcome: Any) -> None:
        """Add the outcome of a call. A second one is a fault of the dialect."""
        name, arguments, before = self._calls[call_id]
        assert before in ("", outcome_text(outcome)), f"{name} has two outcomes"
        self._calls[call_id] = (name, arguments, outcome_text(outcome))

    @property
    def entries(self) -> list[Entry]:
        return [
            ("called", *self._calls[entry]) if isinstance(entry, str) else entry for entry in self._entries
        ]


def said_in(entries: Iterable[Entry]) -> list[Entry]:
    """The messages of a transcript, without its calls."""
    return [entry for entry in entries if entry[0] == "said"]
