"""A chat server of the tests that speaks one JSON object per line over TCP, whatever the lines say.

A bot logs in with `{"token", "after"}` and gets `{"you"}`, then everything said after that number, and from
then on each thing that is said. What it asks the server is the matter of the derived classes.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar


class CutOffError(Exception):
    """The connection is cut in place of an answer."""


@dataclass
class JsonLinesServer:
    """A running server, and what was said on it."""

    token: ClassVar[str]
    bot: ClassVar[str]
    """The bot's own id."""

    said: list[dict[str, Any]] = field(default_factory=list)
    """Everything said, by people and by the bot, in order; changes in place."""
    logins: int = 0
    port: int = 0
    _bots: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Cut the connections of all bots."""
        for bot in list(self._bots):
            bot.transport.abort()

    @property
    def bots(self) -> int:
        """How many are logged in."""
        return len(self._bots)

    def tell_again(self, number: int) -> None:
        """Tell what was said before once more, as platforms do."""
        self._tell(self.said[number - 1])

    async def holds(self, condition: Any) -> None:
        """Wait until something holds, looking after each request of the bot."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _add(self, message: dict[str, Any]) -> int:
        """Add something that is said; return its number."""
        number = len(self.said) + 1
        self.said.append({"number": number, **message})
        return number

    def _tell(self, message: dict[str, Any]) -> None:
        for bot in self._bots:
            bot.write(_line(message))

    def _reply(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Carry out what a bot asks; return the answer, if it gets one. Raises CutOffError."""
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = json.loads(await reader.readline() or b"{}")
        if hello.get("token") != self.token:
            writer.write(_line({"error": "wrong token"}))
            writer.close()
            return
        self.logins += 1
        writer.write(_line({"you": self.bot}))
        for message in self.said[hello["after"] :]:
            writer.write(_line(message))
        self._bots.add(writer)
        try:
            while line := await reader.readline():
                answer = self._reply(json.loads(line))
                if answer is not None:
                    writer.write(_line(answer))
        except CutOffError:
            writer.transport.abort()
        except ConnectionError:
            pass  # it was cut
        finally:
            self._bots.discard(writer)
            writer.close()


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
