"""Remote workers that are killed, frozen, cut off, doubled: their runs are recovered, and they are fenced.

Workers are processes of their own, with plugin processes below them, over real sockets.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.domain import worker_limits as limits
from hostler.plugins.remote_workers.worker import RemoteWorker
from support.cut_network import network_to
from support.http_host import Served, serving
from support.remote_worker import WorkerProcess, at_work, ended, run_when, send, worker_of, worker_when

SECONDS = 240
"""Bound of a test; generous, since it only has to end what hangs."""
pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("workers")]
QUIET_SECONDS, STALE_SECONDS = 3.0, 6.0


@asynccontextmanager
async def _workers(
    served: Served, folder: Path, *names: str, url: str | None = None, **fields: Any
) -> AsyncIterator[list[WorkerProcess]]:
    """Worker processes that have joined; nothing of them is left afterwards."""
    key = await served.key("default", "workers:connect")
    constants = {
        f"{limits.__name__}.{name}": value
        for name, value in {"BEAT_SECONDS": 0.2, "QUIET_SECONDS": QUIET_SECONDS}.items()
    }
    workers = [
        WorkerProcess(folder, name, url or served.url, key, **{"constants": constants, **fields})
        for name in names
    ]
    try:
        async with asyncio.timeout(SECONDS):
            for worker in workers:
                await worker.start()
            yield workers
    except BaseException:
        for worker in workers:
            print(worker.log)
        raise
    finally:
        for worker in workers:
            worker.end()


@pytest.fixture(autouse=True)
def _soon_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STALE_SECONDS", STALE_SECONDS)


async def _gone(processes: list[psutil.Process]) -> None:
    """Wait until none of them lives."""
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes):
        await asyncio.sleep(0.05)


def _why(session: RemoteWorker) -> str | None:
    return session.why


def _again(run: Any) -> bool:
    return bool(run["attempt"] > 1 and run["status"] == "running")


async def test_runs_of_a_killed_worker_go_on_at_another_by_the_policy(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
        await served.agent("fails", worker_labels=["gpu"], recovery={"on_crash": "fail"})
        async with _workers(served, tmp_path, "w1") as (first,):
            restarted, failed = await send(served, "hold"), await send(served, "hold", "fails")
            await at_work(served, restarted)
            await at_work(served, failed)
            processes = first.plugin_processes()
            assert processes
            async with _workers(served, tmp_path, "w2"):
                first.kill()
                run = await ended(served, failed)
                assert (run["status"], run["status_code"]) == ("failed", "runner.crashed")
                journal = (await served.client.get(f"/v1/runs/{failed}/journal")).text
                assert "remote worker w1 was lost" in journal
                run = await run_when(served, restarted, _again)
                assert (await worker_of(served, "w2"))["active"] == 1
                await _gone(processes)  # what a killed worker started dies with it
                await first.start()
                assert (await worker_of(served, "w1"))["active"] == 0


async def test_a_worker_that_is_cut_off_stops_before_its_runs_begin_elsewhere(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, network_to(served.port) as network:
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
        async with _workers(served, tmp_path, "w1", url=network.url) as (worker,):
            run_id = await send(served, "hold")
            await at_work(served, run_id)
            processes = worker.plugin_processes()
            (session,) = served.host.remote_workers.places.workers()
            network.hang()
            await _gone(processes)
            assert _why(session) is None, "the host knows nothing yet: the worker stopped by itself"
            assert (await run_when(served, run_id, lambda run: True))["attempt"] == 1
            await worker_when(served, lambda one: not one["connected"])
            assert _why(session) == f"it was silent for {STALE_SECONDS:g} s"
            run = await run_when(served, run_id, lambda run: run["attempt"] == 2)
            assert (run["status"], run["waits_for"]) in {
                ("queued", "a worker with label gpu"),
                ("queued", None),  # it waits for its turn after a crash
            }
            network.join()
            await worker.joined(2)
            await run_when(served, run_id, _again)
            assert run["attempt"] == 2
            await served.client.post(f"/v1/runs/{run_id}/cancel", json={"grace": 0})
            assert (await ended(served, run_id))["status"] == "cancelled"


async def test_a_broken_connection_ends_attempts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALE_SECONDS", 10_000.0)
    async with serving(tmp_path / "data") as served, network_to(served.port) as network:
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
        async with _workers(served, tmp_path, "w1", url=network.url) as (worker,):
            run_id = await send(served, "hold")
            await at_work(served, run_id)
            processes = worker.plugin_processes()
            network.cut()
            await _gone(processes)
            await run_when(served, run_id, lambda run: run["attempt"] == 2)
            network.join()
            await worker.joined(2)
            await run_when(served, run_id, _again)


async def test_a_worker_that_was_frozen_is_fenced_when_it_thaws(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
        async with _workers(served, tmp_path, "w1") as (worker,):
            path = str(tmp_path / "strings.sock")
            wires: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
            server = await asyncio.start_unix_server(lambda _, writer: wires.put_nowait(writer), path)
            async with server:
                run_id = await send(served, f"strings {path}")
                first = await wires.get()
                first.write(b"<before>\n")
                await at_work(served, run_id)
                processes = worker.plugin_processes()
                os.kill(worker.pid, signal.SIGSTOP)
                first.write(b"<meanwhile>\n" * 10)  # the plugin goes on, and says so to nobody
                await worker_when(served, lambda one: not one["connected"])
                async with _workers(served, tmp_path, "w2"):
                    second = await wires.get()
                    os.kill(worker.pid, signal.SIGCONT)
                    first.write(b"<late>\n")
                    await _gone(processes)
                    await worker.joined(2)
                    second.write(b"<after>\n")
                    second.write_eof()
                    assert (await ended(served, run_id))["status"] == "completed"
                    events = (await served.client.get(f"/v1/runs/{run_id}/journal?limit=100")).text
                    assert "<before>" in events
                    assert "<after>" in events
                    assert "<meanwhile>" not in events
                    assert "<late>" not in events
                for writer in (first, second):
                    writer.close()


async def test_two_processes_of_one_id_are_one_worker(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with serving(tmp_path / "data") as served:
        await served.agent("far", worker_labels=["gpu"])
        async with _workers(served, tmp_path, "w1") as (first,):
            run_id = await send(served, "hold")
            await at_work(served, run_id)
            key = await served.key("default", "workers:connect")
            second = WorkerProcess(tmp_path / "other", "w1", served.url, key)
            try:
                second.spawn()
                while "connected from another process" not in second.log:
                    await asyncio.sleep(0.05)
                assert (await run_when(served, run_id, lambda run: True))["status"] == "running"
                assert len(served.host.remote_workers.places.workers()) == 1
                first.kill()
                await second.joined()  # it tries again until the id is free
                assert (await ended(served, await send(served, "say 1")))["status"] == "completed"
            finally:
                second.end()


async def test_one_data_directory_has_one_worker(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, _workers(served, tmp_path, "w1"):
        key = await served.key("default", "workers:connect")
        again = WorkerProcess(tmp_path, "w1", served.url, key)
        again.spawn()
        assert await again.ended() == 2
        assert "is in use by process" in again.log


async def test_sigterm_drains_a_worker(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.agent("far", worker_labels=["gpu"])
        async with _workers(served, tmp_path, "w1") as (worker,):
            held = await send(served, "hold")
            await at_work(served, held)
            worker.send_signal(signal.SIGTERM)
            await worker_when(served, lambda one: one["state"] == "draining")
            waiting = await send(served, "say 1")
            answer = await served.client.post("/v1/workers/w1/uncordon")
            assert answer.status_code == 200  # who asked itself is not made active by others
            assert (await run_when(served, waiting, lambda run: True))["status"] == "queued"
            await served.client.post(f"/v1/runs/{held}/cancel", json={"grace": 0})
            assert await worker.ended() == 0
            assert (await worker_of(served))["reason"] == "it was drained"
            assert (await run_when(served, waiting, lambda run: True))["status"] == "queued"
        async with _workers(served, tmp_path, "w2"):
            assert (await ended(served, waiting))["status"] == "completed"


async def test_a_worker_that_is_removed_ends_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, _workers(served, tmp_path, "w1") as (worker,):
        assert (await served.client.delete("/v1/workers/w1")).status_code in {200, 204}
        assert await worker.ended() == 1
        assert "it was removed" in worker.log


async def test_a_second_signal_ends_a_worker_with_its_runs(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "fail"})
        async with _workers(served, tmp_path, "w1") as (worker,):
            held = await send(served, "hold")
            await at_work(served, held)
            processes = worker.plugin_processes()
            worker.send_signal(signal.SIGTERM)
            await worker_when(served, lambda one: one["state"] == "draining")
            worker.send_signal(signal.SIGTERM)
            await worker.ended()
            await _gone(processes)
            assert (await ended(served, held))["status_code"] == "runner.crashed"
