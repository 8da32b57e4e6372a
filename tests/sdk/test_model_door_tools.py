"""The run's own MCP server, by the official client of both generations: its tools are those of the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from hostler_sdk import Denied, RunContext, Runner, tool
from hostler_sdk.model_door import mcp
from hostler_sdk.testing import Driven, ScriptedHost
from support.lending import GENERATIONS
from support.loopback import NO_CERTIFICATES


@tool(effect="pure")
async def add(a: int, b: int = 2) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


def fails() -> None:
    """Fails."""
    raise Denied("a person said no")


pytestmark = pytest.mark.gate("model-door")
TOOLS = {"add": add, "fails": fails, "greet": lambda name: f"Grüß dich, {name}"}


@contextlib.asynccontextmanager
async def client_of(ctx: RunContext, mode: str) -> AsyncIterator[Client]:
    headers = ctx.tools.mcp_headers
    async with httpx2.AsyncClient(headers=headers, timeout=60, verify=NO_CERTIFICATES) as http:
        transport = streamable_http_client(ctx.tools.mcp_url, http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def with_tools(use: Callable[[RunContext], Awaitable[None]], **options: Any) -> Driven:
    class User(Runner):
        async def run(self, ctx: RunContext) -> str:
            await use(ctx)
            return "used"

    driven = ScriptedHost().drive_sync(User, "x", **{"tools": TOOLS, **options})
    assert driven.text == "used", driven.error
    return driven


@pytest.mark.parametrize("mode", GENERATIONS)
def test_tools_are_listed_with_their_parameters_and_called(mode: str) -> None:
    async def use(ctx: RunContext) -> None:
        async with client_of(ctx, mode) as client:
            for _ in range(2):
                listed = {one.name: one for one in (await client.list_tools()).tools}
            assert set(listed) == set(TOOLS)
            assert listed["add"].description == "Adds."
            assert set(listed["add"].input_schema["properties"]) == {"a", "b"}
            result = await client.call_tool("add", {"a": 3})
            assert (result.is_error, result.structured_content) == (False, {"sum": 5})
            (text,) = (await client.call_tool("greet", {"name": "Ada"})).content
            assert getattr(text, "text", None) == "Grüß dich, Ada"
            failed = await client.call_tool("fails", {})
            assert failed.is_error
            assert getattr(failed.content[0], "text", None) == "denied: a person said no"
            unknown = await client.call_tool("rm", {})
            assert unknown.is_error
            assert "not_found" in str(unknown.content[0])

    driven = with_tools(use)
    methods = [call.method for call in driven.calls]
    assert methods == ["tool.detail"] * 3 + ["tool.call"] * 4  # listed twice, asked for once


def test_a_tool_is_listed_under_a_name_that_model_services_accept() -> None:
    async def use(ctx: RunContext) -> None:
        async with client_of(ctx, GENERATIONS[0]) as client:
            listed = {one.name: one.title for one in (await client.list_tools()).tools}
            assert listed == {"shop_add": "shop.add", "shop_add_2": "shop/add"}
            for name in ("shop_add", "shop.add"):
                result = await client.call_tool(name, {"a": 3})
                assert result.structured_content == {"sum": 5}

    driven = with_tools(use, tools={"shop.add": add, "shop/add": add})
    names = [call.params.tool_name for call in driven.calls if call.method == "tool.call"]
    assert names == ["shop.add", "shop.add"]


def test_a_long_call_is_a_stream_that_shows_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "QUICK_SECONDS", 0.01)
    monkeypatch.setattr(mcp, "COMMENT_SECONDS", 0.01)
    going = asyncio.Event()

    async def slow() -> str:
        await going.wait()
        return "at last"

    async def use(ctx: RunContext) -> None:
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "slow"}}
        async with (
            httpx.AsyncClient(headers=ctx.tools.mcp_headers, verify=False) as http,
            http.stream("POST", ctx.tools.mcp_url, json=body) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.aiter_lines()
            for _ in range(3):
                assert await anext(lines) == ": "
                assert await anext(lines) == ""
            going.set()
            data = [line async for line in lines if line.startswith("data: ")]
        (found,) = [json.loads(line.removeprefix("data: ")) for line in data]
        assert (found["id"], found["result"]["content"][0]["text"]) == (7, "at last")

    with_tools(use, tools={"slow": slow})


@pytest.mark.parametrize("how", ["leaves", "says so"])
def test_a_client_that_gives_a_call_up_ends_it(how: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def use(ctx: RunContext) -> None:
        def body(method: str, params: dict[str, Any], **more: Any) -> Any:
            return {"jsonrpc": "2.0", "method": method, "params": params, **more}

        async with httpx.AsyncClient(headers=ctx.tools.mcp_headers, verify=False) as http:
            asking = asyncio.ensure_future(
                http.post(ctx.tools.mcp_url, json=body("tools/call", {"name": "endless"}, id="a"))
            )
            await begun.wait()
            if how == "leaves":
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            else:
                note = body("notifications/cancelled", {"requestId": "a"})
                assert (await http.post(ctx.tools.mcp_url, json=note)).status_code == 202
                assert "gave the call up" in (await asking).text
            await ended.wait()

    driven = with_tools(use, tools={"endless": endless})
    assert driven.calls[0].given_up


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"1.0","method":"ping","id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":true}', 400, -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":"' + b"x" * 300 + b'"}', 400, -32600),
        (b'{"jsonrpc":"2.0","method":7,"id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","method":"resources/list","id":1}', 404, -32601),
        (b'{"jsonrpc":"2.0","method":"tools/call","id":1}', 400, -32602),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","arguments":[]},"id":1}', 400, -32602),
    ],
)
def test_messages_that_are_none_are_refused(body: bytes, status: int, code: int) -> None:
    async def use(ctx: RunContext) -> None:
        async with httpx.AsyncClient(headers=ctx.tools.mcp_headers, verify=False) as http:
            answer = await http.post(ctx.tools.mcp_url, content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            assert (await http.get(ctx.tools.mcp_url)).status_code == 405
            wrong = {"authorization": "Bearer other"}
            assert (await http.post(ctx.tools.mcp_url, content=body, headers=wrong)).status_code == 401
            reply = await http.post(ctx.tools.mcp_url, json={"jsonrpc": "2.0", "id": 1, "result": {}})
            assert reply.status_code == 202
            odd = await http.post(
                ctx.tools.mcp_url,
                json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
                headers={"mcp-protocol-version": "1999-01-01"},
            )
            assert odd.json()["error"]["data"]["requested"] == "1999-01-01"

    assert with_tools(use).calls == []
