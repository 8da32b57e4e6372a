"""A client that goes away in the middle of its answer: its run goes on, unless its request says otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.databases import TEST_SECONDS
from support.dialects.players import playing, script
from support.dialects.saying import request_of
from support.http_host import WORKSPACE, Served

STREAMS = [
    (name, False)
    for name in ("a2a", "a2a-rpc", "ag-ui", "ai-sdk", "langgraph", "mcp", "openai-chat", "openai-responses")
]
WHOLES = [(name, True) for name in ("a2a", "a2a-rpc", "langgraph", "openai-chat", "openai-responses")]


async def leave(served: Served, name: str, text: str, wish: str, *, whole: bool) -> str:
    """Send a message, go away once its run has begun; the run."""
    path, body, headers = request_of(name, text, place=f"{name}-{whole}", whole=whole)
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
@pytest.mark.shows(
    "openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "a2a", "langgraph", "disconnect"
)
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
