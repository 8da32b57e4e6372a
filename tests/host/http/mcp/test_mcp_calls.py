"""Agents as tools of MCP, with its official client, in both generations of the protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from support.dialects.mcp import GENERATIONS, Heard, mcp_client, texts_of, wire
from support.dialects.players import player, script
from support.http_host import ADMIN_KEY, OTHER, Served

pytestmark = pytest.mark.parametrize("mode", GENERATIONS)
LONG = "你好 🙂 " * 50


async def say(client: Client, *steps: Any, heard: Heard | None = None, **arguments: Any) -> Any:
    given = {"message": script(*steps), **arguments}
    progress = None if heard is None else heard.note_progress
    return await client.call_tool("player", given, progress_callback=progress)


async def test_agents_are_tools_with_their_names_and_schemas(served: Served, mode: str) -> None:
    await player(served, "guide", metadata={"description": "Knows the way."})
    await player(served, "向导 二")
    await player(served, "away", enabled=False)
    await player(served, "listener", event_types=["something.else"])
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        tools = {tool.title: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"player", "guide", "向导 二"}
        assert tools["guide"].description == "Knows the way."
        assert tools["guide"].input_schema["required"] == ["message"]
        assert tools["guide"].annotations is not None
        assert tools["guide"].annotations.read_only_hint is False
        named = tools["向导 二"].name
        assert named.isascii()
        answer = await client.call_tool(named, {"message": "hi"})
        assert texts_of(answer) == ["you said: hi"]


@pytest.mark.shows("mcp", "text")
async def test_text_comes_as_progress_and_whole(served: Served, mode: str) -> None:
    heard = Heard()
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        steps = [["delta", LONG[:7]], ["delta", LONG[7:90]], ["say", LONG], ["say", "and more"]]
        answer = await say(client, *steps, heard=heard)
    assert not answer.is_error
    assert texts_of(answer) == [LONG, "and more"]
    assert [block.text for block in answer.content] == [LONG, "and more"]
    assert heard.text == LONG + "and more"
    numbers = [number for number, _ in heard.progress]
    assert len(numbers) > 1
    assert numbers == sorted(set(numbers))
    assert answer.structured_content["status"] == "completed"


async def test_a_conversation_goes_on_by_its_id(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        first = await say(client, ["say", "one"])
        place = first.structured_content["conversation_id"]
        second = await say(client, ["say", "two"], conversation_id=place)
        other = await say(client, ["say", "three"])
    assert second.structured_content["conversation_id"] == place
    assert other.structured_content["conversation_id"] != place
    history = (await served.client.get(f"/v1/conversations/{place}/history")).json()["items"]
    assert [item["content_json"]["content"] for item in history if item["role"] == "assistant"] == [
        "two",
        "one",
    ]


@pytest.mark.shows("mcp", "tools", "usage")
async def test_usage_and_tools_of_the_host_are_told(served: Served, mode: str) -> None:
    heard = Heard()
    options: dict[str, Any] = {"log_level": "info"} if mode != "legacy" else {}
    async with mcp_client(served.url, ADMIN_KEY, mode, heard=heard, **options) as client:
        steps = [["tool", "player.price", {"thing": "lamp"}, "a"], ["usage", 3, 4, "done"]]
        answer = await say(client, *steps)
    assert answer.structured_content["usage"]["output_tokens"] == 4
    kinds = [next(iter(data)) for _, data in heard.logs]
    assert kinds[:2] == ["tool_called", "tool_returned"]
    assert heard.logs[1][1]["result"] == {"thing": "lamp", "euros": 4}


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_without_a_wish_for_them_nothing_is_told(served: Served, mode: str) -> None:
    heard = Heard()
    async with mcp_client(served.url, ADMIN_KEY, mode, heard=heard) as client:
        if mode == "legacy":
            await client.set_logging_level("error")
        await say(client, ["tool", "player.price", {"thing": "lamp"}, "a"])
    assert heard.logs == []


@pytest.mark.shows("mcp", "error")
async def test_a_run_that_fails_is_a_result_that_says_so(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        answer = await say(client, ["say", "half"], ["fail", "the moon is gone"])
        assert answer.is_error
        assert "the moon is gone" in answer.content[-1].text
        assert answer.structured_content["status"] == "failed"
        assert texts_of(answer) == ["half"]
        assert answer.structured_content["error"]["code"].startswith("runner.")


@pytest.mark.shows("mcp", "files-out")
async def test_files_come_as_links_and_as_content(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        answer = await say(client, ["file", "Inhalt", "note.txt"], ["loose", "more", "loose.txt"])
    links = [block for block in answer.content if block.type == "resource_link"]
    assert [link.name for link in links] == ["note.txt", "loose.txt"]
    assert all(link.uri.startswith("hostler://artifacts/") for link in links)


@pytest.mark.shows("mcp", "files-in")
async def test_files_of_the_client_reach_the_agent(served: Served, mode: str) -> None:
    files = [
        {"data": "aGVsbG8=", "mime_type": "text/plain", "name": "hello.txt"},
        {"data": "iVBORw0KGgo=", "mime_type": "image/png"},
        {"url": "https://example.org/a.pdf", "name": "a.pdf"},
    ]
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        answer = await say(client, ["seen"], files=files)
        assert "hello.txt" in texts_of(answer)[0]
        assert "example.org/a.pdf" in texts_of(answer)[0]
        wrong = await say(client, ["seen"], files=[{"data": "%%%"}])
        assert wrong.is_error
        assert "files[0]: data: this is not base64" in wrong.content[0].text
        several = await say(client, ["seen"], files=[{"data": "", "url": "x"}])
        assert "exactly one of artifact_id, url and data" in several.content[0].text


@pytest.mark.shows("mcp", "unknown-agent")
async def test_wrong_arguments_are_told_to_the_model(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        for arguments, said in (
            ({}, "message"),
            ({"message": 1}, "message"),
            ({"message": "x", "mesage": ""}, "mesage"),
            ({"message": ""}, "message is empty"),
        ):
            answer: Any = await client.call_tool("player", arguments)
            assert answer.is_error, arguments
            assert said in answer.content[0].text
        with pytest.raises(MCPError, match="there is no tool 'nobody'"):
            await client.call_tool("nobody", {"message": "x"})


@pytest.mark.shows("mcp", "wrong-key")
async def test_a_wrong_key_and_one_of_another_workspace(served: Served, mode: str) -> None:
    other = await served.key(OTHER)
    async with mcp_client(served.url, other, mode) as client:
        assert (await client.list_tools()).tools == []
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("player", {"message": "x"})
    poor = await served.key("default", "runs:read")
    async with mcp_client(served.url, poor, mode) as client:
        assert (await client.list_tools()).tools != []
        with pytest.raises(MCPError, match="events:write"):
            await client.call_tool("player", {"message": "x"})
    with pytest.raises((MCPError, BaseExceptionGroup)):
        async with mcp_client(served.url, "hostler_wrong", mode) as client:
            await client.list_tools()
    async with wire(served.url, "hostler_wrong") as client:
        answer = await client.ask("ping")
        assert answer.status_code == 401
        assert answer.json()["error"]["data"]["code"] == "unauthorized"
        told = answer.headers["www-authenticate"]
        assert f'resource_metadata="{served.url}/.well-known/oauth-protected-resource/mcp"' in told
        metadata = (await client.http.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert metadata["resource"] == f"{served.url}/mcp"
        assert metadata["bearer_methods_supported"] == ["header"]


@pytest.mark.shows("mcp", "cancel")
async def test_a_call_that_is_given_up_cancels_its_run(served: Served, mode: str, tmp_path: Path) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        call = asyncio.create_task(say(client, ["say", "begun"], ["hold"], conversation_id="c"))
        while not (found := (await served.client.get("/v1/runs?conversation_id=c")).json()["items"]):
            await asyncio.sleep(0.02)
        run_id = found[0]["run_id"]
        while (await served.client.get(f"/v1/runs/{run_id}")).json()["status"] != "running":
            await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(30):
            while (await served.client.get(f"/v1/runs/{run_id}")).json()["status"] != "cancelled":
                await asyncio.sleep(0.02)
