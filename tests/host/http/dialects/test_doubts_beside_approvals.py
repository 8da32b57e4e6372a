"""A call in doubt beside an approval, in the dialects that have no word for doubts: they say where to decide.

The approval is given before what became of the other call is said, or after it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.dialects import openai_chat, openai_responses
from support.dialects.ai_sdk import AI, Front, texts, tool_parts
from support.dialects.deciding import A2A, BOTH
from support.dialects.players import script
from support.http_host import Served
from support.http_runs import ended
from support.node_clients import node_clients

ORDER_AND_DOUBT = script(
    ["together", [["tool", "player.order", {"thing": "灯 🙂"}, "o"], ["tool", "toolbox.die", {}, "d"]]]
)
SAID = ['player.order: "ordered 1 灯 🙂"', 'toolbox.die: "so be it"']
ORDERS = ("approval", "in_doubt")
"""What is decided first."""


async def both_asked(mortal: Served, folder: Path) -> None:
    await A2A(mortal, folder).all_asked((BOTH,))


async def decided_elsewhere(mortal: Served, what: str) -> None:
    """Approve the call, or say what became of the other one, over the host's own interface."""
    pauses = (await mortal.client.get("/v1/pauses")).json()["items"]
    (pause,) = [one for one in pauses if one["status"] in ("open", "needs_review")]
    waiting = {one["review"] or "approval": one for one in pause["calls"] if one["may_decide"]}
    call = waiting[what]
    path, body = f"/v1/pauses/{pause['id']}", {"outcome": "happened", "result": "so be it"}
    if what == "in_doubt":
        answer = await mortal.client.post(f"{path}/calls/{call['call_id']}/resolve", json=body)
    else:
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        actions = {"revision": pause["revision"], "actions": [action]}
        answer = await mortal.client.post(f"{path}/actions", json=actions)
    assert answer.is_success, answer.text


async def end_of_run(mortal: Served) -> None:
    (newest, *_) = (await mortal.client.get("/v1/runs")).json()["items"]
    assert (await ended(mortal.client, newest["run_id"]))["status"] == "completed"


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.shows("ai-sdk", "in-doubt")
async def test_a_chat_of_the_ai_sdk(mortal: Served, tmp_path: Path, first: str) -> None:
    """Its client sends an approval although the other call of the step has no outcome yet."""
    front = Front(mortal, await asyncio.to_thread(node_clients, AI), tmp_path)
    asked = await front.chat({"send": ORDER_AND_DOUBT}, agent="mortal")
    await both_asked(mortal, tmp_path)
    asked = await front.chat({"resume": True}, agent="mortal", messages=asked["messages"])
    assert "hostler pauses" in texts(asked)[-1]
    if first == "in_doubt":
        await decided_elsewhere(mortal, "in_doubt")
    done = await front.chat({"approved": True}, agent="mortal", messages=asked["messages"])
    assert (done["errors"], len(done["finished"])) == ([], 1)
    if first == "approval":
        assert "hostler pauses" in texts(done)[-1]
        await decided_elsewhere(mortal, "in_doubt")
    await end_of_run(mortal)
    again = await front.chat({"resume": True}, agent="mortal", messages=done["messages"], late=True)
    for seen in (again, done) if first == "in_doubt" else (again,):
        assert sorted(texts(seen)[-2:]) == SAID
    assert sorted(part["output"] for part in tool_parts(again)) == ["ordered 1 灯 🙂", "so be it"]


@pytest.mark.shows("openai-responses", "in-doubt")
async def test_responses(mortal: Served, tmp_path: Path) -> None:
    async with openai_responses.client_of(mortal.url) as client:
        for first in ORDERS:
            begun = await client.responses.create(model="mortal", input=ORDER_AND_DOUBT)
            await both_asked(mortal, tmp_path)
            asked = await client.responses.retrieve(begun.id)
            assert "hostler pauses" in asked.output_text
            (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
            if first == "in_doubt":
                await decided_elsewhere(mortal, "in_doubt")
            answer: Any = {
                "type": "mcp_approval_response", "approval_request_id": request.id, "approve": True
            }  # fmt: skip
            done = await client.responses.create(
                model="mortal", previous_response_id=asked.id, input=[answer]
            )
            if first == "approval":
                assert done.status == "in_progress"
                assert "hostler pauses" in done.output_text
                await decided_elsewhere(mortal, "in_doubt")
                await end_of_run(mortal)
                done = await client.responses.retrieve(done.id)
            assert done.status == "completed"
            said = [item.content[0] for item in done.output if item.type == "message"][-2:]
            assert sorted(part.text for part in said if part.type == "output_text") == SAID
            shown = {item.name: item.output for item in done.output if item.type == "mcp_call"}
            assert shown == {"die": "so be it", "order": "ordered 1 灯 🙂"}


@pytest.mark.shows("openai-chat", "in-doubt")
async def test_chat_completions(mortal: Served, tmp_path: Path) -> None:
    async with openai_chat.client_of(mortal.url) as client:
        for first in ORDERS:
            begun = await client.chat.completions.create(
                model="mortal",
                messages=[openai_chat.user(ORDER_AND_DOUBT)],
                extra_headers={"Hostler-On-Pause": "answer"},
            )
            assert "hostler pauses" in (begun.choices[0].message.content or "")
            await both_asked(mortal, tmp_path)
            for what in (first, *(set(ORDERS) - {first})):
                await decided_elsewhere(mortal, what)
            done: Any = await client.chat.completions.retrieve(begun.id)
            assert sorted(done.hostler["messages"]) == SAID
            whole = done.choices[0].message.content
            assert whole.count("hostler pauses") == 2
            assert all(text in whole for text in SAID)
