"""The program that leads agents, which start MCP servers as programs, to the run's server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest
from hostler_acp.offers import BRIDGE

from hostler_sdk import RunContext, message
from hostler_sdk.testing import drive
from support.driven import of


async def bridged(url: str, authorization: str, *messages: Any) -> list[dict[str, Any]]:
    """What the bridge answers to messages, by the order of their ids."""
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")  # it goes past them
    env = os.environ | proxies | {"HOSTLER_MCP_URL": url, "HOSTLER_MCP_AUTHORIZATION": authorization}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(BRIDGE),
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(b"".join(line + b"\n" for line in lines))
    assert process.returncode == 0
    found = [json.loads(line) for line in out.splitlines()]
    return sorted(found, key=lambda one: str(one["id"]))


def request(id_: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


async def test_messages_are_passed_on_several_at_once() -> None:
    found: list[dict[str, Any]] = []
    held = asyncio.Event()

    async def add(a: int, b: int) -> int:
        if a == 1:
            await held.wait()  # the second call overtakes the first
        else:
            held.set()
        return a + b

    async def body(ctx: RunContext) -> Any:
        found.extend(
            await bridged(
                ctx.tools.mcp_url,
                ctx.tools.mcp_headers["authorization"],
                request(1, "tools/call", name="add", arguments={"a": 1, "b": 1}),
                request(2, "tools/call", name="add", arguments={"a": 2, "b": 2}),
                request(3, "tools/list"),
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                b"",
                request(4, "no/such/method"),
            )
        )
        return message("done")

    runner = of(body, permissions={"tools": ["detail", "call"]})
    driven = await drive(runner, "x", tools={"add": add})
    assert driven.text == "done", driven.error
    assert [one["result"]["content"][0]["text"] for one in found[:2]] == ["2", "4"]
    assert [tool["name"] for tool in found[2]["result"]["tools"]] == ["add"]
    assert found[3]["error"]["code"] == -32601


@pytest.mark.parametrize("line", [request(7, "tools/list"), b'{"broken'])
async def test_a_server_that_is_not_there_is_an_error_in_the_answer(line: Any) -> None:
    found = await bridged("http://127.0.0.1:9/mcp", "Bearer x", line)
    if isinstance(line, bytes):
        assert found == []
    else:
        assert found[0]["id"] == 7
        assert "the server of the run cannot be reached" in found[0]["error"]["message"]


async def test_a_key_that_is_over_is_an_error_in_the_answer() -> None:
    found: list[dict[str, Any]] = []

    async def body(ctx: RunContext) -> Any:
        found.extend(await bridged(ctx.tools.mcp_url, "Bearer stale", request(7, "tools/list")))
        return message("done")

    await drive(of(body, permissions={"tools": ["call"]}), "x", tools={"add": lambda a, b: a + b})
    assert found[0]["id"] == 7
    assert "401" in found[0]["error"]["message"]
