"""The door's HTTP server over real sockets: framing, limits, clients that leave, are slow or hostile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from hostler_sdk import RunContext, Runner
from hostler_sdk.model_door import http_server, limits
from hostler_sdk.model_door.http_server import ADDRESS
from hostler_sdk.testing import Driven, ScriptedHost
from support.doors import ASK

pytestmark = pytest.mark.gate("model-door")
BODY = json.dumps(ASK).encode()
Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def at_port(use: Callable[[RunContext, Dial], Awaitable[Any]], **options: Any) -> Driven:
    """Drive a run that opens connections to its door by hand."""

    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            port = urlsplit(ctx.models.openai_url).port
            writers = []

            async def dial() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection(ADDRESS, port)
                writers.append(writer)
                return reader, writer

            try:
                await use(ctx, dial)
            finally:
                for writer in writers:
                    writer.close()
            return "used"

    driven = ScriptedHost().drive_sync(User, "x", **{"models": "yes", **options})
    assert driven.text == "used", driven.error
    return driven


def head(
    ctx: RunContext, *lines: str, path: str = "/v1/chat/completions", version: str = "HTTP/1.1"
) -> bytes:
    key = f"authorization: Bearer {ctx.models.openai_key}"
    return "\r\n".join([f"POST {path} {version}", "host: door", key, *lines, "", ""]).encode()


async def status(reader: asyncio.StreamReader) -> int:
    """The status of an answer, which is read to its end."""
    found = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in found.decode().split("\r\n")[1:-2])
    if "content-length" in fields:
        await reader.readexactly(int(fields["content-length"]))
    elif "transfer-encoding" in fields:
        while await reader.readuntil(b"\r\n\r\n") and not reader._buffer.startswith(b"0\r\n"):  # type: ignore[attr-defined]
            pass
        await reader.readuntil(b"\r\n\r\n")
    return int(found.split(b" ")[1])


def test_requests_come_one_after_another_and_in_pieces() -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        whole = head(ctx, f"content-length: {len(BODY)}") + BODY
        for _ in range(3):
            writer.write(whole)
            assert await status(reader) == 200
        for at in range(len(whole)):  # cut at every place
            writer.write(whole[at : at + 1])
            await asyncio.sleep(0)
        assert await status(reader) == 200
        writer.write(whole + whole)  # the second one early
        assert [await status(reader), await status(reader)] == [200, 200]

    assert len(at_port(use).calls) == 6


def test_bodies_in_chunks_and_a_client_that_asks_first() -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        chunks = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:]))
        writer.write(head(ctx, "Transfer-Encoding: chunked") + chunks + b"0\r\ntrailer: x\r\n\r\n")
        assert await status(reader) == 200
        writer.write(head(ctx, f"content-length: {len(BODY)}", "Expect: 100-continue"))
        assert await status(reader) == 100
        writer.write(BODY)
        assert await status(reader) == 200

    assert len(at_port(use).calls) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_the_older_version_gets_its_answer_to_the_end_of_the_connection(stream: bool) -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        body = json.dumps(ASK | {"stream": stream}).encode()
        writer.write(head(ctx, f"content-length: {len(body)}", version="HTTP/1.0") + body)
        answer = await reader.read()
        assert b"transfer-encoding" not in answer
        assert answer.endswith(b"data: [DONE]\n\n" if stream else b"}")

    at_port(use)


MANY = "x: " + "y" * limits.MAX_HEAD_BYTES


@pytest.mark.parametrize(
    ("lines", "body", "expected"),
    [
        (["content-length: x"], b"", 400),
        (["content-length: -1"], b"", 400),
        (["content-length: 1", "content-length: 2"], b"", 400),
        (["content-length: 2", "transfer-encoding: chunked"], b"{}", 400),
        (["transfer-encoding: gzip"], b"{}", 400),
        (["transfer-encoding: chunked"], b"zz\r\n", 400),
        (["transfer-encoding: chunked"], b"1\r\nxyz\r\n", 400),
        (["transfer-encoding: chunked"], b"x" * 600 + b"\r\n", 400),
        (["transfer-encoding: chunked"], b"0\r\n" + b"a: b\r\n" * 2000, 431),
        (["transfer-encoding: chunked"], b"ffffffff\r\n", 413),
        ([f"content-length: {limits.MAX_BODY_BYTES + 1}"], b"", 413),
        (["no colon"], b"", 400),
        (["na me: x"], b"", 400),
        (["authorization: Bearer other", "content-length: 0"], b"", 400),
        ([MANY], b"", 431),
        (["content-length: 0"], b"", 400),
        (["content-length: 2"], b"[]", 400),
    ],
)
def test_what_is_no_request_is_refused(lines: list[str], body: bytes, expected: int) -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        writer.write(head(ctx, *lines) + body)
        assert await status(reader) == expected

    assert at_port(use).calls == []


@pytest.mark.parametrize(
    "line", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_refused(line: bytes) -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        writer.write(line)
        assert await status(reader) == 400
        assert await reader.read() == b""

    at_port(use)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/completions", 404),
        ("GET", "/", 404),
        ("GET", "/v1/models/../../etc/passwd", 404),
        ("GET", "/v1/responses/a/b", 404),
        ("DELETE", "/v1/responses/x", 405),
        ("GET", "/v1/models?limit=1", 200),
        ("GET", "/models/", 200),
    ],
)
def test_only_what_is_there_is_there(method: str, path: str, expected: int) -> None:
    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        writer.write(head(ctx, path=path).replace(b"POST", method.encode(), 1))
        assert await status(reader) == expected

    assert at_port(use).calls == []


def test_connections_and_requests_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr("hostler_sdk.model_door.run_door.MAX_REQUESTS", 2)
    going, host = asyncio.Event(), ScriptedHost()
    answer = host.world.answer

    async def held(*given: Any) -> Any:
        await going.wait()
        return await answer(*given)

    monkeypatch.setattr(host.world, "answer", held)

    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            port = urlsplit(ctx.models.openai_url).port
            both = [await asyncio.open_connection(ADDRESS, port) for _ in range(3)]
            whole = head(ctx, f"content-length: {len(BODY)}") + BODY
            for _, writer in both:
                writer.write(whole)
            over = await asyncio.open_connection(ADDRESS, port)
            found = [await status(over[0]), await status(both[2][0])]
            going.set()
            found += [await status(reader) for reader, _ in both[:2]]
            both[2][1].write(whole)  # the connection of a refused request goes on
            found.append(await status(both[2][0]))
            for _, writer in [*both, over]:
                writer.close()
            return str(found)

    driven = host.drive_sync(User, "x", models="yes")
    assert driven.text == "[429, 429, 200, 200, 200]"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_gives_its_call_up(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScriptedHost()
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(*_: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    monkeypatch.setattr(host.world, "answer", never)

    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            _, writer = await asyncio.open_connection(ADDRESS, urlsplit(ctx.models.openai_url).port)
            body = json.dumps(ASK | {"stream": stream}).encode()
            writer.write(head(ctx, f"content-length: {len(body)}") + body)
            await asked.wait()
            writer.close()
            await given_up.wait()
            return "left"

    driven = host.drive_sync(User, "x", models="yes")
    assert driven.text == "left"
    assert [call.given_up for call in driven.calls] == [True]


def test_a_client_that_leaves_an_answer_unread_in_memory_gives_its_call_up() -> None:
    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            async with ctx.models.openai_http_client() as client:
                async with client.stream("POST", "/chat/completions", json=ASK | {"stream": True}) as answer:
                    assert answer.status_code == 200
                async with client.stream("POST", "/chat/completions", json=ASK | {"stream": True}) as answer:
                    await anext(answer.aiter_raw())
            return "left"

    driven = ScriptedHost().drive_sync(User, "x", models="a b c")
    assert driven.text == "left"
    assert len(driven.calls) == 2


def test_slow_clients_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.05)

    async def use(ctx: RunContext, dial: Dial) -> None:
        for beginning in (b"", b"POST /v1", head(ctx, "content-length: 10") + b"{"):
            reader, writer = await dial()
            writer.write(beginning)
            assert await reader.read() == b""

    assert at_port(use).calls == []


def test_a_client_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "WRITE_SECONDS", 0.2)
    drain, let_go = http_server._drain, asyncio.Event()

    async def noted(writer: asyncio.StreamWriter) -> None:
        try:
            await drain(writer)
        except TimeoutError:
            let_go.set()
            raise

    monkeypatch.setattr(http_server, "_drain", noted)
    words = " ".join(["word" * 50] * 20_000)

    async def use(ctx: RunContext, dial: Dial) -> None:
        reader, writer = await dial()
        body = json.dumps(ASK | {"stream": True}).encode()
        writer.write(head(ctx, f"content-length: {len(body)}") + body)
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await let_go.wait()
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert not (await reader.read()).endswith(b"0\r\n\r\n")

    at_port(use, models=words)
