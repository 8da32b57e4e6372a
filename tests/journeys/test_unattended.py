"""Agents that nobody attends to: questions are denied at once, and a run that does nothing ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.pause_actions import Action
from hostler.domain.type_fit import convert
from hostler.storage.stores import notices
from hostler_protocol.errors import InvalidArgumentError
from support.gates import Gate
from support.model_server import ModelServer
from support.shop import ADMIN, decide, parked, shop, waiting
from support.stepping import WORKSPACE, Ended, Latch, Stage, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}
SILENT: dict[str, Any] = {"allow_questions": False}
ASK = [
    "call",
    "interaction.request",
    {"kind": "form", "title": "Which size?", "fields": [{"name": "size", "type": "text"}]},
]
SET = ["call", "state.set", {"scope": "actor", "key": "k", "value": 1}]
READ = ["call", "state.get", {"scope": "actor", "key": "k"}]
QUESTION = {"tool_name": "", "arguments": {}, "kind": "question", "title": "Which size?", "call_id": "q1"}


async def pauses(host: Stage, run_id: str) -> list[Any]:
    return list((await host.host.pauses.page(ADMIN, run_id=run_id)).items)


async def told(host: Stage) -> list[str]:
    """What the inbox holds."""
    return [notice.event for notice in await host.host.db.read(lambda tx: notices.page(tx, WORKSPACE))]


# -- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", ["default", "resumable"])
async def test_a_question_is_denied_at_once_and_nobody_is_asked(tmp_path: Path, runner: str) -> None:
    async with within(), stage(tmp_path, hold_seconds=60) as host:
        await host.agent(runner=runner, **SILENT)
        ended = await host.run([ASK, SET, ["tell"]], **PLACE)
        denied, written = ended.told
        assert denied["error"]["code"] == "denied"
        assert "allow_questions" in denied["error"]["message"]
        assert written["version"] == 1
        assert ended.types == ["message.completed", "run.completed"]
        assert await pauses(host, ended.record.run_id) == []
        (entry,) = ended.entries("call", "interaction.request")
        assert entry["data"]["error"]["code"] == "denied"


async def test_a_denied_question_is_denied_again_after_a_crash(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner="resumable", **SILENT)
        ended = await host.run([ASK, SET, ["crash", 1], ASK, ["tell"]], **PLACE)
        assert ended.record.attempt == 2
        assert [answer.get("error", {}).get("code") for answer in ended.told] == [
            "denied",
            None,
            "denied",
        ]


async def test_other_calls_that_wait_for_people_wait_all_the_same(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        asked = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.*": "required"}}
        await host.agent(runner="resumable", resource_policy=asked, **SILENT)
        call = ["call", "tool.call", {"tool_name": "shop.prices", "parameters": {}}]
        run_id = await host.start([ASK, call, ["tell"]], **PLACE)
        await host.seen(run_id, "interaction.requested")
        (pause,) = await pauses(host, run_id)
        assert [one.kind for one in pause.calls] == ["approval"]
        await host.cancel(run_id)


def pausing(*pending: dict[str, Any]) -> list[Any]:
    return ["result", "run.paused", {"pending": list(pending), "state": {"n": 1}}]


@pytest.mark.parametrize("runner", ["keeper", "both"])
async def test_a_runner_that_pauses_itself_for_a_question_goes_on_with_the_denial(
    tmp_path: Path, runner: str
) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner=runner, **SILENT)
        ended = await host.run({"1": [pausing(QUESTION)], "2": [["show_context"]]}, **PLACE)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2)
        continuation = ended.told["continuation"]
        assert continuation["state"] == {"n": 1}
        (decision,) = continuation["decisions"]
        assert (decision["call_id"], decision["decision"]) == ("q1", "denied")
        assert "allow_questions" in decision["comment"]
        assert ended.types == ["attempt.started", "message.completed", "run.completed"]
        assert [r["sequence"] for r in ended.results] == [1, 2, 3]
        assert await told(host) == []


async def test_a_pause_of_which_only_a_part_are_questions_waits_for_the_rest(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        policy = {"allowed_tool_names": ["shop.*"]}
        await host.agent(runner="keeper", resource_policy=policy, **SILENT)
        approval = {"tool_name": "shop.book", "arguments": {"kind": "double"}, "kind": "approval"}
        run_id = await host.start(
            {"1": [pausing(QUESTION, {**approval, "call_id": "a1"})], "2": [["show_context"]]}, **PLACE
        )
        await host.seen(run_id, "run.paused")
        (pause,) = await pauses(host, run_id)
        assert {one.call_id: one.decision for one in pause.calls} == {"q1": "denied", "a1": "undecided"}
        await host.host.pauses.cancel(ADMIN, pause.id, reason="enough")
        ended = await host.ended(run_id)
        (shown,) = [r["data"] for r in ended.results if r["type"] == "run.paused"]
        assert [one["call_id"] for one in shown["pending"]] == ["a1"]
        asked = [r["data"]["call_id"] for r in ended.results if r["type"] == "interaction.requested"]
        assert asked == ["a1"]


# -- a run that does nothing ----------------------------------------------------------------------


IDLE: dict[str, Any] = {"idle_timeout": 0.4}


def check_idle(ended: Ended) -> None:
    assert (ended.record.status, ended.record.status_code) == ("timeout", "runner.timeout")
    assert "idle_timeout" in ended.last["error"]
    assert "0.4 s" in ended.last["error"]


async def as_long_as_an_idle_run_lasts(host: Stage) -> None:
    """Begin a run that does nothing, and see it end: so long is long enough for any that began before."""
    await host.agent("idler", **IDLE)
    check_idle(await host.run([["hold"]], agent="idler", conversation_id="idler"))


@pytest.mark.parametrize("before", [[], [["deltas", 3]], [READ], [["say", "a"], SET]])
async def test_a_run_without_result_or_call_ends(tmp_path: Path, before: list[Any]) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(config={"timeout": None}, **IDLE)
        check_idle(await host.run([*before, ["hold"]], **PLACE))
        await host.agent()
        assert (await host.run([["say", "next"]], **PLACE)).record.status == "completed"


async def test_a_call_under_way_is_activity_however_long_it_takes(tmp_path: Path) -> None:
    async with within(), ModelServer() as server, stage(tmp_path) as host:
        gate = Gate()
        server.say(["slow", gate])
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x"))
        await host.agent(resource_policy={"allowed_model_ids": ["m"]}, **IDLE)
        ask = ["call", "model.invoke", {"model_id": "m", "messages": [{"role": "user", "content": "x"}]}]
        run_id = await host.start([ask, ["hold"]], **PLACE)
        await gate.reached()
        await as_long_as_an_idle_run_lasts(host)
        assert (await host.host.runs.record(WORKSPACE, run_id)).status == "running"
        gate.open()
        check_idle(await host.ended(run_id))  # it counts from the answer on


@pytest.mark.parametrize("hold_seconds", [0.05, 60])
async def test_waiting_for_people_is_not_idle(tmp_path: Path, hold_seconds: float) -> None:
    async with shop(tmp_path, hold_seconds=hold_seconds) as host:
        await host.agent(runner="resumable", **IDLE)
        run_id = await host.start([ASK, ["hold"]], **PLACE)
        pause = await waiting(host, run_id)
        if hold_seconds < 1:
            await parked(host, run_id)
        await as_long_as_an_idle_run_lasts(host)
        held = (await host.host.runs.record(WORKSPACE, run_id)).status
        assert held == ("paused" if hold_seconds < 1 else "running")
        answer = Action(call_id=pause.calls[0].call_id, type="answer", values={"size": "xl"})
        await decide(host, pause, answer)
        check_idle(await host.ended(run_id))  # the next attempt has the same limit


async def test_by_default_a_run_may_be_silent_until_its_deadline(tmp_path: Path) -> None:
    async with within(), Latch(tmp_path) as latch, stage(tmp_path / "d") as host:
        run_id = await host.start([["gate", latch.path], ["say", "done"]], **PLACE)
        await latch.reached()
        await as_long_as_an_idle_run_lasts(host)
        latch.open()
        assert (await host.ended(run_id)).said == ["done"]


def test_the_time_is_validated_and_kept_with_the_agent(tmp_path: Path) -> None:
    for wrong in (0, -1, "soon"):
        with pytest.raises(InvalidArgumentError, match="idle_timeout"):
            convert({"name": "a", "runner": "plugin:a/b/c", "idle_timeout": wrong}, AgentSpec, "a")
    spec = convert({"name": "a", "runner": "plugin:a/b/c"}, AgentSpec, "a")
    assert (spec.idle_timeout, spec.allow_questions) == (None, True)
