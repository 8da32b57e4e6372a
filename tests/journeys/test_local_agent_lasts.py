"""local-agent in a whole host: steered while at work, killed in the middle, and going on where it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.agent_host import answering, ask, record, shop, streamed, texts
from support.gates import Gate
from support.http_host import Event, Served
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

POLICY = {"allowed_tool_names": ["shop.*"]}
AGENT = "hostler/local-agent"


async def say(served: Served, text: str) -> dict[str, Any]:
    """Send a message of the same conversation; what became of it."""
    body = {"event_type": "message.received", "input": {"text": text}, "conversation_id": "c"}
    answer = await served.client.post("/v1/events", json=body)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def kill(served: Served, plugin: str) -> None:
    """kill -9 of a plugin's process."""
    status = (await served.client.get(f"/v1/plugins/{quote(plugin, safe='')}")).json()
    os.kill(status["pid"], signal.SIGKILL)


async def test_a_message_between_tools_is_seen_by_the_next_round(tmp_path: Path) -> None:
    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=POLICY) as (served, server):
        held = Gate()
        server.add(wishes(("p", "shop_prices", {}), hold=held))
        server.say("A single, then: 80.")
        asking = asyncio.create_task(ask(served, "a double, please"))
        await server.asked(1)
        await say(served, "no, a single")
        held.open()
        found = await asking
        assert (await record(served, found))["output"]["text"] == "A single, then: 80."
        assert [m["role"] for m in server.sent()] == ["system", "user", "assistant", "tool", "user"]
        assert server.sent()[-1]["content"] == "no, a single"
        assert len((await served.client.get("/v1/runs?limit=10")).json()["items"]) == 1
        # and it stands in the history of the next turn
        server.say("Yes.")
        await ask(served, "sure?")
        said = [m["content"] for m in server.sent()[1:]]
        assert said == ["a double, please", "no, a single", "A single, then: 80.", "sure?"]


async def test_a_message_before_the_end_is_answered_in_the_same_run(tmp_path: Path) -> None:
    async with answering(tmp_path) as (served, server):
        held = Gate()
        server.say(["Hello", held, "."])
        server.say("And to you, Bob.")
        asking = asyncio.create_task(ask(served, "I am Ada"))
        await server.asked(1)
        await say(served, "and I am Bob")
        held.open()
        found = await asking
        assert (await record(served, found))["output"]["text"] == "Hello.\nAnd to you, Bob."
        assert [m["content"] for m in server.sent()[1:]] == ["I am Ada", "Hello.", "and I am Bob"]


@pytest.mark.parametrize("mode", ["parallel", "serial"])
async def test_a_killed_agent_goes_on_where_it_was(tmp_path: Path, mode: str) -> None:
    """What was answered is not asked again, what was booked is not booked again."""
    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=POLICY, tool_execution_mode=mode) as (
        served,
        server,
    ):
        wanted = [("b", "shop_book", {"kind": "double"}), ("s", "shop_send", {"to": "Ada", "text": "hi"})]
        server.add(wishes(*wanted, pieces=["One moment."]))
        server.add(Answer(pieces=["Bo", Gate(), "never said"]))
        server.say("Booked.")
        found: list[Event] = []
        async with streamed(served, "a double") as events:
            async for event in events:
                found.append(event)
                if event.type == "message.delta" and '"Bo"' in event.data:
                    await kill(served, AGENT)
        ended = await record(served, found)
        assert (ended["status"], ended["attempt"]) == ("completed", 2), ended
        assert ended["output"]["text"] == "One moment.\nBooked."
        assert len(server.requests) == 3
        assert server.requests[1].json["messages"] == server.requests[2].json["messages"]
        again = [event.type for event in found].index("attempt.started")
        assert "".join(texts(found[:again])) == "One moment.Bo"
        assert "".join(texts(found[again:])) == "Booked."
        completed = [json.loads(e.data)["data"] for e in found if e.type == "tool.call.completed"]
        assert [c["tool_call_id"] for c in completed] == ["b", "s"]
        assert completed[0]["result"]["booking"] == "B1"
        # a second guest gets the second room
        server.add(wishes(("b", "shop_book", {"kind": "double"})))
        server.say("Booked.")
        await ask(served, "another")
        assert json.loads(server.sent()[-1]["content"])["booking"] == "B2"


STEPS = [
    ("message.completed", 1),
    ("tool.call.started", 1),
    ("tool.call.started", 2),
    ("tool.call.completed", 1),
    ("tool.call.completed", 2),
    ("message.completed", 2),
]


@pytest.mark.parametrize(("mode", "steps"), [("parallel", STEPS[::2]), ("serial", STEPS[1::2])])
async def test_killed_at_any_step_nothing_is_paid_or_booked_twice(
    tmp_path: Path, mode: str, steps: list[tuple[str, int]]
) -> None:
    """What a model answered is not asked of it again, from whichever step on the run is taken up.

    What it says last is held back until the agent was killed: the run cannot be over before.
    """
    killed = Gate()

    def reply(request: Recorded) -> Answer:
        if request.json["messages"][-1]["role"] == "tool":
            return Answer(pieces=["Booked."], hold=killed)
        wanted = [("b", "shop_book", {"kind": "double"}), ("s", "shop_prices", {})]
        return wishes(*wanted, pieces=["One moment."])

    async def killed_at(served: Served, server: ModelServer, step: tuple[str, int], number: int) -> None:
        nonlocal killed
        before, is_last = len(server.requests), step == STEPS[-1]
        killed = Gate()
        if is_last:
            killed.open()
        found: list[Event] = []
        async with streamed(served, f"double number {number}") as events:
            async for event in events:
                found.append(event)
                if (event.type, [one.type for one in found].count(event.type)) == step:
                    await kill(served, AGENT)
                    killed.open()
        ended = await record(served, found)
        assert ended["status"] == "completed", ended
        assert ended["output"]["text"] == "One moment.\nBooked."
        booked = json.loads(server.sent()[-2]["content"])
        assert booked["booking"] == f"B{number}"
        asked = server.requests[before:]
        assert [r.json["messages"][-1]["role"] for r in asked[:2]] == ["user", "tool"], step
        assert len(asked) <= 3  # the second one, if it was under way
        assert [r.json["messages"] for r in asked[2:]] == [asked[1].json["messages"]] * (len(asked) - 2)
        completed = [json.loads(e.data)["data"] for e in found if e.type == "tool.call.completed"]
        assert [one["tool_call_id"] for one in completed] == ["b", "s"]
        assert ended["attempt"] == 2 or is_last  # the end may be there before the kill

    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=POLICY, tool_execution_mode=mode) as (
        served,
        server,
    ):
        server.always(reply)
        for number, step in enumerate(steps, 1):
            await killed_at(served, server, step, number)
