"""Remote plugin processes: the same conversation, one message per frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hostler.domain.breaker import FAILURES_TO_OPEN, OPEN_SECONDS
from hostler.plugins.limits import StartLimits
from hostler.plugins.supervisor import Supervisor
from hostler_protocol.errors import ConflictError, PluginCrashedError, PluginStartError
from support.plugin_runs import begin, run

pytestmark = pytest.mark.gate("plugins-in-trouble")


class WebsocketChannel:
    """A `Channel` over an accepted connection of the `websockets` server."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def receive(self) -> str | bytes | None:
        try:
            return await self.socket.recv()
        except ConnectionClosed:
            return None

    async def send(self, data: str) -> None:
        try:
            await self.socket.send(data)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    async def close(self, code: int, reason: str) -> None:
        await self.socket.close(code, reason)


class Clock:
    """A clock that only moves when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def listening(
    tmp_path: Path, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[tuple[Supervisor, str, asyncio.Queue[Any]]]:
    """A host that takes everybody for `acme/far`; how each conversation ended goes into the queue."""
    host = Supervisor(tmp_path, start_limits=StartLimits(rejoin_seconds=0.1), clock=clock)
    ends: asyncio.Queue[Any] = asyncio.Queue()

    async def accept(socket: ServerConnection) -> None:
        try:
            await host.serve_remote("acme/far", WebsocketChannel(socket))
        except (ConflictError, PluginStartError) as error:
            ends.put_nowait(error)
        else:
            ends.put_nowait(None)

    async with asyncio.timeout(110), serve(accept, "127.0.0.1", 0, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        try:
            yield host, f"ws://127.0.0.1:{port}", ends
        finally:
            await host.close(0.5)


async def far_plugin(
    socket: ClientConnection, author: str = "acme", ready: Callable[[], None] = lambda: None
) -> None:
    """The plugin's side, spoken frame by frame."""
    async for frame in socket:
        message = json.loads(frame)
        method, id_, params = message.get("method"), message.get("id"), message.get("params")
        if method == "initialize":
            await answer(socket, id_, {"protocol": 1, "plugin": {"author": author, "name": "far"}})
        elif method == "runners/list":
            runner = {"id": "plugin:acme/far/default", "name": "default", "label": {"en": "Far"}}
            await answer(socket, id_, {"runners": [runner]})
            ready()
        elif method == "run/start":
            await answer(socket, id_, {})
            run_id, text = params["context"]["run_id"], params["context"]["input"]["text"]
            if text != "wait":
                data = {"message": {"role": "assistant", "content": text}}
                result = {"run_id": run_id, "type": "message.completed", "sequence": 1, "data": data}
                await tell(socket, "run/result", result)
                await tell(socket, "run/end", {"run_id": run_id})
        elif method is not None and id_ is not None:
            await answer(socket, id_, {})


async def answer(socket: ClientConnection, id_: Any, result: Any) -> None:
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}))


async def tell(socket: ClientConnection, method: str, params: Any) -> None:
    await socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


async def test_a_remote_plugin_serves_runs_until_it_goes_and_may_come_again(tmp_path: Path) -> None:
    async with listening(tmp_path) as (host, url, ends):
        for _ in range(2):
            ready = asyncio.Event()
            async with connect(url, max_size=None) as socket:
                plugin = asyncio.create_task(far_plugin(socket, ready=ready.set))
                await ready.wait()
                while (status := host.status()[0]).state != "ready":
                    await asyncio.sleep(0.001)
                assert status.runners == ("default",)
                connection = await host.connection("acme/far")
                texts = [f"text {n}" for n in range(50)]
                recorders = await asyncio.gather(*(run(connection, text) for text in texts))
                assert [recorder.texts[0] for recorder in recorders] == texts
                big = "x" * 700_000
                assert (await run(connection, big)).texts == [big]
                waiting = await begin(connection, "wait")
                await socket.close()
                assert isinstance(await waiting.over, PluginCrashedError)
                await plugin
            assert await ends.get() is None
            with pytest.raises(PluginStartError, match="is not connected"):
                await host.connection("acme/far")
            assert host.status()[0].state == "disconnected"


async def test_a_second_connection_of_the_same_plugin_is_refused(tmp_path: Path) -> None:
    async with listening(tmp_path) as (host, url, ends), connect(url) as first:
        ready = asyncio.Event()
        plugin = asyncio.create_task(far_plugin(first, ready=ready.set))
        await ready.wait()
        async with connect(url) as second:
            assert isinstance(await ends.get(), ConflictError)
            with pytest.raises(ConnectionClosed):
                await second.recv()
        connection = await host.connection("acme/far")
        assert (await run(connection, "still here")).texts == ["still here"]
        await first.close()
        await plugin


@pytest.mark.gate("plugin-identity")
@pytest.mark.parametrize(
    ("author", "says"), [("somebody", "says that it is somebody/far, but acme/far was expected")]
)
async def test_the_identity_is_that_of_the_token_whatever_the_process_says(
    tmp_path: Path, author: str, says: str
) -> None:
    async with listening(tmp_path) as (_, url, ends), connect(url) as socket:
        plugin = asyncio.create_task(far_plugin(socket, author))
        error = await ends.get()
        assert isinstance(error, PluginStartError)
        assert says in error.message
        await plugin  # its socket was closed


async def test_noise_closes_the_connection(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, url, ends), connect(url) as socket:
        await socket.send("hello?")
        error = await ends.get()
        assert isinstance(error, PluginStartError)
        assert "not a JSON-RPC message" in error.message


async def test_handshakes_that_fail_again_and_again_are_refused_for_a_while_until_one_works(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with listening(tmp_path, clock) as (host, url, ends):
        for _ in range(FAILURES_TO_OPEN):
            async with connect(url) as socket:
                await socket.send("hello?")
                assert isinstance(await ends.get(), PluginStartError)
        async with connect(url) as socket:
            refused = await ends.get()
            assert isinstance(refused, ConflictError)
            assert "failed too often" in refused.message
            assert "try again in 60 s" in refused.message
        assert "not a JSON-RPC message" in (host.status()[0].reason or "")
        clock.now += OPEN_SECONDS
        ready = asyncio.Event()
        async with connect(url) as socket:
            plugin = asyncio.create_task(far_plugin(socket, ready=ready.set))
            await ready.wait()
            while host.status()[0].state != "ready":
                await asyncio.sleep(0.001)
            connection = await host.connection("acme/far")
            assert (await run(connection, "here")).texts == ["here"]
            assert host.status()[0].reason is None
            await socket.close()
            await plugin


async def _come_and_go(host: Supervisor, url: str, ends: asyncio.Queue[Any], stay: Callable[[], None]) -> Any:
    """Connect, leave once the host takes runs for it, and return how the host ended it."""
    ready = asyncio.Event()
    async with connect(url) as socket:
        plugin = asyncio.create_task(far_plugin(socket, ready=ready.set))
        while not plugin.done() and not (ready.is_set() and host.status()[0].state == "ready"):
            await asyncio.sleep(0.001)
        stay()
        await socket.close()
        await plugin
    return await ends.get()


async def test_a_remote_process_that_leaves_at_once_again_and_again_is_refused_for_a_while(
    tmp_path: Path,
) -> None:
    clock = Clock()

    def stays() -> None:
        clock.now += StartLimits().stable_seconds

    def leaves() -> None:
        clock.now += 0.1

    async with listening(tmp_path, clock) as (host, url, ends):
        for stay in [*[leaves] * (FAILURES_TO_OPEN - 1), stays, *[leaves] * FAILURES_TO_OPEN]:
            assert await _come_and_go(host, url, ends, stay) is None
        refused = await _come_and_go(host, url, ends, leaves)
        assert isinstance(refused, ConflictError)
        assert "failed too often (the connection of the remote plugin was closed" in refused.message
        clock.now += OPEN_SECONDS
        assert await _come_and_go(host, url, ends, leaves) is None
        refused = await _come_and_go(host, url, ends, leaves)
        assert isinstance(refused, ConflictError)
        assert "try again in 120 s" in refused.message
        clock.now += 2 * OPEN_SECONDS
        for stay in [stays, leaves, leaves]:
            assert await _come_and_go(host, url, ends, stay) is None


async def test_a_remote_process_that_does_not_leave_a_run_is_cut_off_and_may_come_again(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as (host, url, ends):
        for _ in range(2):
            ready = asyncio.Event()
            async with connect(url) as socket:
                plugin = asyncio.create_task(far_plugin(socket, ready=ready.set))
                await ready.wait()
                while host.status()[0].state != "ready":
                    await asyncio.sleep(0.001)
                connection = await host.connection("acme/far")
                waiting = await begin(connection, "wait")
                host.replace(connection, "it does not leave a run")
                assert isinstance(await waiting.over, PluginCrashedError)
                await plugin
            assert await ends.get() is None
