"""A receiver of webhooks on a real socket, scripted by the test.

    async with Receiver() as receiver:
        receiver.answers = ["500", "hang", "302", "die", "slow", "200"]   # one a request; then 200
        got = await receiver.request()                                     # the next one that came in

`hang` never answers, `held` is 500 once `released` is set, `die` closes in the middle of the answer, `slow`
sends headers byte by byte for ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from support.databases import TEST_SECONDS
from support.listening import Asked, Listening


@dataclass
class Receiver(Listening):
    """The server. `headers` are added to every answer."""

    answers: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets the answers `held` go, as 500."""
    _news: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook?token=in-the-address"

    async def request(self) -> Asked:
        """The next request that came in."""
        async with asyncio.timeout(TEST_SECONDS):
            return await self._news.get()

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        answer = self.answers.pop(0) if self.answers else "200"
        self.requests.append(asked)
        self._news.put_nowait(asked)
        if answer == "held":
            await self.released.wait()
            answer = "500"
        match answer:
            case "hang":
                await asyncio.Event().wait()
            case "die":
                writer.write(b"HTTP/1.1 200 O")
                await writer.drain()
                return False
            case "slow":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)
        extra = "".join(f"{line}\r\n" for line in self.headers)
        writer.write(f"HTTP/1.1 {answer} X\r\ncontent-length: 12\r\n{extra}\r\n".encode() + b"their secret")
        return True
