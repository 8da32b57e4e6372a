"""Chat Completions with OpenAI's own client: text, files, failures, and requests that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.dialects.openai_chat import client_of, user
from support.http_host import ADMIN_KEY, Served, serving
from support.loopback import NO_CERTIFICATES

WORDS = "say 3"


@pytest.mark.shows("openai-chat", "text", "unicode")
async def test_an_answer_whole_and_as_a_stream(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, client_of(served.url) as client:
        whole = await client.chat.completions.create(model="puppet", messages=[user("你好 👋🏽 e\u0301")])
        assert whole.choices[0].message.content == "done: 你好 👋🏽 e\u0301."
        assert whole.choices[0].finish_reason == "stop"
        assert whole.model == "puppet"
        run = (await served.client.get(f"/v1/runs/{whole.hostler['run_id']}")).json()  # type: ignore[attr-defined]
        assert whole.created == int(run["created_at"])
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                model="puppet", messages=[user("你好 👋🏽")], stream=True
            )
        ]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "done: 你好 👋🏽."
        assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
        assert {(chunk.id, chunk.created, chunk.model) for chunk in chunks} == {
            (chunks[0].id, chunks[0].created, "puppet")
        }


async def test_the_helpers_of_the_client_work_as_with_openai(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, client_of(served.url) as client:
        async with client.chat.completions.stream(
            model="puppet", messages=[user(WORDS)], stream_options={"include_usage": True}
        ) as stream:
            types = [event.type async for event in stream]
            final = await stream.get_final_completion()
        assert "content.done" in types
        assert (final.choices[0].message.content or "").endswith("done: say 3.")
        raw = await client.chat.completions.with_raw_response.create(model="puppet", messages=[user(WORDS)])
        assert raw.headers["hostler-run"] == raw.headers["x-request-id"]
        again = await client.chat.completions.retrieve(final.id)
        assert again.choices[0].message.content == "done: say 3."


@pytest.mark.shows("openai-chat", "files-out")
async def test_a_file_of_the_agent_is_a_link_in_the_text(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, client_of(served.url) as client:
        whole = await client.chat.completions.create(model="puppet", messages=[user("make 内容")])
        message = whole.choices[0].message
        (annotation,) = message.annotations or []
        cited = annotation.url_citation
        assert cited.title == "made.txt"
        assert message.content is not None
        assert message.content[cited.start_index : cited.end_index] == f"[made.txt]({cited.url})"
        assert message.content.endswith("\n\ndone: make 内容.")
        assert (await served.client.get(cited.url)).text == "内容"
        streamed = ""
        links: list[Any] = []
        async for chunk in await client.chat.completions.create(
            model="puppet", messages=[user("make 内容")], stream=True
        ):
            streamed += chunk.choices[0].delta.content or ""
            links += getattr(chunk.choices[0].delta, "annotations", None) or []
        (link,) = links
        place = link["url_citation"]
        assert streamed[place["start_index"] : place["end_index"]] == f"[made.txt]({place['url']})"


@pytest.mark.shows("openai-chat", "error")
async def test_a_failed_run_is_an_error_that_no_client_repeats(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, client_of(served.url) as client:
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="puppet", messages=[user("fail 糟糕")])
        assert failed.value.status_code == 424
        assert failed.value.code == "runner.error"
        assert "糟糕" in failed.value.message
        with pytest.raises(openai.APIError, match="糟糕") as broken:
            async for _ in await client.chat.completions.create(
                model="puppet", messages=[user("fail 糟糕")], stream=True
            ):
                pass
        assert broken.value.code == "runner.error"
        runs = (await served.client.get("/v1/runs")).json()["items"]
        assert len(runs) == 2


@pytest.mark.shows("openai-chat", "wrong-key", "unknown-agent")
async def test_a_wrong_key_a_key_without_the_right_and_an_unknown_agent(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, client_of(served.url) as client:
        await served.agent("idle", enabled=False)
        with pytest.raises(openai.AuthenticationError) as denied:
            await ask(served, "wrong")
        assert denied.value.code == "invalid_api_key"
        with pytest.raises(openai.PermissionDeniedError, match="events:write"):
            await ask(served, await served.key("default", "runs:read"))
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="gpt-5", messages=[user("x")])
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.ConflictError, match="disabled"):
            await client.chat.completions.create(model="idle", messages=[user("x")])
        for completion in ("chatcmpl_nope", "nope", "chatcmpl_a_b", "chatcmpl-1"):
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.retrieve(completion)


async def ask(served: Served, key: str) -> Any:
    async with client_of(served.url, key) as client:
        return await client.chat.completions.create(model="puppet", messages=[user("x")])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": 3}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": []}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"metadata": {"conversation_id": 3}}, "metadata.conversation_id"),
        ({"temperature": "warm"}, "temperature"),
    ],
)
async def test_a_request_that_is_wrong_names_the_field(
    served: Served, body: dict[str, Any], param: str
) -> None:
    whole = {"model": "puppet", "messages": [user("x")], **body}
    answer = await served.client.post("/v1/chat/completions", json=whole)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param, answer.text
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,x"}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,&"}}, "image_url.url"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "midi"}}, "input_audio.format"),
        ({"type": "input_audio", "input_audio": {"data": "*", "format": "wav"}}, "input_audio.data"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "file", "file": {"file_data": "*"}}, "file.file_data"),
    ],
)
async def test_a_part_that_is_wrong_is_named(served: Served, part: dict[str, Any], param: str) -> None:
    body = {"model": "puppet", "messages": [{"role": "user", "content": [part]}]}
    answer = await served.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == f"messages[0].content[0].{param}"


async def test_every_answer_is_in_the_shape_of_the_interface(served: Served) -> None:
    path = "/v1/chat/completions"
    async with httpx.AsyncClient(base_url=served.url, verify=NO_CERTIFICATES) as nobody:
        answers = [
            await nobody.post(path, json={}),
            await served.client.get(path),
            await served.client.post(path, content=b"{"),
            await served.client.post(path, content=b"x", headers={"content-type": "text/plain"}),
            await served.client.post(path, content=b'"' + b"x" * 5_000_000 + b'"'),
            await served.client.get(f"{path}/chatcmpl_no-run?stream=perhaps"),
        ]
    assert [answer.status_code for answer in answers] == [401, 405, 400, 415, 413, 400]
    for answer in answers:
        assert set(answer.json()) == {"error"}, answer.text


async def test_what_the_agent_gets_of_a_request(served: Served) -> None:
    body = {
        "model": "puppet",
        "messages": [{**user("hello"), "name": "Ada"}],
        "temperature": 0.5,
        "stop": ["x"],
        "user": "u-1",
        "metadata": {"topic": "t"},
        "unknown_option": {"is": "ignored"},
    }
    answer = await served.client.post(
        "/v1/chat/completions", json=body, headers={"authorization": f"bearer {ADMIN_KEY}"}
    )
    run = (await served.client.get(f"/v1/runs/{answer.headers['hostler-run']}")).json()
    event = (await served.client.get(f"/v1/events/{run['event_id']}")).json()["envelope"]
    assert event["data"] == {"params": {"temperature": 0.5, "stop": ["x"]}, "metadata": {"topic": "t"}}
    assert (event["actor"]["actor_id"], event["actor"]["actor_name"]) == ("u-1", "Ada")
    assert event["agent"] == "puppet"
