"""A plugin process that dials in: a real process, a real WebSocket server playing the host."""

from __future__ import annotations

import asyncio
import contextlib
import http
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from hostler_protocol import AgentRunnerManifest
from hostler_protocol.limits import MAX_MESSAGE_BYTES
from hostler_protocol.methods import NoParams
from hostler_sdk.conformance.process import start_params
from hostler_sdk.scripted import HostSession, World
from support.child_plugins import EXAMPLES, SERVE, environment, within

SECONDS = 110.0
TOKEN = "a token of the test"


class Dialled:
    """One connection of the plugin, with the host's session on it."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.session = HostSession(self._write, World(models="fixed"))
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    def _write(self, data: bytes) -> None:
        self._out.put_nowait(data)

    async def serve(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            async for message in self.socket:
                data = message.encode() if isinstance(message, str) else message
                assert isinstance(message, str), "messages go as text frames"
                assert b"\n" not in data, "one message per frame"
                self.session.received(data + b"\n")
        except ConnectionClosed:
            pass
        finally:
            sending.cancel()
            self.session.lost("closed")

    async def _send(self) -> None:
        while True:
            for line in (await self._out.get()).splitlines():
                with contextlib.suppress(ConnectionClosed):
                    await self.socket.send(line.decode())

    async def run(self, text: str) -> list[Any]:
        listed = await self.session.request("runners/list", NoParams())
        manifest = _manifest(listed)
        params = start_params(manifest, 2, metadata={"text": text})
        run = await self.session.start(params)
        await self.session.until(lambda: run.over)
        assert run.broken is None
        return run.results


def _manifest(listed: Any) -> AgentRunnerManifest:
    return msgspec.json.decode(listed.runners[0], type=AgentRunnerManifest)


class FakeHost:
    """A WebSocket server whose connections come out of a queue."""

    def __init__(self, refuse: Callable[[], int | None]) -> None:
        self.dialled: asyncio.Queue[Dialled] = asyncio.Queue()
        self.authorizations: list[str | None] = []
        self.url = ""
        self._refuse = refuse

    def check(self, socket: ServerConnection, request: Request) -> Response | None:
        self.authorizations.append(request.headers.get("Authorization"))
        status = self._refuse()
        return None if status is None else socket.respond(http.HTTPStatus(status), "refused\n")

    async def accept(self, socket: ServerConnection) -> None:
        dialled = Dialled(socket)
        self.dialled.put_nowait(dialled)
        await dialled.serve()


@asynccontextmanager
async def fake_host(refuse: Callable[[], int | None] = lambda: None) -> AsyncIterator[FakeHost]:
    host = FakeHost(refuse)
    async with serve(
        host.accept, "127.0.0.1", 0, process_request=host.check, max_size=MAX_MESSAGE_BYTES + 1024
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        host.url = f"ws://127.0.0.1:{port}/v1/plugins/connect"
        yield host


@asynccontextmanager
async def dialling(
    url: str, folder: Path = EXAMPLES / "echo", *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *SERVE,
        "--connect",
        url,
        *options,
        cwd=folder,
        env=environment(HOSTLER_PLUGIN_TOKEN=TOKEN),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process) -> tuple[int, str]:
    _, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stderr.decode()


def test_a_remote_plugin_serves_runs_and_leaves_at_shutdown() -> None:
    async def body() -> None:
        async with fake_host() as host, dialling(host.url) as process:
            dialled = await host.dialled.get()
            reply = await dialled.session.initialize()
            assert reply.plugin.key == "acme/echo"
            results = await dialled.run("hi")
            assert [result.sequence for result in results] == list(range(1, len(results) + 1))
            await dialled.session.request("shutdown", NoParams())
            status, stderr = await said(process)
            assert (status, stderr) == (0, "")
            assert host.authorizations == [f"Bearer {TOKEN}"]

    within(SECONDS, body)


def test_a_lost_connection_is_dialled_again_and_its_runs_are_over() -> None:
    async def body() -> None:
        async with fake_host() as host, dialling(host.url) as process:
            for _ in range(3):
                dialled = await host.dialled.get()
                await dialled.session.initialize()
                manifest = _manifest(await dialled.session.request("runners/list", NoParams()))
                waiting = await dialled.session.start(start_params(manifest, 0), grants_credit=False)
                assert not waiting.over
                dialled.socket.transport.abort()  # as a network does, without a closing handshake
            last = await host.dialled.get()
            await last.session.initialize()
            assert len(await last.run("still here")) > 0
            assert process.returncode is None

    within(SECONDS, body)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_with_a_closing_handshake(number: int, status: int) -> None:
    async def body() -> None:
        async with fake_host() as host, dialling(host.url) as process:
            dialled = await host.dialled.get()
            await dialled.session.initialize()
            process.send_signal(number)
            assert await said(process) == (status, "")
            await dialled.socket.wait_closed()
            assert dialled.socket.close_code == 1000

    within(SECONDS, body)


def test_a_host_that_is_away_for_a_while_is_waited_for() -> None:
    answers = iter([503, 409, 500])

    async def body() -> None:
        async with fake_host(lambda: next(answers, None)) as host, dialling(host.url):
            dialled = await host.dialled.get()
            assert (await dialled.session.initialize()).plugin.key == "acme/echo"
            assert len(host.authorizations) == 4

    within(SECONDS, body)


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "answered 401: check the plugin's token and identity"), (404, "answered 404: check the address")],
)
def test_a_refusal_that_will_not_change_ends_the_process(status: int, says: str) -> None:
    async def body() -> None:
        async with fake_host(lambda: status) as host, dialling(host.url) as process:
            code, stderr = await said(process)
            assert code == 3
            assert stderr.startswith("hostler-plugin-error: ")
            assert says in stderr

    within(SECONDS, body)


def test_patience_has_a_bound_and_addresses_are_checked(unused_port: int) -> None:
    async def body() -> None:
        nobody = f"ws://127.0.0.1:{unused_port}/"
        async with dialling(nobody, EXAMPLES / "echo", "--give-up-after", "0") as process:
            code, stderr = await said(process)
            assert code == 3
            assert f"hostler-plugin-error: no connection to {nobody} for 0 seconds" in stderr
        async with dialling("http://127.0.0.1/") as process:
            code, stderr = await said(process)
            assert code == 3
            assert "is not a WebSocket address; write ws://host:port/path" in stderr

    within(SECONDS, body)


@pytest.fixture
def unused_port() -> Iterator[int]:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        yield reserved.getsockname()[1]


def test_messages_of_megabytes_pass_both_ways(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "from hostler_sdk import Runner, message\n\n"
        "class Told(Runner):\n"
        "    async def run(self, ctx):\n"
        "        size = len(ctx.metadata['text'])\n"
        "        await ctx.storage.plugin.set('k', b'x' * 4_000_000)\n"
        "        yield message(f'{size} {len(await ctx.storage.plugin.get(\"k\"))}')\n"
    )

    async def body() -> None:
        async with fake_host() as host:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "hostler_sdk.serve",
                "--runner",
                "told.py:Told",
                "--connect",
                host.url,
                cwd=tmp_path,
                env=environment(HOSTLER_PLUGIN_TOKEN=TOKEN),
                stdin=asyncio.subprocess.DEVNULL,
            )
            try:
                dialled = await host.dialled.get()
                await dialled.session.initialize()
                (result,) = await dialled.run("y" * 8_000_000)
                assert b'"8000000 4000000"' in bytes(result.data)
            finally:
                process.kill()
                await process.wait()

    within(SECONDS, body)
