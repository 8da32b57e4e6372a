"""Prompts of agents, as clients of MCP list and get them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, TextContent

from hostler.http.mcp.prompts import MAX_ON_PAGE
from support.dialects.mcp import GENERATIONS, SESSION, mcp_client, result_in, wire
from support.dialects.players import RUNNER, player
from support.http_host import ADMIN_KEY, OTHER, Served

both = pytest.mark.parametrize("mode", GENERATIONS)
WEEK = {
    "name": "week",
    "title": "一周小结 🙂",
    "description": "What <b>happened</b>",
    "text": '总结 {team} 的一周。{tone} {"keep": {}} 🙂',
    "arguments": [
        {"name": "team", "description": "哪个团队", "required": True},
        {"name": "tone"},
    ],
}
HELLO = {"name": "hello", "text": "Hello"}


def text_of(result: Any) -> str:
    (message,) = result.messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


@both
async def test_prompts_are_listed_and_got(served: Served, mode: str) -> None:
    await player(served, prompts=[WEEK, HELLO])
    await player(served, "消息", prompts=[HELLO])
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        prompts = (await client.list_prompts()).prompts
        tools = {tool.title: tool.name for tool in (await client.list_tools()).tools}
        assert [one.name for one in prompts] == [f"{tools['消息']}.hello", "player.hello", "player.week"]
        hello, week = prompts[1:]
        assert (hello.title, hello.arguments) == (None, None)
        assert hello.description == "A message for the agent player."
        assert (week.title, week.description) == (WEEK["title"], WEEK["description"])
        assert [(one.name, one.description, one.required) for one in week.arguments or []] == [
            ("team", "哪个团队", True),
            ("tone", None, False),
        ]
        assert text_of(await client.get_prompt("player.hello")) == "Hello"
        assert text_of(await client.get_prompt(f"{tools['消息']}.hello")) == "Hello"
        got = await client.get_prompt("player.week", {"team": "{tone} 🙂", "tone": "{team}"})
        assert got.description == WEEK["description"]
        assert text_of(got) == '总结 {tone} 🙂 的一周。{team} {"keep": {}} 🙂'
        assert text_of(await client.get_prompt("player.week", {"team": "A"})) == (
            '总结 A 的一周。 {"keep": {}} 🙂'
        )


@both
async def test_prompts_and_arguments_that_are_not_there(served: Served, mode: str) -> None:
    await player(served, prompts=[WEEK])
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("week", {}, "there is no prompt 'week'"),
        ("player.none", {}, "there is no prompt 'player.none'"),
        ("other.week", {}, "there is no prompt 'other.week'"),
        ("player.week", {}, "the prompt needs team"),
        ("player.week", {"tone": "kind"}, "the prompt needs team"),
        ("player.week", {"team": "A", "Tone": "kind"}, "no argument 'Tone': expected team, tone"),
    ]
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        for name, values, told in wrong:
            with pytest.raises(MCPError, match=told) as raised:
                await client.get_prompt(name, values)
            assert raised.value.error.code == -32602
        completion = await client.complete(
            PromptReference(type="ref/prompt", name="player.week"), {"name": "team", "value": "A"}
        )
        assert completion.completion.values == []
        for name, argument in (("player.none", "team"), ("player.week", "Team")):
            reference = PromptReference(type="ref/prompt", name=name)
            with pytest.raises(MCPError) as raised:
                await client.complete(reference, {"name": argument, "value": "A"})
            assert raised.value.error.code == -32602


async def test_the_capability_is_declared_by_both_generations(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        hello = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}
        begun = result_in(await client.ask("initialize", hello))
        found = result_in(await client.ask_stateless("server/discover"))
        for about in (begun, found):
            assert about["capabilities"]["prompts"] == {}
            assert "A prompt AGENT.NAME" in about["instructions"]
        await client.begin()
        for answer in (await client.ask("prompts/list"), await client.ask_stateless("prompts/list")):
            assert result_in(answer)["prompts"] == []


@both
async def test_prompts_are_those_of_agents_that_can_be_asked(served: Served, mode: str) -> None:
    """Neither of other workspaces, nor of agents that are disabled or take no messages."""
    await player(served, prompts=[HELLO])
    await player(served, "off", prompts=[HELLO], enabled=False)
    await player(served, "deaf", prompts=[HELLO], event_types=["webhook.received"])
    async with served.as_key(await served.key(OTHER)) as other:
        body = {"name": "theirs", "runner": RUNNER, "prompts": [WEEK]}
        answer = await other.put("/v1/agents/theirs", json=body)
        assert answer.status_code == 200, answer.text
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        assert [one.name for one in (await client.list_prompts()).prompts] == ["player.hello"]
        for name in ("off.hello", "deaf.hello", "theirs.week"):
            with pytest.raises(MCPError, match="there is no prompt"):
                await client.get_prompt(name, {"team": "A"})
        await player(served, prompts=[HELLO | {"text": "Good evening"}])
        assert text_of(await client.get_prompt("player.hello")) == "Good evening"
    async with mcp_client(served.url, await served.key(OTHER), mode) as client:
        assert [one.name for one in (await client.list_prompts()).prompts] == ["theirs.week"]
    async with mcp_client(served.url, await served.key("default", "plugins:read"), mode) as client:
        with pytest.raises(MCPError, match="runs:read"):
            await client.list_prompts()
        with pytest.raises(MCPError, match="runs:read"):
            await client.get_prompt("player.hello")


@both
async def test_many_prompts_come_in_pages(served: Served, mode: str) -> None:
    for number in range(5):
        await player(served, f"agent{number}", prompts=[HELLO | {"name": f"p{n}"} for n in range(32)])
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        first = await client.list_prompts()
        assert len(first.prompts) == MAX_ON_PAGE
        rest = await client.list_prompts(cursor=first.next_cursor)
        assert rest.next_cursor is None
    names = [one.name for one in (*first.prompts, *rest.prompts)]
    assert sorted(names) == sorted(f"agent{a}.p{n}" for a in range(5) for n in range(32))


async def test_revisions_that_know_no_titles_get_the_same(served: Served) -> None:
    await player(served, prompts=[HELLO])
    for version in ("2025-03-26", "2025-06-18", "2025-11-25"):
        async with wire(served.url, ADMIN_KEY) as client:
            await client.begin(version=version)
            described = {"description": "A message for the agent player."}
            listed = {"name": "player.hello", **described}
            assert result_in(await client.ask("prompts/list")) == {"prompts": [listed]}
            assert result_in(await client.ask("prompts/get", {"name": "player.hello"})) == {
                **described,
                "messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}],
            }
