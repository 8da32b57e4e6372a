"""Waiting for people and clients: held, parked, decided, and going on exactly once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.pause_actions import AlreadyDecidedError
from support.shop import (
    ALLOWED,
    ASK_ALL,
    BOOK,
    PLACE,
    SEND,
    calling,
    decide,
    decision,
    parked,
    person,
    shop,
    waiting,
)
from support.stepping import WORKSPACE, Ended, Steps


def outcomes(ended: Ended) -> list[Any]:
    """What the runner was answered."""
    return [answer["result"] if "result" in answer else answer["error"]["code"] for answer in ended.told]


@pytest.mark.parametrize("hold", [60.0, 0.05], ids=["held", "parked"])
@pytest.mark.parametrize("kind", ["approve", "deny"])
async def test_a_call_waits_for_approval(tmp_path: Path, hold: float, kind: str) -> None:
    async with shop(tmp_path, hold_seconds=hold) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([["deltas", 1, "a"], SEND, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        (call,) = pause.calls
        assert (call.tool, call.args) == ("shop.send", {"to": "ada", "text": "hi"})
        if hold < 1:
            await parked(host, run_id)
            while host.host.dispatcher.active:  # its slot is free
                await asyncio.sleep(0.01)
        await decide(host, pause, decision(call, kind, comment="so be it"))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.attempt == (2 if hold < 1 else 1)
        assert ("run.paused" in ended.types) == (hold < 1)
        assert ended.types.index("interaction.requested") > 0
        (told,) = outcomes(ended)
        assert told == "denied" if kind == "deny" else "ada" in told
        assert (await waiting(host, run_id, status="resumed")).calls[0].decision == (
            "approved" if kind == "approve" else "denied"
        )
        made = [entry["data"] for entry in ended.entries("intent")]
        assert len(made) == (kind == "approve")


async def test_four_parallel_calls_are_decided_one_by_one(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        policy = {
            **ALLOWED,
            "tool_approval": {
                "shop.*": {"approval": "required", "subjects": ["*"], "editable": True, "locked": ["to"]}
            },
        }
        await host.agent(runner="resumable", resource_policy=policy)
        together: list[Any] = [
            "together",
            [calling("shop.send", to="ada", text="one")],
            [calling("shop.send", to="bob", text="two")],
            [calling("shop.send", to="eve", text="three")],
            [calling("shop.choose_seat", rows=12)],
        ]
        run_id = await host.start([together, ["tell"]], **PLACE)
        pause = await waiting(host, run_id, calls=4)
        await parked(host, run_id)
        by_text = {call.args.get("text", "client"): call for call in pause.calls}
        first, second = await person(host, "lin"), await person(host, "max")
        assert await decide(host, pause, decision(by_text["one"]), by=first) == "open"
        edited = {"to": "bob", "text": "two, edited"}
        edit = decision(by_text["two"], edited_args=edited)
        assert await decide(host, pause, edit, by=second) == "open"
        assert await decide(host, pause, decision(by_text["three"], "deny"), by=first) == "open"
        client = decision(by_text["client"], "result", result="12C")
        assert await decide(host, pause, client, by=second) == "ready"
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert sorted(map(str, outcomes(ended))) == sorted(
            [
                "A card to ada is on its way: one",
                "A card to bob is on its way: two, edited",
                "denied",
                "12C",
            ]
        )
        assert len(ended.entries("intent")) == 2
        again = await waiting(host, run_id, status="resumed")
        assert {call.decision for call in again.calls} == {"approved", "denied", "answered"}


async def test_a_decision_that_was_taken_stays(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([SEND, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        with pytest.raises(AlreadyDecidedError):
            await decide(host, pause, decision(pause.calls[0], "deny"))
        assert len(ended.entries("intent")) == 1


async def test_a_question_is_answered_with_a_form(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable")
        ask = {
            "kind": "form",
            "title": "Which seat?",
            "fields": [{"name": "seat", "type": "text", "required": True}],
        }
        run_id = await host.start([["call", "interaction.request", ask], ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        (call,) = pause.calls
        assert (call.kind, call.title) == ("question", "Which seat?")
        await decide(host, pause, decision(call, "answer", values={"seat": "12C"}))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        (answer,) = ended.told
        assert answer["decision"] == "answered"
        assert answer["values"] == {"seat": "12C"}


async def test_a_host_that_restarts_finds_the_pause_as_it_was(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([["say", "first"], BOOK, ["tell"]], **PLACE)
        before = await waiting(host, run_id)
        await parked(host, run_id)
    async with shop(tmp_path) as host:
        after = await waiting(host, run_id)
        assert (after.id, after.revision, after.calls[0].args_hash) == (
            before.id,
            before.revision,
            before.calls[0].args_hash,
        )
        await decide(host, after, decision(after.calls[0]))
        ended = await host.ended(run_id)
    assert ended.record.status == "completed", ended.last
    assert ended.said[0] == "first"
    assert outcomes(ended)[0]["total"] == 120


async def test_a_host_that_stops_while_calls_are_held_parks_the_run(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=60) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([SEND, ["tell"]], **PLACE)
        before = await waiting(host, run_id)
    async with shop(tmp_path, hold_seconds=60) as host:
        record = await host.host.runs.record(WORKSPACE, run_id)
        assert (record.status, record.attempt) == ("paused", 1)
        await decide(host, before, decision(before.calls[0]))
        ended = await host.ended(run_id)
    assert (ended.record.status, ended.record.attempt) == ("completed", 2)
    assert len(ended.entries("intent")) == 1


async def test_a_plugin_that_dies_while_its_call_is_held_waits_on(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=60) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        await host.agent("killer")
        run_id = await host.start([["together", [SEND], [["deltas", 1]]], ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await host.start([["crash"]], agent="killer")  # in the same process
        await parked(host, run_id)
        assert (await waiting(host, run_id)).id == pause.id
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert len(ended.entries("intent")) == 1


async def test_a_runner_that_cannot_go_on_is_held(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="default", resource_policy=ASK_ALL)
        run_id = await host.start([SEND, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.attempt) == ("completed", 1)
        assert "run.paused" not in ended.types


async def test_cancelling_a_run_that_waits_ends_it_and_its_pause(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([SEND, ["tell"]], **PLACE)
        await waiting(host, run_id)
        await parked(host, run_id)
        await host.cancel(run_id)
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.entries("intent")) == ("cancelled", [])
        assert (await waiting(host, run_id, status="cancelled")).calls[0].decision == "cancelled"


async def test_a_second_question_of_a_run_is_a_second_pause(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        steps: Steps = [SEND, ["deltas", 1, "b"], BOOK, ["tell"]]
        run_id = await host.start(steps, **PLACE)
        for segment in (1, 2):
            pause = await waiting(host, run_id)
            assert pause.segment == segment
            await parked(host, run_id)
            await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.attempt == 3
        assert [entry["data"]["tool_name"] for entry in ended.entries("intent")] == [
            "shop.send",
            "shop.book",
        ]


async def test_the_deadline_stands_still_while_the_run_waits(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL, config={"timeout": 300})
        run_id = await host.start([SEND, ["show_context"]], **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        first = (await host.host.runs.record(WORKSPACE, run_id)).deadline_at
        await asyncio.sleep(0.3)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.deadline_at is not None
        assert first is not None
        assert ended.record.deadline_at > first + 0.25


async def test_an_explicit_pause_gives_the_runner_its_state_and_the_decisions(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        pending = {"tool_name": "shop.send", "arguments": {"to": "ada", "text": "hi"}, "kind": "approval"}
        paused = {"pending": [{**pending, "call_id": "mine"}], "state": {"step": 3, "secret": "s3cret"}}
        steps: Steps = {
            "1": [["say", "before"], ["result", "run.paused", paused], ["silent"]],
            "2": [["show_context"], SEND, ["tell"]],
        }
        run_id = await host.start(steps, **PLACE)
        pause = await waiting(host, run_id)
        assert pause.form == "explicit"
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0], comment="fine"))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        context = json.loads(ended.said[1])
        assert context["continuation"]["state"] == {"step": 3, "secret": "s3cret"}
        (decided,) = context["continuation"]["decisions"]
        assert (decided["call_id"], decided["decision"], decided["comment"]) == (
            "mine",
            "approved",
            "fine",
        )
        assert len(ended.entries("intent")) == 1, "what was approved is not asked again"
        shown = [r for r in ended.results if r["type"] == "run.paused"]
        assert "s3cret" not in json.dumps(shown)
        assert [entry["data"]["continuation"] for entry in ended.entries("context")] == [None, None]
        await waiting(host, run_id, status="resumed")


async def test_a_state_that_cannot_be_kept_fails_the_run_and_says_where(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        deep: Any = 1
        for _ in range(100):
            deep = [deep]
        for _ in range(60):
            deep = {"k": deep}
        paused = {
            "pending": [{"tool_name": "shop.nothing", "arguments": {}, "kind": "approval"}],
            "state": 1,
        }
        ended = await host.run([["result", "run.paused", paused], ["silent"]], **PLACE)
        assert ended.record.status_code == "runner.protocol"
        assert "shop.nothing" in ended.last["error"]
