"""A worker that lies, floods or says nothing loses its connection, and harms no run but its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hostler.domain import worker_limits as limits
from hostler.host import remote_workers
from hostler.plugins.remote_workers.wire import piece
from support.databases import TEST_SECONDS
from support.hostile_worker import HostileWorker, hello, hostile_worker
from support.http_host import OTHER, Served, serving
from support.remote_worker import at_work, ended, joined, run_when, send, worker_when

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("workers")]
MIB = 1024 * 1024


async def _works(served: Served, folder: Path) -> None:
    """The host gives runs to a worker that behaves."""
    async with joined(served, folder / "good", "good"):
        assert (await ended(served, await send(served, "say 1")))["status"] == "completed"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (hello(protocol=99), "speaks version 99 of the protocol of workers"),
        (hello(worker_id="connect"), "is no id of a worker"),
        (hello(worker_id="../../etc"), "is no id of a worker"),
        (hello(labels=["GPU !"]), "is no label of workers"),
        (hello(labels=["a"] * 33), "cannot be read"),
        (hello(slots=0), "cannot be read"),
        (hello(slots=10**9), "cannot be read"),
        ({"type": "beat", "number": 1}, "the first message of a worker is its hello"),
        (b"\0\0\0\1abc", "the first message of a worker is a text"),
        ("[" * 50_000, "cannot be read"),
        ("x" * 70_000, "at most 65,536 are allowed"),
    ],
)
async def test_a_wrong_hello_is_refused_for_good(tmp_path: Path, first: Any, reason: str) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        async with hostile_worker(served, greets=False) as worker:
            await worker.say(first)
            assert reason in await worker.last_words()
            (end,) = worker.said
            assert end["again"] is (reason.startswith("speaks"))
        assert (await served.client.get("/v1/workers")).json()["items"] == []


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.3)
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        async with hostile_worker(served, greets=False) as worker:
            assert "no hello came within 0.3 s" in await worker.last_words()
        monkeypatch.setattr(limits, "STALE_SECONDS", 0.3)
        async with hostile_worker(served) as worker:
            await worker.last_words()
            gone = await worker_when(served, lambda one: not one["connected"], "bad")
            assert gone["reason"] == "it was silent for 0.3 s"


async def _with_stream(served: Served, worker: HostileWorker) -> int:
    """Have a run placed on the worker; the number of its stream."""
    await served.agent("far", worker_labels=["gpu"], recovery={"on_crash": "restart"})
    await send(served, "hold")
    return int((await worker.heard("open"))["stream"])


def _frames(stream: int) -> dict[str, list[Any]]:
    """What breaks the rules, by what the host says of it."""
    closed = {"type": "closed", "stream": stream, "reason": "no"}
    started = {"type": "started", "stream": stream}
    fetch = {"type": "fetch", "stream": stream}
    return {
        "stream 77 is none of this worker": [piece(77, b"x")],
        "stream 76 is none of this worker": [{"type": "started", "stream": 76}],
        "stream 1 is none of this worker": [closed, closed],
        "started twice": [started, started],
        "fetched twice": [fetch, fetch],
        "more bytes were granted than were sent": [{"type": "granted", "stream": stream, "size": 1}],
        "more bytes came than its window allows": [piece(stream, b"x" * 65_536)] * 17,
        "which is none": [piece(stream, b"x" * 65_537)],
        "of 4 bytes, which is none": [b"\0\0\0\1"],
        "of 0 bytes, which is none": [b""],
        "at most 65,536 are allowed": [{"type": "closed", "stream": stream, "reason": "x" * 70_000}],
        "cannot be read": [{"type": "closed", "stream": stream, "reason": "x" * 5_000}],
        "malformed": ["{'no json'"],
        "Invalid value 'nonsense'": [{"type": "nonsense"}],
        "says hello once": [hello()],
        "a flood of heartbeats": [{"type": "beat", "number": n} for n in range(400)],
    }


@pytest.mark.parametrize("reason", list(_frames(1)))
async def test_who_breaks_the_rules_loses_the_connection(tmp_path: Path, reason: str) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        async with hostile_worker(served) as worker:
            stream = await _with_stream(served, worker)
            for frame in _frames(stream)[reason]:
                await worker.say(frame)
            await worker.last_words()
            gone = await worker_when(served, lambda one: not one["connected"], "bad")
            assert reason.lower() in gone["reason"].lower()
            assert gone["reason"].startswith("it broke the protocol") or reason == "fetched twice"
        await _works(served, tmp_path)


async def test_a_huge_frame_ends_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        async with hostile_worker(served) as worker:
            stream = await _with_stream(served, worker)
            with suppress(ConnectionClosed):
                await worker.say(piece(stream, b"x" * (9 * MIB)))
            await worker.last_words()
            await worker_when(served, lambda one: not one["connected"], "bad")
        await _works(served, tmp_path)


async def test_a_worker_that_never_starts_a_plugin_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "START_SECONDS", 0.5)
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with hostile_worker(served, slots=100) as worker:
            async with joined(served, tmp_path, "good"):
                runs = [await send(served, "say 1") for _ in range(4)]
                assert [(await ended(served, run))["status"] for run in runs] == ["completed"] * 4
            await worker.heard("kill")


async def test_a_false_plugin_reaches_its_own_runs_only(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        local = await send(served, "hold", "puppet")
        await at_work(served, local)
        async with hostile_worker(served) as worker:
            stream = await _with_stream(served, worker)
            await worker.say({"type": "started", "stream": stream})
            identity = {"author": "test", "name": "puppet", "version": "1.0.0"}
            runner = {
                "id": "plugin:test/puppet/default",
                "name": "default",
                "label": {"en": "x"},
                "permissions": {"models": ["invoke"], "runs": ["get", "list", "cancel"]},
                "capabilities": {"resumable": True},
            }
            answers = {
                "initialize": {"protocol": 1, "plugin": identity},
                "runners/list": {"runners": [runner]},
            }
            started = await worker.play(stream, answers, "run/start")
            own = started["params"]["context"]["run_id"]
            for run_id in (local, "no such run"):
                for kind, data in (
                    ("message.completed", {"message": {"role": "assistant", "content": "forged"}}),
                    ("run.completed", {"finish_reason": "stop"}),
                ):
                    result = {"run_id": run_id, "type": kind, "sequence": 2, "data": data}
                    await worker.line(stream, {"jsonrpc": "2.0", "method": "run/result", "params": result})
                call = {"run_id": run_id, "target_run_id": local}
                request = {"jsonrpc": "2.0", "id": run_id, "method": "host/run.cancel", "params": call}
                await worker.line(stream, request)
            call = {"run_id": own, "target_run_id": local}
            request = {"jsonrpc": "2.0", "id": "own", "method": "host/run.cancel", "params": call}
            await worker.line(stream, request)
            refused: dict[str, str] = {}
            while "own" not in refused:
                for line in (await worker.written()).splitlines():
                    said = json.loads(line)
                    if "error" in said:
                        refused[said["id"]] = said["error"]["data"]["code"]
            assert refused["own"] == "unauthorized", "its manifest is the one that the host knows"
            assert set(refused.values()) <= {"unauthorized", "not_found"}
            run = await run_when(served, local, lambda run: True)
            assert (run["status"], run["sequence"]) == ("running", 1)
            assert "forged" not in (await served.client.get(f"/v1/runs/{local}/journal")).text


async def test_a_plugin_of_another_name_is_not_taken(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        await served.agent("far", worker_labels=["gpu"])
        async with hostile_worker(served) as worker:
            run_id = await send(served, "hold")
            stream = int((await worker.heard("open"))["stream"])
            await worker.say({"type": "started", "stream": stream})
            identity = {"author": "evil", "name": "twin", "version": "1.0.0"}
            await worker.play(stream, {"initialize": {"protocol": 1, "plugin": identity}}, "initialize")
            await worker.heard("kill")
            run = await ended(served, run_id)
            assert (run["status"], run["status_code"]) == ("failed", "runner.crashed")


async def test_connections_and_workers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_workers, "MAX_CONNECTIONS", 2)
    async with (
        serving(tmp_path / "data") as served,
        asyncio.timeout(TEST_SECONDS),
        hostile_worker(served, worker_id="a"),
        hostile_worker(served, worker_id="a", workspace=OTHER),
    ):
        with pytest.raises(InvalidStatus, match="HTTP 503"):
            async with hostile_worker(served, greets=False):
                pass


async def test_the_same_process_takes_the_place_of_its_own_connection(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, asyncio.timeout(TEST_SECONDS):
        same = "0" * 32
        async with (
            hostile_worker(served, process=same) as first,
            hostile_worker(served, process=same) as second,
        ):
            assert "the same process has connected again" in await first.last_words()
            async with hostile_worker(served, greets=False) as third:
                await third.say(hello())
                assert "connected from another process" in await third.last_words()
                assert third.said[-1]["again"] is True
            await second.say({"type": "beat", "number": 1})
            assert (await second.heard("answered"))["state"] == "active"
