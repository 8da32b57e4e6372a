"""What becomes of events and runs: outcomes, lanes, cancellation at every moment, deadlines, children."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.plugins.connection import PluginConnection
from hostler.plugins.handler import RunHandler
from hostler.runs.orchestrator import Accepted
from hostler.storage.stores import events, run_lanes
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import (
    ConflictError,
    NotFoundError,
    RateLimitedError,
    StorageError,
    UnavailableError,
)
from hostler_protocol.methods import RunStartParams
from support.stepping import WORKSPACE, Latch, Stage, stage, within

SECONDS = 110.0


@contextlib.asynccontextmanager
async def at_work(tmp_path: Path, database_url: str, **settings: Any) -> AsyncIterator[Stage]:
    """A host on the database under test."""
    database = database_url if database_url.startswith("postgres") else None
    async with within(), stage(tmp_path / "data", database=database, **settings) as made:
        yield made


async def outcome(host: Stage, event_id: str) -> events.StoredEvent:
    found = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, event_id))
    assert found is not None
    return found


async def status(host: Stage, run_id: str) -> str:
    return (await host.host.runs.record(WORKSPACE, run_id)).status


# -- accept -------------------------------------------------------------------------------------------


async def test_what_becomes_of_an_event(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        first = await host.send([["gate", latch.path], ["say", "first"]], event_id="e1", conversation_id="c")
        assert (first.event_id, first.duplicate, first.outcome) == ("e1", False, "started")
        waits = await host.send([["say", "second"]], event_id="e2", conversation_id="c")
        assert first.run is not None
        assert waits.run is not None
        assert (waits.outcome, waits.run.status) == ("queued", "queued")
        again = await host.send([["say", "second"]], event_id="e2", conversation_id="c")
        assert again.duplicate
        assert (again.outcome, again.run) == ("queued", waits.run)
        with pytest.raises(ConflictError, match=r"'e2'.*another body"):
            await host.send([["say", "changed"]], event_id="e2", conversation_id="c")
        latch.open()
        assert (await host.ended(first.run.run_id)).record.status == "completed"
        assert (await host.ended(waits.run.run_id)).said == ["second"]
        assert (await outcome(host, "e1")).outcome == "started"


async def test_a_plugin_that_is_ready_gets_a_run_before_its_event_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    start = PluginConnection.start_run

    async def noted(connection: PluginConnection, params: RunStartParams, handler: RunHandler) -> None:
        order.append("started")
        await start(connection, params, handler)

    async with within(), stage(tmp_path / "data") as host:
        await host.run([["say", "the plugin is ready"]])
        monkeypatch.setattr(PluginConnection, "start_run", noted)
        accepted = await host.send([["say", "hello"]])
        order.append("answered")
        assert order == ["started", "answered"]
        assert accepted.run is not None
        assert (await host.ended(accepted.run.run_id)).said == ["hello"]


async def test_an_event_that_is_known_with_another_body_leaves_no_bytes(
    tmp_path: Path, database_url: str
) -> None:
    def content(data: bytes) -> dict[str, Any]:
        file = base64.b64encode(data).decode()
        return {"contents": [{"type": "text", "text": "[]"}, {"type": "file_base64", "file_base64": file}]}

    async with at_work(tmp_path, database_url) as host:
        await host.run([], event_id="e", input=content(b"first"))
        with pytest.raises(ConflictError, match="another body"):
            await host.send([], event_id="e", input=content(b"second"))
        assert (await host.send([], event_id="e", input=content(b"first"))).duplicate
        await host.host.blobs.size(hashlib.sha256(b"first").hexdigest())
        with pytest.raises(StorageError):
            await host.host.blobs.size(hashlib.sha256(b"second").hexdigest())


async def test_the_same_event_a_hundred_times_at_once_is_one_run(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        sent = [host.send([["say", "once"]], event_id="e", conversation_id="c") for _ in range(100)]
        accepted = await asyncio.gather(*sent)
        assert sum(not one.duplicate for one in accepted) == 1
        assert len({one.run.run_id for one in accepted if one.run is not None}) == 1
        assert all(one.run is not None for one in accepted)
        assert accepted[0].run is not None
        await host.ended(accepted[0].run.run_id)
        assert host.host.dispatcher.active == 0
        assert host.host.dispatcher._slots.taken == 0


async def test_no_agent_two_agents_a_wrong_and_a_disabled_one(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, agent=False) as host:
        nobody = await host.send([], agent=None, event_id="e0")
        assert (nobody.outcome, nobody.run) == ("unrouted", None)
        await host.agent("one")
        await host.agent("two")
        for duplicate in range(2):
            with pytest.raises(ConflictError, match=r"one.*two") as caught:
                await host.send([], agent=None, event_id="e1")
            assert caught.value.code == "conflict", duplicate
        stored = await outcome(host, "e1")
        assert (stored.outcome, sorted(stored.routing["candidates"])) == ("conflict", ["one", "two"])
        with pytest.raises(NotFoundError, match="no agent 'ona'"):
            await host.send([], agent="ona", event_id="e2")
        kept = await host.send([["say", "hello"]], agent="one", event_id="e3")
        assert kept.run is not None
        await host.ended(kept.run.run_id)
        await host.agent("one", enabled=False)
        with pytest.raises(ConflictError, match="one"):
            await host.send([], agent="one", event_id="e4")
        again = await host.send([["say", "hello"]], agent="one", event_id="e3")
        assert again.duplicate
        assert again.run is not None
        assert again.run.run_id == kept.run.run_id


async def test_a_host_that_stops_takes_nothing(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "data") as host:
        host.host.orchestrator.accepting = False
        with pytest.raises(UnavailableError):
            await host.send([["say", "no"]], event_id="e")
        assert await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, "e")) is None


# -- a busy lane --------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_busy", ["steer", "queue", "reject", "interrupt", "parallel"])
async def test_a_busy_lane(tmp_path: Path, database_url: str, on_busy: str) -> None:
    async with at_work(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        await host.agent(concurrency={"on_busy": on_busy})
        first = await host.start([["gate", latch.path], ["say", "first"]], conversation_id="c")
        await latch.reached()
        second = await host.send([["say", "second"]], event_id="e2", conversation_id="c")
        elsewhere = await host.run([["say", "elsewhere"]], conversation_id="d")
        assert elsewhere.said == ["elsewhere"]
        if on_busy == "reject":
            assert (second.outcome, second.run) == ("rejected", None)
            assert "busy" in (await outcome(host, "e2")).routing["reason"]
            latch.open()
            assert (await host.ended(first)).said == ["first"]
            return
        assert second.run is not None
        if on_busy == "parallel":
            assert second.outcome == "started"
            assert (await host.ended(second.run.run_id)).said == ["second"]
            assert await status(host, first) == "running"
        elif on_busy == "interrupt":
            assert second.outcome == "started"
            assert (await host.ended(first)).record.status_code == "cancelled"
            assert (await host.ended(second.run.run_id)).said == ["second"]
            return
        else:
            assert second.outcome == "queued"
            assert await status(host, second.run.run_id) == "queued"
        latch.open()
        assert (await host.ended(first)).said == ["first"]
        assert (await host.ended(second.run.run_id)).said == ["second"]


async def test_runs_of_a_lane_go_on_in_the_order_of_their_events(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        ids = [await host.start([["gate", latch.path], ["say", "first"]], conversation_id="c")]
        ids += [await host.start([["say", str(n)]], conversation_id="c") for n in range(5)]
        latch.open()
        ended = [await host.ended(run_id) for run_id in ids]
        times = [one.record.started_at for one in ended]
        assert times == sorted(times, key=lambda at: at or 0.0)
        ends = [one.record.finished_at or 0.0 for one in ended]
        assert all(end <= (start or 0.0) for end, start in zip(ends, times[1:], strict=False))


# -- cancellation -------------------------------------------------------------------------------------


async def test_a_run_cancelled_while_it_waits_ends_at_once(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        first = await host.start([["gate", latch.path], ["say", "first"]], conversation_id="c")
        waits = await host.start([["say", "never"]], conversation_id="c")
        await host.cancel(waits, "not needed")
        ended = await host.ended(waits)
        assert (ended.record.status, ended.record.status_code) == ("cancelled", "cancelled")
        assert ended.types == ["run.failed"]
        assert ended.last["error"] == "not needed"
        latch.open()
        assert (await host.ended(first)).record.status == "completed"


async def test_a_run_cancelled_while_its_plugin_starts_never_begins(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "data") as host:
        connect, standing = host.host._attempt_services.connect, asyncio.Event()

        async def slow(run: Run) -> Any:
            standing.set()
            await asyncio.Event().wait()
            return await connect(run)

        host.host._attempt_services.connect = slow
        run_id = await host.start([["say", "never"]])
        await standing.wait()
        await host.cancel(run_id)
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.types) == ("cancelled", ["run.failed"])
        assert ended.entries("context") == []


async def test_a_runner_that_is_cancelled_may_finish_in_order(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, cancel_grace_seconds=60.0) as host:
        run_id = await host.start([["deltas", 1], ["until_cancelled"], ["say", "so be it"]])
        await host.seen(run_id, "message.delta")
        await host.cancel(run_id, "enough")
        ended = await host.ended(run_id)
        assert ended.said == ["so be it"]
        assert (ended.record.status, ended.record.status_code) == ("cancelled", "cancelled")


async def test_a_runner_that_does_not_listen_is_ended_without_it(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, cancel_grace_seconds=0.05) as host:
        async with Latch(tmp_path) as latch:
            steps: list[list[Any]] = [["deltas", 1], ["gate", latch.path], ["say", "too late"]]
            run_id = await host.start(steps, conversation_id="c")
            await latch.reached()
            await host.cancel(run_id)
            ended = await host.ended(run_id)
            assert (ended.record.status, ended.types[-1]) == ("cancelled", "run.failed")
            latch.open()
        # what it says now is nobody's: the next run of the conversation is served, and nothing was added
        after = await host.run([["say", "next"]], conversation_id="c")
        assert after.said == ["next"]
        assert (await host.ended(run_id)).results == ended.results


async def test_cancelling_what_is_over_or_unknown(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "data") as host:
        done = await host.run([["say", "done"]])
        await host.cancel(done.record.run_id)
        assert (await host.ended(done.record.run_id)).record.status == "completed"
        with pytest.raises(NotFoundError):
            await host.cancel("no such run")


# -- deadlines ----------------------------------------------------------------------------------------


async def test_a_deadline_is_exact_and_no_grace_follows(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, cancel_grace_seconds=60.0) as host:
        prepare = host.host._attempt_services.prepare

        async def hurried(*arguments: Any) -> Any:
            return msgspec.structs.replace(await prepare(*arguments), deadline_at=time.time() + 0.2)

        host.host._attempt_services.prepare = hurried
        began = time.time()
        ended = await host.run([["deltas", 1], ["hold"]])
        assert (ended.record.status, ended.record.status_code) == ("timeout", "runner.timeout")
        assert ended.types[-1] == "run.failed"
        assert (ended.record.finished_at or 0) - began >= 0.19
        assert time.time() - began < 60


# -- children -----------------------------------------------------------------------------------------


async def test_a_child_run_is_waited_for_and_ends_with_its_parent(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        await host.agent(resource_policy={"allowed_agents": ["helper"]})
        await host.agent("helper")
        child = {
            "agent": "helper",
            "input": {"text": json.dumps([["say", "from the child"]])},
            "wait": 60,
        }
        ended = await host.run([["call", "run.create", child], ["tell"]])
        told = ended.told[0]
        assert (told["status"], told["output"]["text"]) == ("completed", "from the child")
        assert told["parent_run_id"] == ended.record.run_id

        endless = {"agent": "helper", "input": {"text": json.dumps([["hold"]])}}
        parent = await host.start([["call", "run.create", endless], ["tell"], ["hold"]])
        await host.seen(parent, "message.completed")
        said = next(e for e in await host.entries(parent) if e["type"] == "message.completed")
        born = json.loads(said["data"]["data"]["message"]["content"])[0]["run_id"]
        await host.cancel(parent, "all of it")
        assert (await host.ended(parent)).record.status == "cancelled"
        child_end = await host.ended(born)
        assert child_end.record.status == "cancelled"
        assert "parent" in child_end.last["error"]


# -- slots --------------------------------------------------------------------------------------------


async def test_no_more_runs_at_once_than_there_are_slots(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, max_active_runs=2) as host, Latch(tmp_path) as latch:
        ids = [await host.start([["gate", latch.path], ["say", "done"]]) for _ in range(5)]
        assert host.host.dispatcher.active == 2
        assert [await status(host, run_id) for run_id in ids[2:]] == ["queued"] * 3
        latch.open()
        for run_id in ids:
            assert (await host.ended(run_id)).said == ["done"]


async def test_an_event_that_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    full: dict[str, Any] = {"max_active_runs": 1, "max_queued_runs": 1}
    async with within(), stage(tmp_path / "data", **full) as host, Latch(tmp_path) as latch:
        ids = [await host.start([["gate", latch.path], ["say", "done"]]) for _ in range(2)]
        with pytest.raises(RateLimitedError, match="too many runs"):
            await host.send([], event_id="e3")
        assert await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, "e3")) is None
        latch.open()
        for run_id in ids:
            await host.ended(run_id)


async def test_a_full_queue_refuses_only_what_would_have_to_wait(tmp_path: Path, database_url: str) -> None:
    async with (
        at_work(tmp_path, database_url, max_active_runs=50, max_queued_runs=3) as host,
        Latch(tmp_path) as latch,
    ):
        held = await host.start([["gate", latch.path], ["say", "held"]], conversation_id="c")
        sent = [host.send([["say", str(n)]], event_id=f"e{n}", conversation_id="c") for n in range(20)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        queued = [one.run.run_id for one in answers if isinstance(one, Accepted) and one.run is not None]
        refused = [one for one in answers if isinstance(one, RateLimitedError)]
        assert (len(queued), len(refused)) == (3, 17), answers
        assert await host.host.db.read(lambda tx: run_lanes.count_queued(tx, 100)) == 3
        assert (await host.run([["say", "elsewhere"]], conversation_id="d")).said == ["elsewhere"]
        known = next(n for n, one in enumerate(answers) if isinstance(one, Accepted))
        again = await host.send([["say", str(known)]], event_id=f"e{known}", conversation_id="c")
        assert (again.duplicate, again.outcome) == (True, "queued")
        latch.open()
        for run_id in [held, *queued]:
            assert (await host.ended(run_id)).record.status == "completed"
