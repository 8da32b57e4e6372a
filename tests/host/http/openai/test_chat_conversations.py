"""Chat Completions: whose history counts, and what an agent gets of messages and files."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.dialects.openai_chat import client_of, user
from support.dialects.players import playing, script
from support.http_host import Served

SEEN = script(["seen"])
PIXEL = base64.b64encode(b"\x89PNG pixel").decode()
DATA_URL = f"data:image/png;base64,{PIXEL}"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path) as made:
        yield made


async def history(host: Served, run_id: str) -> list[dict[str, Any]]:
    """The messages of a run's conversation, oldest first."""
    run = (await host.client.get(f"/v1/runs/{run_id}")).json()
    page = (await host.client.get(f"/v1/conversations/{run['conversation_id']}/history")).json()
    return [item["content_json"] for item in reversed(page["items"])]


async def test_without_a_conversation_the_messages_of_the_request_are_the_history(host: Served) -> None:
    before: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "And kind."}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "看"}, image(DATA_URL)],
        },
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "look"), call("c2", "hear")]},
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "assistant", "content": "A cat.", "refusal": None},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "really?", "name": "Ada"},
    ]
    async with client_of(host.url) as client:
        first = await client.chat.completions.create(model="player", messages=[*before, user("and now?")])
        said = await history(host, first.hostler["run_id"])  # type: ignore[attr-defined]
        roles = [message["role"] for message in said]
        assert roles == [
            *("system", "developer", "user", "assistant", "tool", "tool", "assistant"),
            *("user", "user", "assistant"),
        ]
        assert [said[0]["content"], said[1]["content"]] == ["Be brief.", "And kind."]
        assert said[2]["content"][1]["type"] == "artifact"
        stored = await host.client.get(f"/v1/artifacts/{said[2]['content'][1]['artifact_id']}/content")
        assert stored.content == b"\x89PNG pixel"
        assert [one["function"]["name"] for one in said[3]["tool_calls"]] == ["look", "hear"]
        assert [one["tool_call_id"] for one in said[4:6]] == ["c1", "c2"]
        assert [one["content"] for one in said[6:]] == ["A cat.", "really?", "and now?", "you said: and now?"]
        second = await client.chat.completions.create(model="player", messages=[*before, user("and now?")])
        runs = (await host.client.get("/v1/runs")).json()["items"]
        assert len({run["conversation_id"] for run in runs}) == 2
        assert len(await history(host, second.hostler["run_id"])) == len(said)  # type: ignore[attr-defined]


@pytest.mark.parametrize("by", ["header", "metadata"])
async def test_with_a_conversation_only_what_is_new_is_taken(host: Served, by: str) -> None:
    named: dict[str, Any] = (
        {"extra_headers": {"Hostler-Conversation": "talk"}}
        if by == "header"
        else {"metadata": {"conversation_id": "talk"}}
    )
    async with client_of(host.url) as client:
        messages: list[Any] = [{"role": "system", "content": "Be brief."}, user("one")]
        first = await client.chat.completions.create(model="player", messages=messages, **named)
        messages += [first.choices[0].message, user("two"), user("three")]
        second = await client.chat.completions.create(model="player", messages=messages, **named)
        said = await history(host, second.hostler["run_id"])
        assert [message["content"] for message in said] == [
            "one", "you said: one", "two\nthree", "you said: two\nthree",
        ]  # fmt: skip
        with pytest.raises(openai.BadRequestError, match="another conversation"):
            await client.chat.completions.create(
                model="player", messages=[user("x")], metadata={"conversation_id": "a"},
                extra_headers={"Hostler-Conversation": "b"},
            )  # fmt: skip
        for wrong in ("", "a" * 600):
            with pytest.raises(openai.BadRequestError, match="conversation_id"):
                await client.chat.completions.create(
                    model="player", messages=[user("x")], metadata={"conversation_id": wrong}
                )


@pytest.mark.shows("openai-chat", "files-in")
async def test_files_of_a_message_reach_the_agent(host: Served) -> None:
    uploaded = (await host.client.post("/v1/artifacts?name=notes.txt", content=b"notes")).json()
    data = base64.b64encode(b"%PDF").decode()
    parts: list[Any] = [
        {"type": "text", "text": SEEN},
        image("https://example.org/cat.png", detail="low"),
        image(DATA_URL),
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": data, "filename": "b.bin"}},
        {"type": "file", "file": {"file_id": uploaded["artifact_id"]}},
    ]
    async with client_of(host.url) as client:
        answer = await client.chat.completions.create(
            model="player", messages=[{"role": "user", "content": parts}]
        )
        given = json.loads(answer.choices[0].message.content or "")["input"]["contents"]
        assert given[0] == {"type": "text", "text": SEEN}
        assert given[1]["image_url"] == {"url": "https://example.org/cat.png", "detail": "low"}
        kinds = [(one.get("mime_type"), one.get("file_name")) for one in given[2:6]]
        assert kinds == [
            ("image/png", None), ("audio/wav", "audio.wav"), ("application/pdf", "a.pdf"), (None, "b.bin"),
        ]  # fmt: skip
        assert given[6]["artifact_id"] == uploaded["artifact_id"]


async def test_a_history_that_is_too_long_is_refused_before_anything_happens(host: Served) -> None:
    async with client_of(host.url) as client:
        with pytest.raises(openai.APIStatusError) as long:
            await client.chat.completions.create(
                model="player", messages=[*(user(str(n)) for n in range(1_001)), user("x")]
            )
        assert long.value.status_code == 413
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(
                model="player",
                messages=[{"role": "user", "content": [image("ftp://x")]}, user("x")],
            )
        assert wrong.value.param == "messages[0].content[0].image_url.url"
    assert (await host.client.get("/v1/runs")).json()["items"] == []


def image(url: str, **more: str) -> Any:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def call(call_id: str, name: str) -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
