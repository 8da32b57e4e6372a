"""Connections that stay open end with the key that opened them: streams, waiting requests, remote plugins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hostler.domain.events import Caller
from hostler.http.auth import KeyHolder
from hostler.http.open_keys import OpenKeys
from hostler.http.problems import UnauthenticatedError
from hostler.http.streams import Streams
from hostler.storage.stores import api_keys
from support.http_host import Event, Served, iter_events, serving

pytestmark = pytest.mark.gate("api-keys")

HOLD = {"event_type": "message.received", "agent": "puppet", "input": {"text": "hold"}}
STREAM = {"accept": "text/event-stream"}
DOWNLOAD_BYTES = 32 << 20
"""More than the buffers of a connection that nobody reads."""


async def make_key(served: Served, **fields: object) -> tuple[str, str]:
    """Make a key over HTTP; its id and its token."""
    made = (await served.client.post("/v1/keys", json={"name": "k", **fields})).json()
    return made["record"]["key_id"], made["key"]


async def revoke_here(served: Served, key_id: str) -> None:
    assert (await served.client.delete(f"/v1/keys/{key_id}")).status_code == 204


async def revoke_elsewhere(served: Served, key_id: str) -> None:
    """What another host of the same database does."""
    assert await served.host.db.write(lambda tx: api_keys.revoke(tx, "default", key_id))


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    before = OpenKeys.__init__

    def often(self: OpenKeys, *arguments: object, **more: object) -> None:
        before(self, *arguments, **{**more, "look_seconds": 0.05})  # type: ignore[arg-type]

    monkeypatch.setattr(OpenKeys, "__init__", often)


@asynccontextmanager
async def holding(served: Served, token: str) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[Event]]]:
    """The stream of a run that goes on, after its first result."""
    async with (
        served.as_key(token) as client,
        client.stream("POST", "/v1/events", json=HOLD, headers=STREAM) as answer,
    ):
        events = iter_events(answer)
        assert (await anext(events)).type == "message.delta"
        yield answer, events


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("revoke", [revoke_here, revoke_elsewhere])
async def test_a_stream_ends_with_its_key_and_the_run_goes_on(
    tmp_path: Path, revoke: Callable[[Served, str], Awaitable[None]]
) -> None:
    async with serving(tmp_path) as served:
        (revoked, its_token), (_, other) = (
            await make_key(served, rights=["admin"]),
            await make_key(served, rights=["admin"]),
        )
        async with holding(served, its_token) as (_, events), holding(served, other) as (_, others):
            await revoke(served, revoked)
            (last,) = [event async for event in events]
            assert last.type == "problem"
            assert json.loads(last.data)["code"] == "unauthorized"
            runs = (await served.client.get("/v1/runs?status=running")).json()["items"]
            assert len(runs) == 2
            assert served.server.app.state.streams.count == 1
            for run in runs:
                await served.client.post(f"/v1/runs/{run['run_id']}/cancel")
            assert (await anext(others)).type != "problem"


async def test_a_stream_ends_when_its_key_expires(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        _, token = await make_key(served, rights=["admin"], expires_at=time.time() + 3)
        async with holding(served, token) as (_, events):
            (last,) = [event async for event in events]
            assert json.loads(last.data)["code"] == "unauthorized"


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("revoke", [revoke_here, revoke_elsewhere])
async def test_a_request_that_waits_is_refused_when_its_key_is_revoked(
    tmp_path: Path, revoke: Callable[[Served, str], Awaitable[None]]
) -> None:
    async with serving(tmp_path) as served:
        key_id, token = await make_key(served, rights=["admin"])
        async with served.as_key(token) as client:
            waiting = asyncio.create_task(client.post("/v1/events?wait=300", json=HOLD))
            while not served.server.app.state.open_keys.count:
                await asyncio.sleep(0.01)
            await revoke(served, key_id)
            answer = await waiting
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert served.server.app.state.open_keys.count == 0


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("revoke", [revoke_here, revoke_elsewhere])
async def test_a_remote_plugin_is_cut_off_when_its_token_is_revoked(
    tmp_path: Path, revoke: Callable[[Served, str], Awaitable[None]]
) -> None:
    async with serving(tmp_path) as served:
        key_id, token = await make_key(served, plugin="acme/far")
        url = served.url.replace("http://", "ws://") + "/v1/plugins/connect"
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(url, additional_headers=headers) as socket:
            assert json.loads(await socket.recv())["method"] == "initialize"
            await revoke(served, key_id)
            async for _ in _until_closed(socket):
                pass
            assert socket.close_code == 1008
            assert "no longer valid" in str(socket.close_reason)


async def test_keys_that_come_and_go_put_off_no_look_at_others() -> None:
    def holder(key_id: str, seconds: float | None = None) -> KeyHolder:
        expires_at = None if seconds is None else int((time.time() + seconds) * 1000)
        return KeyHolder(Caller("w", "s", key_id), expires_at=expires_at)

    async def find_ended(callers: Iterable[Caller]) -> set[str]:
        return {one.key_id for one in callers if one.key_id == "revoked"}

    async def hold(key: KeyHolder) -> None:
        async with keys.held(key):
            await asyncio.Event().wait()

    keys = OpenKeys(find_ended, look_seconds=0.1)
    looking = asyncio.create_task(keys.keep(lambda: None))
    holding = asyncio.create_task(hold(holder("revoked")))
    number = 0
    async with asyncio.timeout(200):
        while not holding.done():
            number += 1
            async with keys.held(holder(f"k{number}", 60.0)), keys.held(holder(f"soon{number}", 0.09)):
                await asyncio.sleep(0)
    with pytest.raises(UnauthenticatedError):
        holding.result()
    assert number > 1
    looking.cancel()


async def test_a_reader_that_takes_nothing_is_broken_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        key_id, token = await make_key(served, rights=["admin"])
        flood = {**HOLD, "input": {"text": "say 200000"}}
        body = json.dumps(flood).encode()
        head = (
            f"POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n"
            "accept: text/event-stream\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
        writer.write(head.encode() + body)
        await reader.readuntil(b"event: ")
        streams = served.server.app.state.streams
        while not _is_stuck(streams):
            await asyncio.sleep(0.02)
        await revoke_here(served, key_id)
        while streams.count:
            await asyncio.sleep(0.02)
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(65_536):
                pass
        writer.close()


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("revoke", [revoke_here, revoke_elsewhere])
async def test_a_download_is_broken_off_when_its_key_is_revoked(
    tmp_path: Path, revoke: Callable[[Served, str], Awaitable[None]]
) -> None:
    async with asyncio.timeout(60), serving(tmp_path) as served:
        stored = await served.client.post("/v1/artifacts", content=b"x" * DOWNLOAD_BYTES)
        path = f"/v1/artifacts/{stored.json()['artifact_id']}/content"
        (key_id, token), (_, other) = (
            await make_key(served, rights=["artifacts:read"]),
            await make_key(served, rights=["artifacts:read"]),
        )
        readers = []
        for one in (token, other):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {one}\r\n\r\n".encode())
            assert b" 200 " in await reader.readuntil(b"\r\n")
            readers.append((reader, writer))
        await revoke(served, key_id)
        await _until(lambda: served.server.app.state.open_keys.count == 1)
        assert await _received(readers[0][0]) < DOWNLOAD_BYTES
        assert await _received(readers[1][0], DOWNLOAD_BYTES) >= DOWNLOAD_BYTES
        for _, writer in readers:
            writer.close()


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("revoke", [revoke_here, revoke_elsewhere])
async def test_an_upload_is_refused_when_its_key_is_revoked(
    tmp_path: Path, revoke: Callable[[Served, str], Awaitable[None]]
) -> None:
    async with asyncio.timeout(60), serving(tmp_path) as served:
        key_id, token = await make_key(served, rights=["artifacts:write"])
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"POST /v1/artifacts HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n"
        writer.write(f"{head}content-length: 100000\r\n\r\n".encode() + b"x" * 1000)
        await _until(lambda: served.server.app.state.open_keys.count == 1)
        await revoke(served, key_id)
        assert b" 401 " in await reader.readuntil(b"\r\n")
        writer.close()
        assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def _received(reader: asyncio.StreamReader, most: int | None = None) -> int:
    """How many bytes still come, until there are `most` or the end."""
    size = 0
    with contextlib.suppress(ConnectionResetError):
        while (most is None or size < most) and (part := await reader.read(65_536)):
            size += len(part)
    return size


async def _until_closed(socket: ClientConnection) -> AsyncIterator[str | bytes]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield await socket.recv()


def _is_stuck(streams: Streams) -> bool:
    return any(stream.writing_since is not None for stream in streams._open)
