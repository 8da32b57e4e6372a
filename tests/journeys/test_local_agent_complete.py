"""local-agent, complete: one conversation with everything in it, and one of hundreds of turns.

A real host, its plugins in processes of their own, a service on a socket. Asserted is, above all, what that
service was sent.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from hostler.models.token_counts import count_tokens
from hostler_protocol.content import ModelMessage
from support.agent_host import ask, hosting, shop
from support.examples import SOAK
from support.gates import BOUND_SECONDS, Gate
from support.http_host import Event, Served
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

POLICY = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.book": "required"}}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300_000)).decode()
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
LONG = "word " * 4_000
"""About 5,000 tokens."""
OVERFLOW = "This model's maximum context length is 9000 tokens, however you requested 20000"
LOOK_SECONDS = 0.02
NOTES = "You keep the notes"


def told(server: ModelServer) -> dict[str, str]:
    """The results of tools that the service was last sent, in their order."""
    return {m["tool_call_id"]: m["content"] for m in server.sent() if m["role"] == "tool"}


def tool_events(found: list[Event]) -> list[str]:
    names = {"tool.call.started": "started", "tool.call.completed": "completed"}
    return [
        f"{names[event.type]} {json.loads(event.data)['data']['tool_call_id']}"
        for event in found
        if event.type in names
    ]


def answered(found: list[Event]) -> str:
    """The last message of a run that completed."""
    assert found[-1].type == "run.completed", found[-1].data
    said = [json.loads(e.data)["data"]["message"]["content"] for e in found if e.type == "message.completed"]
    return str(said[-1])


async def say(served: Served, text: str) -> str:
    """Send a message of the conversation without waiting; the run it reaches."""
    body = {"event_type": "message.received", "input": {"text": text}, "conversation_id": "c"}
    answer = await served.client.post("/v1/events", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.headers.get("location", "")).rpartition("/")[2]


async def until(served: Served, path: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look until something is so."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            found: dict[str, Any] = (await served.client.get(path)).json()
            if reached(found):
                return found
            await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("mode", ["parallel", "serial"])
async def test_a_conversation_with_everything_in_it(tmp_path: Path, mode: str) -> None:
    folder = shop(tmp_path)
    options: dict[str, Any] = {
        "plugins": [folder],
        "level": "sandboxed",
        "policy": POLICY,
        "config": {"tool_execution_mode": mode},
        "window": 40_000,
        "hold_seconds": 0.2,
    }
    async with ModelServer(api_key="k") as server:
        async with hosting(tmp_path / "data", server, **options) as served:
            await a_picture(served, server)
            await tools_of_which_one_fails(served, server, mode)
            await a_message_between_tools(served, server)
            run_id = await a_wish_that_a_person_decides(served, server)
        async with hosting(tmp_path / "data", server, **options) as served:
            await the_decision(served, server, run_id)
            await a_dead_first_model(served, server, mode)
            await an_overflow(served, server)


async def a_picture(served: Served, server: ModelServer) -> None:
    server.say("A cat.")
    image = {"type": "image_base64", "image_base64": PNG, "mime_type": "image/png"}
    given = {"text": "What is it?", "contents": [{"type": "text", "text": "What is it?"}, image]}
    assert answered(await ask(served, given)) == "A cat."
    assert server.sent() == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]},
    ]


async def tools_of_which_one_fails(served: Served, server: ModelServer, mode: str) -> None:
    """Each wish is answered in its place, and the picture is still there."""
    server.add(
        wishes(
            ("p", "shop_prices", {"kind": "suite"}),
            ("f", "shop_send", {"to": " ", "text": "hi"}),
            ("s", "shop_send", {"to": "Ada", "text": "hi"}),
            pieces=["One moment."],
        )
    )
    server.say("300 a night; one card is on its way.")
    found = await ask(served, f"Prices, and two cards. {LONG}")
    assert answered(found) == "300 a night; one card is on its way."
    order = {
        "parallel": ["started p", "started f", "started s", "completed p", "completed f", "completed s"],
        "serial": ["started p", "completed p", "started f", "completed f", "started s", "completed s"],
    }
    assert tool_events(found) == order[mode]
    offered = [tool["function"]["name"] for tool in server.requests[-1].json["tools"]]
    assert sorted(offered)[:3] == ["shop_book", "shop_choose_seat", "shop_pay"]
    assert [m["role"] for m in server.sent()] == ["system", "user", "assistant", "user", "assistant"] + (
        ["tool"] * 3
    )
    assert server.sent()[1]["content"][1] == PICTURE
    asked = server.sent()[4]
    assert asked["content"] == "One moment."
    assert [call["id"] for call in asked["tool_calls"]] == ["p", "f", "s"]
    assert list(told(server)) == ["p", "f", "s"]
    assert json.loads(told(server)["p"]) == {"suite": 300}
    assert told(server)["f"] == "Error (invalid_argument): send: to must name somebody"
    assert told(server)["s"] == "A card to Ada is on its way: hi"


async def a_message_between_tools(served: Served, server: ModelServer) -> None:
    """Said while the first call is under way, heard before the second is wished for."""
    held = Gate()
    server.add(wishes(("p", "shop_prices", {"kind": "double"}), hold=held))
    server.add(wishes(("q", "shop_prices", {"kind": "single"})))
    server.say("A single, then: 80.")
    before = len(server.requests)
    asking = asyncio.create_task(ask(served, f"A double. {LONG}"))
    await server.asked(before + 1)
    await say(served, "No, a single.")
    held.open()
    assert answered(await asking) == "A single, then: 80."
    assert len(server.requests) == before + 3
    heard, last = server.sent(-2), server.sent()
    assert [m["role"] for m in heard[-4:]] == ["user", "assistant", "tool", "user"]
    assert heard[-1] == {"role": "user", "content": "No, a single."}
    assert last[: len(heard)] == heard
    assert [m["role"] for m in last[len(heard) :]] == ["assistant", "tool"]
    assert list(map(json.loads, told(server).values())) == [{"double": 120}, {"single": 80}]


async def a_wish_that_a_person_decides(served: Served, server: ModelServer) -> str:
    server.add(wishes(("p", "shop_prices", {"kind": "suite"}), ("b", "shop_book", {"kind": "suite"})))
    run_id = await say(served, "The suite, please.")
    await until(served, f"/v1/runs/{run_id}", lambda one: one["status"] == "paused")
    return run_id


async def the_decision(served: Served, server: ModelServer, run_id: str) -> None:
    """The host is another one: what the model wished for before is not asked of it again."""
    before, asked = len(server.requests), server.sent()
    server.say("The suite is yours.")
    listed = (await served.client.get(f"/v1/pauses?run_id={run_id}&status=open")).json()
    (pause,) = listed["items"]
    (call,) = pause["calls"]
    assert (call["tool"], call["args"]) == ("shop.book", {"kind": "suite"})
    action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
    body = {"revision": pause["revision"], "actions": [action]}
    decided = await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert decided.status_code == 202, decided.text
    over = ("completed", "failed", "cancelled", "timeout")
    ended = await until(served, f"/v1/runs/{run_id}", lambda one: one["status"] in over)
    assert (ended["status"], ended["output"]["text"]) == ("completed", "The suite is yours."), ended
    assert len(server.requests) == before + 1
    assert server.sent()[: len(asked)] == asked
    assert [m["role"] for m in server.sent()[len(asked) :]] == ["assistant", "tool", "tool"]
    assert list(told(server)) == ["p", "b"]
    assert json.loads(told(server)["p"]) == {"suite": 300}
    assert json.loads(told(server)["b"])["booking"] == "B1"


async def a_dead_first_model(served: Served, server: ModelServer, mode: str) -> None:
    """Dead by its own word, or without one."""
    before = len(server.requests)
    if mode == "parallel":
        server.fail(503, "overloaded", model="main")
    else:
        server.add(Answer(close=True), model="main")
    server.add(wishes(("p", "shop_prices", {})), model="spare")
    server.say("From the spare one.", model="spare")
    assert answered(await ask(served, "And the prices?")) == "From the spare one."
    assert [request.json["model"] for request in server.requests[before:]] == ["main", "spare", "spare"]
    first, second, _ = server.requests[before:]
    assert first.json["messages"] == second.json["messages"]


async def an_overflow(served: Served, server: ModelServer) -> None:
    """Asked again once, with notes in the place of what was said first; the picture goes on with them."""
    before = len(server.requests)
    server.fail(400, OVERFLOW, code="context_length_exceeded")
    server.say("The user showed a cat.")
    server.say("You showed me a cat.")
    assert answered(await ask(served, "What did I show you?")) == "You showed me a cat."
    whole, notes, less = (request.json["messages"] for request in server.requests[before:])
    assert notes[0]["content"].startswith(NOTES)
    assert notes[1]["content"].startswith("What was said since:\nUser: What is it? [a picture]")
    assert "Assistant: A cat." in notes[1]["content"]
    assert text_size(less) < 0.7 * text_size(whole)
    assert less[0]["content"].endswith("The user showed a cat.")
    assert PICTURE in next(m for m in less if m["role"] == "user")["content"]
    assert less[-1] == {"role": "user", "content": "What did I show you?"}
    # the next turn stands on the notes, and is paid once
    server.say("A cat, still.")
    assert answered(await ask(served, "Sure?")) == "A cat, still."
    assert len(server.requests) == before + 4
    assert server.sent()[0] == less[0]
    assert PICTURE in next(m for m in server.sent() if m["role"] == "user")["content"]


def text_size(messages: list[dict[str, Any]]) -> int:
    return len(json.dumps(messages)) - json.dumps(messages).count(PNG) * len(PNG)


@pytest.mark.timeout(600)  # many turns, on a machine that may be busy
async def test_a_conversation_of_hundreds_of_turns(tmp_path: Path) -> None:
    """Each message reaches the model or its notes; notes go on from the last ones, one time a crossing."""
    turns = 500 if SOAK else 120  # three pages of history, and notes half a dozen times
    small = {"window": 1_000, "reserve": 200, "keep_recent": 150, "summary": 60}
    config: dict[str, Any] = {f"context_{name}_tokens": value for name, value in small.items()}
    body = {"event_type": "message.received", "conversation_id": "c"}

    def reply(request: Recorded) -> Answer:
        messages = request.json["messages"]
        if messages[0]["content"].startswith(NOTES):
            last = messages[1]["content"].split("User: turn ")[-1].split()[0]
            return Answer(pieces=[f"Known up to {last}."])
        return Answer(pieces=[f"Noted {messages[-1]['content'].split()[1]}, " + "so it is " * 4])

    async with ModelServer(api_key="k") as server, hosting(tmp_path, server, config=config) as served:
        server.always(reply)
        for turn in range(turns):
            given = {**body, "input": {"text": f"turn {turn} brings this " + "and that " * 6}}
            answer = await served.client.post("/v1/events?wait=60", json=given)
            assert answer.json()["status"] == "completed", answer.text
        crossings = crossed([request.json["messages"] for request in server.requests])
        assert len(server.requests) == turns + len(crossings)
        assert turns // 25 <= len(crossings) <= turns // 10
        await only_where_the_budget_was_crossed(server.requests, crossings, 1_000 - 200)


def crossed(requests: list[list[dict[str, Any]]]) -> list[int]:
    """The places of requests for notes; each message of the conversation reaches the model or its notes."""
    covered, crossings = -1, []
    for place, messages in enumerate(requests):
        if messages[0]["content"].startswith(NOTES):
            told = messages[1]["content"]
            held = [int(part.split()[0]) for part in told.split("User: turn ")[1:]]
            assert held == list(range(covered + 1, held[-1] + 1))  # what followed, and nothing twice
            answered = [int(part.split(",")[0]) for part in told.split("Assistant: Noted ")[1:]]
            assert answered == held
            assert told.startswith(f"Your notes so far:\nKnown up to {covered}.\n") == (covered >= 0)
            covered = held[-1]
            crossings.append(place)
        else:
            seen = [int(m["content"].split()[1]) for m in messages if m["role"] == "user"]
            assert seen == list(range(covered + 1, seen[-1] + 1))  # all that the notes do not hold
            answers = [m["content"].split()[1] for m in messages if m["role"] == "assistant"]
            assert answers == [f"{turn}," for turn in seen[:-1]]
            assert messages[0]["content"].endswith(f"Known up to {covered}.") == (covered >= 0)
    return crossings


async def only_where_the_budget_was_crossed(
    requests: list[Recorded], crossings: list[int], budget: int
) -> None:
    """One request for notes each time, when the next turn would not have fitted, and room after it."""
    assert all(later - earlier > 10 for earlier, later in itertools.pairwise(crossings))
    for place in crossings:
        before, after = await tokens_of(requests[place - 1]), await tokens_of(requests[place + 1])
        assert 0.9 * budget < before <= budget
        assert after < 0.5 * budget
        assert await tokens_of(requests[place]) <= budget


async def tokens_of(request: Recorded) -> int:
    """As a host counts them that does not know the model."""
    messages = convert(request.json["messages"], list[ModelMessage])
    return (await count_tokens("main", messages, [])).input_tokens
