"""A client that goes away in the middle of its answer: its run goes on, unless its request says otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.databases import TEST_SECONDS
from support.dialects.players import playing, script
from support.http_host import WORKSPACE, Served

MCP_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "player",
}
A2A_HEADERS = {"a2a-version": "1.0"}
STREAMS = [
    (name, False)
    for name in ("a2a", "a2a-rpc", "ag-ui", "ai-sdk", "langgraph", "mcp", "openai-chat", "openai-responses")
]
WHOLES = [(name, True) for name in ("a2a", "a2a-rpc", "langgraph", "openai-chat", "openai-responses")]


def request_of(name: str, text: str, *, whole: bool) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The path, body and headers with which a dialect says a text and wants the whole answer, or a stream."""
    said = {"role": "user", "content": text}
    a2a = {"message": {"messageId": f"m-{name}-{whole}", "role": "ROLE_USER", "parts": [{"text": text}]}}
    graph = {"assistant_id": "player", "input": {"messages": [{"type": "human", "content": text}]}}
    match name:
        case "openai-chat":
            body = {"model": "player", "messages": [said], "stream": not whole}
            return "/v1/chat/completions", body, {}
        case "openai-responses":
            return "/v1/responses", {"model": "player", "input": text, "stream": not whole}, {}
        case "a2a":
            return f"/a2a/player/message:{'send' if whole else 'stream'}", a2a, A2A_HEADERS
        case "a2a-rpc":
            method = "SendMessage" if whole else "SendStreamingMessage"
            return "/a2a/player", {"jsonrpc": "2.0", "id": 1, "method": method, "params": a2a}, A2A_HEADERS
        case "langgraph":
            return f"/langgraph/threads/t/runs/{'wait' if whole else 'stream'}", graph, {}
        case "ag-ui":
            return "/ag-ui/player", {"threadId": "t", "runId": "r", "messages": [{"id": "m", **said}]}, {}
        case "ai-sdk":
            parts = [{"type": "text", "text": text}]
            return (
                "/ai-sdk/player",
                {"id": "t", "messages": [{"id": "m", "role": "user", "parts": parts}]},
                {},
            )
    meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    params = {"name": "player", "arguments": {"message": text}, "_meta": {**meta, "progressToken": "p"}}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, MCP_HEADERS


async def leave(served: Served, name: str, text: str, wish: str, *, whole: bool) -> str:
    """Send a message, go away once its run has begun; the run."""
    path, body, headers = request_of(name, text, whole=whole)
    headers = {**headers, "hostler-on-disconnect": wish}

    async def ask() -> None:
        async with served.client.stream("POST", path, json=body, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            await answer.aread()

    asking = asyncio.create_task(ask())
    async with asyncio.timeout(TEST_SECONDS):
        while True:
            items = (await served.client.get("/v1/runs")).json()["items"]
            if items and items[0]["status"] == "running" and (items[0]["sequence"] or 0) > 0:
                break
            assert not asking.done(), (name, asking)
            await asyncio.sleep(0.02)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    run_id: str = items[0]["run_id"]
    return run_id


@pytest.mark.parametrize("wish", ["cancel", "continue"])
async def test_a_run_ends_with_its_client_where_that_is_asked_for(tmp_path: Path, wish: str) -> None:
    async with playing(tmp_path / "data") as served:
        for name, whole in STREAMS + WHOLES:
            gate = tmp_path / f"{name}-{whole}"
            text = script(["delta", "begun"], ["wait", str(gate)], ["say", "begun and done"])
            run_id = await leave(served, name, text, wish, whole=whole)
            if wish == "continue":
                gate.touch()
            await served.host.runs.wait(WORKSPACE, run_id, TEST_SECONDS)
            run = (await served.client.get(f"/v1/runs/{run_id}")).json()
            wanted = {"cancel": "cancelled", "continue": "completed"}[wish]
            assert run["status"] == wanted, (name, whole)
            if wish == "cancel":
                assert run["cancel_reason"] == "the client disconnected", name
