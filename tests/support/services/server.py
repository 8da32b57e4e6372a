"""A service on a socket: reads requests by hand, and writes answers piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import json
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from support.gates import Bell

REASONS = {200: "OK", 201: "Created", 302: "Found"}


class Hold:
    """In an answer: nothing more comes until the client goes away."""


@dataclass
class Sent:
    """One file of a form."""

    name: str
    file_name: str
    content_type: str
    data: bytes


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type", "").startswith("application/json")

    @property
    def form(self) -> tuple[dict[str, str], list[Sent]]:
        """Fields and files of a multipart form."""
        head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
        whole: Message = BytesParser(policy=HTTP).parsebytes(head + self.body)
        fields, files = {}, []
        assert whole.is_multipart(), self.headers["content-type"]
        for part in whole.get_payload():
            assert isinstance(part, Message)
            name = str(part.get_param("name", header="content-disposition"))
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            if (file_name := part.get_filename()) is None:
                fields[name] = data.decode()
            else:
                files.append(Sent(name, file_name, part.get_content_type(), data))
        return fields, files


@dataclass
class Answer:
    """An answer. A list of pieces is chunked; `cut` closes the connection without its end."""

    body: bytes | Sequence[bytes | Hold] = b""
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


def reply(data: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(data, ensure_ascii=False).encode(), status)


class ServiceServer:
    """Base of fakes. `respond` answers as the service would; well formed messages get scripted answers."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.disconnects = 0
        self.port = 0
        self.script: deque[Answer] = deque()
        self._bell = Bell()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @abstractmethod
    def respond(self, asked: Asked) -> Answer:
        """Answer a request, or the mistake in it."""

    @abstractmethod
    def stream(self, pieces: Iterable[str]) -> list[bytes]:
        """The bytes of a good answer, a list item for each write."""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next(self, answer: Answer) -> None:
        """The next message that is well formed gets this answer."""
        self.script.append(answer)

    async def until(self, condition: Any, otherwise: str) -> None:
        await self._bell.until(condition, otherwise)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError):
            self.disconnects += 1
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            self._bell.ring()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False  # the client is done with this connection
        line, *lines = head.decode().strip().split("\r\n")
        method, target, _ = line.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        parts = urlsplit(target)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(method, unquote(parts.path), dict(parse_qsl(parts.query)), headers, body)
        self.asked.append(asked)
        answer = self.respond(asked)
        self._bell.ring()
        await self._write(reader, writer, answer)
        return not answer.cut

    async def _write(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
    ) -> None:
        is_whole = isinstance(answer.body, bytes)
        length = f"Content-Length: {len(answer.body)}" if is_whole else "Transfer-Encoding: chunked"
        head = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}", length]
        head += [f"Content-Type: {answer.content_type}"] if answer.content_type else []
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write("\r\n".join([*head, "", ""]).encode())
        if isinstance(answer.body, bytes):
            writer.write(answer.body)
            await writer.drain()
            return
        for piece in answer.body:
            if isinstance(piece, Hold):
                await writer.drain()
                self._bell.ring()
                assert not await reader.read(1), "a client that waits sends nothing"
                raise EOFError
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if not answer.cut:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def sse(data: Any, event: str | None = None, *, more: str = "", end: str = "\n") -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    name = f"event:{event}{end}" if event else ""
    return f"{name}{more}data: {text}{end}{end}".encode()


@contextlib.asynccontextmanager
async def bystander() -> Any:
    """Another server, to which nothing should be sent: gives its address, and the list of who came."""
    came: list[str] = []

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append("someone")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/elsewhere", came
    finally:
        server.close()
