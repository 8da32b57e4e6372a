"""`/ai-sdk`: chats of the AI SDK's own client, in Node.js, with a real host."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.databases import TEST_SECONDS
from support.dialects.ai_sdk import SCAN, Front, texts, tool_parts
from support.dialects.players import RUNNER, script


@pytest.mark.shows("ai-sdk", "text", "unicode")
async def test_text_comes_in_pieces_and_ends_complete(front: Front) -> None:
    steps = [["delta", "你好, "], ["delta", "wörld 🙂"], ["say", "你好, wörld 🙂"]]
    seen = await front.chat({"send": script(*steps)})
    assert seen["errors"] == []
    assert texts(seen) == ["你好, wörld 🙂"]
    (answer,) = [message for message in seen["messages"] if message["role"] == "assistant"]
    (run,) = await front.runs()
    assert answer["id"] == f"msg_{run['run_id']}"
    assert answer["metadata"]["runId"] == run["run_id"]
    assert run["conversation_id"] == "chat"
    assert seen["finished"][-1]["finishReason"] == "stop"


async def test_reasoning_is_a_part_before_the_text(front: Front) -> None:
    seen = await front.chat({"send": script(["think", "Two and "], ["think", "two."], ["say", "4"])})
    assert seen["errors"] == []
    (answer,) = [message for message in seen["messages"] if message["role"] == "assistant"]
    said = [(part["type"], part["text"], part["state"]) for part in answer["parts"] if "text" in part]
    assert said == [("reasoning", "Two and two.", "done"), ("text", "4", "done")]


async def test_what_a_crashed_attempt_said_is_taken_back(front: Front, tmp_path: Path) -> None:
    steps = [["think", "hm"], ["delta", "Half"], ["crash", str(tmp_path / "crashed")], ["delta", " done"]]
    spare = await front.served.client.put(
        "/v1/agents/restarting",
        json={"name": "restarting", "runner": RUNNER, "recovery": {"on_crash": "restart", "max_attempts": 3}},
    )
    assert spare.status_code in (200, 201), spare.text
    seen = await front.chat({"send": script(*steps, ["say", "Half done"])}, agent="restarting")
    assert seen["errors"] == []
    (answer,) = [message for message in seen["messages"] if message["role"] == "assistant"]
    said = [(part["type"], part["text"]) for part in answer["parts"] if "text" in part]
    assert said == [("reasoning", "hm"), ("text", "Half done")]


@pytest.mark.shows("ai-sdk", "tools", "usage")
async def test_a_tool_of_the_host_is_shown_with_its_outcome(front: Front) -> None:
    steps = [
        ["tool", "player.price", {"thing": "lamp"}, "a"],
        ["tool", "player.price", {"thing": "nothing"}, "b"],
    ]
    seen = await front.chat({"send": script(*steps, ["usage", 3, 4, "done"])})
    assert seen["errors"] == []
    good, bad = tool_parts(seen)
    assert (good["toolName"], good["input"], good["output"]) == (
        "player.price",
        {"thing": "lamp"},
        {"thing": "lamp", "euros": 4},
    )
    assert (bad["state"], good["providerExecuted"]) == ("output-error", True)
    assert seen["calls"] == []  # nothing of it is for the client
    (answer,) = [message for message in seen["messages"] if message["role"] == "assistant"]
    assert answer["metadata"]["usage"] == {"input_tokens": 3, "output_tokens": 4}


@pytest.mark.parametrize(("approved", "said"), [(True, "ordered 1 lamp"), (False, "player.order failed")])
@pytest.mark.shows("ai-sdk", "approval")
async def test_an_approval_comes_back_in_the_same_message(front: Front, approved: bool, said: str) -> None:
    call = ["tool", "player.order", {"thing": "lamp"}, "a"]
    seen = await front.chat(
        {"send": script(["say", "wait"], call)}, {"approved": approved, "reason": "so be it"}
    )
    assert seen["errors"] == []
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert texts(seen)[0] == "wait"
    assert said in texts(seen)[-1]
    (part,) = tool_parts(seen)
    assert part["state"] == ("output-available" if approved else "output-error")
    assert len(await front.runs()) == 1


@pytest.mark.shows("ai-sdk", "client-tools")
async def test_tools_of_the_caller_run_in_the_front_end(front: Front) -> None:
    both = ["together", [["tool", "scan", {"n": 1}, "a"], ["tool", "scan", {"n": 2}, "b"]]]
    seen = await front.chat(
        {"send": script(["delta", "Let me"], both, ["say", "Let me see."])},
        body={"tools": [SCAN]},
        outputs={"scan": {"value": {"code": "4711"}}},
    )
    assert seen["errors"] == []
    assert sorted(call["input"]["n"] for call in seen["calls"]) == [1, 2]
    assert [part["state"] for part in tool_parts(seen)] == ["output-available"] * 2
    assert texts(seen)[-1].endswith("see.")
    assert len(await front.runs()) == 1
    failed = await front.chat(
        {"send": script(["tool", "scan", {}, "a"])},
        id="other",
        body={"tools": [SCAN]},
        outputs={"scan": {"error": "no camera"}},
    )
    assert "no camera" in texts(failed)[-1]


@pytest.mark.shows("ai-sdk", "question")
async def test_a_question_is_a_tool_that_a_person_answers(front: Front) -> None:
    answer = {"values": {"size": "xl"}}
    seen = await front.chat({"send": script(["ask", "Which size?"])}, {"tool": "question", "output": answer})
    assert seen["errors"] == []
    (asked,) = tool_parts(seen)
    assert asked["input"]["title"] == "Which size?"
    assert asked["input"]["fields"][0]["name"] == "size"
    assert texts(seen) == ['answered: {"size": "xl"}']


@pytest.mark.shows("ai-sdk", "error")
async def test_a_failure_is_the_clients_error(front: Front) -> None:
    seen = await front.chat({"send": script(["delta", "half"], ["fail", "the oven is cold"])})
    assert seen["status"] == "error"
    assert "the oven is cold" in seen["errors"][0]["message"]


@pytest.mark.shows("ai-sdk", "files-in", "files-out")
async def test_files_go_in_and_come_out(front: Front) -> None:
    picture = {
        "type": "file",
        "mediaType": "image/png",
        "filename": "p.png",
        "url": "data:image/png;base64,iVBORw0KGgo=",
    }
    seen = await front.chat({"send": script(["seen"]), "files": [picture]})
    assert seen["errors"] == []
    given = json.loads(texts(seen)[0])["input"]
    assert [one["type"] for one in given["contents"]] != []
    out = await front.chat(
        {"send": script(["file", "content", "notes.txt"], ["loose", "more", "m.txt"])}, id="out"
    )
    files = [part for message in out["messages"] for part in message["parts"] if part["type"] == "file"]
    assert len(files) == 2
    got = [await front.served.client.get(part["url"]) for part in files]
    assert [answer.text for answer in got] == ["content", "more"]


@pytest.mark.shows("ai-sdk", "repeated")
async def test_the_same_message_twice_is_one_run_and_an_edited_one_another(front: Front) -> None:
    seen = await front.chat({"send": "hello"}, {"again": 1})
    assert len(await front.runs()) == 1
    assert seen["data"][0]["messageId"] == seen["messages"][1]["id"]
    assert "".join(one.get("delta", "") for one in seen["data"]) == texts(seen)[0]
    await front.chat({"edit": "hullo"}, messages=seen["messages"])
    assert len(await front.runs()) == 2


async def test_a_chat_that_the_host_does_not_know_brings_its_history(front: Front) -> None:
    tool = {
        "type": "tool-scan",
        "toolCallId": "x",
        "state": "output-available",
        "input": {"n": 1},
        "output": "4711",
    }
    earlier = [
        {"id": "a", "role": "user", "parts": [{"type": "text", "text": "who are you?"}]},
        {"id": "b", "role": "assistant", "parts": [{"type": "text", "text": "a player"}, tool]},
    ]
    seen = await front.chat({"send": "hello"}, messages=earlier)
    assert seen["errors"] == []
    page = (await front.served.client.get("/v1/conversations/chat/history")).json()
    said = [(item["role"], item["content"]) for item in reversed(page["items"])]
    assert said == [
        ("user", "who are you?"),
        ("assistant", "a player"),
        ("tool", "4711"),
        ("user", "hello"),
        ("assistant", "you said: hello"),
    ]
    again = await front.chat({"send": "once more"}, messages=seen["messages"])
    assert again["errors"] == []
    page = (await front.served.client.get("/v1/conversations/chat/history")).json()
    assert len(page["items"]) == 7


async def test_an_answer_is_regenerated_by_a_retry(front: Front) -> None:
    seen = await front.chat({"send": "hello"}, {"regenerate": True})
    assert seen["errors"] == []
    newest, first = await front.runs()
    record = (await front.served.client.get(f"/v1/runs/{newest['run_id']}")).json()
    assert record["retry_of"] == first["run_id"]
    assert [message["id"] for message in seen["messages"]][1:] == [f"msg_{newest['run_id']}"]


@pytest.mark.shows("ai-sdk", "long-run")
async def test_who_comes_back_gets_the_whole_message(front: Front, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    steps = script(["delta", "first "], ["wait", str(gate)], ["say", "first second"])
    left = await front.chat({"leave": steps, "once": "first"})
    assert left["finished"][-1]["isAbort"]
    back = asyncio.create_task(front.chat({"resume": True}, messages=left["messages"]))
    async with asyncio.timeout(TEST_SECONDS):
        while not await front.readers():
            await asyncio.sleep(0.02)
    gate.touch()
    seen = await back
    assert seen["errors"] == []
    assert texts(seen) == ["first second"]
    assert [message["id"] for message in seen["messages"]] == [message["id"] for message in left["messages"]]
    none = await front.chat({"resume": True}, messages=left["messages"])
    assert none["messages"] == left["messages"]  # nothing is under way: 204
    late = await front.chat({"resume": True}, messages=left["messages"], late=True)
    assert late["messages"] == seen["messages"]


async def test_who_comes_back_to_a_decided_pause_gets_what_led_to_it(front: Front) -> None:
    call = ["tool", "player.order", {"thing": "lamp"}, "a"]
    asked = await front.chat({"send": script(["say", "one moment"], call, ["hold"])})
    again = await front.chat({"resume": True}, messages=asked["messages"][:1])
    assert [part["state"] for part in tool_parts(again)] == ["approval-requested"]
    assert texts(again) == ["one moment"]


@pytest.mark.shows("ai-sdk", "cancel")
async def test_a_chat_is_stopped(front: Front) -> None:
    left = await front.chat({"leave": script(["delta", "on and on"], ["hold"]), "once": "on and on"})
    (run,) = await front.runs()
    assert run["status"] == "running"
    stopped = await front.served.client.post("/ai-sdk/player/chat/stop")
    assert stopped.status_code == 204
    (run,) = await front.runs()
    ended = (await front.served.client.get(f"/v1/runs/{run['run_id']}/stream")).text
    assert "cancelled" in ended
    assert (await front.served.client.get("/ai-sdk/player/chat/stream")).status_code == 204
    assert left["messages"]


@pytest.mark.shows("ai-sdk", "wrong-key", "unknown-agent")
async def test_refusals_are_sentences(front: Front) -> None:
    wrong = await front.chat({"send": "hello"}, key="wrong")
    assert (wrong["errors"][0]["status"], "not valid" in wrong["errors"][0]["message"]) == (401, True)
    unknown = await front.chat({"send": "hello"}, agent="nobody")
    assert unknown["errors"][0]["status"] == 404
    assert "nobody" in unknown["errors"][0]["message"]
