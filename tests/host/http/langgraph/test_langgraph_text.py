"""The LangGraph interface with its official client: text, tools of the host, files, threads, errors."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import AuthenticationError, BadRequestError, NotFoundError

from support.dialects.langgraph import (
    AGENT,
    collect,
    langgraph,
    last_values,
    names,
    plain,
    said,
    texts_of,
    told,
)
from support.dialects.players import player
from support.http_host import WORKSPACE, Served
from support.loopback import NO_CERTIFICATES

ALL_MODES: Any = ["values", "updates", "messages-tuple", "custom", "events"]


@pytest.mark.shows("langgraph", "text")
async def test_text_streamed_and_whole(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread = await client.threads.create()
        assert thread["status"] == "idle"
        thread_id = thread["thread_id"]
        steps = (
            ["think", "hm "],
            ["delta", "你好", "m"],
            ["delta", " 👩‍👩‍👧", "m"],
            ["say", "你好 👩‍👩‍👧", "m"],
        )
        begun: list[Any] = []
        stream = client.runs.stream(
            thread_id, AGENT, input=said(*steps), stream_mode=ALL_MODES, on_run_created=begun.append
        )
        parts = await collect(stream)
        assert parts[0].event == "metadata"
        assert begun == [{"run_id": parts[0].data["run_id"], "thread_id": thread_id}]
        assert set(told(parts).values()) == {"你好 👩‍👩‍👧"} or "你好 👩‍👩‍👧" in told(parts).values()
        values = last_values(parts)
        assert texts_of(values) == ["你好 👩‍👩‍👧"]
        assert values["messages"][0]["type"] == "human"
        (update,) = [part.data for part in parts if part.event == "updates"]
        assert update == {"agent": {"messages": [values["messages"][1]]}}
        assert values["messages"][1]["id"] in told(parts)
        # the same state, asked for
        state = await client.threads.get_state(thread_id)
        assert [one["content"] for one in state["values"]["messages"]] == [
            one["content"] for one in values["messages"]
        ]
        assert [one["id"] for one in state["values"]["messages"]] == [one["id"] for one in values["messages"]]
        assert state["next"] == []
        # the next run knows the thread, and a request that waits gives its state
        whole: Any = await client.runs.wait(thread_id, AGENT, input=plain("again"))
        assert texts_of(whole) == ["你好 👩‍👩‍👧", "you said: again"]
        history = await client.threads.get_history(thread_id)
        assert [len(one["values"]["messages"]) for one in history] == [4, 2]
        assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]


async def test_modes_are_told_alone_and_a_stream_goes_on_in_others(served: Served) -> None:
    steps = (["delta", "one ", "m"], ["delta", "two", "m"], ["say", "one two", "m"])
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, AGENT, input=said(*steps))
        all_of_it = await collect(client.runs.join_stream(thread_id, run["run_id"], stream_mode=ALL_MODES))
        for mode, event in (("values", "values"), ("updates", "updates"), ("messages-tuple", "messages")):
            alone = await collect(client.runs.join_stream(thread_id, run["run_id"], stream_mode=mode))
            assert set(names(alone)) == {"metadata", event}
            assert [part for part in all_of_it if part.event in ("metadata", event)] == alone
        for place, part in enumerate(all_of_it):
            rest = await collect(
                client.runs.join_stream(
                    thread_id, run["run_id"], stream_mode=ALL_MODES, last_event_id=part.id
                )
            )
            assert rest == all_of_it[place + 1 :]


@pytest.mark.shows("langgraph", "tools", "usage")
async def test_tools_of_the_host_and_usage(served: Served) -> None:
    steps = (
        ["tool", "player.price", {"thing": "茶"}, "p"],
        ["tool", "player.price", {"thing": "nothing"}, "q"],
        ["usage", 3, 4, "done"],
    )
    async with langgraph(served.url) as client:
        parts = await collect(client.runs.stream(None, AGENT, input=said(*steps), stream_mode=ALL_MODES))
        messages = last_values(parts)["messages"]
        assert [one["type"] for one in messages] == ["human", "ai", "tool", "ai", "ai", "tool", "ai", "ai"]
        call, result = messages[1], messages[2]
        assert call["tool_calls"][0]["name"] == "player.price"
        assert call["tool_calls"][0]["args"] == {"thing": "茶"}
        assert result["tool_call_id"] == call["tool_calls"][0]["id"]
        assert json.loads(result["content"])["euros"] == 1
        assert (result["status"], messages[5]["status"]) == ("success", "error")
        usage = messages[-1]["usage_metadata"]
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 4, 7)
        nodes = [next(iter(part.data)) for part in parts if part.event == "updates"]
        assert nodes[:2] == ["agent", "tools"]
        events = [part.data["event"] for part in parts if part.event == "events"]
        assert {"on_chain_start", "on_tool_start", "on_tool_end", "on_chain_end"} <= set(events)


def blocks_of(values: Any) -> list[dict[str, Any]]:
    contents = [one["content"] for one in values["messages"] if one["type"] == "ai"]
    return [block for content in contents if isinstance(content, list) for block in content]


@pytest.mark.shows("langgraph", "files-in", "files-out")
async def test_files_in_and_out(served: Served) -> None:
    image = base64.b64encode(b"\x89PNG").decode()
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
        {"type": "file", "base64": image, "mime_type": "text/plain", "filename": "n.txt"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
        {"type": "reasoning", "reasoning": "not for a model of another"},
    ]
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        values: Any = await client.runs.wait(thread_id, AGENT, input=plain(content))
        blocks = values["messages"][0]["content"]
        assert [one["type"] for one in blocks] == ["text", "image_url", "file", "image_url"]
        assert blocks[2]["filename"] == "n.txt"
        values = await client.runs.wait(thread_id, AGENT, input=said(["file", "what it says", "f.txt"]))
        (file,) = [one for one in blocks_of(values) if one["type"] == "file"]
        bytes_of = await served.client.get(file["url"])
        assert bytes_of.text == "what it says"
        # the artifact is sent back by its id
        again = [{"type": "text", "text": "this"}, {"type": "file", "file_id": file["file_id"]}]
        values = await client.runs.wait(thread_id, AGENT, input=plain(again))
        assert values["messages"][-2]["content"][1]["file_id"] == file["file_id"]


async def test_stateless_runs(served: Served) -> None:
    async with langgraph(served.url) as client:
        values: Any = await client.runs.wait(None, AGENT, input=plain("hello"))
        assert texts_of(values) == ["you said: hello"]
        earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        asked: Any = {"messages": [*earlier, ["user", "c"]]}
        values = await client.runs.wait(None, AGENT, input=asked)
        assert [one["content"] for one in values["messages"]] == ["a", "b", "c", "you said: c"]


@pytest.mark.shows("langgraph", "error")
async def test_a_runner_that_fails(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        parts = await collect(
            client.runs.stream(thread_id, AGENT, input=said(["delta", "so ", "m"], ["fail", "broken"]))
        )
        assert parts[-1].event == "error"
        assert "broken" in parts[-1].data["message"]
        assert texts_of(last_values(parts)) == []
        run_id = parts[0].data["run_id"]
        assert (await client.runs.get(thread_id, run_id))["status"] == "error"
        assert (await client.threads.get(thread_id))["status"] == "error"
        with pytest.raises(Exception, match="broken"):
            await client.runs.wait(thread_id, AGENT, input=said(["fail", "broken"]))
        whole: Any = await client.runs.wait(
            thread_id, AGENT, input=said(["fail", "broken"]), raise_error=False
        )
        assert "broken" in whole["__error__"]["message"]


@pytest.mark.shows("langgraph", "repeated")
async def test_the_same_request_twice_is_one_run(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        headers = {"Idempotency-Key": "一".encode().hex()}
        values = [
            await client.runs.wait(thread_id, AGENT, input=plain("once"), headers=headers) for _ in range(2)
        ]
        assert values[0] == values[1]
        assert len(await client.runs.list(thread_id)) == 1
        again = [
            await client.runs.wait(None, AGENT, input=plain("x"), headers={"Idempotency-Key": "n"})
            for _ in "ab"
        ]
        assert again[0] == again[1]
        # also while it runs, and the request would be refused as another
        for _ in range(2):
            run = await client.runs.create(
                thread_id,
                AGENT,
                input=said(["hold"]),
                multitask_strategy="reject",
                headers={"Idempotency-Key": "held"},
            )
        assert len(await client.runs.list(thread_id)) == 2
        await client.runs.cancel(thread_id, run["run_id"], wait=True)


async def test_assistants(served: Served) -> None:
    await player(served, "writer")
    async with langgraph(served.url) as client:
        found = await client.assistants.search()
        assert [one["assistant_id"] for one in found] == ["player", "writer"]
        assert await client.assistants.count() == 2
        page: Any = await client.assistants.search(limit=1, response_format="object")
        assert page["next"] == "1"
        assert [one["name"] for one in await client.assistants.search(graph_id="writer")] == ["writer"]
        one = await client.assistants.get("writer")
        assert (one["graph_id"], one["version"]) == ("writer", 1)
        assert {node["id"] for node in (await client.assistants.get_graph("writer"))["nodes"]} == {
            "__start__",
            "agent",
            "tools",
            "__end__",
        }
        schemas = await client.assistants.get_schemas("writer")
        assert "messages" in schemas["input_schema"]["properties"]
        assert await client.assistants.get_subgraphs("writer") == {}
        assert [one["version"] for one in await client.assistants.get_versions("writer")] == [1]
        with pytest.raises(NotFoundError, match="no assistant 'nobody'"):
            await client.assistants.get("nobody")
        with pytest.raises(BadRequestError, match="configured on the host"):
            await client.assistants.create("writer")
        with pytest.raises(BadRequestError, match="configured on the host"):
            await client.assistants.update("writer", name="x")


async def test_parameters_of_a_run_reach_its_agent(served: Served) -> None:
    async with langgraph(served.url) as client:
        values: Any = await client.runs.wait(
            None,
            AGENT,
            input=said(["seen"], topic="茶"),
            config={"configurable": {"tone": "dry", "thread_id": "x"}},
            context={"level": 2},
            metadata={"m": 1},
        )
        seen = json.loads(texts_of(values)[-1])
        assert seen["data"]["params"] == {"topic": "茶", "tone": "dry", "level": 2}
        assert seen["data"]["langgraph"]["metadata"] == {"m": 1}


@pytest.mark.shows("langgraph", "wrong-key", "unknown-agent")
async def test_keys_rights_and_other_workspaces(served: Served) -> None:
    async with langgraph(served.url, "wrong") as client:
        with pytest.raises(AuthenticationError):
            await client.assistants.search()
    async with langgraph(served.url) as client:
        with pytest.raises(httpx.HTTPStatusError, match="404"):
            await client.runs.wait("t", "nobody", input=plain("x"))
        run = await client.runs.create("t", AGENT, input=plain("x"))
        with pytest.raises(NotFoundError):
            await client.runs.get("u", run["run_id"])
        with pytest.raises(NotFoundError):
            await client.runs.get("t", "run_nope")
    reader = await served.key(WORKSPACE, "runs:read", "conversations:read")
    async with langgraph(served.url, reader) as client:
        await client.threads.get("t")
        with pytest.raises(Exception, match="events:write"):
            await client.runs.create("t", AGENT, input=plain("x"))
    foreign = await served.key("other")
    async with langgraph(served.url, foreign) as client:
        with pytest.raises(NotFoundError):
            await client.threads.get("t")
        with pytest.raises(NotFoundError):
            await client.runs.get("t", run["run_id"])
        assert await client.threads.search() == []
    ok = await served.client.get("/langgraph/ok")
    assert ok.json() == {"ok": True}
    assert (await served.client.get("/langgraph/info")).json()["flags"]["crons"] is True
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as anyone:
        answer = await anyone.get(f"{served.url}/langgraph/threads/t")
        assert answer.status_code == 401
        assert set(answer.json()) == {"detail", "code"}
