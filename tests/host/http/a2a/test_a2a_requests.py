"""What a task waits for, with A2A's official client: approvals, questions, and tools of the client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from a2a.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, SubscribeToTaskRequest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from support.dialects.a2a import REQUESTS, TOOLS, Told, a2a_client, got, message, told
from support.dialects.players import script
from support.http_host import Served

ORDER = script(
    ["say", "Let me see."], ["tool", "player.order", {"thing": "灯", "count": 2}, "m1"], ["say", "Bye."]
)
ASK = script(["ask", "Which size?"], ["say", "Bye."])
WEATHER = {
    "name": "weather",
    "description": "The weather of a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}
BOTH = script(
    ["together", [["tool", "weather", {"town": "北京"}, "m1"], ["tool", "weather", {"town": "Oslo"}, "m2"]]],
    ["say", "Goodbye."],
)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streaming(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.shows("a2a", "tools")
async def test_tools_of_the_host_are_its_own_affair(host: Served, binding: str) -> None:
    asked = script(["tool", "player.price", {"thing": "lamp"}, "m1"], ["say", "That is all."])
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message(asked))
        assert found.texts == ['player.price: {"thing": "lamp", "euros": 4}', "That is all."]
        assert found.statuses[-1].get("message") is None
        assert not [status for status in found.statuses if "message" in status]
    async with a2a_client(host.url, binding=binding, A2A_Extensions=TOOLS) as client:
        found = await told(client, message(asked))
        calls = [
            part["data"] for status in found.statuses for part in status.get("message", {}).get("parts", [])
        ]
        assert [call["name"] for call in calls] == ["player.price", "player.price"]
        assert (calls[0]["arguments"], calls[1]["result"]["euros"]) == ({"thing": "lamp"}, 4)


@pytest.mark.shows("a2a", "approval", "unicode")
async def test_an_approval_is_a_request_of_the_status(host: Served, binding: str, streaming: bool) -> None:
    async with a2a_client(host.url, binding=binding, streaming=streaming) as client:
        asked = await told(client, message(ORDER))
        assert (asked.state, asked.texts) == ("INPUT_REQUIRED", ["Let me see."])
        (wanted,) = asked.requests
        assert wanted["kind"] == "approval"
        assert (wanted["toolName"], wanted["arguments"]) == ("player.order", {"thing": "灯", "count": 2})
        assert wanted["schema"]["required"] == ["approved"]
        assert asked.statuses[-1]["message"]["extensions"] == [REQUESTS]
        task = await got(client, asked.task_id)
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert task["status"]["message"]["parts"][1]["data"] == wanted
        with pytest.raises(InvalidParamsError, match="waits"):
            await told(client, message("what about it?", task_id=asked.task_id))
        with pytest.raises(InvalidParamsError, match="approved"):
            await told(client, message({"id": wanted["id"]}, task_id=asked.task_id))
        stale = wanted["id"].rpartition(".")[0] + ".0123456789abcdef"
        with pytest.raises(UnsupportedOperationError, match="other arguments"):
            await told(client, message({"id": stale, "approved": True}, task_id=asked.task_id))
        with pytest.raises(TaskNotFoundError):
            await told(client, message({"id": "call_", "approved": True}, task_id=asked.task_id))
        with pytest.raises(InvalidParamsError, match="taskId"):
            await told(client, message({"id": wanted["id"], "approved": True}))
        yes = message({"id": wanted["id"], "approved": True, "comment": "fine"}, task_id=asked.task_id)
        done = await told(client, yes)
        assert done.state == "COMPLETED"
        assert done.texts == ["Let me see.", 'player.order: "ordered 2 灯"', "Bye."]
        assert (await told(client, yes)).texts == done.texts  # the same again, however late
        with pytest.raises(UnsupportedOperationError):
            await told(client, message({"id": wanted["id"], "approved": False}, task_id=asked.task_id))


@pytest.mark.parametrize(("verb", "end"), [("approve", '"ordered 2 灯"'), ("Deny", "failed")])
async def test_an_approval_is_decided_in_text_with_its_code(
    host: Served, binding: str, verb: str, end: str
) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        asked = await told(client, message(ORDER))
        code = asked.requests[0]["argsHash"][:16]
        assert f"approve {code}" in asked.said
        with pytest.raises(InvalidParamsError, match="waits"):
            await told(client, message(f"{verb} 0123456789abcdef", task_id=asked.task_id))
        answer = message(f"{verb} {code}: as agreed", task_id=asked.task_id)
        done = await told(client, answer)
        assert end in done.texts[1]
        assert (await told(client, answer)).task_id == asked.task_id


async def test_arguments_can_be_edited_only_where_the_tool_says_so(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        asked = await told(client, message(ORDER))
        edited = {"id": asked.requests[0]["id"], "approved": True, "editedArgs": {"thing": "x", "count": 1}}
        with pytest.raises((InvalidParamsError, UnsupportedOperationError)):
            await told(client, message(edited, task_id=asked.task_id))
        assert (await got(client, asked.task_id))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@pytest.mark.parametrize("in_text", [True, False])
@pytest.mark.shows("a2a", "question")
async def test_a_question_is_answered_in_text_or_by_values(
    host: Served, binding: str, streaming: bool, in_text: bool
) -> None:
    async with a2a_client(host.url, binding=binding, streaming=streaming) as client:
        asked = await told(client, message(ASK))
        (wanted,) = asked.requests
        assert (wanted["kind"], wanted["title"], wanted["description"]) == (
            "form",
            "Which size?",
            "It is cold.",
        )
        assert "Which size?" in asked.said
        assert wanted["schema"]["properties"]["size"]["enum"] == ["s", "xl"]
        with pytest.raises(InvalidParamsError, match="size"):
            await told(client, message("huge", task_id=asked.task_id))
        given: Any = " XL " if in_text else {"id": wanted["id"], "values": {"size": "xl"}}
        answer = message(given, task_id=asked.task_id)
        done = await told(client, answer)
        assert done.texts == ['answered: {"size": "xl"}', "Bye."]
        assert (await told(client, answer)).texts[-1] == "Bye."


@pytest.mark.shows("a2a", "client-tools")
async def test_tools_of_the_client_are_called_in_parallel(
    host: Served, binding: str, streaming: bool
) -> None:
    async with a2a_client(host.url, binding=binding, streaming=streaming) as client:
        asked = await told(client, message(BOTH, metadata={TOOLS: {"tools": [WEATHER]}}))
        assert asked.state == "INPUT_REQUIRED"
        wanted = {one["arguments"]["town"]: one["id"] for one in asked.requests}
        assert {one["kind"] for one in asked.requests} == {"client_tool"}
        assert set(wanted) == {"北京", "Oslo"}
        done = await told(
            client,
            message(
                {"id": wanted["北京"], "result": {"sky": "晴"}},
                {"id": wanted["Oslo"], "error": "no such town"},
                task_id=asked.task_id,
            ),
        )
        assert min(done.texts) == "Goodbye."
        assert any("晴" in text for text in done.texts)
        assert any("no such town" in text for text in done.texts)


async def test_one_of_two_results_leaves_the_task_waiting(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding, streaming=False) as client:
        asked = await told(client, message(BOTH, metadata={TOOLS: {"tools": [WEATHER]}}))
        first, second = asked.requests
        half = await told(
            client, message({"id": first["id"], "result": 1}, task_id=asked.task_id), returnImmediately=True
        )
        assert (half.state, half.requests) == ("INPUT_REQUIRED", [second])
        twice = message(
            {"id": second["id"], "result": 2}, {"id": second["id"], "result": 2}, task_id=asked.task_id
        )
        with pytest.raises(InvalidParamsError, match="one answer"):
            await told(client, twice)
        done = await told(client, message({"id": second["id"], "result": 2}, task_id=asked.task_id))
        assert "Goodbye." in done.texts


async def test_results_are_taken_in_any_order(host: Served, binding: str, streaming: bool) -> None:
    async with a2a_client(host.url, binding=binding, streaming=streaming) as client:
        asked = await told(client, message(BOTH, metadata={TOOLS: {"tools": [WEATHER]}}))
        first, second = asked.requests
        half = await told(client, message({"id": second["id"], "result": 2}, task_id=asked.task_id))
        assert (half.state, half.requests) == ("INPUT_REQUIRED", [first])
        last = message({"id": first["id"], "result": 1}, task_id=asked.task_id)
        for _ in range(2):
            done = await told(client, last)
            assert (done.state, "Goodbye." in done.texts) == ("COMPLETED", True)


async def test_a_subscriber_stays_while_somebody_else_decides(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        asked = await told(client, message(ORDER))
        found = Told()
        watching = asyncio.create_task(_watch(client, asked.task_id, found))
        async with asyncio.timeout(30):
            while found.state != "INPUT_REQUIRED":
                await asyncio.sleep(0.02)
        pauses = (await host.client.get("/v1/pauses", params={"run_id": asked.task_id})).json()["items"]
        (call,) = pauses[0]["calls"]
        answer = await host.client.post(
            f"/v1/pauses/{pauses[0]['id']}/actions",
            json={
                "revision": pauses[0]["revision"],
                "actions": [{"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}],
            },
        )
        assert answer.status_code == 202
        await watching
        assert found.states == ["INPUT_REQUIRED", "WORKING", "COMPLETED"]
        assert found.texts == ["Let me see.", 'player.order: "ordered 2 灯"', "Bye."]


async def _watch(client: Client, task_id: str, found: Told) -> None:
    async for response in client.subscribe(SubscribeToTaskRequest(id=task_id)):
        found.take(response)


async def test_who_may_not_decide_decides_nothing(host: Served, binding: str) -> None:
    weak = await host.key("default", "events:write", "runs:read", subject="agent")
    async with a2a_client(host.url, weak, binding=binding) as client:
        asked = await told(client, message(ORDER))
        assert asked.state == "INPUT_REQUIRED"
        with pytest.raises(A2AClientError, match="403"):
            await told(
                client, message({"id": asked.requests[0]["id"], "approved": True}, task_id=asked.task_id)
            )
        code = asked.requests[0]["argsHash"][:16]
        with pytest.raises(InvalidParamsError):
            await told(client, message(f"approve {code}", task_id=asked.task_id))


async def test_a_task_that_waits_is_cancelled(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        asked = await told(client, message(ORDER))
        task = MessageToDict(await client.cancel_task(CancelTaskRequest(id=asked.task_id)))
        assert task["status"]["state"] == "TASK_STATE_CANCELED"
        assert "Let me see." in json.dumps(task["artifacts"])
