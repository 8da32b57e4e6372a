"""OpenAI's Responses with its client for Python: messages, tools of the host, files, how they end."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from support.dialects.openai_responses import client_of, read, transcript
from support.dialects.players import playing, script
from support.http_host import Served

Scenario = Callable[[Served, AsyncOpenAI], Awaitable[None]]
CHINESE = ["你好，", "世界", " 👩‍👩‍👧 ", "再见"]


def ids_of(response: Any) -> list[str]:
    return [item.id for item in response.output]


async def with_host(tmp_path: Path, scenario: Scenario) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url) as client:
        await scenario(served, client)


@pytest.mark.shows("openai-responses", "text")
async def test_text_is_the_same_whole_streamed_and_read_later(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        steps = script(
            *(["delta", piece] for piece in CHINESE), ["say", "".join(CHINESE)], ["say", "and more"]
        )
        whole = await client.responses.create(model="player", input=steps)
        assert (whole.status, whole.output_text) == ("completed", "".join(CHINESE) + "and more")
        async with client.responses.stream(model="player", input=steps) as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert "".join(deltas) == final.output_text == whole.output_text
        later = await client.responses.retrieve(final.id)
        assert later.output_text == whole.output_text
        assert ids_of(later) == ids_of(final)
        assert (later.model, later.object, later.error) == ("player", "response", None)
        assert (await read(client, final.id)).texts == ["".join(CHINESE), "and more"]
        assert (await served.client.get(f"/v1/runs/{final.id[5:]}")).json()["status"] == "completed"

    await with_host(tmp_path, scenario)


async def test_reasoning_is_an_item_before_the_message(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        steps = script(["think", "Two and "], ["think", "two."], ["say", "4"])
        async with client.responses.stream(model="player", input=steps) as stream:
            final = await stream.get_final_response()
        assert [item.type for item in final.output] == ["reasoning", "message"]
        thoughts: Any = final.output[0]
        assert thoughts.content[0].text == "Two and two."
        assert final.output_text == "4"
        reading = await read(client, final.id, random.Random(3))
        assert [item.text for item in reading.items] == ["Two and two.", "4"]
        whole = await client.chat.completions.create(
            model="player", messages=[{"role": "user", "content": steps}]
        )
        message: Any = whole.choices[0].message
        assert (message.reasoning_content, message.content) == ("Two and two.", "4")

    await with_host(tmp_path, scenario)


# the client's types before version 3 have text where the error of a call is an object
@pytest.mark.filterwarnings("ignore:Pydantic serializer")
@pytest.mark.shows("openai-responses", "tools")
async def test_tools_of_the_host_are_shown_as_calls_of_a_server(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        steps = script(
            ["tool", "player.price", {"thing": "灯"}, "c1"],
            ["tool", "player.price", {"thing": "nothing"}, "c1"],
        )
        async with client.responses.stream(model="player", input=steps) as stream:
            final = await stream.get_final_response()
        calls = [item for item in final.output if item.type == "mcp_call"]
        assert [(call.server_label, call.name, call.status) for call in calls] == [
            ("player", "price", "completed"),
            ("player", "price", "failed"),
        ]
        assert json.loads(calls[0].arguments) == {"thing": "灯"}
        assert json.loads(calls[0].output or "") == {"thing": "灯", "euros": 1}
        assert "KeyError" in str(calls[1].error)
        assert len(set(ids_of(final))) == 4
        types = (await read(client, final.id)).types
        assert types.index("response.mcp_call.completed") < types.index("response.mcp_call.failed")

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "files-in", "files-out")
async def test_a_file_of_the_user_arrives_and_one_of_the_agent_can_be_read(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        data = base64.b64encode("数据".encode()).decode()
        pixel = "data:image/png;base64,iVBORw0KGgo="
        uploaded = (await served.client.post("/v1/artifacts?name=c.txt", content=b"up")).json()["artifact_id"]
        said: list[Any] = [
            {"type": "input_text", "text": script(["seen"])},
            {"type": "input_file", "file_data": data, "filename": "a.txt"},
            {"type": "input_image", "image_url": pixel, "detail": "auto"},
            {"type": "input_image", "image_url": "https://example.org/x.png", "detail": "low"},
            {"type": "input_file", "file_id": uploaded},
        ]
        response = await client.responses.create(
            model="player",
            input=[{"role": "user", "content": said}],
            metadata={"a": "b"},
            instructions="be kind",
        )
        assert (response.metadata, response.instructions) == ({"a": "b"}, "be kind")
        seen = json.loads(response.output_text)
        assert seen["data"]["openai"] == {"metadata": {"a": "b"}, "instructions": "be kind"}
        text, plain, picture, address, earlier = seen["input"]["contents"]
        assert (text["type"], plain["file_name"]) == ("text", "a.txt")
        assert base64.b64decode(plain["file_base64"]).decode() == "数据"
        assert (picture["type"], picture["mime_type"]) == ("image_base64", "image/png")
        assert address["image_url"] == {"url": "https://example.org/x.png", "detail": "low"}
        assert earlier["artifact_id"] == uploaded
        listed = await client.responses.input_items.list(response.id)
        (item,) = listed.data
        assert [part.type for part in item.content] == [  # type: ignore[union-attr]
            "input_text", "input_file", "input_image", "input_image", "input_file",
        ]  # fmt: skip

        steps = script(["loose", "x", "loose.txt"], ["file", "made", "made.txt"], ["loose", "y", "last.txt"])
        async with client.responses.stream(model="player", input=steps) as stream:
            final = await stream.get_final_response()
        made, rest = final.output
        assert made.type == rest.type == "message"
        names = [[one.filename for one in item.content[0].annotations] for item in (made, rest)]  # type: ignore[union-attr]
        assert names == [["loose.txt", "made.txt"], ["last.txt"]]
        assert final.output_text == "see made.txt"
        file_id = made.content[0].annotations[1].file_id  # type: ignore[union-attr]
        assert (await served.client.get(f"/v1/artifacts/{file_id}/content")).text == "made"

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "usage")
async def test_usage_is_that_of_the_run_and_unknown_without_numbers(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        response = await client.responses.create(model="player", input=script(["usage", 30, 4, "done"]))
        assert response.usage is not None
        used = response.usage
        assert (used.input_tokens, used.output_tokens, used.total_tokens) == (30, 4, 34)
        assert used.output_tokens_details.reasoning_tokens == 0
        assert (await client.responses.create(model="player", input="hello")).usage is None

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "error")
async def test_a_run_that_fails_is_a_response_that_says_so_and_is_not_sent_again(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        steps = script(["delta", "so"], ["fail", "it broke: 坏了"])
        failed = await client.responses.create(model="player", input=steps)
        assert failed.status == "failed"
        assert failed.error is not None
        assert (failed.error.code, failed.error.message) == ("server_error", "RuntimeError: it broke: 坏了")
        (item,) = failed.output
        assert (item.type, item.status) == ("message", "incomplete")  # type: ignore[union-attr]
        reading = await read(client, failed.id)
        assert (reading.types[-1], reading.texts) == ("response.failed", [])
        listed = (await served.client.get("/v1/runs")).json()["items"]
        assert len(listed) == 1

    await with_host(tmp_path, scenario)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input": "x", "max_output_tokens": 5}, "max_output_tokens"),
    ({"input": "x", "text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"input": "x", "tool_choice": "required"}, "tool_choice"),
    ({"input": "x", "include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"input": "x", "metadata": {"a": 1}}, "metadata[...]"),
    ({"input": "x", "conversation": "a", "previous_response_id": "b"}, "previous_response_id"),
    ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
    ({"input": "x", "background": True, "store": False}, "background"),
    ({"input": "x", "temperature": "hot"}, "temperature"),
    ({"input": []}, "input"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
    ({"input": [{"role": "cook", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
    (
        {"input": [{"type": "function_call_output", "call_id": "call_x", "output": ""}]},
        "input[0].call_id",
    ),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
]


async def test_what_an_agent_would_not_keep_is_refused_by_its_name(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        for body, param in REFUSED:
            answer = await served.client.post("/v1/responses", json={"model": "player", **body})
            assert answer.status_code == 400, (body, answer.text)
            error = answer.json()["error"]
            assert error["param"] == param, error
            assert error["type"] == "invalid_request_error"
            assert answer.headers["x-should-retry"] == "false"
        assert (await served.client.get("/v1/runs")).json()["items"] == []

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "wrong-key", "unknown-agent")
async def test_a_wrong_key_and_an_unknown_agent_are_named(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.AuthenticationError) as refused:
            async with client_of(served.url, "wrong") as wrong:
                await wrong.responses.create(model="player", input="x")
        assert refused.value.code == "invalid_api_key"
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.responses.create(model="gpt-6", input="x")
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        async with client_of(served.url, await served.key("default", "runs:read")) as reader:
            with pytest.raises(openai.PermissionDeniedError):
                await reader.responses.create(model="player", input="x")
        for response_id in ("resp_nothing", "resp_", "nothing", "resp_a_b"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(response_id)
        mine = await client.responses.create(model="player", input="x")
        async with client_of(served.url, await served.key("other")) as foreign:
            with pytest.raises(openai.NotFoundError):
                await foreign.responses.retrieve(mine.id)

    await with_host(tmp_path, scenario)


async def test_a_conversation_goes_on_by_its_id_or_its_latest_response(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        first = await client.responses.create(model="player", input="one")
        assert first.conversation is not None
        second = await client.responses.create(model="player", input="two", previous_response_id=first.id)
        assert (second.conversation, second.previous_response_id) == (first.conversation, first.id)
        place = first.conversation.id
        third = await client.responses.create(model="player", input="three", conversation={"id": place})
        history = (await served.client.get(f"/v1/conversations/{place}/history")).json()["items"]
        said = [item["content"] for item in reversed(history) if item["role"] == "user"]
        assert said == ["one", "two", "three"]
        with pytest.raises(openai.BadRequestError) as branch:
            await client.responses.create(model="player", input="other", previous_response_id=second.id)
        assert (branch.value.param, place in branch.value.message) == ("previous_response_id", True)
        again = await client.responses.create(model="player", input="four", previous_response_id=third.id)
        assert again.status == "completed"
        alone = await client.responses.create(model="player", input="alone", store=False)
        assert alone.conversation is None
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="player", input="x", previous_response_id=alone.id)
        with pytest.raises(openai.BadRequestError) as doubled:
            await client.responses.create(
                model="player", input=[{"role": "assistant", "content": "x"}], conversation=place
            )
        assert doubled.value.param == "input"

    await with_host(tmp_path, scenario)


async def test_a_history_that_the_client_keeps_begins_the_conversation(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        kept: list[Any] = [
            {"role": "developer", "content": "be kind"},
            {"role": "user", "content": "你好"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "of another service", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "of another service", "output": "nothing"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hello", "annotations": []}],
            },
            {"role": "user", "content": script(["seen"])},
        ]
        response = await client.responses.create(model="player", input=kept)
        assert response.conversation is not None
        assert response.instructions == "be kind"
        items = await client.conversations.items.list(response.conversation.id, order="asc")
        said = [(item.role, item.content[0].text) for item in items.data[:4]]  # type: ignore[union-attr, index]
        assert said[0] == ("user", "你好")
        assert ("assistant", "hello") in said
        more = await client.responses.create(model="player", input="and?", previous_response_id=response.id)
        assert more.conversation == response.conversation

    await with_host(tmp_path, scenario)


async def test_a_request_that_the_client_repeats_by_itself_is_one_run(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        first = await client.responses.create(model="player", input="x")
        repeated = {"X-Stainless-Retry-Count": "1"}
        again = await client.responses.create(model="player", input="x", extra_headers=repeated)
        assert (again.id, again.conversation) == (first.id, first.conversation)
        assert (await client.responses.create(model="player", input="x")).id != first.id

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "repeated")
async def test_the_same_request_is_one_run(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        key = {"Idempotency-Key": "k1"}
        one = await client.responses.create(model="player", input="x", extra_headers=key)
        two = await client.responses.create(model="player", input="x", extra_headers=key)
        assert (one.id, one.output_text) == (two.id, two.output_text)
        async with client.responses.stream(model="player", input="x", extra_headers=key) as stream:
            assert (await stream.get_final_response()).id == one.id
        more = {"model": "player", "input": "y", "previous_response_id": one.id}
        after = [
            await client.responses.create(**more, extra_headers={"Idempotency-Key": "k2"})  # type: ignore[call-overload]
            for _ in range(2)
        ]
        assert after[0].id == after[1].id
        with pytest.raises(openai.UnprocessableEntityError) as other:
            await client.responses.create(model="player", input="z", extra_headers=key)
        assert other.value.response.headers["x-should-retry"] == "false"
        assert len((await served.client.get("/v1/runs")).json()["items"]) == 2

    await with_host(tmp_path, scenario)


@pytest.mark.shows("openai-responses", "cancel", "long-run")
async def test_a_response_in_the_background_is_read_followed_and_cancelled(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        go = tmp_path / "go"
        steps = script(["delta", "so far"], ["wait", str(go)], ["say", "so far so good"])
        begun = await client.responses.create(model="player", input=steps, background=True)
        assert begun.status in ("queued", "in_progress")
        assert begun.background
        stream = await client.responses.retrieve(begun.id, stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        now = await client.responses.retrieve(begun.id)
        assert (now.status, now.output_text) == ("in_progress", "so far")
        go.touch()
        assert (await read(client, begun.id)).texts == ["so far so good"]
        assert (await client.responses.cancel(begun.id)).status == "completed"
        held = await client.responses.create(
            model="player", input=script(["delta", "I "], ["hold"]), background=True
        )
        stream = await client.responses.retrieve(held.id, stream=True)
        seen: list[Any] = []
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                assert (await client.responses.cancel(held.id)).status == "cancelled"
        assert (seen[-1].type, seen[-1].response.status) == ("response.incomplete", "cancelled")
        assert (await client.responses.retrieve(held.id)).status == "cancelled"

    await with_host(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.shows("openai-responses", "long-run")
async def test_a_reader_goes_on_after_each_disconnect_while_it_runs_and_after_its_end(
    tmp_path: Path, seed: int
) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        dice = random.Random(seed)
        steps = script(
            *(["delta", piece] for piece in CHINESE),
            ["say", "".join(CHINESE)],
            ["together", [["tool", "player.price", {"thing": str(n)}, f"c{n}"] for n in range(4)]],
            ["loose", "x", "x.txt"],
            ["say", "好了 🙂"],
        )
        begun = await client.responses.create(model="player", input=steps, background=True)
        while_it_runs = await read(client, begun.id, dice)
        whole = await read(client, begun.id)
        assert (while_it_runs.items, while_it_runs.types) == (whole.items, whole.types)
        assert await transcript(client, [begun.id], dice) == whole.texts
        run = (await served.client.get(f"/v1/runs/{begun.id[5:]}")).json()
        assert whole.texts == [message["content"] for message in run["output"]["messages"]]
        rest = await client.responses.retrieve(begun.id, stream=True, starting_after=whole.last)
        assert [event async for event in rest] == []

    await with_host(tmp_path, scenario)


async def test_a_superseded_attempt_leaves_no_trace_in_the_transcript(tmp_path: Path) -> None:
    async def scenario(served: Served, client: AsyncOpenAI) -> None:
        mark = str(tmp_path / "crashed")
        steps = script(
            ["delta", "The answer "], ["crash", mark], ["delta", "is 42"], ["say", "The answer is 42"]
        )
        async with client.responses.stream(model="player", input=steps) as stream:
            final = await stream.get_final_response()
        assert (final.output_text, len(final.output)) == ("The answer is 42", 1)
        assert (await served.client.get(f"/v1/runs/{final.id[5:]}")).json()["attempt"] == 2
        assert (await read(client, final.id, random.Random(1))).texts == ["The answer is 42"]

    await with_host(tmp_path, scenario)
