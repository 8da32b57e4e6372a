"""Streams of the LangGraph interface that break off: they go on to the same transcript, however late."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.errors import BadRequestError

from support.dialects.langgraph import (
    AGENT,
    collect,
    interrupts_of,
    langgraph,
    last_values,
    said,
    texts_of,
    transcript,
)
from support.http_host import ADMIN_KEY, Served

ORDER: list[Any] = ["tool", "player.order", {"thing": "茶", "count": 2}, "o"]
LONG: list[list[Any]] = [["delta", f"第{n}部分 👩‍👩‍👧 ", "m"] for n in range(30)]
ALL_OF_IT = "".join(one[1] for one in LONG)
STEPS: Any = (
    ["think", "hm", "m"],
    *LONG,
    ["say", ALL_OF_IT, "m"],
    ["tool", "player.price", {"thing": "x"}, "p"],
)


async def test_random_disconnects_fold_to_the_same(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    steps: Any = (*LONG[:15], ["wait", str(gate)], *LONG[15:], ["say", ALL_OF_IT, "m"], ["say", "end"])
    async with langgraph(served.url) as client:
        run = await client.runs.create("t", AGENT, input=said(*steps))
    readers = [
        asyncio.create_task(transcript(served.url, ADMIN_KEY, "t", run["run_id"], random.Random(seed)))
        for seed in range(6)
    ]
    gate.touch()
    expected = [ALL_OF_IT, "end"]
    assert await asyncio.gather(*readers) == [expected] * len(readers)
    # also long after the end
    late = await transcript(served.url, ADMIN_KEY, "t", run["run_id"], random.Random(9))
    assert late == expected


async def test_every_place_of_a_stream(served: Served) -> None:
    async with langgraph(served.url) as client:
        run = await client.runs.create("t", AGENT, input=said(*STEPS))
        modes = ["values", "updates", "messages-tuple", "custom", "events"]
        join = client.runs.join_stream
        whole = await collect(join("t", run["run_id"], stream_mode=modes))
        assert [part.id for part in whole] == sorted((part.id for part in whole), key=int)
        for place in range(0, len(whole), 7):
            rest = await collect(join("t", run["run_id"], stream_mode=modes, last_event_id=whole[place].id))
            assert rest == whole[place + 1 :]
        assert await collect(join("t", run["run_id"], stream_mode=modes, last_event_id="-1")) == whole
        # its own modes are those that it was created with
        own = await client.runs.create("u", AGENT, input=said(["say", "x"]), stream_mode=["updates"])
        parts = await collect(join("u", own["run_id"]))
        assert {part.event for part in parts} == {"metadata", "updates"}
        with pytest.raises(BadRequestError, match="Last-Event-ID"):
            await collect(join("t", run["run_id"], last_event_id="x"))


async def test_answers_of_a_run_that_waited_keep_their_ids(served: Served) -> None:
    async with langgraph(served.url) as client:
        first = await collect(client.runs.stream("t", AGENT, input=said(["say", "a"], ORDER, ["say", "b"])))
        (interrupt,) = interrupts_of(first)
        second = await collect(client.runs.stream("t", AGENT, command={"resume": {interrupt["id"]: True}}))
        one, two = first[0].data["run_id"], second[0].data["run_id"]
        assert one != two
        # each is read again as it was
        assert await collect(client.runs.join_stream("t", one, stream_mode="values")) == first
        assert await collect(client.runs.join_stream("t", two, stream_mode="values")) == second
        assert (await client.runs.join("t", one))["__interrupt__"] == [interrupt]
        assert texts_of(await client.runs.join("t", two)) == ["a", 'player.order: "ordered 2 茶"', "b"]
        assert [(await client.runs.get("t", name))["status"] for name in (one, two)] == ["success"] * 2


async def test_the_clients_own_reconnect(served: Served, tmp_path: Path) -> None:
    """A proxy that cuts each connection: the client follows `Location` by itself."""
    cut = 0

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal cut
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", served.port)

        async def upward() -> None:
            while data := await reader.read(65536):
                up_writer.write(data)

        sending = asyncio.create_task(upward())
        cut += 1
        with contextlib.suppress(OSError):
            left = 3_000 if cut < 3 else 10**9
            while left > 0 and (data := await up_reader.read(min(left, 65536))):
                writer.write(data)
                await writer.drain()
                left -= len(data)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()
        up_writer.transport.abort()

    async with await asyncio.start_server(pipe, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        async with langgraph(f"http://127.0.0.1:{port}") as client:
            modes = ["values", "messages-tuple"]
            parts = await collect(client.runs.stream("t", AGENT, input=said(*STEPS), stream_mode=modes))
        assert cut >= 3
    assert len({part.id for part in parts}) == len(parts)
    assert texts_of(last_values(parts))[0] == ALL_OF_IT
    chunks = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert ALL_OF_IT in "".join(one for one in chunks if isinstance(one, str))


async def test_a_superseded_attempt(served: Served, tmp_path: Path) -> None:
    crash = str(tmp_path / "crashed")
    steps = (
        ["say", "kept"],
        ["delta", "half ", "h"],
        ["crash", crash],
        ["delta", "other", "h"],
        ["say", "other way", "h"],
    )
    async with langgraph(served.url) as client:
        parts = await collect(
            client.runs.stream("t", AGENT, input=said(*steps), stream_mode=["values", "messages-tuple"])
        )
        assert texts_of(last_values(parts)) == ["kept", "other way"]
        again = await collect(
            client.runs.join_stream("t", parts[0].data["run_id"], stream_mode=["values", "messages-tuple"])
        )
        assert again == parts
