"""Connections of plugins: by the real proxy of a sandbox, and without one; what is refused says why."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from hostler.sandbox.proxy import Proxy
from hostler_sdk.network import NotAllowedError, UnreachableError, connect, open_connection
from support.certificates import tls_for

SECONDS = 60.0


@asynccontextmanager
async def greeter(context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that speaks first, and says each line again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\n")
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listening:
        yield listening.sockets[0].getsockname()[1]


@contextmanager
def sandboxed(monkeypatch: pytest.MonkeyPatch, *allowed: str) -> Iterator[None]:
    """The environment of a plugin that reaches these endpoints by its proxy."""
    proxy = Proxy("test", allowed, lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.serve(listener)
        monkeypatch.setenv("HOSTLER_SANDBOX_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.2")
        monkeypatch.setenv("HOSTLER_PLUGIN_AUTHOR", "hostler")
        monkeypatch.setenv("HOSTLER_PLUGIN_NAME", "email")
        try:
            yield
        finally:
            proxy.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def greeted(port: int, context: ssl.SSLContext | None = None) -> list[bytes]:
    reader, writer = await open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"you\n")
    got = [await reader.readline(), await reader.readline()]
    writer.close()
    return got


async def test_a_server_is_reached_with_and_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(SECONDS), greeter() as port:
        assert await greeted(port) == [b"220 hello\n", b"you\n"]
        with sandboxed(monkeypatch, f"127.0.0.1:{port}"):
            assert await greeted(port) == [b"220 hello\n", b"you\n"]
            assert await asyncio.to_thread(first_line, port) == b"220 hello\n"


def first_line(port: int) -> bytes:
    with connect("127.0.0.1", port) as line, line.makefile("rb") as lines:
        return lines.readline()


async def test_tls_is_spoken_with_the_server_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server, client = tls_for("127.0.0.1", tmp_path)
    async with asyncio.timeout(SECONDS), greeter(server) as port:
        assert await greeted(port, client) == [b"220 hello\n", b"you\n"]
        with sandboxed(monkeypatch, f"127.0.0.1:{port}"):
            assert await greeted(port, client) == [b"220 hello\n", b"you\n"]
            with pytest.raises(ssl.SSLCertVerificationError):
                await open_connection("127.0.0.1", port, ssl=True)


async def both(port: int, host: str = "127.0.0.1") -> list[tuple[type[BaseException], str]]:
    """Return how `open_connection` and `connect` fail."""
    failed = await asyncio.gather(
        open_connection(host, port), asyncio.to_thread(connect, host, port), return_exceptions=True
    )
    return [(type(error), str(error)) for error in failed if isinstance(error, BaseException)]


async def test_what_network_does_not_allow_says_what_to_write_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with sandboxed(monkeypatch, "shout.example:7"):
        failed = await both(993, "mail.example") + await both(993, "::1")
    assert {kind for kind, _ in failed} == {NotAllowedError}
    (named, _, numbered, _) = [text for _, text in failed]
    assert "mail.example:993 is not among what it may reach (shout.example:7)" in named
    assert 'plugins: [{path: hostler/email, network: ["mail.example:993"]}]' in named
    assert 'network: ["[::1]:993"]' in numbered
    assert len(failed) == 4


async def test_where_nothing_answers_is_no_question_of_network(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    direct = await both(port)
    with sandboxed(monkeypatch, f"127.0.0.1:{port}"):
        proxied = await both(port)
    for kind, text in (*direct, *proxied):
        assert kind is UnreachableError
        assert f"127.0.0.1:{port} cannot be reached" in text
        assert "network:" not in text
    assert len(direct) == len(proxied) == 2


async def test_a_sandbox_without_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOSTLER_SANDBOX_PROXY", raising=False)
    monkeypatch.setenv("HOSTLER_PLUGIN_WORKSPACE", "/workspace")
    port = free_port()
    for kind, text in await both(port):
        assert kind is UnreachableError
        assert (
            "in a sandbox, allow it by an entry in the configuration: `plugins: [{path: ..., network: ["
            in text
        )
        assert text.endswith(f'["127.0.0.1:{port}"]}}]`')


async def test_a_proxy_that_ends_or_a_server_that_is_silent_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with asyncio.timeout(SECONDS), await asyncio.start_server(end, "127.0.0.1", 0) as proxy:
        address = proxy.sockets[0].getsockname()
        monkeypatch.setenv("HOSTLER_SANDBOX_PROXY", f"http://{address[0]}:{address[1]}")
        told = {"mail.example:25 cannot be reached: the proxy of the sandbox gave no answer"}
        assert {text for _, text in await both(25, "mail.example")} == told
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()
        monkeypatch.setenv("HOSTLER_SANDBOX_PROXY", f"http://{address[0]}:{address[1]}")
        with pytest.raises(UnreachableError, match="did not answer within"):
            await open_connection("mail.example", 25, seconds=0.05)
        with pytest.raises(UnreachableError, match="did not answer within"):
            await asyncio.to_thread(connect, "mail.example", 25, seconds=0.05)


async def test_what_is_in_the_sandbox_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(SECONDS), greeter() as port:
        with sandboxed(monkeypatch):
            monkeypatch.setenv("NO_PROXY", "127.0.0.2, 127.0.0.1")
            assert await greeted(port) == [b"220 hello\n", b"you\n"]
