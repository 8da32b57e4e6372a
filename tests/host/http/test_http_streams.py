"""Event streams over real sockets: exact resume, slow readers, clients that go, an orderly end."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.http.event_stream import EventStream
from hostler.http.sse import frame
from hostler.http.streams import Streams
from hostler.journal.feed import BATCH_RESULTS, StoredResult
from hostler.storage.sql.statements import parse
from support.http_host import ADMIN_KEY, Event, Served, iter_events, read_events, serving


class Strings:
    """The other end of the puppet's `strings PATH`: what is said here is one delta each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Strings]:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.put_nowait(writer)

        server = await asyncio.start_unix_server(connected, str(self.path))
        try:
            yield self
        finally:
            if self._writer is not None:
                self._writer.close()
            server.close()

    async def say(self, text: str) -> None:
        if self._writer is None:
            self._writer = await self._writers.get()
        self._writer.write(text.encode() + b"\n")
        await self._writer.drain()

    def end(self) -> None:
        assert self._writer is not None
        self._writer.close()


async def stream_of(served: Served, run_id: str, after: int | None = None, query: str = "") -> list[Event]:
    headers = {} if after is None else {"last-event-id": str(after)}
    async with served.client.stream("GET", f"/v1/runs/{run_id}/stream{query}", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        return await read_events(answer)


def raw_request(run_id: str) -> bytes:
    """A request for a stream, for sockets of one's own."""
    lines = (f"GET /v1/runs/{run_id}/stream HTTP/1.1", "host: h", f"authorization: Bearer {ADMIN_KEY}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_a_stream_can_be_cut_anywhere_and_resumed_exactly(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        said = await served.say("say 6")
        whole = await stream_of(served, said["run_id"])
        assert [event.id for event in whole] == list(range(1, 9))
        assert [event.type for event in whole] == [
            *["message.delta"] * 6,
            "message.completed",
            "run.completed",
        ]
        for event in whole:
            data = json.loads(event.data)
            assert (data["sequence"], data["type"], data["run_id"]) == (event.id, event.type, said["run_id"])
        for cut in range(9):
            assert await stream_of(served, said["run_id"], cut) == whole[cut:]
            assert await stream_of(served, said["run_id"], query=f"?last_event_id={cut}") == whole[cut:]
        for wrong in ("9", "-1", "x", "1.0"):
            answer = await served.client.get(
                f"/v1/runs/{said['run_id']}/stream", headers={"last-event-id": wrong}
            )
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")

    await _with(tmp_path, scenario)


async def test_a_live_stream_shows_each_result_as_it_comes_to_everybody(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with Strings(tmp_path / "s").open() as strings:
            accepted = await served.say(f"strings {strings.path}", wait=None)
            run_id = accepted["run"]["run_id"]
            queues: list[asyncio.Queue[Event]] = [asyncio.Queue() for _ in range(20)]

            async def follow(queue: asyncio.Queue[Event], after: int) -> None:
                headers = {"last-event-id": str(after)}
                url = f"/v1/runs/{run_id}/stream"
                async with served.client.stream("GET", url, headers=headers) as answer:
                    async for event in iter_events(answer):
                        queue.put_nowait(event)

            async with asyncio.TaskGroup() as readers:
                for queue in queues[:10]:
                    readers.create_task(follow(queue, 0))
                for number in range(1, 6):
                    await strings.say(f"word {number}")
                    for queue in queues[:10]:
                        event = await queue.get()
                        assert (event.id, f"word {number}" in event.data) == (number, True)
                for index, queue in enumerate(queues[10:]):  # latecomers, each from its own place
                    readers.create_task(follow(queue, index % 5))
                for index, queue in enumerate(queues[10:]):
                    for expected in range(index % 5 + 1, 6):
                        assert (await queue.get()).id == expected
                for number in range(6, 9):
                    await strings.say(f"word {number}")
                    for queue in queues:
                        assert (await queue.get()).id == number
                strings.end()
            for queue in queues:
                left = [queue.get_nowait() for _ in range(queue.qsize())]
                assert [event.type for event in left] == ["message.completed", "run.completed"]
        assert served.server.app.state.streams.count == 0

    await _with(tmp_path, scenario)


async def test_events_answered_with_their_stream(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"event_type": "message.received", "input": {"text": "say 3"}, "event_id": "e"}
        headers = {"accept": "text/event-stream"}
        for _ in range(2):  # the second delivery gets the same run's stream
            async with served.client.stream("POST", "/v1/events", json=body, headers=headers) as answer:
                assert answer.status_code == 200
                assert [event.id for event in await read_events(answer)] == [1, 2, 3, 4, 5]
        unrouted = await served.client.post(
            "/v1/events", json={**body, "event_type": "other.kind", "event_id": "f"}, headers=headers
        )
        assert (unrouted.status_code, unrouted.json()["run"]) == (202, None)
        token = await served.key("default", "events:write")
        async with served.as_key(token) as client:
            refused = await client.post("/v1/events", json=body, headers=headers)
            assert refused.status_code == 403

    await _with(tmp_path, scenario)


async def test_what_has_piled_up_goes_out_without_pauses() -> None:
    """However long the pace is: it is for what comes bit by bit."""
    types = ["message.delta"] * (3 * BATCH_RESULTS) + ["run.completed"]
    results = [StoredResult.of("r1", n, kind, b'{"data":{}}') for n, kind in enumerate(types, 1)]
    sent: list[bytes] = []

    async def watch(after: int) -> AsyncIterator[list[StoredResult]]:
        for start in range(after, len(results), BATCH_RESULTS):
            yield results[start : start + BATCH_RESULTS]

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async with asyncio.timeout(20):
        await EventStream(Streams(pace=3600).serve, "r1", watch).send({"method": "GET"}, receive, send)
    assert b"".join(sent) == b"".join(map(frame, results))


async def test_a_client_that_goes_away_cancels_nothing(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with Strings(tmp_path / "s").open() as strings:
            accepted = await served.say(f"strings {strings.path}", wait=None)
            run_id = accepted["run"]["run_id"]
            await strings.say("one")
            async with served.client.stream("GET", f"/v1/runs/{run_id}/stream") as answer:
                assert len(await read_events(answer, at_most=1)) == 1
            await strings.say("two")
            strings.end()
            events = await stream_of(served, run_id)
        assert [event.id for event in events] == [1, 2, 3, 4]
        assert (await served.client.get(f"/v1/runs/{run_id}")).json()["status"] == "completed"

    await _with(tmp_path, scenario)


async def test_a_slow_reader_delays_nobody_holds_little_and_misses_nothing(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with Strings(tmp_path / "s").open() as strings:
            accepted = await served.say(f"strings {strings.path}", wait=None)
            run_id = accepted["run"]["run_id"]
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, ("127.0.0.1", served.port))
            await loop.sock_sendall(slow, raw_request(run_id))
            head = await loop.sock_recv(slow, 100)
            assert head.startswith(b"HTTP/1.1 200")

            seen: list[int] = []
            enough = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:

                async def fast() -> None:
                    async with served.client.stream("GET", f"/v1/runs/{run_id}/stream") as answer:
                        async for event in iter_events(answer):
                            seen.append(event.id)
                            if event.id == 400:
                                enough.set()

                tasks.create_task(fast())
                for _ in range(400):
                    await strings.say("x" * 20_000)
                await enough.wait()  # 8 MB went to the fast reader while the slow one took a few kB
                strings.end()
            assert seen == list(range(1, 403))

            received = bytearray(head)
            while b"\r\n0\r\n\r\n" not in received[-10:]:
                received += await loop.sock_recv(slow, 1 << 20)
            slow.close()
            ids = [int(line[4:]) for line in bytes(received).split(b"\n") if line.startswith(b"id: ")]
            assert ids == list(range(1, 403))

    await _with(tmp_path, scenario)


async def test_silent_streams_are_kept_alive(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        served.server.app.state.streams.comment_after = 0.05
        accepted = await served.say("hold", wait=None)
        run_id = accepted["run"]["run_id"]
        comments = 0
        async with served.client.stream("GET", f"/v1/runs/{run_id}/stream") as answer:
            async for line in answer.aiter_lines():
                comments += line.startswith(":")
                if comments == 3:
                    break
        await served.client.post(f"/v1/runs/{run_id}/cancel")

    await _with(tmp_path, scenario)


async def test_a_reader_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        streams: Streams = served.server.app.state.streams
        streams.comment_after, streams.stuck_after = 0.05, 0.2
        async with Strings(tmp_path / "s").open() as strings:
            accepted = await served.say(f"strings {strings.path}", wait=None)
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
            path = f"/v1/runs/{accepted['run']['run_id']}/stream"
            writer.write(
                f"GET {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {ADMIN_KEY}\r\n\r\n".encode()
            )
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await strings.say("begin")
            while streams.count == 0:
                await asyncio.sleep(0)
            said = 0
            while streams.count:  # until the sockets' buffers are full, and then for stuck_after
                if said < 1000:
                    await strings.say("x" * 20_000)
                    said += 1
                else:
                    await asyncio.sleep(0.01)
            strings.end()
            writer.transport.abort()

    await _with(tmp_path, scenario)


async def test_an_open_stream_does_not_hold_up_the_end_of_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        accepted = await served.say("hold", wait=None)
        url = f"/v1/runs/{accepted['run']['run_id']}/stream"
        async with served.client.stream("GET", url) as answer:
            events = iter_events(answer)
            assert (await anext(events)).id == 1
            await served.server.close()
            assert [event async for event in events] == []  # a whole, orderly end of the body
        assert served.server.app.state.streams.count == 0


@pytest.mark.parametrize("after", [1, 3])
async def test_a_cursor_into_dropped_deltas_is_gone(tmp_path: Path, after: int) -> None:
    async def scenario(served: Served) -> None:
        said = await served.say("say 4")
        await served.host.db.write(lambda tx: _drop(tx, said["run_id"], " AND type = 'message.delta'"))
        answer = await served.client.get(
            f"/v1/runs/{said['run_id']}/stream", headers={"last-event-id": str(after)}
        )
        assert (answer.status_code, answer.json()["code"]) == (410, "expired")
        assert [event.id for event in await stream_of(served, said["run_id"], 5)] == [6]
        await _snapshot(served, answer.json(), said)
        # the same from the journal
        answer = await served.client.get(f"/v1/runs/{said['run_id']}/journal", params={"after": 4 + after})
        assert (answer.status_code, answer.json()["code"]) == (410, "expired")
        await _snapshot(served, answer.json(), said)

    await _with(tmp_path, scenario)


async def test_a_cursor_into_a_journal_that_was_dropped_whole_is_gone(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        said = await served.say("say 4")
        await served.host.db.write(lambda tx: _drop(tx, said["run_id"]))
        url = f"/v1/runs/{said['run_id']}/stream"
        answer = await served.client.get(url, headers={"last-event-id": "1"})
        assert (answer.status_code, answer.json()["code"]) == (410, "expired")
        await _snapshot(served, answer.json(), said)
        answer = await served.client.get(f"/v1/runs/{said['run_id']}/journal", params={"after": 3})
        assert answer.status_code == 410
        assert (await served.client.get(url)).status_code == 200

    await _with(tmp_path, scenario)


async def _snapshot(served: Served, problem: dict[str, Any], said: dict[str, Any]) -> None:
    """The answer names where what was lost can be read, and where the stream goes on from there."""
    address = problem["details"]["snapshot"]
    assert address == f"/v1/runs/{said['run_id']}"
    assert address in problem["detail"]
    record = (await served.client.get(address)).json()
    assert record["output"]["text"] == said["output"]["text"]
    assert record["sequence"] == 6
    last = {"last-event-id": str(record["sequence"])}
    answer = await served.client.get(f"{address}/stream", headers=last)
    assert (answer.status_code, answer.text.count("id:")) == (200, 0)


def _drop(tx: Any, run_id: str, what: str = "") -> None:
    query = parse(f"-- name: drop\nDELETE FROM journal WHERE run_id = :run_id{what}", "test")
    tx.run(query.drop, run_id=run_id)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
