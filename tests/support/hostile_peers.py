"""What attacks of a hostile peer are held against: memory, disk, and a run that works beside them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import logging
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.listening import Asked
from support.stepping import Ended, Stage

MIB = 1024 * 1024
MEMORY_BYTES = 256 * MIB
"""More than any attack may make the host's memory grow, peers included, which live in the same process."""
DISK_BYTES = 48 * MIB
SECONDS = 90.0
HONEST_SECONDS = 30.0
"""A run beside an attack takes no longer, on a machine that does other things as well."""
LOOK_SECONDS = 0.02


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds; the caller bounds it."""
    while not holds():
        await asyncio.sleep(LOOK_SECONDS)


@dataclass
class Attacked:
    """A host under attack."""

    made: Stage
    data: Path
    log: list[str]

    async def honest(self) -> None:
        """A run without the peer does its work."""
        async with asyncio.timeout(HONEST_SECONDS):
            ended = await self.made.run([["say", "honest work"]], conversation_id="honest")
        assert ended.said == ["honest work"], ended.last

    async def call(self, tool: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool in a run, while another run works; return what the runner was told, result or error."""
        steps: list[list[Any]] = [
            ["call", "tool.call", {"tool_name": tool, "parameters": parameters or {}}],
            ["tell"],
        ]
        ended, _ = await asyncio.gather(self.made.run(steps), self.honest())
        return dict(self._told(ended)[0])

    @staticmethod
    def _told(ended: Ended) -> Any:
        assert ended.record.status == "completed", ended.last
        return ended.told

    def said(self, *parts: str) -> bool:
        """Whether one line of the log has all these parts."""
        return any(all(part in line for part in parts) for line in self.log)


@contextlib.asynccontextmanager
async def attacked(made: Stage, data: Path) -> AsyncIterator[Attacked]:
    """Hold what happens in the block against the bounds."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger("hostler")
    root.addHandler(handler)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        host = Attacked(made, data, lines)
        await host.honest()
        yield host
        await host.honest()
    finally:
        root.removeHandler(handler)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grown < MEMORY_BYTES, f"memory grew by {grown / MIB:,.0f} MiB"
    taken = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    assert taken < DISK_BYTES, f"the data directory has {taken / MIB:,.0f} MiB"
    assert not any("Traceback" in line for line in lines), lines


# -- answers over HTTP ---------------------------------------------------------------------------------------

Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def head(status: str = "200 OK", **headers: str) -> bytes:
    """The head of an answer whose end is that of the connection."""
    lines = [f"HTTP/1.1 {status}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def flood(first: bytes, piece: bytes, count: int = 100_000, **headers: str) -> Answer:
    """An answer of up to `count` equal pieces, for as long as the host reads."""

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(**{"content_type": "application/json", **headers}) + first)
        for _piece in range(count):
            writer.write(piece)
            await writer.drain()

    return answer


def drip(text: bytes, seconds: float = 0.2, **headers: str) -> Answer:
    """An answer that comes byte by byte."""

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(**{"content_type": "application/json", **headers}))
        for number in range(100_000):
            writer.write(text[number % len(text) : number % len(text) + 1])
            await writer.drain()
            await asyncio.sleep(seconds)

    return answer


def whole(body: bytes, status: str = "200 OK", **headers: str) -> Answer:
    """One answer as it is."""

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, **{"content_type": "application/json", **headers}) + body)

    return answer


def raw(data: bytes) -> Answer:
    """Bytes that need not be an answer."""

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


def silence() -> Answer:
    """No answer, on a connection that stays."""

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(SECONDS)

    return answer


def bomb(size: int) -> bytes:
    """Some kilobytes of gzip that are `size` bytes of JSON text."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as packed:
        packed.write(b'"')
        for _ in range(size // MIB):
            packed.write(b"a" * MIB)
        packed.write(b'"')
    return out.getvalue()


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    """Valid JSON that is nested so deep."""
    return (opening * depth + "1" + closing * depth).encode()


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def lines_of(values: Iterable[Any]) -> bytes:
    return b"".join(encode(value) + b"\n" for value in values)
