"""AG-UI with its official client: text, files, state, usage, tools of the host, failures."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.dialects.ag_ui import ag_ui_client, texts_of, user
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served

SMILE = "你好，世界 👩‍👩‍👧 é"


@pytest.mark.shows("ag-ui", "text")
async def test_text_streams_and_is_one_message(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["delta", "Hello "], ["delta", SMILE], ["say", f"Hello {SMILE}"]))
        assert texts_of(done["messages"]) == [f"Hello {SMILE}"]
        assert client.types() == [
            "RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]  # fmt: skip
        started, finished = client.events[0], client.events[-1]
        assert started["protocolVersion"] == "1.0"
        assert (started["threadId"], started["runId"]) == (finished["threadId"], finished["runId"])
        assert finished["outcome"] == {"type": "success"}
        assert client.warnings == []
        again = await client.run("plain")
        assert texts_of(again["messages"]) == [f"Hello {SMILE}", "you said: plain"]


@pytest.mark.parametrize("old", [False, True])
async def test_reasoning_is_a_message_of_its_own(served: Served, old: bool) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY, old=old) as client:
        done = await client.run(script(["think", "Two and "], ["think", "two."], ["say", "4"]))
        assert [message["content"] for message in done["messages"] if message["role"] == "reasoning"] == [
            "Two and two."
        ]
        assert texts_of(done["messages"]) == ["4"]
        assert client.warnings == []


async def test_a_thread_is_a_conversation_of_the_host(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY, thread="对话/1") as client:
        await client.run("one")
        await client.run("two")
    history = (await served.client.get("/v1/conversations/%E5%AF%B9%E8%AF%9D%2F1/history")).json()
    assert [item["content"] for item in reversed(history["items"])] == [
        "one", "you said: one", "two", "you said: two"
    ]  # fmt: skip


async def test_several_new_messages_are_one_input(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.command(say=[user("first"), user("second")], run={})
        assert texts_of(done["messages"]) == ["you said: first\nsecond"]


@pytest.mark.shows("ag-ui", "files-in")
async def test_files_in(served: Served) -> None:
    picture = base64.b64encode(b"\x89PNG").decode()
    sources: list[dict[str, Any]] = [
        {"type": "text", "text": script(["seen"])},
        {"type": "image", "source": {"type": "data", "value": picture, "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}},
        {
            "type": "document",
            "source": {"type": "data", "value": base64.b64encode(b"a,b").decode(), "mimeType": "text/csv"},
            "metadata": {"filename": "表.csv"},
        },
        {"type": "document", "source": {"type": "file", "value": "file-123", "provider": "openai"}},
        {"type": "image", "source": {"type": "file", "value": "a handle of somewhere else"}},
    ]
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.command(say=[user(sources)], run={})
        (text,) = texts_of(done["messages"])
    contents = json.loads(text)["input"]["contents"]
    assert [element["type"] for element in contents] == ["text", "image_base64", "image_url", "file_base64"]
    assert base64.b64decode(contents[1]["image_base64"]) == b"\x89PNG"
    assert contents[3]["file_name"] == "表.csv"


async def test_a_file_of_the_host_goes_in_by_its_id(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["loose", "content", "n.txt"]))
        (made,) = [event for event in client.events if event["type"] == "ACTIVITY_SNAPSHOT"]
        own = {"type": "file", "value": made["content"]["artifact_id"], "provider": "hostler"}
        parts = [{"type": "text", "text": script(["seen"])}, {"type": "document", "source": own}]
        done = await client.command(say=[user(parts)], run={})
    given = json.loads(texts_of(done["messages"])[-1])["input"]
    assert made["content"]["artifact_id"] in json.dumps(given)


@pytest.mark.shows("ag-ui", "files-out")
async def test_files_out_are_activities(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(script(["file", "内容", "a.txt"], ["loose", "more", "b.txt"]))
        assert texts_of(done["messages"]) == ["see a.txt"]
        files = [message for message in done["messages"] if message["role"] == "activity"]
        assert {one["content"]["name"] for one in files} >= {"a.txt", "b.txt"}
        assert {one["activityType"] for one in files} == {"hostler.file"}
        assert len({one["id"] for one in files}) == len(files)
        for one in files:
            answer = await served.client.get(one["content"]["url"])
            assert answer.text in ("内容", "more")


async def test_state_starts_from_what_both_have_and_follows_the_agent(tmp_path: Path) -> None:
    from support.http_host import serving

    async with serving(tmp_path) as served:
        async with ag_ui_client(served.url, ADMIN_KEY, agent="puppet") as client:
            await client.run("remember a/b~c 一")
            (delta,) = [event for event in client.events if event["type"] == "STATE_DELTA"]
            assert delta["delta"] == [{"op": "add", "path": "/a~1b~0c", "value": "一"}]
            done = await client.run("say 1", setState={"a/b~c": "mine", "draft": [1]})
            assert done["state"] == {"a/b~c": "mine", "draft": [1]}  # what the client sent stays as it is
            done = await client.run("remember draft 2")
            assert done["state"] == {"a/b~c": "mine", "draft": "2"}
        async with ag_ui_client(served.url, ADMIN_KEY, agent="puppet") as other:
            done = await other.run("say 1")
            assert done["state"] == {"a/b~c": "一", "draft": "2"}  # a page that has none gets the agent's
            assert client.warnings == other.warnings == []


async def test_state_context_and_props_reach_the_agent(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY, state={"recipe": "soup"}) as client:
        done = await client.run(
            script(["seen"]),
            context=[{"description": "The page", "value": "/kitchen"}],
            forwardedProps={"temperature": 1},
        )
        data = json.loads(texts_of(done["messages"])[0])["data"]
        assert data["ag_ui"]["state"] == {"recipe": "soup"}
        assert data["ag_ui"]["context"] == [{"description": "The page", "value": "/kitchen"}]
        assert data["params"] == {"temperature": 1}


@pytest.mark.shows("ag-ui", "tools")
async def test_tools_of_the_host(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(
            script(
                ["tool", "player.price", {"thing": "茶"}, "x"],
                ["tool", "player.price", {"thing": "nothing"}, "x"],
            )
        )
        calls = [call for message in done["messages"] for call in message.get("toolCalls", [])]
        assert [call["function"]["name"] for call in calls] == ["player.price", "player.price"]
        assert json.loads(calls[0]["function"]["arguments"]) == {"thing": "茶"}
        assert len({call["id"] for call in calls}) == 2  # the model used its id again
        results = [message for message in done["messages"] if message["role"] == "tool"]
        assert [message["toolCallId"] for message in results] == [call["id"] for call in calls]
        assert json.loads(results[0]["content"]) == {"thing": "茶", "euros": 1}
        assert "error" in results[1]["metadata"]["hostler"]
        assert client.finished == [{"outcome": "success", "pendingToolCallIds": []}]


@pytest.mark.shows("ag-ui", "usage")
async def test_usage_is_told_once(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["usage", 11, 7, "x"]))
        (usage,) = client.events[-1]["usage"]
        assert (usage["inputTokens"], usage["outputTokens"]) == (11, 7)


@pytest.mark.shows("ag-ui", "error")
async def test_a_run_that_fails_is_an_error_event(served: Served) -> None:
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["delta", "half"], ["fail", "坏了"]))
        assert client.types()[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
        assert client.events[-1]["code"] == "runner.error"
        assert "坏了" in client.events[-1]["message"]
        done = await client.run("still there")
        assert texts_of(done["messages"]) == ["you said: still there"]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.shows("ag-ui", "wrong-key", "unknown-agent")
async def test_what_is_refused_has_a_status_and_says_why(served: Served, old: bool) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], int, str]] = [
        ({"agent": "nobody"}, {}, 404, "nobody"),
        ({"key": "wrong"}, {}, 401, "key"),
        ({"state": [1]}, {}, 400, "state"),
        ({}, {"tools": [{"name": "a b", "description": "", "parameters": {}}]}, 400, "tools"),
    ]
    for options, run, status, words in cases:
        given = {"key": ADMIN_KEY, **options}
        async with ag_ui_client(served.url, given.pop("key"), old=old, **given) as client:
            failed = await client.run("x", **run)
            assert failed["failed"]["status"] == status, failed
            assert failed["failed"]["payload"]["type"] == "RUN_ERROR"
            assert words in failed["failed"]["payload"]["message"]


async def test_the_client_of_copilotkit_gets_what_it_knows(served: Served) -> None:
    """It sends no version, and its verification refuses members that came later."""
    async with ag_ui_client(served.url, ADMIN_KEY, old=True) as client:
        done = await client.run(
            script(["tool", "player.price", {"thing": "tea"}, "x"], ["loose", "x", "b.txt"], ["say", SMILE])
        )
        assert texts_of(done["messages"])[-1] == SMILE
        assert client.events[-1]["outcome"] == {"type": "success"}
        assert client.warnings == []
