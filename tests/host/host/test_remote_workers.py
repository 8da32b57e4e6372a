"""Runs on remote workers: placed by label, waited for, and carried through as on the host itself."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.errors import UnauthorizedError
from support.databases import TEST_SECONDS
from support.http_host import OTHER, serving
from support.packages import Index, write_wheel
from support.remote_worker import at_work, ended, joined, run_when, send, worker_of, worker_when

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("workers")]
ECHO = Path(__file__).parents[3] / "examples" / "echo"


async def test_a_run_waits_for_a_worker_with_its_labels_and_runs_there(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu", "eu"])
        run_id = await send(served, "say 3")
        async with joined(served, tmp_path, "cpu", ("eu",)):
            assert (await served.say("say 1", agent="puppet"))["status"] == "completed"
            run = await run_when(served, run_id, lambda run: True)
            assert (run["status"], run["waits_for"]) == ("queued", "a worker with labels eu and gpu")
            (listed,) = (await served.client.get("/v1/runs?status=queued")).json()["items"]
            assert listed["waits_for"] == run["waits_for"]
            async with joined(served, tmp_path, "w1", ("gpu", "eu", "more")):
                run = await ended(served, run_id)
                assert (run["status"], run["waits_for"]) == ("completed", None)
                assert run["output"]["text"] == "done: say 3."
            await worker_when(served, lambda one: [hour["done"] for hour in one["hours"]] == [1])
            assert (await worker_of(served, "cpu"))["hours"] == []


async def test_slots_are_the_bound_and_the_least_busy_worker_is_chosen(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path, "big", slots=4), joined(served, tmp_path, "small", slots=2):
            runs = []
            for _ in range(6):
                runs.append(await send(served, "hold"))
                await at_work(served, runs[-1])
            assert [(await worker_of(served, name))["active"] for name in ("big", "small")] == [4, 2]
            more = await send(served, "say 1")
            run = await run_when(served, more, lambda run: True)
            assert run["status"] == "queued"
            await served.client.post(f"/v1/runs/{runs[0]}/cancel", json={"grace": 0})
            assert (await ended(served, more))["status"] == "completed"
            assert (await worker_of(served, "big"))["slots"] == 4


async def test_the_load_is_spread_from_the_first_run_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path, "a", slots=3), joined(served, tmp_path, "b", slots=3):
            for _ in range(4):
                await at_work(served, await send(served, "hold"))
            assert [(await worker_of(served, name))["active"] for name in ("a", "b")] == [2, 2]


async def test_a_worker_gets_runs_of_its_own_workspace_only(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path, workspace=OTHER):
            run_id = await send(served, "say 1")
            assert (await served.say("say 1", agent="puppet"))["status"] == "completed"
            run = await run_when(served, run_id, lambda run: True)
            assert (run["status"], run["waits_for"]) == ("queued", "a worker with label gpu")
            async with joined(served, tmp_path / "own"):
                assert (await ended(served, run_id))["status"] == "completed"


async def test_a_plugin_runs_in_the_sandbox_of_the_worker_from_the_files_of_the_host(tmp_path: Path) -> None:
    folder = tmp_path / "echo"
    shutil.copytree(ECHO, folder)
    async with serving(tmp_path / "data", agent=False) as served, asyncio.timeout(TEST_SECONDS):
        await served.host.apply(ConfigFile(plugins=[PluginEntry(path=str(folder))]), actor="test")
        agent = {"name": "far", "runner": "plugin:acme/echo/default", "worker_labels": ["gpu"]}
        assert (await served.client.put("/v1/agents/far", json=agent)).status_code in {200, 201}
        async with joined(served, tmp_path, trusted=()):
            first = await ended(served, await send(served, "hello"))
            assert (first["status"], "hello" in first["output"]["text"]) == ("completed", True)
            copies = list((tmp_path / "w1" / "plugins" / "unpacked").iterdir())
            assert len(copies) == 1
            (worker,) = served.host.remote_workers.places.workers()
            status = worker._lives["acme/echo"].status()
            assert status.containment is None  # no process of this host
            code = next(path for path in folder.rglob("*.py"))
            code.write_text(code.read_text() + "\n# changed\n")
            assert (await served.client.post("/v1/plugins/acme%2Fecho/restart")).status_code == 200
            second = await ended(served, await send(served, "again"))
            assert second["status"] == "completed"
            assert len(list((tmp_path / "w1" / "plugins" / "unpacked").iterdir())) == 2


@pytest.mark.parametrize("by", ["name", "path"])
async def test_what_a_plugin_requires_is_built_on_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (tmp_path / "index").mkdir()
    folder = tmp_path / "echo"
    shutil.copytree(ECHO, folder)
    wheel = write_wheel(tmp_path / "index" if by == "name" else folder / "wheels", "tiny")
    required = "tiny" if by == "name" else f"./wheels/{wheel.name}"
    manifest = folder / "hostler.yaml"
    manifest.write_text(f"{manifest.read_text()}\nrequires: [{required}]\n")
    code = next(path for path in folder.rglob("*.py"))
    code.write_text(f"{code.read_text()}\nimport tiny\n")
    with Index(tmp_path / "index").serving() as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        async with serving(tmp_path / "data", agent=False) as served, asyncio.timeout(TEST_SECONDS):
            entry = PluginEntry(path=str(folder), allow_requires=[] if by == "name" else [required])
            await served.host.apply(ConfigFile(plugins=[entry]), actor="test")
            agent = {"name": "far", "runner": "plugin:acme/echo/default", "worker_labels": ["gpu"]}
            assert (await served.client.put("/v1/agents/far", json=agent)).status_code in {200, 201}
            async with joined(served, tmp_path, trusted=()):
                run = await ended(served, await send(served, "hello"))
                journal = (await served.client.get(f"/v1/runs/{run['run_id']}/journal")).text
                assert run["status"] == "completed", journal
            environments = tmp_path / "w1" / "plugins" / "environments"
            assert list(environments.rglob("tiny.py"))


async def test_a_copy_that_was_changed_on_the_worker_is_fetched_again(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path):
            assert (await ended(served, await send(served, "say 1")))["status"] == "completed"
        (copy,) = (tmp_path / "w1" / "plugins" / "unpacked").iterdir()
        code = next(path for path in copy.rglob("*.py"))
        before = code.read_text()
        code.write_text("raise SystemExit(1)\n")
        async with joined(served, tmp_path):
            assert (await ended(served, await send(served, "say 1")))["status"] == "completed"
        assert code.read_text() == before


async def test_what_is_trusted_is_named_by_whoever_starts_the_worker(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path, trusted=()):
            run = await ended(served, await send(served, "say 1"))
            assert (run["status"], run["status_code"]) == ("failed", "runner.crashed")
            journal = (await served.client.get(f"/v1/runs/{run['run_id']}/journal")).text
            assert "worker w1 does not trust it: start the worker with --trust test/puppet" in journal


async def test_a_worker_that_cannot_start_a_plugin_does_not_eat_the_queue(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path, "bad", trusted=(), slots=100), joined(served, tmp_path, "good"):
            runs = [await send(served, "say 1") for _ in range(8)]
            for run_id in runs:
                run = await ended(served, run_id)
                assert run["status"] == "completed", run
            assert (await worker_of(served, "good"))["connected"]


async def test_calls_of_a_run_on_a_worker_go_through_the_gate_of_the_host(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path):
            for text in ("remember color blue", "recall color"):
                run_id = await send(served, text, conversation_id="c1")
                assert (await ended(served, run_id))["status"] == "completed"
            journal = (await served.client.get(f"/v1/runs/{run_id}/journal")).json()["items"]
            (call,) = [one for one in journal if one["kind"] == "call"]
            assert (call["type"], "blue" in str(call)) == ("state.get", True)


async def test_the_runners_of_a_worker_are_those_that_the_host_knows(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path):
            assert (await ended(served, await send(served, "say 1")))["status"] == "completed"
            (worker,) = served.host.remote_workers.places.workers()
            known = served.host.supervisor.catalog.of_plugin("test/puppet")
            connection = worker._lives["test/puppet"].ready
            assert connection is not None
            assert connection.runners["default"] is known["default"]


async def test_a_host_that_stops_hands_its_runs_over_and_its_workers_come_back(tmp_path: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS):
        async with serving(tmp_path / "data") as served:
            await served.agent("far", worker_labels=["gpu"])
            await send(served, "hold")
            port = served.port
            key = await served.key("default", "workers:connect")
        async with serving(tmp_path / "data", port=port) as served, joined(served, tmp_path):
            assert key
            (run,) = (await served.client.get("/v1/runs")).json()["items"]
            await at_work(served, run["run_id"])


@pytest.mark.parametrize("rights", [["workers:read", "workers:write"], ["plugins:connect"], ["runs:write"]])
async def test_a_key_without_the_right_is_refused_for_good(tmp_path: Path, rights: list[str]) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        token = await served.key("default", *rights)

        async def key(*_: Any, **__: Any) -> str:
            return token

        served.key = key  # type: ignore[method-assign]
        with pytest.raises(UnauthorizedError, match="does not have the right 'workers:connect'"):
            async with joined(served, tmp_path):
                pass


async def test_a_worker_ends_with_its_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with joined(served, tmp_path) as client:
            run_id = await send(served, "hold")
            await at_work(served, run_id)
            (key,) = [
                one
                for one in (await served.client.get("/v1/keys")).json()["items"]
                if one["rights"] == ["workers:connect"]
            ]
            assert (await served.client.delete(f"/v1/keys/{key['key_id']}")).status_code in {200, 204}
            assert (await ended(served, run_id))["status_code"] == "runner.crashed"
            await worker_when(served, lambda one: not one["connected"])
            while client._session is not None:
                await asyncio.sleep(0.02)
