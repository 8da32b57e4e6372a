"""Child runs: they share their parent's deadline and budget, and are cancelled with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.budgeted import ASK, COST, INPUT, TOKENS, model
from support.model_server import ModelServer
from support.stepping import WORKSPACE, Latch, Stage, Steps, stage, within

pytestmark = pytest.mark.gate("child-runs")

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}

MAY: dict[str, Any] = {"resource_policy": {"allowed_agents": ["child"]}}


def child(steps: Steps, agent: str = "child", **more: Any) -> list[Any]:
    return ["call", "run.create", {"agent": agent, "input": {"text": json.dumps(steps)}, **more}]


async def test_a_child_run_answers_its_parent(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**MAY)
        await host.agent("child")
        ended = await host.run([child([["say", "from below"]], wait=30), ["tell"]], **PLACE)
        record = ended.told[0]
        assert (record["status"], record["output"]["text"]) == ("completed", "from below")
        assert record["parent_run_id"] == ended.record.run_id
        assert record["agent"] == "child"
        # what it said is no part of the conversation
        page = await host.run([["call", "history.page", {}], ["tell"]], **PLACE)
        assert "from below" not in [item["content"] for item in page.told[0]["items"]]


async def test_a_child_ends_with_its_parents_deadline(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Latch(tmp_path) as latch:
        await host.agent(config={"timeout": 60}, **MAY)
        await host.agent("child", config={"timeout": 1000}, recovery={"on_crash": "restart"})
        await host.agent("patient", config={"timeout": 60}, recovery={"on_crash": "restart"}, **MAY)
        ended = await host.run([["show_context"], child([["show_context"]], wait=30), ["tell"]])
        own = json.loads(ended.said[0])["runtime"]["deadline_at"]
        below = json.loads(ended.told[0]["output"]["text"])["runtime"]["deadline_at"]
        assert abs(below - own) < 0.01
        # the same in an attempt after a crash, which takes both of them
        steps: Steps = {"1": [["gate", latch.path], ["crash"]], "2": [["show_context"]]}
        family: Steps = {"1": [child(steps), ["tell"], ["hold"]], "2": [["say", "x"]]}
        top = await host.start(family, agent="patient")
        await host.seen(top, "message.completed")
        latch.open()
        parent = await host.ended(top)
        second = await host.ended(json.loads(parent.said[0])[0]["run_id"])
        assert second.record.attempt == parent.record.attempt == 2
        assert parent.record.deadline_at is not None
        assert second.told["runtime"]["deadline_at"] <= parent.record.deadline_at + 0.01


async def test_children_are_cancelled_with_their_parent(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        await host.agent(**MAY)
        await host.agent("child", **MAY)
        await host.agent("talks", concurrency={"on_busy": "interrupt"}, **MAY)
        grandchild = child([["deltas", 1], ["until_cancelled"], ["say", "x"]])
        family: Steps = [
            child([grandchild, ["tell"], ["until_cancelled"]]),
            ["tell"],
            ["until_cancelled"],
            child([["say", "one more"]]),
            ["tell"],
        ]
        # once by hand, once by a newer message
        for agent in ("main", "talks"):
            top = await host.start(family, agent=agent, **PLACE)
            await host.seen(top, "message.completed")
            first = json.loads((await said(host, top))[0])[0]["run_id"]
            await host.seen(first, "message.completed")
            second = json.loads((await said(host, first))[0])[0]["run_id"]
            await host.seen(second, "message.delta")
            if agent == "main":
                await host.cancel(top, "enough")
            else:
                newer = await host.start([["say", "newer"]], agent=agent, **PLACE)
                assert (await host.ended(newer)).record.status == "completed"
            for run_id in (top, first, second):
                assert (await host.ended(run_id)).record.status == "cancelled"
            # a run that is being cancelled begins nothing
            late = (await host.ended(top)).told[1]
            assert late["error"]["code"] == "cancelled"


async def said(host: Stage, run_id: str) -> list[str]:
    record = await host.host.runs.record(WORKSPACE, run_id)
    assert record.output is not None
    return [str(message.content) for message in record.output.messages]


async def test_children_count_against_the_budget_of_their_parent(tmp_path: Path) -> None:
    async with within(), ModelServer() as server, stage(tmp_path) as host:
        await model(host, server)
        policy = {"allowed_model_ids": ["m"]}
        budget = {"max_tokens_per_run": INPUT + 7}  # what one question may use
        await host.agent(resource_policy={**policy, **MAY["resource_policy"], "budget": budget})
        await host.agent("child", resource_policy=policy)
        below = child([ASK, ASK, ["tell"]], wait=30)
        ended = await host.run([below, ASK, ["tell"]])
        record, own = ended.told
        first, second = json.loads(record["output"]["text"])
        assert first["message"]["content"] == "ok"
        assert second["error"]["code"] == own["error"]["code"] == "unauthorized"
        assert second["error"]["details"]["budget"] == "tokens"
        # usage and cost stay with the run that had them
        assert record["usage"]["total_tokens"] == TOKENS
        assert record["cost"] == COST
        assert ended.record.usage is None
        assert len(server.requests) == 1


async def test_a_family_is_bounded(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        await host.agent(resource_policy={"allowed_agents": ["*"]})
        await host.agent("child")
        # the same conversation and agent: it would wait for itself
        own = await host.run([child([["say", "x"]], agent="main", conversation_id="c"), ["tell"]], **PLACE)
        assert own.told[0]["error"]["code"] == "conflict"
        unknown = await host.run(
            [child([], agent="nobody"), child([], conversation_id="d"), ["tell"]], **PLACE
        )
        assert [answer["error"]["code"] for answer in unknown.told] == ["not_found", "not_found"]
        wide = await host.start([*[child([["until_cancelled"]])] * 65, ["tell"], ["until_cancelled"]])
        await host.seen(wide, "message.completed")
        answers = json.loads((await said(host, wide))[0])
        assert [answer.get("error", {}).get("code") for answer in answers] == [None] * 64 + ["rate_limited"]
        await host.cancel(wide)
        await host.ended(wide)
