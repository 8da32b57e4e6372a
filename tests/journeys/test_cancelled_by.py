"""Who cancelled a run: told by its record, its journal and the audit log, while it ends and afterwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.runs.recovery import recover
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, journal, runs
from support.command_line import CommandLine
from support.http_host import serving
from support.pauses import open_run
from support.shop import ADMIN, ASK_ALL, SEND, parked, shop, waiting
from support.stepping import RUNNER, STEPPER, WORKSPACE, Ended, Latch, Stage, stage, within
from support.trust import plugin_entry

PLACE = {"conversation_id": "c1"}
REQUESTED = "run.cancel_requested"


def shared(database_url: str) -> str | None:
    return database_url if database_url.startswith("postgresql:") else None


async def facts(host: Stage, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Who asked for the end of a run, as the audit log has it, oldest first."""
    found = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE))
    return [(f.actor, f.body) for f in reversed(found) if (f.action, f.target) == (REQUESTED, run_id)]


def told(ended: Ended) -> tuple[str | None, str, list[str]]:
    """Who cancelled the run: by its record, by its last entry, by its entries of who asked."""
    asked = [entry["data"]["actor"] for entry in ended.entries("cancellation", "requested")]
    return ended.record.cancel_requested_by, ended.journal[-1]["data"]["actor"], asked


async def test_a_run_that_is_being_cancelled_says_so_and_who_asked(tmp_path: Path, database_url: str) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=shared(database_url), cancel_grace_seconds=60) as host,
        Latch(tmp_path) as latch,
    ):
        run_id = await host.start([["gate", latch.path], ["say", "wound up"]], **PLACE)
        await latch.reached()
        await host.running(run_id)
        before = await host.host.runs.record(WORKSPACE, run_id)
        assert (before.cancel_requested_at, before.cancel_requested_by) == (None, None)
        shown = await host.host.cancel(WORKSPACE, run_id, reason="enough", actor="ada")
        assert shown.status == "running"
        assert shown.cancel_requested_at is not None
        assert shown.cancel_requested_at >= shown.created_at
        assert (shown.cancel_requested_by, shown.cancel_reason) == ("ada", "enough")
        (entry,) = [e for e in await host.entries(run_id) if e["kind"] == "cancellation"]
        assert (entry["type"], entry["data"]["actor"], entry["data"]["reason"]) == (
            "requested",
            "ada",
            "enough",
        )
        await host.host.cancel(WORKSPACE, run_id, reason="again", actor="bob")  # changes nothing
        latch.open()
        ended = await host.ended(run_id)
        assert told(ended) == ("ada", "ada", ["ada"])
        assert ended.record.status == "cancelled"
        assert ended.record.cancel_requested_at == shown.cancel_requested_at
        assert [actor for actor, _ in await facts(host, run_id)] == ["ada"]


async def test_the_end_of_a_cancelled_run_names_who_asked_for_it(tmp_path: Path, database_url: str) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=shared(database_url), cancel_grace_seconds=60) as host,
        Latch(tmp_path) as latch,
    ):
        run_id = await host.start([["gate", latch.path]], **PLACE)
        await latch.reached()
        await host.host.cancel(WORKSPACE, run_id, reason="please", actor="ada")
        await host.host.cancel(WORKSPACE, run_id, reason="now", actor="bob", grace=0.0)
        ended = await host.ended(run_id)
        assert ended.record.status == "cancelled"
        assert told(ended) == ("ada", "ada", ["ada", "bob"]), "bob gave its runner less time"
        asked = await facts(host, run_id)
        assert [actor for actor, _ in asked] == ["ada", "bob"]
        assert [body["reason"] for _, body in asked] == ["please", "now"]
        assert asked[1][1]["grace_seconds"] == 0.0


async def test_a_run_that_waits_ends_at_once_and_names_who_asked(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([SEND], **PLACE)
        await parked(host, run_id)
        await host.host.cancel(WORKSPACE, run_id, reason="enough", actor="ada")
        ended = await host.ended(run_id)
        assert told(ended) == ("ada", "ada", ["ada"])
        other = await host.start([SEND], **PLACE)
        await parked(host, other)
        pause = await waiting(host, other)
        await host.host.pauses.cancel(ADMIN, pause.id)
        assert told(await host.ended(other)) == ("admin", "admin", ["admin"])


MAY: dict[str, Any] = {"resource_policy": {"allowed_agents": ["helper"]}}


def child(steps: Any, agent: str = "helper") -> list[Any]:
    return ["call", "run.create", {"agent": agent, "input": {"text": json.dumps(steps)}}]


async def test_children_are_cancelled_by_whoever_cancelled_their_parent(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**MAY)
        await host.agent("helper", **MAY)
        inner = [child([["deltas", 1], ["until_cancelled"]]), ["tell"], ["until_cancelled"]]
        top = await host.start([child(inner), ["tell"], ["until_cancelled"]], **PLACE)
        family = [top]
        for _ in range(2):
            await host.seen(family[-1], "message.completed")
            entries = await host.entries(family[-1])
            said = next(e["data"]["data"] for e in entries if e["type"] == "message.completed")
            family.append(json.loads(said["message"]["content"])[0]["run_id"])
        await host.seen(family[-1], "message.delta")
        await host.host.cancel(WORKSPACE, top, reason="enough", actor="ada")
        for run_id in family:
            ended = await host.ended(run_id)
            assert told(ended) == ("ada", "ada", ["ada"])
            ((actor, body),) = await facts(host, run_id)
            assert actor == "ada"
            assert body.get("parent_run_id") == ended.record.parent_run_id
        assert (await host.ended(family[1])).record.cancel_reason is not None
        assert "its parent run was cancelled" in str((await host.ended(family[1])).record.cancel_reason)


async def test_a_run_that_is_cancelled_by_another_names_that_one(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**MAY)
        await host.agent("helper")
        steps = [
            child([["until_cancelled"]]),
            ["call", "run.cancel", {"target_run_id": "$0.run_id", "reason": "not needed"}],
            ["tell"],
        ]
        ended = await host.run(steps, **PLACE)
        other = await host.ended(ended.told[0]["run_id"])
        by = f"run:{ended.record.run_id}"
        assert told(other) == (by, by, [by])
        assert [actor for actor, _ in await facts(host, other.record.run_id)] == [by]


@pytest.mark.parametrize("waits", [False, True], ids=["interrupted", "superseded"])
async def test_a_run_that_a_newer_message_ends_names_who_sent_it(tmp_path: Path, waits: bool) -> None:
    policy = {"on_busy": "queue", "on_pause": "supersede"} if waits else {"on_busy": "interrupt"}
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL, concurrency=policy)
        first = await host.start([SEND] if waits else [["deltas", 1], ["until_cancelled"]], **PLACE)
        await (parked(host, first) if waits else host.seen(first, "message.delta"))
        await host.run([["say", "newer"]], **PLACE)
        ended = await host.ended(first)
        assert ended.record.status == "cancelled"
        assert told(ended) == ("tester", "tester", ["tester"])
        assert "newer message" in str(ended.record.cancel_reason)


async def test_a_host_that_dies_over_it_does_not_forget_who_asked(database: SqlDatabase) -> None:
    def asked(tx: Tx) -> None:
        open_run(tx)
        runs.request_cancel(tx, "w1", "r1", "enough", by="ada")

    await database.write(asked)
    await recover(database, lambda _: True)
    found = await database.read(lambda tx: runs.get(tx, "w1", "r1"))
    last = (await database.read(lambda tx: journal.page(tx, "r1"))).items[-1]
    assert (found.status, found.cancel_requested_by) == ("cancelled", "ada")
    assert json.loads(last.data)["actor"] == "ada"


async def test_who_cancelled_is_seen_over_http_and_on_the_command_line(tmp_path: Path) -> None:
    line = CommandLine(tmp_path / "none", tmp_path)
    async with (
        serving(tmp_path / "data", agent=False, cancel_grace_seconds=60) as served,
        Latch(tmp_path) as latch,
    ):
        spec = convert({"name": "main", "runner": RUNNER + "default"}, AgentSpec, "main")
        await served.host.apply(ConfigFile(plugins=[plugin_entry(STEPPER)], agents=[spec]), actor="test")
        run_id = (await served.say(json.dumps([["gate", latch.path]]), wait=None, agent="main"))["run"][
            "run_id"
        ]
        await latch.reached()
        key = await served.key("default", "runs:read", "runs:write", subject="ada")
        async with served.as_key(key) as client:
            path = f"/v1/runs/{run_id}"
            while (await client.get(path)).json()[
                "status"
            ] != "running":  # written soon after its runner began
                await asyncio.sleep(0.01)
            answer = (await client.post(f"{path}/cancel", json={"reason": "enough"})).json()
            found = (await client.get(path)).json()
            listed = (await client.get("/v1/runs")).json()["items"][0]
        for record in (answer, found, listed):
            assert (record["status"], record["cancel_requested_by"]) == ("running", "ada")
            assert record["cancel_reason"] == "enough"
            assert record["cancel_requested_at"] >= record["started_at"]
        facts = (await served.client.get("/v1/audit")).json()["items"]
        assert (facts[0]["action"], facts[0]["actor"], facts[0]["target"]) == (REQUESTED, "ada", run_id)
        env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": key}
        shown = await asyncio.to_thread(lambda: line("runs", "show", run_id, env=env))
        assert "ada" in shown.out
        assert "enough" in shown.out
        latch.open()
