"""/v1/workers: how remote workers stand, what they did, and who may change it; the metrics and the doctor."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.databases import TEST_SECONDS
from support.http_host import OTHER, WORKSPACE, Served, serving
from support.remote_worker import at_work, ended, joined, run_when, send, worker_of, worker_when

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("workers")]


async def _facts(served: Served, action: str) -> list[tuple[str, str]]:
    items = (await served.client.get("/v1/audit", params={"action": action})).json()["items"]
    return [(one["target"], one["actor"]) for one in items]


async def _finding(served: Served, part: str) -> Any:
    found = (await served.client.get("/v1/doctor")).json()["items"]
    return next((one for one in found if part in one["text"]), None)


async def test_workers_are_listed_shown_and_counted(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        assert (await served.client.get("/v1/workers")).json()["items"] == []
        lacking = await _finding(served, "its runs wait for a worker with label gpu")
        assert (lacking["what"], lacking["verdict"]) == ("remote worker", "wrong")
        async with joined(served, tmp_path, "w1", ("gpu", "eu"), slots=3) as client:
            (listed,) = (await served.client.get("/v1/workers")).json()["items"]
            assert (listed["worker_id"], listed["connected"], listed["state"]) == ("w1", True, "active")
            assert (listed["labels"], listed["slots"], listed["active"]) == (["eu", "gpu"], 3, 0)
            assert listed["machine"]["python"]
            assert listed["hours"] is None
            done, failed = await send(served, "say 1"), await send(served, "fail no reason")
            held = await send(served, "hold")
            assert (await ended(served, done))["status"] == "completed"
            assert (await ended(served, failed))["status"] == "failed"
            await at_work(served, held)
            assert (await worker_of(served))["active"] == 1
            metrics = (await served.client.get("/metrics")).text
            assert 'hostler_remote_workers{state="active"} 1' in metrics
            assert "hostler_remote_worker_slots 3" in metrics
            assert "hostler_remote_worker_runs 1" in metrics
            assert 'hostler_remote_worker_attempts_total{outcome="done"} 1' in metrics
            assert "w1 is active" in (await _finding(served, "w1 is"))["text"]
            client.stop()
        gone = await worker_when(served, lambda one: not one["connected"])
        assert gone["reason"]
        assert (await ended(served, held))["status_code"] == "runner.crashed"
        gone = await worker_when(served, lambda one: any(hour["lost"] for hour in one["hours"]))
        names = ("claimed", "done", "failed", "lost")
        assert [sum(hour[name] for hour in gone["hours"]) for name in names] == [3, 1, 1, 1]
        assert sum(hour["ran_seconds"] for hour in gone["hours"]) > 0
        assert "w1 is not connected" in (await _finding(served, "w1 is"))["text"]
        assert [target for target, _ in await _facts(served, "worker.joined")] == ["w1"]


async def test_a_cordoned_worker_keeps_its_runs_and_gets_no_new_ones(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path):
            held = await send(served, "hold")
            await at_work(served, held)
            answer = await served.client.post("/v1/workers/w1/cordon")
            assert (answer.status_code, answer.json()["state"]) == (200, "cordoned")
            waiting = await send(served, "say 1")
            run = await run_when(served, waiting, lambda run: run["waits_for"] is not None)
            assert (run["status"], run["waits_for"]) == (
                "queued",
                "a worker with label gpu that takes new runs: w1 is cordoned",
            )
            assert (await run_when(served, held, lambda run: True))["status"] == "running"
        async with joined(served, tmp_path):  # it stays so, also in another process
            assert (await worker_of(served))["state"] == "cordoned"
            assert (await run_when(served, waiting, lambda run: True))["status"] == "queued"
            assert (await served.client.post("/v1/workers/w1/uncordon")).json()["state"] == "active"
            assert (await ended(served, waiting))["status"] == "completed"
        assert await _facts(served, "worker.cordoned") == [("w1", "admin")]
        assert await _facts(served, "worker.active") == [("w1", "admin")]


async def test_a_drained_worker_ends_after_its_last_run(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path):
            held = await send(served, "hold")
            await at_work(served, held)
            assert (await served.client.post("/v1/workers/w1/drain")).json()["state"] == "draining"
            waiting = await send(served, "say 1")
            await run_when(served, waiting, lambda run: "draining" in (run["waits_for"] or ""))
            await served.client.post(f"/v1/runs/{held}/cancel", json={"grace": 0})
            assert (await ended(served, held))["status"] == "cancelled"
            gone = await worker_when(served, lambda one: not one["connected"])
            assert gone["reason"] == "it was drained"
        assert await _facts(served, "worker.draining") == [("w1", "admin")]
        async with joined(served, tmp_path):  # started again it is like any other
            assert (await ended(served, waiting))["status"] == "completed"


async def test_a_removed_worker_is_ended_and_its_runs_are_recovered_elsewhere(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
        async with joined(served, tmp_path, "w1"):
            run_id = await send(served, "hold")
            await at_work(served, run_id)
            async with joined(served, tmp_path, "w2"):
                assert (await served.client.delete("/v1/workers/w1")).status_code in {200, 204}
                await run_when(served, run_id, lambda run: run["attempt"] == 2 and run["status"] == "running")
                assert (await served.client.get("/v1/workers/w1")).status_code == 404
                assert (await worker_of(served, "w2"))["active"] == 1
        assert await _facts(served, "worker.removed") == [("w1", "admin")]


async def test_each_right_allows_what_it_says(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TEST_SECONDS),
        serving(tmp_path / "data") as served,
        joined(served, tmp_path),
    ):
        for rights, statuses in (
            (["workers:read"], (200, 403)),
            (["workers:write"], (403, 200)),
            (["workers:connect"], (403, 403)),
            (["plugins:read"], (403, 403)),
        ):
            async with served.as_key(await served.key(WORKSPACE, *rights)) as client:
                shown = await client.get("/v1/workers/w1")
                changed = await client.post("/v1/workers/w1/cordon")
                assert (shown.status_code, changed.status_code) == statuses, rights
        async with served.as_key(await served.key(OTHER)) as stranger:
            assert (await stranger.get("/v1/workers")).json()["items"] == []
            for method, path in (("GET", "w1"), ("POST", "w1/drain"), ("DELETE", "w1")):
                answer = await stranger.request(method, f"/v1/workers/{path}")
                assert (answer.status_code, "there is no worker 'w1'" in answer.text) == (404, True)
        assert (await worker_of(served))["connected"]
