"""Calls that the runner carries out itself (`executor: runner`): people decide, the host executes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import ActRequest, NotApproverError
from hostler.storage.stores import api_keys
from support.shop import ADMIN, PLACE, SEND, decide, decision, parked, shop, waiting
from support.stepping import WORKSPACE, Ended, Stage, Steps

BASH: dict[str, Any] = {
    "tool_name": "Bash",
    "arguments": {"command": "rm -rf build"},
    "kind": "approval",
    "title": "May I run this?",
    "call_id": "mine",
    "executor": "runner",
}
ALLOWED: dict[str, Any] = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.send": "required"}}
CONTEXT = ["show_context"]


def pausing(*pending: dict[str, Any], **more: Any) -> list[Any]:
    return ["result", "run.paused", {"pending": list(pending), "state": {"step": 1}, **more}]


def steps(*pending: dict[str, Any], then: Any = (CONTEXT,)) -> Steps:
    return {"1": [pausing(*pending), ["silent"]], "else": list(then)}


def shown(ended: Ended, type_: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one["data"] for one in ended.results if one["type"] == type_)
    return found


@pytest.mark.parametrize("kind", ["approve", "deny"])
async def test_any_tool_is_put_to_people_and_executed_by_nobody(
    tmp_path: Path, database_url: str, kind: str
) -> None:
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        run_id = await host.start(steps(BASH), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        (call,) = pause.calls
        assert (call.tool, call.args, call.executor) == ("Bash", BASH["arguments"], "runner")
        await decide(host, pause, decision(call, kind, comment="as you like"))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        (told,) = ended.told["continuation"]["decisions"]
        assert told["decision"] == {"approve": "approved", "deny": "denied"}[kind]
        assert (told["call_id"], told["arguments"]) == ("mine", BASH["arguments"])
        asked = shown(ended, "interaction.requested")
        assert (asked["tool_name"], asked["executor"], asked["kind"]) == ("Bash", "runner", "approval")
        (pending,) = shown(ended, "run.paused")["pending"]
        assert pending["executor"] == "runner"
        assert ended.entries("intent") == []
        after = await host.host.pauses.get(ADMIN, pause.id)
        assert (after.status, after.calls[0].execution) == ("resumed", "none")


async def test_a_tool_that_the_host_is_to_execute_is_still_one_of_the_run(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        for executor in ({}, {"executor": "host"}):
            call = {name: value for name, value in BASH.items() if name != "executor"} | executor
            ended = await host.run(steps(call))
            assert (ended.record.status, ended.record.status_code) == ("failed", "runner.protocol")
            assert "executor" in ended.last["error"]


async def test_an_approval_for_the_runner_lets_no_call_of_the_host_through(tmp_path: Path) -> None:
    """Of the same tool with the same arguments: what people saw is that the runner does it."""
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        params = SEND[2]
        own = {**BASH, "tool_name": params["tool_name"], "arguments": params["parameters"]}
        run_id = await host.start(steps(own, then=[SEND, ["tell"]]), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        await asked_by_host(host, run_id)


@pytest.mark.parametrize("executor", ["runner", "host"])
async def test_an_approval_under_the_name_of_another_call_does_not_let_that_through(
    tmp_path: Path, executor: str
) -> None:
    """The name that the host will give a call can be known beforehand; it is no password."""
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        first = await host.start([SEND], conversation_id="c0")
        name = (await waiting(host, first)).calls[0].call_id
        await host.cancel(first)
        harmless = {**BASH, "call_id": name, "executor": executor}
        harmless |= {"tool_name": "shop.prices", "arguments": {}} if executor == "host" else {}
        run_id = await host.start(steps(harmless, then=[SEND, ["tell"]]), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        await asked_by_host(host, run_id)


async def asked_by_host(host: Stage, run_id: str) -> None:
    """The host's own call waits for people, and was not made."""
    while (page := await host.host.pauses.page(ADMIN, run_id=run_id)).items[0].segment == 1:
        await asyncio.sleep(0.01)
    (call,) = page.items[0].calls
    assert (call.tool, call.decision, call.executor) == ("shop.send", "undecided", "host")
    assert [entry for entry in await host.entries(run_id) if entry["kind"] == "intent"] == []
    await host.cancel(run_id)
    await host.ended(run_id)


async def test_the_agents_policy_says_who_decides_and_how_long(tmp_path: Path) -> None:
    policy = {"subjects": ["role:finance"], "expires_in": 600, "editable": True, "locked": ["command"]}
    rules = {"Ba*": policy, "Read": "never", "shop.send": "required"}
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy={**ALLOWED, "tool_approval": rules})
        finn = await finance(host)
        read = {**BASH, "tool_name": "Read", "call_id": "other"}
        run_id = await host.start(steps({**BASH, "editable": True}, read), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        bash, other = pause.calls
        assert (bash.editable, bash.locked, other.editable, other.locked) == (
            True,
            ["command"],
            False,
            [],
        )
        assert bash.expires_at is not None
        assert other.expires_at is not None
        assert bash.expires_at - pause.created_at == pytest.approx(600, abs=1)
        assert other.expires_at - pause.created_at == pytest.approx(1800, abs=1)
        request = ActRequest(revision=1, actions=[decision(bash)])
        with pytest.raises(NotApproverError):
            await host.host.pauses.act(ADMIN, pause.id, request)
        await decide(host, pause, decision(bash), by=finn)
        await decide(host, pause, decision(other))
        ended = await host.ended(run_id)
        decided = [one["decided_by"] for one in ended.told["continuation"]["decisions"]]
        assert decided == ["finn", "admin"]


async def finance(host: Stage) -> Caller:
    rights = {"pauses:write"}
    made = await host.host.db.write(
        lambda tx: api_keys.create(
            tx, WORKSPACE, name="finn", subject="finn", roles=["finance"], rights=rights
        )
    )
    return Caller(WORKSPACE, "finn", made[0].key_id, frozenset({"finance"}), frozenset(rights))


async def test_edited_arguments_are_told_to_the_runner(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        run_id = await host.start(steps({**BASH, "editable": True}), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        edited = {"command": "rm -rf build/tmp"}
        await decide(host, pause, decision(pause.calls[0], edited_args=edited))
        ended = await host.ended(run_id)
        (told,) = ended.told["continuation"]["decisions"]
        assert told["arguments"] == edited


WRONG = {
    "a name of a tool that is too long": {"tool_name": "x" * 256},
    "no name of a tool": {"tool_name": ""},
    "a name of a tool with NUL": {"tool_name": "a\0b"},
    "a call id that is too long": {"call_id": "x" * 256},
    "a call id with NUL": {"call_id": "a\0b"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_cannot_be_kept_or_shown_is_refused(
    tmp_path: Path, database_url: str, wrong: dict[str, Any]
) -> None:
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        ended = await host.run(steps({**BASH, **wrong}))
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.protocol")
        assert next(iter(wrong)) in ended.last["error"]


async def test_it_survives_crashes_like_any_pause_of_a_runner(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        then: list[Any] = [["crash", 2], CONTEXT]
        run_id = await host.start(steps(BASH, then=then), **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert json.dumps(ended.told["continuation"]["state"]) == '{"step": 1}'
