"""A chat platform of the tests: one JSON object per line over TCP. The channels of `wires` speak it.

A bot logs in with `{"token", "after"}`, gets `{"you"}`, then everything said after that number. It says
things with `{"re", "chat", "say", "files", "answers", "key", "once"}`: with `once` a key is said once, and
answered with the same number. `{"re", "find": key}` is answered with the number of what was said under a key.
`{"re", "change": number, "say", "buttons"}` changes what the bot said, `{"tell": notice, "to": person}` is
seen by one person alone, and `{"typing": chat}` shows that the bot writes.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from support.json_lines_server import CutOffError, JsonLinesServer

TOKEN = "the token of the bot"
BOT = "bot-1"
Fate = Literal["done and lost", "lost", "limited", "busy", "refused"]
"""What becomes of a request: it is carried out and the connection cut before the answer; the connection is
cut before it is carried out; or it is refused for a while, for now, or for good.
"""


@dataclass
class ChatPlatform(JsonLinesServer):
    """A running platform."""

    token = TOKEN
    bot = BOT

    fates: list[Fate] = field(default_factory=list)
    """What becomes of the next things that the bot says, in order; without one they are carried out."""
    limit_seconds: float = 0.2
    requests: list[dict[str, Any]] = field(default_factory=list)
    edits: dict[int, list[str]] = field(default_factory=dict)
    """What was said at first and after each change, by number."""
    notices: list[tuple[str, str]] = field(default_factory=list)
    """What one person alone was told, in order: who, and what."""
    typing: list[str] = field(default_factory=list)
    """The chats in which the bot was seen to write, once for each time it said so."""
    on_request: Any = None
    """Called with each request of a bot before it is carried out."""

    def say(
        self,
        text: str,
        *,
        by: str = "ann",
        chat: str = "room",
        bot: bool = False,
        files: dict[str, bytes] | None = None,
        reply_to: int | None = None,
        kind: str = "group",
        event: str | None = None,
    ) -> int:
        """Somebody says something, or does something else (`event`); return its number."""
        sent = [
            {"name": name, "type": "text/plain", "content": base64.b64encode(content).decode()}
            for name, content in (files or {}).items()
        ]
        message = {"chat": chat, "by": by, "bot": bot, "said": text, "files": sent}
        number = self._add(message | {"reply_to": reply_to, "kind": kind, "event": event})
        self._tell(self.said[-1])
        return number

    def press(self, number: int, label: str, *, by: str = "ann") -> int:
        """Somebody presses a button below what the bot said."""
        said = self.said[number - 1]
        (value,) = [one["value"] for row in said["buttons"] for one in row if one["label"] == label]
        return self.send_value(said["chat"], value, by=by, of=number)

    def send_value(self, chat: str, value: str, *, by: str, of: int = 1) -> int:
        """Somebody's program sends the value of a button, whichever it is."""
        pressed = {"of": of, "value": value}
        number = self._add({"chat": chat, "by": by, "bot": False, "press": pressed, "said": ""})
        self._tell(self.said[-1])
        return number

    def buttons(self, number: int) -> list[str]:
        """The labels of the buttons below what was said."""
        return [one["label"] for row in self.said[number - 1].get("buttons", []) for one in row]

    def by_bot(self, chat: str = "room") -> list[str]:
        """What the bot said in a chat, in order."""
        return [one["said"] for one in self.said if one["by"] == BOT and one["chat"] == chat]

    async def until(self, count: int, chat: str = "room") -> list[str]:
        """Wait until the bot has said so many things in a chat, and return them."""
        await self.holds(lambda: len(self.by_bot(chat)) >= count)
        return self.by_bot(chat)

    def _reply(self, request: dict[str, Any]) -> dict[str, Any] | None:
        if "re" not in request:
            self._note(request)
            return None
        re = request["re"]
        if self.on_request is not None:
            self.on_request(request)
        if "find" in request:
            found = [one["number"] for one in self.said if one.get("key") == request["find"]]
            return {"re": re, "found": found[0] if found else None}
        self.requests.append(request)
        fate = self.fates.pop(0) if self.fates else None
        match fate:
            case "lost":
                raise CutOffError
            case "limited":
                return {"re": re, "error": "too fast", "wait": self.limit_seconds}
            case "busy":
                return {"re": re, "error": "try again", "wait": None}
            case "refused":
                return {"re": re, "error": "the bot may not speak here"}
        number = self._change(request) if "change" in request else self._carry_out(request)
        if fate == "done and lost":
            raise CutOffError
        return {"re": re, "number": number}

    def _note(self, request: dict[str, Any]) -> None:
        if "tell" in request:
            self.notices.append((request["to"], request["tell"]))
        else:
            self.typing.append(request["typing"])
        self._changed.set()

    def _change(self, request: dict[str, Any]) -> int:
        number = int(request["change"])
        said = self.said[number - 1]
        assert said["by"] == BOT, "a bot changes what it said itself"
        self.edits.setdefault(number, [said["said"]]).append(request["say"])
        said |= {"said": request["say"], "buttons": request["buttons"]}
        self._changed.set()
        return number

    def _carry_out(self, request: dict[str, Any]) -> int:
        known = [one["number"] for one in self.said if request["once"] and one.get("key") == request["key"]]
        if known:
            return int(known[0])
        number = self._add(
            {
                "chat": request["chat"],
                "by": BOT,
                "bot": True,
                "said": request["say"],
                "files": [{**one, "type": "text/plain"} for one in request["files"]],
                "answers": request["answers"],
                "key": request["key"],
                "buttons": request.get("buttons", []),
            }
        )
        self._changed.set()
        self._tell(self.said[-1])  # platforms tell bots what they said themselves
        return number


@asynccontextmanager
async def platform() -> AsyncIterator[ChatPlatform]:
    """A platform that is up."""
    found = ChatPlatform()
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
