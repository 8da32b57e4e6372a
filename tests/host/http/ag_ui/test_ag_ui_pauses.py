"""AG-UI with its official client: tools of the application, approvals, questions, stopping."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.http.dialects.requests import request_id
from hostler_protocol.results import InteractionRequested
from support.databases import TEST_SECONDS
from support.dialects.ag_ui import AgUiClient, ag_ui_client, texts_of, tool, user
from support.dialects.players import player, playing, script
from support.http_host import ADMIN_KEY, Served
from support.loopback import NO_CERTIFICATES

WEATHER = {
    "name": "weather",
    "description": "Tells the weather where the user is",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ORDER = ["tool", "player.order", {"thing": "茶", "count": 2}, "o"]


def pending(client: AgUiClient) -> list[str]:
    (finished,) = client.finished
    assert finished["outcome"] == "success"
    found: list[str] = finished["pendingToolCallIds"]
    return found


@pytest.mark.shows("ag-ui", "client-tools")
async def test_tools_of_the_application_several_at_once(served: Served) -> None:
    calls = [["tool", "weather", {"city": city}, "w"] for city in ("北京", "Paris")]
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["delta", "Let me "], ["together", calls]), tools=[WEATHER])
        first, second = pending(client)
        arguments = [
            json.loads(event["delta"]) for event in client.events if event["type"] == "TOOL_CALL_ARGS"
        ]
        assert arguments == [{"city": "北京"}, {"city": "Paris"}]
        assert "TOOL_CALL_RESULT" not in client.types()
        # one is not enough: the run still waits for the other
        done = await client.command(say=[tool(first, '{"sky": "晴"}')], run={})
        assert pending(client) == [second]
        assert client.types() == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]
        done = await client.command(say=[tool(second, "", error="no such city")], run={})
        assert client.finished == [{"outcome": "success", "pendingToolCallIds": []}]
        texts = texts_of(done["messages"])
        assert any('{"sky": "晴"}' in text for text in texts)
        assert any("no such city" in text for text in texts)
        assert sum(message["role"] == "tool" for message in done["messages"]) == 2
        assert client.warnings == []


async def test_results_of_several_tools_at_once(served: Served) -> None:
    calls = [["tool", "weather", {"city": city}, city] for city in "ab"]
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["together", calls], ["say", "Done."]), tools=[WEATHER])
        first, second = pending(client)
        done = await client.command(
            say=[tool(second, [{"type": "text", "text": "rain"}]), tool(first, "sun")], run={}
        )
        assert texts_of(done["messages"])[-1] == "Done."
        # what was said is said again without effect, and tells the thread again
        again = await client.command(run={})
        assert texts_of(again["messages"]) == texts_of(done["messages"]) or "failed" in again


async def test_a_resume_gives_the_result_of_a_tool_whatever_it_says(served: Served) -> None:
    text = script(["tool", "weather", {"city": "x"}, "w"], ["say", "Bye."])
    body = {"threadId": "t1", "runId": "r1", "messages": [user(text)], "tools": [WEATHER]}
    assert '"RUN_FINISHED"' in (await served.client.post("/ag-ui/player", json=body)).text
    (pause,) = (await served.client.get("/v1/pauses")).json()["items"]
    (call,) = pause["calls"]
    shown = InteractionRequested(
        kind="client_tool", call_id=call["call_id"], title="", args_hash=call["args_hash"]
    )
    result = {"happened": True, "sky": "晴"}
    entry = {"interruptId": request_id(pause["run_id"], shown), "status": "resolved", "payload": result}
    done = await served.client.post("/ag-ui/player", json={**body, "runId": "r2", "resume": [entry]})
    assert "Bye." in done.text
    assert "晴" in done.text


@pytest.mark.shows("ag-ui", "approval")
async def test_an_approval_with_what_was_shown(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["say", "One moment."], ORDER, ["say", "Bye."]))
        assert [finished["outcome"] for finished in client.finished] == ["interrupt"]
        (interrupt,) = client.events[-1]["outcome"]["interrupts"]
        assert interrupt["reason"] == "tool_call"
        assert interrupt["toolCallId"] in {
            event["toolCallId"] for event in client.events if event["type"] == "TOOL_CALL_START"
        }
        assert interrupt["responseSchema"]["required"] == ["approved"]
        assert len(interrupt["metadata"]["hostler"]["args_hash"]) == 64
        assert interrupt["expiresAt"].endswith("Z")
        run = {
            "resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        }
        done = await client.command(run={"runId": "decision", **run})
        assert client.types()[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "TOOL_CALL_RESULT"]
        results = [event for event in client.events if event["type"] == "TOOL_CALL_RESULT"]
        assert [one["toolCallId"] for one in results] == [interrupt["toolCallId"]]
        assert texts_of(done["messages"])[-1] == "Bye."
        assert "ordered 2 茶" in done["messages"][-3]["content"] + done["messages"][-2]["content"]
        assert done["interrupts"] == []
        # the same decision again changes nothing, and shows the same
        again = await client.command(run={"runId": "decision", **run})
        assert texts_of(again["messages"]) == texts_of(done["messages"])


async def test_a_denial_and_a_cancelled_approval(served: Served) -> None:
    for thread, entry in (
        ("t1", {"status": "resolved", "payload": {"approved": False, "comment": "too much"}}),
        ("t2", {"status": "cancelled"}),
    ):
        async with ag_ui_client(served.url, ADMIN_KEY, thread=thread) as client:
            done = await client.run(script(ORDER))
            (interrupt,) = done["interrupts"]
            done = await client.command(run={"resume": [{"interruptId": interrupt["id"], **entry}]})
            assert "failed" in texts_of(done["messages"])[-1]


@pytest.mark.shows("ag-ui", "question")
async def test_a_question(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["ask", "多大?"]))
        (interrupt,) = done["interrupts"]
        assert interrupt["reason"] == "input_required"
        assert interrupt["message"] == "多大?\nIt is cold."
        assert interrupt["responseSchema"]["properties"]["size"]["enum"] == ["s", "xl"]
        wrong = {"resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"size": "m"}}]}
        done = await client.command(run=wrong)
        assert client.types() == ["RUN_STARTED", "RUN_ERROR"]
        assert client.events[-1]["code"] == "schema"
        assert done["interrupts"] == [interrupt]  # it still waits
        right = {
            "resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"size": "xl"}}]
        }
        done = await client.command(run=right)
        assert texts_of(done["messages"])[-1] == 'answered: {"size": "xl"}'


async def test_a_question_that_is_abandoned_ends_its_run(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["ask", "How?"]))
        resume = [{"interruptId": done["interrupts"][0]["id"], "status": "cancelled"}]
        done = await client.command(run={"resume": resume})
        assert client.events[-1]["outcome"] == {"type": "cancelled"}
        assert done["interrupts"] == []
        done = await client.run("next")
        assert texts_of(done["messages"])[-1] == "you said: next"


async def test_what_decides_nothing_is_an_error_event_and_the_run_waits(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["together", [ORDER, ["ask", "How?"]]]))
        approval, question = sorted(done["interrupts"], key=lambda one: one["reason"], reverse=True)
        yes = {"interruptId": approval["id"], "status": "resolved", "payload": {"approved": True}}
        answer = {"interruptId": question["id"], "status": "resolved", "payload": {"size": "s"}}
        other = approval["id"].rpartition(".")[0] + "." + "0" * 16
        cases: list[tuple[list[dict[str, Any]], str]] = [
            ([{**yes, "payload": "sure"}, answer], "schema"),
            ([{**yes, "payload": None}, answer], "schema"),
            ([{**yes, "interruptId": other}, answer], "stale_view"),
            ([{**yes, "payload": {"approved": True, "argsHash": "0" * 64}}, answer], "stale_view"),
            ([yes], "uncovered_interrupts"),
            ([{**yes, "interruptId": "no-such"}, answer], "not_found"),
            ([{**yes, "interruptId": "call_x_y.z"}], "not_found"),
        ]
        async with httpx.AsyncClient(
            headers={"authorization": f"Bearer {ADMIN_KEY}"}, verify=NO_CERTIFICATES
        ) as wire:
            for entries, code in cases:
                body = {"threadId": "thread-1", "runId": "r", "messages": [], "resume": entries}
                sent = await wire.post(f"{served.url}/ag-ui/player", json=body)
                assert sent.status_code == 200
                assert f'"code":"{code}"' in sent.text, (entries, sent.text)
            # other threads and agents have no such interrupts
            for url, thread in (("ag-ui/player", "other"), ("ag-ui/nobody", "thread-1")):
                body = {"threadId": thread, "runId": "r", "messages": [], "resume": [yes, answer]}
                sent = await wire.post(f"{served.url}/{url}", json=body)
                assert '"code":"not_found"' in sent.text
        done = await client.command(run={"resume": [yes, answer]})
        texts = texts_of(done["messages"])
        assert 'answered: {"size": "s"}' in texts
        assert any("ordered 2" in text for text in texts)


async def test_a_message_while_a_run_waits_is_refused_unless_the_agent_gives_up(tmp_path: Path) -> None:
    async with playing(tmp_path, hold_seconds=1) as served:
        await player(served, "eager", concurrency={"on_pause": "supersede"})
        await _interrupt(served)


async def _interrupt(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(ORDER))
        (interrupt,) = done["interrupts"]
        client.send(forget=True)
        await client.run("hello?")
        assert client.types() == ["RUN_STARTED", "RUN_ERROR"]
        assert client.events[-1]["code"] == "interrupts_pending"
        assert interrupt["id"] in client.events[-1]["message"]
    async with ag_ui_client(served.url, ADMIN_KEY, agent="eager", thread="t2") as client:
        await client.run(script(ORDER))
        newest = (await served.client.get("/v1/runs?conversation_id=t2")).json()["items"][0]
        await served.host.runs.wait("default", newest["run_id"], TEST_SECONDS)
        client.send(forget=True)
        done = await client.run("hello?")
        assert texts_of(done["messages"])[-1] == "you said: hello?"


async def test_a_request_that_waits_is_the_same_run_when_sent_again(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["say", "One."], ORDER), runId="r1")
        client.send(forget=True)
        again = await client.command(run={"runId": "r1"})
        assert texts_of(again["messages"]) == texts_of(done["messages"]) == ["One."]
        assert again["interrupts"] == done["interrupts"]
    runs = (await served.client.get("/v1/runs")).json()["items"]
    assert len(runs) == 1


@pytest.mark.shows("ag-ui", "cancel")
async def test_stopping_ends_what_runs_and_what_waits(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        client.send(say=[user(script(["delta", "on and"], ["hold"]))], run={})
        await client.until_event("TEXT_MESSAGE_CONTENT")
        stopped = await served.client.post("/ag-ui/player/thread-1/stop", json={})
        assert stopped.json()["stopped"]
        await client.outcome()
        assert client.events[-1]["outcome"] == {"type": "cancelled"}
        assert client.finished == [{"outcome": "cancelled"}]
        await client.run(script(["say", "x"], ORDER), runId="r2")
        stopped = await served.client.post("/ag-ui/player/thread-1/stop", json={"runId": "r2"})
        assert len(stopped.json()["runs"]) == 1
        await served.host.runs.wait("default", stopped.json()["runs"][0], TEST_SECONDS)
        again = await served.client.post("/ag-ui/player/thread-1/stop", json={})
        assert again.json() == {"stopped": False, "runs": []}
        assert (
            await served.client.post("/ag-ui/player/thread-1/stop", json={"runId": "x"})
        ).status_code == 404
    async with ag_ui_client(served.url, ADMIN_KEY, old=True, thread="t2") as client:
        client.send(say=[user(script(["delta", "on and"], ["hold"]))], run={})
        await client.until_event("TEXT_MESSAGE_CONTENT")
        await served.client.post("/ag-ui/player/t2/stop", json={})
        await client.outcome()
        assert (client.events[-1]["type"], client.events[-1]["code"]) == ("RUN_ERROR", "cancelled")


@pytest.mark.parametrize("wish", ["cancel", "continue"])
@pytest.mark.shows("ag-ui", "disconnect")
async def test_disconnecting_stops_only_where_that_is_asked_for(
    served: Served, tmp_path: Path, wish: str
) -> None:
    gate = tmp_path / "gate"
    headers = {"Hostler-On-Disconnect": wish}
    async with ag_ui_client(served.url, ADMIN_KEY, headers=headers) as client:
        client.send(
            say=[user(script(["delta", "x"], ["wait", str(gate)], ["say", "x y"]))], run={"runId": "r"}
        )
        await client.until_event("TEXT_MESSAGE_CONTENT")
        client.send(abort=True)
        await client.outcome()
    run = (await served.client.get("/v1/runs")).json()["items"][0]
    if wish == "continue":
        gate.touch()
    async with asyncio.timeout(TEST_SECONDS):
        await served.host.runs.wait("default", run["run_id"], TEST_SECONDS)
    run = (await served.client.get(f"/v1/runs/{run['run_id']}")).json()
    assert run["status"] == {"cancel": "cancelled", "continue": "completed"}[wish]


async def test_the_client_of_copilotkit_calls_tools_of_the_page(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY, old=True) as client:
        done = await client.run(
            script(["tool", "weather", {"city": "x"}, "w"], ["say", "Bye."]), tools=[WEATHER]
        )
        (call,) = [call for message in done["messages"] for call in message.get("toolCalls", [])]
        assert client.events[-1]["outcome"] == {"type": "success"}
        done = await client.command(say=[tool(call["id"], "sunny")], run={})
        assert texts_of(done["messages"])[-1] == "Bye."
        done = await client.run(script(ORDER))
        (interrupt,) = done["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        done = await client.command(run={"resume": resume})
        assert "ordered 2 茶" in texts_of(done["messages"])[-1]
        assert client.warnings == []
