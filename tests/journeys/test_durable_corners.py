"""Corners of runs that wait and go on: calls at once, pauses after pauses, what was used and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.recording import CallName, FastForward, Recording
from hostler.pauses import entries
from hostler.pauses.transitions import go_on
from hostler.runs.recovery import recover
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal, pause_calls, pauses, run_lanes, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_endings import begin_again
from hostler.storage.stores.run_rows import NewRun, Run
from hostler_protocol.content import Usage
from journeys.test_waiting_for_people import outcomes
from support.pauses import WORKSPACE, call, calls_of, open_pause, open_run
from support.shop import (
    ADMIN,
    ALLOWED,
    ASK_ALL,
    BOOK,
    PLACE,
    SEND,
    calling,
    decide,
    decision,
    parked,
    shop,
    waiting,
)
from support.stepping import Latch, Steps, stage

ASK_SEND: dict[str, Any] = {**ALLOWED, "tool_approval": {"shop.send": "required"}}


async def test_a_call_beside_one_that_waits_is_not_made_again(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_SEND)
        run_id = await host.start([["together", [SEND], [BOOK]], ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert len(ended.entries("intent")) == 2


async def test_a_second_pause_of_another_form_does_not_lose_the_state(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="both", resource_policy=ASK_ALL)
        pending = {"tool_name": "shop.send", "arguments": {"to": "ada", "text": "hi"}, "kind": "approval"}
        paused = {"pending": [pending], "state": {"step": 3}}
        steps: Steps = {
            "1": [["say", "before"], ["result", "run.paused", paused], ["silent"]],
            "else": [SEND, BOOK, ["at", 3, [["show_context"]]], ["tell"]],
        }
        run_id = await host.start(steps, **PLACE)
        for _ in range(2):
            pause = await waiting(host, run_id)
            await parked(host, run_id)
            await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.attempt == 3
        assert json.loads(ended.said[1])["continuation"]["state"] == {"step": 3}
        assert len(ended.entries("intent")) == 2


async def test_what_a_runner_states_to_have_used_counts_once(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        said = {"chunk": {"role": "assistant", "content": "a"}}
        used = ["result", "message.delta", said, {"usage": {"total_tokens": 10}}]
        run_id = await host.start([used, SEND, used, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.usage is not None
        assert ended.record.usage.total_tokens == 20


async def test_a_call_that_nobody_can_be_asked_leaves_the_others_waiting(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=60) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        huge = calling("shop.send", to="bob", text="x" * 100_000)
        run_id = await host.start([["together", [SEND], [huge]], ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert sorted(outcomes(ended)) == ["A card to ada is on its way: hi", "payload_too_large"]


async def test_a_runner_that_pauses_while_it_asks(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=60) as host:
        await host.agent(runner="both", resource_policy=ASK_ALL)
        pending = {"tool_name": "shop.send", "arguments": {"to": "ada", "text": "hi"}, "kind": "approval"}
        paused = ["result", "run.paused", {"pending": [pending], "state": 1}]
        steps: Steps = {"1": [["together", [BOOK], [paused, ["silent"]]]], "else": [["show_context"]]}
        run_id = await host.start(steps, **PLACE)
        pause = await waiting(host, run_id)
        while pause.form != "explicit":
            pause = await waiting(host, run_id)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last


async def test_a_call_that_the_runner_gave_up_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=60, stall_seconds=0.5) as host, Latch(tmp_path) as latch:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        left = ["leave", "tool.call", SEND[2], latch.path]
        run_id = await host.start([left, BOOK, ["at", 1, [["crash"]]], BOOK, ["tell"]], **PLACE)
        await waiting(host, run_id)
        latch.open()
        for segment in (2, 3):
            while (pause := await waiting(host, run_id)).segment < segment:
                pass  # the one before is still open
            assert len(pause.calls) == 1
            await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert [entry["data"]["tool_name"] for entry in ended.entries("intent")] == ["shop.book"] * 2
        pages = await host.host.pauses.page(ADMIN, run_id=run_id)
        assert [pause.status for pause in pages.items] == ["resumed"] * 3
        assert pages.items[-1].calls[0].decision == "cancelled"


async def test_while_its_host_was_gone_the_time_of_a_run_that_waits_stood_still(
    database: SqlDatabase,
) -> None:
    hour, left = 3_600_000, 300_000

    def begun(tx: Tx) -> None:
        earlier: Any = Earlier(tx, hour)
        new = NewRun(
            workspace_id=WORKSPACE,
            run_id="r1",
            agent_id="a1",
            agent_name="shop",
            agent_version=1,
            runner_id="plugin:acme/shop/default",
            lane="lane",
        )
        runs.open(earlier, new, Membership("h1"))
        deadline = earlier.now + left
        runs.transition(earlier, "r1", 1, "running", cause="test", actor="h1", deadline_at=deadline)
        open_pause(earlier, call("k1", expires_in=7200.0))

    def decided(tx: Tx) -> int:
        pause = pauses.get(tx, WORKSPACE, "p1")
        pause_calls.decide(tx, pause, calls_of(tx)["k1"], "denied", cause="test", actor="rita")
        go_on(tx, pauses.settle(tx, pause, actor="rita"), "rita")
        return tx.now

    await database.write(begun)
    await recover(database, lambda _: True)
    assert (await database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))).status == "paused"
    now = await database.write(decided)
    found = await database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert found.status == "queued"
    assert found.deadline_at == pytest.approx(now + left, abs=1_000)


async def test_a_run_that_has_begun_goes_on_before_an_older_one_that_was_delayed(
    database: SqlDatabase,
) -> None:
    hour, host = 3_600_000, Membership("h1")

    def opened(tx: Tx, run_id: str, **more: Any) -> None:
        names: dict[str, Any] = {"agent_id": "a1", "agent_name": "shop", "agent_version": 1, "lane": "lane"}
        new = NewRun(
            workspace_id=WORKSPACE, run_id=run_id, runner_id="plugin:acme/shop/default", **names, **more
        )
        runs.open(tx, new, host)

    def lost(tx: Tx) -> Run | None:
        earlier: Any = Earlier(tx, hour)
        opened(earlier, "older", not_before=earlier.now + 1_000)
        opened(earlier, "begun")
        runs.transition(earlier, "begun", 1, "running", cause="test", actor="h1")
        begin_again(tx, "begun", 1, cause="test", actor="recovery", crashed=True)
        return run_lanes.first_waiting(tx, WORKSPACE, "lane")

    first = await database.write(lost)
    assert first is not None
    assert first.run_id == "begun"


async def test_what_a_lost_attempt_has_cost_is_counted(database: SqlDatabase) -> None:
    def begun(tx: Tx) -> None:
        open_run(tx)
        reply = {"usage": {"input_tokens": 7, "output_tokens": 44}}
        whole = json.dumps({"method": "model.invoke", "reply": reply, "cost": "0.000139"})
        short = json.dumps({"method": "model.stream", "size_bytes": 90_000, "cost": "0.5", **reply})
        given_up = json.dumps({"method": "model.stream", "given_up": True})
        answers = [("model.invoke", whole), ("model.stream", short), ("model.stream", given_up)]
        runs.append(tx, "r1", 1, [NewEntry("call", name, data.encode()) for name, data in answers])

    await database.write(begun)
    await recover(database, lambda _: True)
    found = await database.read(lambda tx: runs.get(tx, WORKSPACE, "r1"))
    assert found.cost == "0.500139"
    assert found.usage == Usage(input_tokens=14, output_tokens=88)


async def test_what_a_lost_attempt_did_not_come_to_show_is_shown(database: SqlDatabase) -> None:
    def begun(tx: Tx) -> None:
        open_run(tx)
        open_pause(tx, call("k1"), call("k2", "question", question_kind="choice"))
        shown = entries.requested(calls_of(tx)["k1"])
        runs.append(tx, "r1", 1, [shown])  # and then its host was killed

    def results(tx: Tx) -> list[Any]:
        return [(item.type, json.loads(item.data)["data"]) for item in journal.results(tx, "r1").items]

    await database.write(begun)
    await recover(database, lambda _: True)
    found = await database.read(results)
    assert [name for name, _ in found] == ["interaction.requested", "interaction.requested", "run.paused"]
    assert [data["call_id"] for _, data in found[:2]] == ["k1", "k2"]
    assert found[1][1]["kind"] == "choice"
    assert [pending["call_id"] for pending in found[2][1]["pending"]] == ["k1", "k2"]


async def test_a_host_that_stops_in_order_uses_up_no_attempt(tmp_path: Path) -> None:
    steps: Steps = {
        "1": [["say", "a"], ["crash"]],
        "2": [["say", "a"], ["deltas", 1], ["hold"]],
        "3": [["say", "a"], ["deltas", 1], ["say", "done"]],
    }
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable", recovery={"on_crash": "resume", "max_attempts": 2})
        run_id = await host.start(steps, **PLACE)
        await host.seen(run_id, "message.delta")
    async with stage(tmp_path, agent=False) as host:
        ended = await host.ended(run_id)
    assert (ended.record.status, ended.record.attempt) == ("completed", 3), ended.last


def test_a_long_recording_is_gone_through_in_one_pass() -> None:
    recording, count = Recording(), 30_000
    for n in range(count):
        recording.add_result(n + 1, n + 1, "message.delta", b"%d" % n)
    recording.add_result(count + 1, count + 1, "message.completed", b"{}")
    name = CallName("tool.call", "d", 1)
    recording.add_intent(name, "x" * 1000)
    recording.add_call(name, count + 2, "{}", changed=False)
    assert recording.calls[name].effect
    assert not recording.calls[name].intent, "it would be kept in memory for every call"
    forward = FastForward(recording)
    forward.go_live()
    verdicts = {forward.take("message.delta", b"%d" % n) for n in reversed(range(count))}
    assert verdicts == {"again"}


class Earlier:
    """A transaction some time ago."""

    def __init__(self, tx: Tx, milliseconds: int) -> None:
        self._tx = tx
        self.now = tx.now - milliseconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)
