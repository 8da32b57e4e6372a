"""Chat Completions with OpenAI's own client: tools of the host and of the client, and people who decide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.databases import TEST_SECONDS
from support.dialects.openai_chat import client_of, told, user
from support.dialects.players import player, playing, script
from support.http_host import Served
from support.http_runs import pause_of

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}},
            "required": ["town"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
BOTH = script(
    ["say", "Let me see. 让我看看"],
    ["together", [["tool", "weather", {"town": "北京"}, "m1"], ["tool", "weather", {"town": "Oslo"}, "m2"]]],
    ["say", "Goodbye."],
)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path) as made:
        yield made


@pytest.mark.shows("openai-chat", "tools")
async def test_tools_of_the_host_are_its_own_affair(host: Served) -> None:
    asked = script(["tool", "player.price", {"thing": "lamp"}, "m1"], ["say", "That is all."])
    async with client_of(host.url) as client:
        whole = await client.chat.completions.create(model="player", messages=[user(asked)])
        message = whole.choices[0].message
        assert message.tool_calls is None
        assert message.content == 'player.price: {"thing": "lamp", "euros": 4}\n\nThat is all.'
        assert (await told(client, [user(asked)])).messages == [
            'player.price: {"thing": "lamp", "euros": 4}',
            "That is all.",
        ]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.shows("openai-chat", "client-tools", "unicode")
async def test_calls_of_the_clients_tools_end_an_answer_and_their_results_resume_the_run(
    host: Served, streamed: bool
) -> None:
    async with client_of(host.url) as client:
        messages: list[Any] = [user(BOTH)]
        first = await _answer(client, messages, streamed)
        assert first.choices[0].finish_reason == "tool_calls"
        calls = first.choices[0].message.tool_calls
        assert [call.function.name for call in calls] == ["weather", "weather"]
        towns = {json.loads(call.function.arguments)["town"]: call.id for call in calls}
        assert set(towns) == {"北京", "Oslo"}
        assert first.choices[0].message.content == "Let me see. 让我看看"
        messages.append(first.choices[0].message.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": towns["北京"], "content": "晴 ☀️"},
            {"role": "tool", "tool_call_id": towns["Oslo"], "content": [{"type": "text", "text": "rain"}]},
        ]
        second = await _answer(client, messages, streamed)
        assert second.choices[0].finish_reason == "stop"
        said = second.choices[0].message.content.split("\n\n")
        assert sorted(said[:2]) == ['weather: "rain"', 'weather: "晴 ☀️"']
        assert said[2] == "Goodbye."
        assert second.hostler["run_id"] == first.hostler["run_id"]
        repeated = await _answer(client, messages, streamed)  # the same request again: the same answer
        assert repeated.id == second.id
        assert repeated.choices[0].message.content == second.choices[0].message.content
        messages[-1]["content"] = "snow"
        with pytest.raises(openai.ConflictError) as conflict:
            await _answer(client, messages, streamed)
        assert conflict.value.code == "already_decided"
    runs = (await host.client.get("/v1/runs")).json()["items"]
    assert len(runs) == 1


async def test_an_answer_is_read_again_with_its_calls(host: Served) -> None:
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[user(BOTH)], tools=[WEATHER])
        calls = first.choices[0].message.tool_calls
        assert calls is not None
        again = await client.chat.completions.retrieve(first.id)
        assert again.choices == first.choices
        await client.chat.completions.create(
            model="player",
            messages=[user(BOTH), first.choices[0].message, *(_result(call.id, "warm") for call in calls)],  # type: ignore[list-item]
        )
        again = await client.chat.completions.retrieve(first.id)  # the run is over
        assert again.choices == first.choices


async def test_a_client_that_failed_says_so(host: Served) -> None:
    asked = script(["tool", "weather", {"town": "Rome"}, "m1"])
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[user(asked)], tools=[WEATHER])
        (call,) = first.choices[0].message.tool_calls or []
        failed: Any = {**_result(call.id, "no network"), "is_error": True}
        second = await client.chat.completions.create(
            model="player",
            messages=[user(asked), first.choices[0].message, failed],  # type: ignore[list-item]
        )
        content = second.choices[0].message.content or ""
        assert content.startswith("weather failed: ")
        assert "no network" in content


async def test_results_that_are_incomplete_or_of_nothing_are_refused_and_change_nothing(host: Served) -> None:
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[user(BOTH)], tools=[WEATHER])
        answer: Any = first.choices[0].message
        one, other = answer.tool_calls

        async def refused(*results: Any) -> openai.APIStatusError:
            with pytest.raises(openai.APIStatusError) as error:
                await client.chat.completions.create(model="player", messages=[user(BOTH), answer, *results])
            return error.value

        missing = await refused(_result(one.id, "warm"))
        assert (missing.status_code, missing.param) == (400, "messages")
        assert other.id in missing.message
        image = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        wrong = await refused(_result(one.id, "warm"), _result(other.id, [image]))
        assert wrong.param == "messages[3].content"
        elsewhere = await refused(_result("call_x", "warm"))
        assert elsewhere.status_code == 404
        unknown = await refused(_result(one.id, "x"), _result(other.id, "x"), _result(f"{other.id}0", "x"))
        assert unknown.status_code == 404
        async with client_of(host.url, await host.key("default", "events:write", "runs:read")) as weak:
            with pytest.raises(openai.PermissionDeniedError, match="pauses:write"):
                await weak.chat.completions.create(
                    model="player",
                    messages=[user(BOTH), answer, _result(one.id, "x"), _result(other.id, "x")],
                )
        async with client_of(host.url, await host.key("other")) as stranger:
            with pytest.raises(openai.NotFoundError):
                await stranger.chat.completions.create(
                    model="player",
                    messages=[user(BOTH), answer, _result(one.id, "x"), _result(other.id, "x")],
                )
        pause = await pause_of(host.client, first.hostler["run_id"])  # type: ignore[attr-defined]
        assert [call["decision"] for call in pause["calls"]] == ["undecided", "undecided"]


async def test_a_message_after_results_goes_on_in_the_conversation_of_the_run(host: Served) -> None:
    asked = script(["tool", "weather", {"town": "Rome"}, "m1"])
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[user(asked)], tools=[WEATHER])
        (call,) = first.choices[0].message.tool_calls or []
        messages: list[Any] = [
            user(asked), first.choices[0].message, _result(call.id, "hot"), user("and now?"),
        ]  # fmt: skip
        second = await client.chat.completions.create(model="player", messages=messages)
        assert (second.choices[0].message.content or "").endswith("you said: and now?")
        runs = (await host.client.get("/v1/runs")).json()["items"]
        assert len({run["conversation_id"] for run in runs}) == 1
        assert {run["status"] for run in runs} == {"completed"}


async def test_tools_that_the_request_switches_off_or_the_agent_does_not_take(host: Served) -> None:
    asked = script(["tool", "weather", {"town": "Rome"}, "m1"])
    await player(host, "closed", resource_policy={"allow_client_tools": False})
    async with client_of(host.url) as client:
        off = await client.chat.completions.create(
            model="player", messages=[user(asked)], tools=[WEATHER], tool_choice="none"
        )
        assert (off.choices[0].message.content or "").startswith("weather failed: ")
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="closed", messages=[user(asked)], tools=[WEATHER])
        bad: Any = {"type": "function", "function": {"name": "no name"}}
        with pytest.raises(openai.BadRequestError, match="no name"):
            await client.chat.completions.create(model="player", messages=[user(asked)], tools=[bad])


ORDER = script(["say", "I order."], ["tool", "player.order", {"thing": "灯"}, "m1"], ["say", "Done."])


@pytest.mark.parametrize(("decision", "said"), [("approve", "ordered 1 灯"), ("deny", "player.order failed")])
@pytest.mark.shows("openai-chat", "approval")
async def test_a_stream_says_where_to_approve_and_goes_on_after_it(
    host: Served, decision: str, said: str
) -> None:
    async with client_of(host.url) as client:
        reading = asyncio.create_task(told(client, [user(ORDER)]))
        run_id = await _run_of(host)
        pause = await pause_of(host.client, run_id)
        (call,) = pause["calls"]
        action = {"call_id": call["call_id"], "type": decision, "args_hash": call["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        await host.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        async with asyncio.timeout(TEST_SECONDS):
            answer = await reading
        assert answer.finish_reason == "stop"
        assert answer.messages[0] == "I order."
        assert said in answer.messages[1]
        assert answer.messages[2] == "Done."
        (note,) = answer.notes
        assert run_id in note
        assert call["call_id"] in note
        assert "灯" in note


@pytest.mark.shows("openai-chat", "question")
async def test_a_whole_answer_ends_where_people_are_asked_unless_it_shall_wait(host: Served) -> None:
    asked = script(["ask", "Which size?"], ["say", "Thanks."])
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[user(asked)])
        assert first.choices[0].finish_reason == "stop"
        assert "Which size?" in (first.choices[0].message.content or "")
        waiting = asyncio.create_task(client.chat.completions.retrieve(first.id))
        pause = await pause_of(host.client, first.hostler["run_id"])  # type: ignore[attr-defined]
        action = {"call_id": pause["calls"][0]["call_id"], "type": "answer", "values": {"size": "xl"}}
        body = {"revision": pause["revision"], "actions": [action]}
        answered = await host.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert answered.status_code == 202, answered.text
        async with asyncio.timeout(TEST_SECONDS):
            whole = await waiting
        assert whole.hostler["messages"] == ['answered: {"size": "xl"}', "Thanks."]  # type: ignore[attr-defined]
        with pytest.raises(openai.BadRequestError, match="wait or answer"):
            await client.chat.completions.retrieve(first.id, extra_headers={"Hostler-On-Pause": "maybe"})
        ended = await told(client, [user(asked)], extra_headers={"Hostler-On-Pause": "answer"})
        assert ended.finish_reason == "stop"
        assert ended.messages == []
        assert "Which size?" in ended.notes[0]


async def _answer(client: openai.AsyncOpenAI, messages: list[Any], streamed: bool) -> Any:
    if not streamed:
        return await client.chat.completions.create(model="player", messages=messages, tools=[WEATHER])
    async with client.chat.completions.stream(model="player", messages=messages, tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    whole: Any = await client.chat.completions.retrieve(final.id)  # a stream and its whole are the same
    assert whole.choices[0].message.content == final.choices[0].message.content
    return whole


async def _run_of(host: Served) -> str:
    while True:
        items = (await host.client.get("/v1/runs")).json()["items"]
        if items:
            return str(items[0]["run_id"])
        await asyncio.sleep(0.02)


def _result(call_id: str, content: Any) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": content}
