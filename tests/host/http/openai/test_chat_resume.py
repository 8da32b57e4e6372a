"""Chat Completions with OpenAI's own client: the same request twice, and answers that go on after a cut."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.databases import TEST_SECONDS
from support.dialects.cutting import cutting
from support.dialects.openai_chat import Told, client_of, followed, told, transcript, user
from support.dialects.players import PLAYER, POLICY, RUNNER, playing, script
from support.http_host import ADMIN_KEY, Served
from support.http_runs import ended, pause_of
from support.loopback import NO_CERTIFICATES
from support.server_process import KEY, HostProcess, config_file, serving

WORDS = ["你好", "，世界", " 👩‍👩‍👧‍👦", " e\u0301", "\n", "naïve ", "𝒳", "."]
TALK = [["delta", word, "m"] for word in WORDS]
TEXT = "".join(WORDS)
NUMBERS = [["delta", f"{n} ", "n"] for n in range(9)]
TALKS = script(*TALK, ["say", TEXT, "m"], *NUMBERS, ["say", "0 1 2 3 4 5 6 7 8", "n"])


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path) as made:
        yield made


@pytest.mark.shows("openai-chat", "repeated")
async def test_the_same_key_is_the_same_run_in_whatever_form(host: Served) -> None:
    key = {"Idempotency-Key": "k-1"}
    async with client_of(host.url) as client:
        whole = await client.chat.completions.create(
            model="player", messages=[user(TALKS)], extra_headers=key
        )
        streamed = await told(client, [user(TALKS)], extra_headers=key)
        assert streamed.completion_id == whole.id
        assert streamed.messages == whole.hostler["messages"]  # type: ignore[attr-defined]
        rest = await told(client, [user(TALKS)], extra_headers={**key, "Last-Event-ID": "3"})
        assert streamed.content.endswith(rest.content)
        assert len(rest.content) < len(streamed.content)
        with pytest.raises(openai.UnprocessableEntityError):
            await client.chat.completions.create(model="player", messages=[user("other")], extra_headers=key)
        for wrong in ({"Idempotency-Key": ""}, {**key, "Last-Event-ID": "x"}):
            with pytest.raises(openai.BadRequestError):
                await told(client, [user(TALKS)], extra_headers=wrong)
        await client.chat.completions.create(model="player", messages=[user(TALKS)])
        await client.chat.completions.create(model="player", messages=[user(TALKS)])
    runs = (await host.client.get("/v1/runs")).json()["items"]
    assert len(runs) == 3  # that of the key, and one for each request without


async def test_what_the_client_repeats_by_itself_is_one_run(host: Served, tmp_path: Path) -> None:
    """A connection is lost while the client waits: it sends the request again, without a key for it."""
    go = tmp_path / "go"
    asked = script(["wait", str(go)], ["say", "once"])
    async with cutting(host.port) as proxy, client_of(proxy.url) as client:
        sending = asyncio.create_task(
            client.chat.completions.create(model="player", messages=[user(asked)], stream=False)
        )
        async with asyncio.timeout(TEST_SECONDS):
            while not (await host.client.get("/v1/runs")).json()["items"]:
                await asyncio.sleep(0.02)
            proxy.cut()
            while proxy.connections < 2:
                await asyncio.sleep(0.02)
            go.touch()
            answer = await sending
        assert answer.choices[0].message.content == "once"
        assert len((await host.client.get("/v1/runs")).json()["items"]) == 1
        repeated = {"x-stainless-retry-count": "2"}
        again = await told(client, [user(asked)], extra_headers=repeated)
        assert again.completion_id != answer.id  # another body: it asks for a stream
        other = await client.chat.completions.create(model="player", messages=[user(asked)])
        assert other.id != answer.id  # the user asks again


async def test_a_stream_in_crumbs_is_the_same(host: Served) -> None:
    async with cutting(host.port) as proxy, client_of(proxy.url) as client:
        proxy.crumbs = True
        assert (await told(client, [user(TALKS)])).messages == [TEXT, "0 1 2 3 4 5 6 7 8"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.shows("openai-chat", "long-run")
async def test_disconnects_anywhere_change_nothing(host: Served, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    crashes = script(
        *TALK[:5], ["crash", str(tmp_path / "once")], *TALK[5:], ["say", TEXT, "m"],
        ["loose", "x", "made.txt"], ["tool", "player.order", {"thing": "灯"}, "c"], ["say", "The end."],
    )  # fmt: skip
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(
            model="player", messages=[user(crashes)], extra_headers={"Hostler-On-Pause": "answer"}
        )
        reading = asyncio.create_task(followed(client, first.id, dice))
        run_id = first.hostler["run_id"]  # type: ignore[attr-defined]
        pause = await pause_of(host.client, run_id)
        (call,) = pause["calls"]
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        await host.client.post(
            f"/v1/pauses/{pause['id']}/actions", json={"revision": pause["revision"], "actions": [action]}
        )
        async with asyncio.timeout(TEST_SECONDS):
            live = await reading
        whole = await told_again(client, first.id)
        late = await followed(client, first.id, dice, at_most=3)
        assert live == whole == late
        assert whole.messages == [TEXT, 'player.order: "ordered 1 灯"', "The end."]
        assert len(whole.notes) == 2
        assert await transcript(host.url, ADMIN_KEY, run_id, dice) == whole.messages
        run = (await host.client.get(f"/v1/runs/{run_id}")).json()
        assert [message["content"] for message in run["output"]["messages"]] == whole.messages


async def told_again(client: openai.AsyncOpenAI, completion_id: str) -> Told:
    return await followed(client, completion_id, random.Random(0), at_most=10_000)


async def test_a_host_that_is_killed_takes_no_answer_with_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    agent = {"name": "player", "runner": RUNNER, "resource_policy": POLICY}
    config = config_file(tmp_path / "hostler.json", plugins=[PLAYER], agents=[agent])
    asked = script(*TALK[:4], ["wait", str(go)], *TALK[4:], ["say", TEXT, "m"], ["say", "The end.", "n"])
    key = {"Idempotency-Key": "k-1"}
    found, seen = Told(), 0
    async with serving(HostProcess(tmp_path / "data", config)) as host:
        async with client_of(host.url, KEY, max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="player", messages=[user(asked)], stream=True, extra_headers=key
            )
            while found.texts.get(1) != "".join(WORDS[:4]).rstrip():
                found.take(await anext(stream))
                seen += 1
            await asyncio.to_thread(host.kill)
            with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
                await anext(stream)
        await host.start()
        go.touch()
        async with client_of(host.url, KEY) as client:
            async for chunk in await client.chat.completions.create(
                model="player", messages=[user(asked)], stream=True,
                extra_headers={**key, "Last-Event-ID": str(seen)},
            ):  # fmt: skip
                found.take(chunk)
            assert found.messages == [TEXT, "The end."]
            assert await told_again(client, found.completion_id) == found
            run_id = found.completion_id.removeprefix("chatcmpl_")
            assert await transcript(host.url, KEY, run_id, random.Random(1)) == found.messages
            assert len((await host.client().get("/v1/runs")).json()["items"]) == 1


@pytest.mark.shows("openai-chat", "cancel", "disconnect")
async def test_a_client_stops_a_run(host: Served) -> None:
    asked = script(["delta", "on and on"], ["hold"])
    async with client_of(host.url) as client:
        stream = await client.chat.completions.create(
            model="player", messages=[user(asked)], stream=True,
            extra_headers={"Hostler-On-Disconnect": "cancel"},
        )  # fmt: skip
        run_id = stream.response.headers["hostler-run"]
        await stream.close()
        assert (await ended(host.client, run_id))["status"] == "cancelled"

        sending = asyncio.create_task(client.chat.completions.create(model="player", messages=[user(asked)]))
        other = await _newest(host, run_id)
        await client.post(f"/runs/{other}/cancel", body={"reason": "the user said so"}, cast_to=object)
        with pytest.raises(openai.APIStatusError) as cancelled:
            await sending
        assert cancelled.value.code == "cancelled"
        with pytest.raises(openai.APIError) as again:
            await told_again(client, f"chatcmpl_{other}")
        assert again.value.code == "cancelled"


async def test_leaving_a_run_alone_does_not_stop_it(host: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    asked = script(["delta", "a"], ["wait", str(go)], ["say", "b"])
    async with client_of(host.url) as client:
        stream = await client.chat.completions.create(model="player", messages=[user(asked)], stream=True)
        run_id = stream.response.headers["hostler-run"]
        await stream.close()
        go.touch()
        assert (await ended(host.client, run_id))["status"] == "completed"


@pytest.mark.shows("openai-chat", "usage", "long-run")
async def test_a_long_silence_does_not_disturb_the_client_and_usage_comes_last(
    host: Served, tmp_path: Path
) -> None:
    host.server.app.state.streams.comment_after = 0.02
    go = tmp_path / "go"
    asked = script(["wait", str(go)], ["usage", 12, 5, "counted"])
    async with client_of(host.url) as client:
        async with httpx.AsyncClient(base_url=host.url, timeout=60, verify=NO_CERTIFICATES) as raw:
            body: Any = {"model": "player", "messages": [user(asked)], "stream": True}
            body["stream_options"] = {"include_usage": True}
            headers = {"authorization": f"Bearer {ADMIN_KEY}", "idempotency-key": "k"}
            async with raw.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
                lines = answer.aiter_lines()
                async for line in lines:
                    if line.startswith(":"):
                        break
                go.touch()
                data = [line async for line in lines if line.startswith("data:")]
        assert data[-1] == "data: [DONE]"
        found = await told(
            client, [user(asked)], stream_options={"include_usage": True},
            extra_headers={"Idempotency-Key": "k"},
        )  # fmt: skip
        assert found.messages == ["counted"]
        assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (
            12, 5, 17,
        )  # fmt: skip
        whole = await client.chat.completions.retrieve(found.completion_id)
        assert whole.usage == found.usage


async def test_a_silence_in_the_middle_of_an_answer_is_no_event_for_the_client(
    host: Served, tmp_path: Path
) -> None:
    host.server.app.state.streams.comment_after = 0.02
    go = tmp_path / "go"
    asked = script(["delta", "before "], ["wait", str(go)], ["say", "before and after"])
    comments = 0
    async with client_of(host.url) as client:
        reading = asyncio.create_task(told(client, [user(asked)], extra_headers={"Idempotency-Key": "k"}))
        body = {"model": "player", "messages": [user(asked)], "stream": True}
        headers = {"idempotency-key": "k"}
        async with host.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                comments += line.startswith(":")
                if comments == 10:
                    go.touch()
        assert (await reading).messages == ["before and after"]


async def test_a_key_that_ends_ends_its_stream_with_an_error(host: Served) -> None:
    asked = script(["delta", "on and on"], ["hold"])
    made = (
        await host.client.post("/v1/keys", json={"name": "k", "rights": ["events:write", "runs:read"]})
    ).json()
    async with client_of(host.url, made["key"], max_retries=0) as client:
        stream = await client.chat.completions.create(model="player", messages=[user(asked)], stream=True)
        chunks = aiter(stream)
        assert (await anext(chunks)).choices[0].delta.role == "assistant"
        assert (await host.client.delete(f"/v1/keys/{made['record']['key_id']}")).status_code == 204
        with pytest.raises(openai.APIError) as over:
            await _rest(chunks)
        assert over.value.code == "invalid_api_key"


async def _rest(chunks: AsyncIterator[Any]) -> None:
    async with asyncio.timeout(TEST_SECONDS):
        async for _ in chunks:
            pass


async def _newest(host: Served, but: str) -> str:
    async with asyncio.timeout(TEST_SECONDS):
        while True:
            newest = (await host.client.get("/v1/runs")).json()["items"][0]
            if newest["run_id"] != but:
                return str(newest["run_id"])
            await asyncio.sleep(0.02)
