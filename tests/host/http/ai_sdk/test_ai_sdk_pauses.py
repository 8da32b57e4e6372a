"""What a run waits for, with the AI SDK's own client: what is asked again, more budget, and who else decides.

The client sends a message by itself once its last step is decided. That it does so once and not for ever is
seen by the number of its answers.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import ConfigFile
from support.databases import TEST_SECONDS
from support.dialects.ai_sdk import AI, SCAN, Front, texts, tool_parts
from support.dialects.players import PLAYER, POLICY, player, script
from support.http_host import serving
from support.node_clients import node_clients
from support.trust import trusted

ORDER = ["tool", "player.order", {"thing": "lamp"}, "o"]


def price(thing: str) -> list[Any]:
    return ["tool", "player.price", {"thing": thing}, thing]


@pytest.mark.parametrize(("approved", "state"), [(True, "output-available"), (False, "output-error")])
@pytest.mark.shows("ai-sdk", "budget")
async def test_more_budget_is_an_approval(front: Front, approved: bool, state: str) -> None:
    budget = {"max_tool_calls_per_run": 1, "on_exceeded": "ask"}
    await player(front.served, "thrifty", resource_policy={**POLICY, "budget": budget})
    steps = script(price("lamp"), price("sofa"))
    seen = await front.chat({"send": steps}, {"approved": approved, "reason": "so be it"}, agent="thrifty")
    assert seen["errors"] == []
    first, second, asked = tool_parts(seen)
    assert (first["state"], second["state"]) == ("output-available", state)
    assert (asked["toolName"], asked["input"]["top_up"]) == ("budget", {"tool_calls": 1})
    assert "is used up" in asked["approval"]["requestReason"]
    assert (asked["state"], asked["approval"]["approved"]) == ("output-available", approved)
    assert len(seen["finished"]) == 2
    assert len(await front.runs()) == 1


async def test_a_call_whose_tool_changed_is_approved_again(tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, AI)
    folder, data = tmp_path / "player", tmp_path / "data"
    shutil.copytree(PLAYER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    async with serving(data, agent=False, hold_seconds=0.05) as served:
        await served.host.apply(ConfigFile(plugins=[trusted(folder)]), actor="test")
        await player(served)
        asked = await Front(served, node, tmp_path).chat({"send": script(ORDER)})
        (part,) = tool_parts(asked)
        assert part["state"] == "approval-requested"
        (run,) = (await served.client.get("/v1/runs")).json()["items"]
        await served.host.runs.wait("default", run["run_id"], TEST_SECONDS)
    code = folder / "player.py"
    code.write_text(code.read_text().replace("count: int = 1)", 'count: int = 1, by: str = "air")'))
    async with serving(data, agent=False) as served:
        await served.host.apply(ConfigFile(plugins=[trusted(folder)]), actor="test")
        front = Front(served, node, tmp_path)
        again = await front.chat({"approved": True}, messages=asked["messages"])
        assert again["errors"] == []
        before, part = tool_parts(again)
        assert (before["state"], before["approval"]["approved"]) == ("output-error", True)
        assert (part["toolName"], part["state"]) == ("player.order", "approval-requested")
        done = await front.chat({"bare": True}, {"approved": True}, messages=again["messages"])
        assert done["errors"] == []  # the id of the approval names what was shown
        part = tool_parts(done)[-1]
        assert (part["state"], part["output"]) == ("output-available", "ordered 1 lamp")
        assert len(await front.runs()) == 1


async def test_an_answer_without_a_word_is_not_asked_for_again(front: Front) -> None:
    seen = await front.chat(
        {"send": script(["say", "Let me see."], ["quiet", "scan", {}, "a"])},
        body={"tools": [SCAN]},
        outputs={"scan": {"value": "4711"}},
    )
    assert seen["errors"] == []
    assert len(seen["finished"]) == 2
    assert (await front.runs())[0]["status"] == "completed"


async def test_an_approval_that_needs_another_persons_is_sent_once(front: Front) -> None:
    rule = {"approval": "required", "min_approvals": 2}
    policy = {**POLICY, "tool_approval": {"player.order": rule}}
    await player(front.served, "careful", resource_policy=policy)
    seen = await front.chat({"send": script(ORDER)}, {"approved": True}, agent="careful")
    assert seen["errors"] == []
    assert len(seen["finished"]) == 2
    assert "hostler pauses list" in texts(seen)[-1]


async def test_what_still_waits_is_asked_in_another_step(front: Front) -> None:
    """The client sends what is decided in its last step, while a call of an earlier one waits."""
    policy = {**POLICY, "budget": {"max_tool_calls_per_run": 1, "on_exceeded": "ask"}}
    await player(front.served, "thrifty", resource_policy=policy)
    both = script(["together", [ORDER, price("lamp")]])
    steps: list[dict[str, Any]] = [{"approved": True, "of": "budget"}, *[{"approved": True}] * 3]
    seen = await front.chat({"send": both}, *steps, agent="thrifty")
    assert (seen["errors"], seen["status"]) == ([], "ready")
    said = "".join(texts(seen))
    assert "ordered 1 lamp" in said
    assert "player.price: " in said
    assert len(await front.runs()) == 1


async def test_a_call_beside_an_approval_does_not_hold_it_back(front: Front, tmp_path: Path) -> None:
    """The answer ends while the other call is made: the decision is sent, and the outcome comes below."""
    path = tmp_path / "go"
    slow = ["tool", "player.slow", {"path": str(path)}, "s"]
    steps = script(["together", [ORDER, slow]], ["say", "Bye."])
    asked = await front.chat({"send": steps})
    path.touch()
    seen = await front.chat({"approved": True}, messages=asked["messages"])
    assert (seen["errors"], seen["status"]) == ([], "ready")
    said = texts(seen)
    assert "Bye." in said
    assert 'player.slow: "at last"' in said
    calls = [part for part in seen["messages"][-1]["parts"] if part.get("toolName") == "player.slow"]
    assert [(part["state"], part.get("errorText"), part.get("output")) for part in calls] == [
        ("output-error", "this call goes on below", None),
        ("output-available", None, "at last"),
    ]
    ordered = [part for part in seen["messages"][-1]["parts"] if part.get("toolName") == "player.order"]
    assert [part["state"] for part in ordered] == ["output-available"]
    assert len(await front.runs()) == 1


@pytest.mark.parametrize(
    ("steps", "decision"),
    [
        ([["ask", "Which size?"]], {"tool": "question", "output": {"values": {"size": "xl"}}}),
        ([ORDER], {"approved": True, "reason": "so be it"}),
        ([ORDER], {"approved": False, "reason": "too dear"}),
        ([["say", "Hm."], ["quiet", "scan", {}, "a"]], {"tool": "scan", "output": "4711"}),
    ],
    ids=["question", "approved", "denied", "client tool"],
)
async def test_a_message_that_is_read_again_shows_what_was_decided(
    front: Front, steps: list[Any], decision: dict[str, Any]
) -> None:
    seen = await front.chat({"send": script(*steps)}, decision, body={"tools": [SCAN]})
    assert seen["errors"] == []
    question, answer = seen["messages"]
    again = await front.chat({"resume": True}, messages=[question, {**answer, "parts": []}], late=True)
    assert again["errors"] == []
    assert len(again["finished"]) == 1, "nothing is sent again"
    assert _without_steps(again["messages"]) == _without_steps(seen["messages"])


async def test_what_was_answered_is_for_who_may_see_it(front: Front) -> None:
    decision = {"tool": "question", "output": {"values": {"size": "xl"}}}
    seen = await front.chat({"send": script(["ask", "Which size?"], ["say", "Bye."])}, decision)
    path = f"/ai-sdk/player/chat/stream?message_id={seen['messages'][1]['id']}"
    for subject, shown in (("admin", '"output":null'), ("somebody", "this waits no more")):
        key = await front.served.key("default", "runs:read", subject=subject)
        async with front.served.as_key(key) as reader:
            read = (await reader.get(path)).text
        assert shown in read
        assert '"values":{"size":"xl"}' not in read
    assert '"values":{"size":"xl"}' in (await front.served.client.get(path)).text


@pytest.mark.parametrize(
    ("rule", "action", "shown", "done_as"),
    [
        ({"subjects": ["*"]}, {"type": "deny", "comment": "no"}, False, "output-error"),
        (
            {"subjects": ["user:boss"], "editable": True},
            {"type": "approve", "edited_args": {"thing": "sofa"}},
            True,
            "output-available",
        ),
    ],
    ids=["denied", "edited by somebody else"],
)
async def test_what_is_decided_shows_while_the_run_goes_on(
    front: Front, rule: dict[str, Any], action: dict[str, Any], shown: bool, done_as: str
) -> None:
    """Two approvals at once, one of which is decided elsewhere, are read again by another page.

    What that sends back is its own decision and the other one, which it may not take.
    """
    own = {"approval": "required", "separation_of_duty": False}
    policy = {**POLICY, "tool_approval": {"player.order": {**own, **rule}, "player.price": own}}
    await player(front.served, "strict", resource_policy=policy)
    asked = await front.chat({"send": script(["together", [ORDER, price("lamp")]])}, agent="strict")
    assert [part["state"] for part in tool_parts(asked)] == ["approval-requested"] * 2
    async with front.served.as_key(await front.served.key(subject="boss")) as boss:
        (pause,) = (await boss.get("/v1/pauses")).json()["items"]
        pause = (await boss.get(f"/v1/pauses/{pause['id']}")).json()
        (call,) = [call for call in pause["calls"] if call["tool"] == "player.order"]
        taken = {"call_id": call["call_id"], "args_hash": call["args_hash"], **action}
        body = {"revision": pause["revision"], "actions": [taken]}
        decided = await boss.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert decided.status_code == 202, decided.text
    again = await front.chat({"resume": True}, messages=asked["messages"][:1], agent="strict")
    states = {
        part["toolName"]: (part["state"], part["approval"].get("approved")) for part in tool_parts(again)
    }
    assert states == {
        "player.order": ("approval-responded", shown),
        "player.price": ("approval-requested", None),
    }
    done = await front.chat({"approved": True}, messages=again["messages"], agent="strict")
    assert done["errors"] == []
    assert {part["toolName"]: part["state"] for part in tool_parts(done)} == {
        "player.order": done_as,
        "player.price": "output-available",
    }


def _without_steps(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reading of the whole message has fewer steps than its answers one after the other."""
    return [
        {**message, "parts": [part for part in message["parts"] if part["type"] != "step-start"]}
        for message in messages
    ]
