"""Readers of one run by JSON-RPC share a fold, whatever the ids of their requests and whenever they came."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from support.databases import TEST_SECONDS
from support.dialects.mcp import result_in, wire
from support.dialects.players import playing, script
from support.http_host import ADMIN_KEY, Served

IDS: list[str | int] = [7, 'a "quoted" ø 🙂', 2**62]
VERSION = {"A2A-Version": "1.0"}


async def _joined(served: Served, members: list[int]) -> None:
    streams = served.server.app.state.streams
    async with asyncio.timeout(TEST_SECONDS):
        while sorted(streams.members) != members:
            await asyncio.sleep(0.01)


def _messages(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


async def test_requests_with_other_ids_share_the_stream_of_a_run(tmp_path: Path) -> None:
    gates = [tmp_path / f"gate{number}" for number in range(3)]
    steps = [step for gate in gates for step in (["delta", f"{gate.name} ø "], ["wait", str(gate)])]
    text = "".join(f"{gate.name} ø " for gate in gates) + "end"
    async with playing(tmp_path / "data") as served, wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        call = {"name": "player", "arguments": {"message": script(*steps, ["say", text])}, "task": {}}
        task_id = result_in(await client.ask("tools/call", call))["task"]["taskId"]
        (run,) = (await served.client.get("/v1/runs")).json()["items"]

        async def subscribe(id_: str | int) -> str:
            params = {"id": run["run_id"]}
            body = {"jsonrpc": "2.0", "id": id_, "method": "SubscribeToTask", "params": params}
            return (await served.client.post("/a2a/player", json=body, headers=VERSION)).text

        async def result(id_: str | int) -> str:
            params = {"taskId": task_id, "_meta": {"progressToken": id_}}
            return (await client.ask("tasks/result", params, id_)).text

        tasks, results = [], []
        for number, id_ in enumerate(IDS, 1):
            tasks.append(asyncio.create_task(subscribe(id_)))
            results.append(asyncio.create_task(result(id_)))
            await _joined(served, [number, number])
            gates[number - 1].touch()
        followed = [_messages(one) for one in await asyncio.gather(*tasks)]
        answered = [_messages(one) for one in await asyncio.gather(*results)]
    for id_, told in zip(IDS, followed, strict=True):
        assert {(one["id"], type(one["id"])) for one in told} == {(id_, type(id_))}
        pieces = [_piece(one["result"]) for one in told]
        assert "".join(pieces) == text  # what its opening has, and then the rest: nothing twice
        assert told[-1]["result"] == followed[0][-1]["result"]
    for id_, told in zip(IDS, answered, strict=True):
        progress, answer = [one["params"] for one in told if "method" in one], told[-1]
        assert {one.pop("progressToken") for one in progress} == {id_}
        assert "".join(one["message"] for one in progress) == text
        assert (answer["id"], answer["result"]["structuredContent"]["messages"]) == (id_, [text])


def _piece(event: dict[str, Any]) -> str:
    artifacts = event.get("task", {}).get("artifacts", [])
    if "artifactUpdate" in event:
        artifacts = [event["artifactUpdate"]["artifact"]]
    return "".join(part.get("text", "") for one in artifacts for part in one["parts"])
