"""The server of Shout, an invented chat: one JSON object per line over TCP.

A bot logs in with `{"token", "after"}` and gets `{"you"}`, then each thing said since `after`, as
`{"number", "room", "by", "bot", "said"}`. It says things with `{"re", "room", "say"}`: the same `re` twice is
said once, and answered with the same number. `{"re", "room", "say", "change": number}` changes what it said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.json_lines_server import JsonLinesServer

TOKEN = "shout-token"


@dataclass
class ShoutServer(JsonLinesServer):
    """A running server of Shout."""

    token = TOKEN
    bot = "bot"

    answers: list[dict[str, Any]] = field(default_factory=list)
    """Answers for the next requests of the bot in place of the usual one, in order."""
    silent: bool = False
    """Carries out what it is asked, and answers nothing."""
    _numbers: dict[str, int] = field(default_factory=dict)

    def say(self, text: str, *, by: str = "ada", room: str = "lobby", bot: bool = False) -> int:
        """Somebody says something; return its number."""
        number = self._add({"room": room, "by": by, "bot": bot, "said": text})
        self._tell(self.said[-1])
        return number

    def by_bot(self) -> list[str]:
        """Return what the bot said, in order."""
        return [one["said"] for one in self.said if one["bot"]]

    async def until(self, count: int) -> list[str]:
        """Wait until the bot has said so many things, and return them."""
        await self.holds(lambda: len(self.by_bot()) >= count)
        return self.by_bot()

    def _reply(self, request: dict[str, Any]) -> dict[str, Any] | None:
        re = request["re"]
        if self.answers:
            answer = self.answers.pop(0)
        else:
            answer = {"number": self._carry_out(re, request)}
            self._changed.set()
        return None if self.silent else {"re": re, **answer}

    def _carry_out(self, re: str, request: dict[str, Any]) -> int:
        if "change" in request:
            number = int(request["change"])
            self.said[number - 1]["said"] = request["say"]
        elif re in self._numbers:
            number = self._numbers[re]
        else:
            said = {"room": request["room"], "by": self.bot, "bot": True, "said": request["say"]}
            number = self._numbers[re] = self._add(said)
        return number
