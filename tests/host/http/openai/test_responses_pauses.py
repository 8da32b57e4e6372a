"""OpenAI's Responses where a run waits: calls that the client carries out, approvals, questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from support.dialects.openai_responses import client_of, read
from support.dialects.players import playing, script
from support.http_host import Served

Scenario = Callable[[Served, AsyncOpenAI], Awaitable[None]]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": None}
TWO_CALLS = script(
    ["delta", "Let me look."],
    ["together", [["tool", "weather", {"city": "北京"}, "c1"], ["tool", "weather", {"city": "Porto"}, "c2"]]],
    ["say", "done"],
)
ORDER = script(["tool", "player.order", {"thing": "lamp", "count": 2}, "c1"], ["say", "done"])


async def with_host(tmp_path: Path, scenario: Scenario) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url) as client:
        await scenario(served, client)


def of_kind(response: Any, kind: str) -> list[Any]:
    return [item for item in response.output if item.type == kind]


def output_for(call: Any, output: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": output, **more}


def reply_to(request: Any, approve: bool, **more: Any) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve, **more
    }  # fmt: skip


@pytest.mark.shows("openai-responses", "client-tools")
async def test_calls_of_the_client_in_parallel_end_the_response_and_their_results_go_on(
    tmp_path: Path,
) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        async with client.responses.stream(model="player", input=TWO_CALLS, tools=[WEATHER]) as stream:
            asked = await stream.get_final_response()
        calls = of_kind(asked, "function_call")
        assert [(call.name, call.status) for call in calls] == [("weather", "completed")] * 2
        assert sorted(json.loads(call.arguments)["city"] for call in calls) == ["Porto", "北京"]
        assert of_kind(asked, "mcp_call") == []
        assert (asked.status, asked.tools[0].type) == ("completed", "function")
        by_city = {json.loads(call.arguments)["city"]: call for call in calls}
        with pytest.raises(openai.BadRequestError) as missing:
            await client.responses.create(
                model="player",
                previous_response_id=asked.id,
                input=[output_for(calls[0], "x")],  # type: ignore[list-item]
            )
        assert calls[1].call_id in missing.value.message
        results: Any = [
            output_for(by_city["北京"], "晴 ☀️"),
            output_for(by_city["Porto"], "the station is closed", status="incomplete"),
        ]
        async with client.responses.stream(
            model="player", previous_response_id=asked.id, input=results, tools=[WEATHER]
        ) as stream:
            done = await stream.get_final_response()
        assert done.status == "completed"
        assert done.output_text.endswith("done")
        assert 'weather: "晴 ☀️"' in done.output_text
        assert "the station is closed" in done.output_text
        assert of_kind(done, "mcp_call") == of_kind(done, "function_call") == []
        again = await client.responses.create(model="player", previous_response_id=asked.id, input=results)
        assert (again.id, again.output_text) == (done.id, done.output_text)
        assert (await client.responses.retrieve(asked.id)).output_text == asked.output_text
        listed = await client.responses.input_items.list(done.id, order="asc")
        assert {item.call_id: item.output for item in listed.data} == {  # type: ignore[union-attr]
            one["call_id"]: one["output"] for one in results
        }
        results[0]["output"] = "another"
        with pytest.raises(openai.ConflictError) as decided:
            await client.responses.create(model="player", previous_response_id=asked.id, input=results)
        assert decided.value.code == "already_decided"
        assert len((await served.client.get("/v1/runs")).json()["items"]) == 1

    await with_host(tmp_path, scenario)


async def test_a_client_that_keeps_the_history_itself_sends_its_results_with_it(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        steps = script(["tool", "weather", {"city": "A"}, "c1"], ["tool", "weather", {"city": "B"}, "c1"])
        history: list[Any] = [{"role": "user", "content": steps}]
        for output in ("one", "two"):
            asked = await client.responses.create(model="player", input=history, tools=[WEATHER], store=False)
            (call,) = of_kind(asked, "function_call")
            history += [item.model_dump(exclude_none=True) for item in asked.output]
            history.append(output_for(call, output))
        done = await client.responses.create(model="player", input=history, tools=[WEATHER], store=False)
        assert (done.status, done.output_text) == ("completed", 'weather: "two"')
        assert len((await served.client.get("/v1/runs")).json()["items"]) == 1

    await with_host(tmp_path, scenario)


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.shows("openai-responses", "approval")
async def test_an_approval_is_asked_for_decided_and_the_call_shown(tmp_path: Path, approve: bool) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        asked = await client.responses.create(model="player", input=ORDER)
        (request,) = of_kind(asked, "mcp_approval_request")
        assert (asked.status, request.server_label, request.name) == ("completed", "player", "order")
        assert json.loads(request.arguments) == {"thing": "lamp", "count": 2}
        reply: Any = [reply_to(request, approve, reason="既然如此")]
        done = await client.responses.create(model="player", previous_response_id=asked.id, input=reply)
        (call,) = of_kind(done, "mcp_call")
        assert (call.approval_request_id, json.loads(call.arguments)["count"]) == (request.id, 2)
        if approve:
            assert (call.status, call.output) == ("completed", "ordered 2 lamp")
        else:
            assert (call.status, call.output) == ("failed", None)
        pause = (await served.client.get(f"/v1/pauses?run_id={asked.id[5:]}&status=resumed")).json()["items"][
            0
        ]
        assert pause["calls"][0]["comment"] == "既然如此"
        again = await client.responses.create(model="player", previous_response_id=asked.id, input=reply)
        assert (again.id, again.output_text) == (done.id, done.output_text)
        with pytest.raises(openai.ConflictError):
            await client.responses.create(
                model="player",
                previous_response_id=asked.id,
                input=[reply_to(request, not approve)],  # type: ignore[list-item]
            )

    await with_host(tmp_path, scenario)


async def test_an_approval_is_of_the_arguments_that_were_shown(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        asked = await client.responses.create(model="player", input=ORDER)
        (request,) = of_kind(asked, "mcp_approval_request")
        head, run_id, digest, call_id = request.id.split("_", 3)
        request.id = "_".join([head, run_id, "0" * len(digest), call_id])
        with pytest.raises(openai.ConflictError) as stale:
            await client.responses.create(model="player", input=[reply_to(request, True)])  # type: ignore[list-item]
        assert stale.value.code == "stale_view"
        request.id = f"{head}_{run_id}_{call_id}"
        with pytest.raises(openai.BadRequestError) as unknown:
            await client.responses.create(model="player", input=[reply_to(request, True)])  # type: ignore[list-item]
        assert unknown.value.param == "input[0].approval_request_id"
        rights = ("events:write", "runs:read", "pauses:write")
        request.id = "_".join([head, run_id, digest, call_id])
        async with client_of(served.url, await served.key("default", *rights, subject="eve")) as stranger:
            with pytest.raises(openai.BadRequestError):
                await stranger.responses.create(model="player", input=[reply_to(request, True)])  # type: ignore[list-item]
        pause = (await served.client.get(f"/v1/pauses?run_id={run_id}")).json()["items"][0]
        assert (pause["status"], pause["calls"][0]["decision"]) == ("open", "undecided")

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "question")
async def test_a_question_is_a_text_that_says_where_to_decide_and_the_response_goes_on_then(
    tmp_path: Path,
) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        asked = await client.responses.create(
            model="player", input=script(["ask", "Which size?"], ["say", "bye"])
        )
        (note,) = asked.output
        assert (asked.status, note.type) == ("in_progress", "message")
        assert note.phase == "commentary"  # type: ignore[union-attr]
        for told in ("Which size?", "It is cold.", "size: s, xl", f"/v1/pauses?run_id={asked.id[5:]}"):
            assert told in asked.output_text
        reading = asyncio.create_task(read(client, asked.id))
        pause = (await served.client.get(f"/v1/pauses?run_id={asked.id[5:]}")).json()["items"][0]
        action = {"call_id": pause["calls"][0]["call_id"], "type": "answer", "values": {"size": "xl"}}
        answered = await served.client.post(
            f"/v1/pauses/{pause['id']}/actions", json={"revision": pause["revision"], "actions": [action]}
        )
        assert answered.status_code == 202, answered.text
        done = await reading
        assert done.texts == ['answered: {"size": "xl"}', "bye"]
        assert done.final.status == "completed"
        assert (await client.responses.retrieve(asked.id)).status == "completed"

    await with_host(tmp_path, scenario)
