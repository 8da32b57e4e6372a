"""Long runs as tasks: those of 2025-11-25 in sessions, and those of the extension of 2026-07-28."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.dialects.mcp import TASKS, Wire, messages_in, result_in, texts_of, wire
from support.dialects.players import playing, script
from support.http_host import ADMIN_KEY, OTHER, Served

ORDER = ["tool", "player.order", {"thing": "lamp"}, "a"]
WITH_TASKS: dict[str, Any] = {"extensions": {TASKS: {}}}
WITH_FORMS: dict[str, Any] = WITH_TASKS | {"elicitation": {}}


async def begin_task(client: Wire, *steps: Any, id_: int = 1) -> dict[str, Any]:
    params = {"name": "player", "arguments": {"message": script(*steps)}, "task": {"ttl": 60_000}}
    task: dict[str, Any] = result_in(await client.ask("tools/call", params, id_))["task"]
    return task


async def status_of(client: Wire, task_id: str, wanted: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while (task := result_in(await client.ask("tasks/get", {"taskId": task_id}, "s")))[
            "status"
        ] != wanted:
            await asyncio.sleep(0.02)
    return task


@pytest.mark.shows("mcp", "long-run")
async def test_a_task_of_a_session_from_its_begin_to_its_result(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        tool = result_in(await client.ask("tools/list"))["tools"][0]
        assert tool["execution"] == {"taskSupport": "optional"}
        steps = (["say", "one"], ["wait", str(gate)], ["say", "two"])
        task = await begin_task(client, *steps)
        assert task["status"] == "working"
        assert set(task) >= {"taskId", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
        assert (await begin_task(client, *steps))["taskId"] == task["taskId"]  # the same request again
        waiting = asyncio.create_task(client.ask("tasks/result", {"taskId": task["taskId"]}, 2))
        listed = result_in(await client.ask("tasks/list", {}, 3))["tasks"]
        assert [one["taskId"] for one in listed] == [task["taskId"]]
        assert not waiting.done()
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await client.post(cancelled)).status_code == 202  # tasks are cancelled by tasks/cancel alone
        gate.touch()
        result = result_in(await waiting)
        assert texts_of(result) == ["one", "two"]
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        assert (await status_of(client, task["taskId"], "completed"))["taskId"] == task["taskId"]
        late = await client.ask("tasks/cancel", {"taskId": task["taskId"]}, 4)
        assert late.json()["error"]["code"] == -32602


async def test_tasks_are_cancelled_and_fail(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        held = await begin_task(client, ["hold"], id_=1)
        ended = result_in(await client.ask("tasks/cancel", {"taskId": held["taskId"]}, 2))
        assert ended["status"] == "cancelled"
        assert result_in(await client.ask("tasks/result", {"taskId": held["taskId"]}, 3))["isError"]
        failing = await begin_task(client, ["fail", "no"], id_=4)
        assert "statusMessage" in await status_of(client, failing["taskId"], "failed")


async def test_a_task_says_that_it_waits_as_soon_as_it_does(tmp_path: Path) -> None:
    """Also while its run is held, before it is parked."""
    async with playing(tmp_path, hold_seconds=600) as served, wire(served.url, ADMIN_KEY) as client:
        await client.begin(elicits=True)
        task = await begin_task(client, ORDER)
        await status_of(client, task["taskId"], "input_required")
        (listed,) = result_in(await client.ask("tasks/list", {}, 2))["tasks"]
        assert listed["status"] == "input_required"
        (run,) = (await served.client.get("/v1/runs")).json()["items"]
        assert run["status"] == "running"


async def test_the_result_of_a_task_asks_its_user(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin(elicits=True)
        task = await begin_task(client, ORDER)
        await status_of(client, task["taskId"], "input_required")
        waiting = asyncio.create_task(client.ask("tasks/result", {"taskId": task["taskId"]}, 2))
        (pause,) = (await served.client.get("/v1/pauses?status=open")).json()["items"]
        # what the stream asks is read after it ended: the wire client reads responses whole
        action = {
            "call_id": pause["calls"][0]["call_id"],
            "type": "approve",
            "args_hash": pause["calls"][0]["args_hash"],
        }
        body = {"revision": pause["revision"], "actions": [action]}
        await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        answer = await waiting
        (form,) = [one for one in messages_in(answer) if one.get("method") == "elicitation/create"]
        assert form["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        assert texts_of(result_in(answer)) == ['player.order: "ordered 1 lamp"']


async def test_tasks_that_are_not_there(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client, wire(served.url, await served.key(OTHER)) as other:
        await client.begin()
        await other.begin()
        task = await begin_task(client, ["say", "x"])
        for asking, task_id in (
            (other, task["taskId"]),
            (client, "task_none"),
            (client, "x"),
            (client, None),
        ):
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                answer = await asking.ask(method, {"taskId": task_id})
                assert messages_in(answer)[-1]["error"]["code"] == -32602, (method, task_id)
        assert result_in(await other.ask("tasks/list"))["tasks"] == []


async def test_many_tasks_are_listed_in_pages(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        made = {(await begin_task(client, ["say", str(n)], id_=n))["taskId"] for n in range(60)}
        first = result_in(await client.ask("tasks/list"))
        second = result_in(await client.ask("tasks/list", {"cursor": first["nextCursor"]}))
        listed = [task["taskId"] for task in first["tasks"] + second["tasks"]]
        assert len(listed) == len(set(listed)) == 60
        assert set(listed) == made
        assert "nextCursor" not in second
        assert messages_in(await client.ask("tasks/list", {"cursor": "x"}))[-1]["error"]["code"] == -32602


@pytest.mark.shows("mcp", "long-run")
async def test_a_slow_call_becomes_a_task_of_the_extension(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with wire(served.url, ADMIN_KEY) as client:
        about = result_in(await client.ask_stateless("server/discover"))
        assert about["capabilities"]["extensions"] == {TASKS: {}}
        quick = {"name": "player", "arguments": {"message": script(["say", "soon"])}}
        done = result_in(await client.ask_stateless("tools/call", quick, **WITH_TASKS))
        assert done["resultType"] == "complete"
        slow = {
            "name": "player",
            "arguments": {"message": script(["say", "a"], ["wait", str(gate)], ["say", "b"])},
        }
        task = result_in(await client.ask_stateless("tools/call", slow, **WITH_TASKS))
        assert task["resultType"] == "task"
        asking = {"taskId": task["taskId"]}
        refused = await client.ask_stateless("tasks/get", asking)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == -32021
        now = result_in(await client.ask_stateless("tasks/get", asking, **WITH_TASKS))
        assert (now["status"], now["resultType"]) == ("working", "complete")
        gate.touch()
        async with asyncio.timeout(30):
            while now["status"] == "working":
                now = result_in(await client.ask_stateless("tasks/get", asking, **WITH_TASKS))
        assert now["status"] == "completed"
        assert texts_of(now["result"]) == ["a", "b"]
        for method in ("tasks/update", "tasks/cancel"):
            gone = await client.ask_stateless(method, {"taskId": "task_no"}, **WITH_TASKS)
            assert gone.json()["error"]["code"] == -32602


async def test_a_task_of_the_extension_waits_for_its_user(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with wire(served.url, ADMIN_KEY) as client:
        steps = script(["wait", str(gate)], ORDER, ["ask", "Which size?"], ["say", "done"])
        call = {"name": "player", "arguments": {"message": steps}}
        asking = {"taskId": result_in(await client.ask_stateless("tools/call", call, **WITH_FORMS))["taskId"]}
        gate.touch()
        seen: set[str] = set()
        contents: list[dict[str, Any]] = [{"approved": True}, {"size": "s"}]
        async with asyncio.timeout(60):
            while now := result_in(await client.ask_stateless("tasks/get", asking, **WITH_FORMS)):
                if now["status"] == "completed":
                    break
                fresh = set(now.get("inputRequests", {})) - seen
                for key in fresh:
                    response = {key: {"action": "accept", "content": contents.pop(0)}}
                    update = asking | {"inputResponses": response}
                    assert result_in(await client.ask_stateless("tasks/update", update, **WITH_FORMS)) == {
                        "resultType": "complete"
                    }
                seen |= fresh
        assert len(seen) == 2
        assert texts_of(now["result"])[-2:] == ['answered: {"size": "s"}', "done"]
        assert result_in(await client.ask_stateless("tasks/cancel", asking, **WITH_FORMS))["resultType"]


async def test_a_task_of_the_extension_is_cancelled(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        call = {"name": "player", "arguments": {"message": script(["hold"])}}
        asking = {"taskId": result_in(await client.ask_stateless("tools/call", call, **WITH_TASKS))["taskId"]}
        assert result_in(await client.ask_stateless("tasks/cancel", asking, **WITH_TASKS)) == {
            "resultType": "complete"
        }
        async with asyncio.timeout(30):
            while True:
                now = result_in(await client.ask_stateless("tasks/get", asking, **WITH_TASKS))
                if now["status"] == "cancelled":
                    break
