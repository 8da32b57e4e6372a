"""Clients of LangGraph and Agent Protocol over a host that is killed: amid a stream, and while it waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialects.agent_protocol import Event, agent_protocol, read_events, user
from support.dialects.langgraph import (
    AGENT,
    collect,
    interrupts_of,
    langgraph,
    last_values,
    said,
    texts_of,
)
from support.dialects.players import PLAYER, POLICY, RUNNER
from support.server_process import KEY, HostProcess, config_file, serving

pytestmark = pytest.mark.timeout(300)


@pytest.mark.shows("langgraph", "long-run")
async def test_a_stream_and_a_pause_outlive_the_host(tmp_path: Path) -> None:
    agent = {"name": AGENT, "runner": RUNNER, "resource_policy": POLICY}
    config = config_file(tmp_path / "config.yaml", plugins=[PLAYER], agents=[agent])
    gate = tmp_path / "gate"
    order: list[Any] = ["tool", "player.order", {"thing": "茶"}, "o"]
    steps = (["delta", "一, ", "m"], ["wait", str(gate)], ["say", "一, 二.", "m"], order, ["say", "Bye."])
    modes = ["values", "messages-tuple"]
    async with serving(HostProcess(tmp_path / "host", config)) as host:
        host.options = ["--port", host.url.rpartition(":")[2]]  # clients find it again where it was
        begun = asyncio.Event()
        async with langgraph(host.url, KEY) as client:

            async def read() -> list[Any]:
                parts = []
                async for part in client.runs.stream("t", AGENT, input=said(*steps), stream_mode=modes):
                    parts.append(part)
                    if part.event == "messages":
                        begun.set()
                return parts

            protocol: list[Event] = []
            place: list[str] = []

            async def read_protocol() -> None:
                steps = user(["delta", "三, ", "m"], ["wait", str(gate)], ["say", "三, 四.", "m"])
                body = {"messages": steps, "stream_mode": modes}
                async with (
                    agent_protocol(host.url, KEY) as plain,
                    plain.http.stream("POST", "/runs/stream", json=body) as answer,
                ):
                    place.append(answer.headers["location"])
                    async for event in read_events(answer):
                        protocol.append(event)
                        if event.name == "messages":
                            told.set()

            told = asyncio.Event()
            reading = asyncio.create_task(read())
            other = asyncio.create_task(read_protocol())
            await asyncio.gather(begun.wait(), told.wait())
            host.kill()
            with pytest.raises(httpx.HTTPError):
                await other
            gate.touch()
            await host.start()
            async with agent_protocol(host.url, KEY) as plain:
                last = {"last-event-id": protocol[-1].id or ""}
                protocol += await plain.events("GET", place[0], headers=last)
                assert await plain.events("GET", place[0]) == protocol, "no gap, and nothing twice"
                assert protocol[-1].data["messages"][-1]["content"] == "三, 四."
            parts = await reading  # the client has followed `Location` by itself
            assert len({part.id for part in parts}) == len(parts)
            assert texts_of(last_values(parts)) == ["一, 二."]
            (interrupt,) = interrupts_of(parts)
            await client.threads.update("t", metadata={"user": "ada"})
            await client.store.put_item(["users", "ada"], key="likes", value={"tea": "茶"})
        host.kill()
        await host.start()
        async with langgraph(host.url, KEY) as client:
            assert (await client.threads.get_state("t"))["interrupts"] == [interrupt]
            done = await client.runs.wait("t", AGENT, command={"resume": {interrupt["id"]: True}})
            texts = texts_of(done)
            assert (texts[0], texts[-1]) == ("一, 二.", "Bye.")
            assert sum("ordered 1 茶" in text for text in texts) == 1
        host.kill()
        await host.start()
        async with langgraph(host.url, KEY) as client:  # long after its end
            run_id = parts[0].data["run_id"]
            assert await collect(client.runs.join_stream("t", run_id, stream_mode=modes)) == parts
            assert texts_of((await client.threads.get_state("t"))["values"]) == texts
            assert [one["thread_id"] for one in await client.threads.search(metadata={"user": "ada"})] == [
                "t"
            ]
            copy = (await client.threads.copy("t"))["thread_id"]
            assert (await client.store.get_item(["users", "ada"], key="likes"))["value"] == {"tea": "茶"}
        host.kill()
        await host.start()
        async with langgraph(host.url, KEY) as client:
            copied = texts_of((await client.threads.get_state(copy))["values"])
            assert copied == texts, "what is answered is kept"
