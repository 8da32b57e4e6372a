"""A simulated service that speaks HTTP, and whose answers go wrong in all ways in which a service's do.

Besides the ills of every service (outside.py) it has these, all after it has done what it was asked to:

    slow      the answer comes piece by piece, with waits between them
    half      the connection breaks in the middle of the answer
    short     it ends in the middle of the answer, as if that were all
    html      the answer is a page of a proxy, with status 200
    garbage   the answer is cut off, with a length that says it is whole
    another   the answer is that to an earlier request
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import h11

from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.network import ServerEnd, SimulatedNetwork
from simulation.outside import HUNG_SECONDS, LATE_SECONDS, Outside

CONNECTING = ("down", "silent")
"""Ills of a connection that is being made."""
ILLS = (
    *(
        "down",
        "silent",
        "status 429",
        "status 500",
        "status 503",
        "status 400",
        "hang",
        "lost",
        "torn",
        "late",
    ),
    *("slow", "half", "short", "html", "garbage"),
)
PIECE_SECONDS = (0.05, 4.0)
IDLE_SECONDS = (0.5, 20.0)
"""For so long a connection stays open after an answer."""
RETRY_AFTER = 7
"""Seconds that it asks for when it is asked too often."""
PAGE = b"<html><body>Please log in</body></html>"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `by`: the process that sent it; `sent_at`: when; `number`: how many there were, with it."""

    number: int
    by: SimulatedProcess
    sent_at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `pieces`: what is sent one by one, without a length before it."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: tuple[bytes, ...] = ()


class HttpService:
    """Answers requests at `https://NAME.example`. Its kinds implement `answer`."""

    def __init__(self, out: Outside, network: SimulatedNetwork, name: str) -> None:
        self.out = out
        self.name = name
        self._last: Answer | None = None
        network.listen(f"{name}.example", out.process, self._accept, lambda: out.ill_of(name, CONNECTING))

    def arrived(self, asked: Asked) -> None:
        """Take note of a request, whatever becomes of it."""

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked."""
        raise NotImplementedError

    def answered(self, asked: Asked, status: int | None) -> None:
        """Take note of the answer whose head was sent; None: there was none."""

    def _accept(self, connection: ServerEnd) -> None:
        self.out.process.spawn(_Line(self, connection).serve())

    async def respond(self, line: _Line, asked: Asked) -> None:
        """Answer a request, or do what goes wrong with it."""
        self.arrived(asked)
        kind, _, number = (self.out.ill_of(self.name, but=CONNECTING) or "").partition(" ")
        if kind == "status":
            status = await line.send(self.refusal(int(number), asked))
        elif kind == "hang":
            status = None
            await line.silence()
        else:
            answer = self.answer(asked)
            self.out.reached(self.name, "done")
            previous, self._last = self._last, answer
            if kind == "another" and previous is not None:
                answer = previous
            status = await self._send(line, kind, answer)
        self.answered(asked, status)

    def refusal(self, status: int, asked: Asked) -> Answer:
        """Return the answer of a service that refuses; like some, it repeats what it was told."""
        told = asked.headers.get("authorization", "")
        headers = {"retry-after": str(RETRY_AFTER)} if status in (429, 503) else {}
        return Answer(b'{"error": {"message": "no: %s"}}' % told.encode(), status, headers=headers)

    async def _send(self, line: _Line, kind: str, answer: Answer) -> int | None:
        chance = self.out.chance.stream(f"ills of {self.name}")
        match kind:
            case "lost":
                await line.silence()
                return None
            case "torn":
                line.reset()
                return None
            case "late":
                await asyncio.sleep(chance.uniform(*LATE_SECONDS))
            case "html":
                answer = Answer(PAGE, kind="text/html")
            case "garbage":
                answer = _cut(answer)
            case "slow":
                return await line.send(answer, pause=chance.uniform(*PIECE_SECONDS))
            case "half" | "short":
                return line.send_half(answer, breaks=kind == "half")
        return await line.send(answer)


class _Line:
    """One connection of a client."""

    def __init__(self, service: HttpService, connection: ServerEnd) -> None:
        self._service = service
        self._connection = connection
        self._http = h11.Connection(h11.SERVER)
        self._arrived = asyncio.Event()
        self._left = False
        connection.received, connection.left = self._receive, self._leave

    def _receive(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._arrived.set()

    def _leave(self) -> None:
        self._left = True
        self._arrived.set()

    async def serve(self) -> None:
        """Answer one request after the other, until one side closes."""
        out = self._service.out
        idle = out.chance.stream(f"patience of {self._service.name}")
        while (asked := await self._request(idle.uniform(*IDLE_SECONDS))) is not None:
            await self._service.respond(self, asked)
            if self._left:
                out.note("unheard", service=self._service.name)
                break
            if self._http.our_state is not h11.DONE:
                break
            self._http.start_next_cycle()
        self._connection.close()

    async def _request(self, seconds: float) -> Asked | None:
        """Return the next request; None if the client leaves, or sends none for so long."""
        head, body = None, b""
        try:
            async with asyncio.timeout(seconds):
                while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                    if isinstance(event, h11.Request):
                        head = event
                    elif isinstance(event, h11.Data):
                        body += bytes(event.data)
                    elif self._left:
                        return None
                    else:
                        self._arrived.clear()
                        await self._arrived.wait()
        except TimeoutError:
            return None
        assert head is not None
        headers = {name.decode(): value.decode() for name, value in head.headers}
        out = self._service.out
        out.asked[self._service.name] += 1
        number, client = out.asked[self._service.name], self._connection.client
        return Asked(
            number, client.process, client.sent_at, head.method.decode(), head.target.decode(), headers, body
        )

    async def send(self, answer: Answer, *, pause: float = 0.0) -> int:
        """Send an answer; return its status."""
        pieces = self._begin(answer)
        if pause and len(pieces) == 1:
            pieces = _halves(pieces[0])
        for piece in pieces:
            if pause:
                await asyncio.sleep(pause)
            self._write(h11.Data(data=piece))
        self._write(h11.EndOfMessage())
        return answer.status

    def send_half(self, answer: Answer, *, breaks: bool) -> int:
        """Send the first half of an answer; then the connection breaks, or ends as if that were all."""
        pieces = self._begin(answer)
        for piece in pieces[: len(pieces) // 2] if len(pieces) > 1 else _halves(pieces[0])[:1]:
            self._write(h11.Data(data=piece))
        if breaks:
            self.reset()
        else:
            self._connection.close()
        return answer.status

    async def silence(self) -> None:
        """Send nothing until the client leaves, or the connection breaks."""
        try:
            async with asyncio.timeout(HUNG_SECONDS):
                while not self._left:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            self.reset()

    def reset(self) -> None:
        """Break the connection."""
        self._connection.reset()

    def _begin(self, answer: Answer) -> tuple[bytes, ...]:
        """Send the head of an answer, and return its body."""
        headers = [("content-type", answer.kind), *answer.headers.items()]
        if not answer.pieces:
            headers.append(("content-length", str(len(answer.body))))
        self._write(h11.Response(status_code=answer.status, headers=headers))
        return answer.pieces or (answer.body,)

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._connection.write(data)


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def _cut(answer: Answer) -> Answer:
    if answer.pieces:
        return replace(answer, pieces=(*answer.pieces[:-2], answer.pieces[-1][:5], b"\n\n"))
    return replace(answer, body=_halves(answer.body)[0])
