"""What a run's results show of a call that is put to people: `interaction.requested`, at once and whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.pause_values import args_hash
from hostler.domain.pause_views import CallView
from hostler.host.config import ConfigFile
from hostler_protocol.limits import DEFAULT_EXPIRY_SECONDS, MAX_EXPIRY_SECONDS, MIN_EXPIRY_SECONDS
from support.shop import (
    ADMIN,
    ALLOWED,
    ASK_ALL,
    PLACE,
    SEND,
    asking,
    calling,
    decide,
    decision,
    parked,
    shop,
    waiting,
)
from support.stepping import Ended, Stage, Steps, stage, within
from support.trust import plugin_entry

TOOLBOX = Path(__file__).parents[1] / "support" / "plugins" / "toolbox"
HELD = 60.0
"""A hold time that no test of this file waits for."""
TOO_SHORT, TOO_LONG = MIN_EXPIRY_SECONDS - 1, MAX_EXPIRY_SECONDS + 1
APPROVAL = {"tool_name": "shop.send", "arguments": {"to": "ada", "text": "hi"}, "kind": "approval"}


def shown(ended: Ended) -> list[dict[str, Any]]:
    """What `interaction.requested` said, in order."""
    return [result["data"] for result in ended.results if result["type"] == "interaction.requested"]


async def requested(host: Stage, run_id: str) -> dict[str, Any]:
    """The first `interaction.requested` of a run that is not over."""
    await host.seen(run_id, "interaction.requested")
    entries = await host.entries(run_id)
    found: dict[str, Any] = next(
        entry["data"]["data"] for entry in entries if entry["type"] == "interaction.requested"
    )
    return found


async def answered(host: Stage, run_id: str) -> CallView:
    """Answer the question that a run asks; the call as it was shown."""
    pause = await waiting(host, run_id)
    (call,) = pause.calls
    await decide(host, pause, decision(call, "answer", values={"sure": True}))
    return call


# -- questions ------------------------------------------------------------------------------------------

QUESTION: dict[str, Any] = {
    "kind": "confirmation",
    "title": "Leave now?",
    "description": "The train goes in ten minutes.",
    "fields": [{"name": "sure", "type": "boolean", "label": "Sure", "required": True}],
    "actions": [{"name": "go", "label": "Go", "style": "primary"}, {"name": "stay"}],
    "expires_in": 90.0,
    "fallback_text": "Answer yes or no.",
}


@pytest.mark.parametrize("kind", ["confirmation", "form", "choice"])
@pytest.mark.parametrize("fields", [True, False], ids=["fields", "no fields"])
async def test_a_question_is_shown_as_the_runner_asked_it(tmp_path: Path, kind: str, fields: bool) -> None:
    asked = {**QUESTION, "kind": kind}
    if not fields:
        del asked["fields"]
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable")
        run_id = await host.start([asking(**asked), ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        values = {"sure": True} if fields else {}
        await decide(host, pause, decision(pause.calls[0], "answer", values=values))
        ended = await host.ended(run_id)
        (found,) = shown(ended)
        assert {name: found.get(name) for name in asked} == asked
        assert found["call_id"] == pause.calls[0].call_id
        assert found["args_hash"] == pause.calls[0].args_hash
        assert found["arguments"] == {}
        assert found["expires_at"] == pause.calls[0].expires_at
        assert "tool_name" not in found
        view = pause.calls[0]
        assert (view.kind, view.question_kind) == ("question", kind)
        assert (view.description, view.fallback_text) == (asked["description"], asked["fallback_text"])


async def test_a_question_without_an_expiry_shows_when_it_expires(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable")
        run_id = await host.start([asking(kind="confirmation", title="Go?"), ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        found = await requested(host, run_id)
        assert "expires_in" not in found, "the runner gave none"
        assert found["expires_at"] == pause.created_at + DEFAULT_EXPIRY_SECONDS == pause.expires_at
        await decide(host, pause, decision(pause.calls[0], "answer"))
        await host.ended(run_id)


TWICE: dict[str, dict[str, Any]] = {
    "actions": {"actions": [{"name": "go"}, {"name": "stay"}, {"name": "go", "label": "Leave"}]},
    "fields": {"fields": [{"name": "go", "type": "text"}, {"name": "go", "type": "number"}]},
    "options": {"fields": [{"name": "way", "type": "select", "options": ["go", "stay", "go"]}]},
    "options with labels": {
        "fields": [
            {
                "name": "way",
                "type": "multiselect",
                "options": [{"value": "go", "label": "A"}, {"value": "go", "label": "B"}],
            }
        ]
    },
}


@pytest.mark.parametrize("what", TWICE)
async def test_a_question_with_one_name_twice_is_put_to_nobody(tmp_path: Path, what: str) -> None:
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable")
        ended = await host.run([asking(kind="form", title="Which?", **TWICE[what]), ["tell"]], **PLACE)
        (answer,) = ended.told
        assert answer["error"]["code"] == "invalid_argument"
        assert "'go'" in answer["error"]["message"]
        assert shown(ended) == []
        assert (await host.host.pauses.page(ADMIN, run_id=ended.record.run_id)).items == []


async def test_a_runner_s_own_pause_with_one_name_twice_is_put_to_nobody(tmp_path: Path) -> None:
    pending = {"tool_name": "", "arguments": {}, "kind": "question", "title": "Which?"}
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper")
        for schema in (TWICE["fields"]["fields"], TWICE["options"]["fields"]):
            paused = {"pending": [{**pending, "schema": schema}], "state": 1}
            ended = await host.run([["result", "run.paused", paused], ["silent"]])
            assert ended.record.status_code == "runner.protocol"
            assert "'go'" in ended.last["error"]


# -- calls of tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["shop.send", "shop.choose_seat"])
async def test_a_tool_s_arguments_are_shown_at_once(tmp_path: Path, database_url: str, tool: str) -> None:
    client = tool == "shop.choose_seat"
    arguments: dict[str, Any] = {"rows": 12} if client else {"to": "ada", "text": "hi"}
    call = ["call", "tool.call", {"tool_name": tool, "parameters": arguments, "tool_call_id": "call_7"}]
    async with shop(tmp_path, database=database_url, hold_seconds=HELD) as host:
        policy = {"approval": "required", "expires_in": 120}
        await host.agent(
            runner="resumable", resource_policy={**ALLOWED, "tool_approval": {"shop.send": policy}}
        )
        run_id = await host.start([call, ["tell"]], **PLACE)
        found = await requested(host, run_id)
        pause = await waiting(host, run_id)
        assert pause.calls[0].call_id == found["call_id"]
        assert found["kind"] == ("client_tool" if client else "approval")
        assert (found["tool_name"], found["arguments"]) == (tool, arguments)
        assert found["args_hash"] == args_hash(arguments) == pause.calls[0].args_hash
        assert found["tool_call_id"] == "call_7"
        assert found["expires_at"] == pause.created_at + (DEFAULT_EXPIRY_SECONDS if client else 120)
        given = ("result", {"result": "12C"}) if client else ("deny", {})
        await decide(host, pause, decision(pause.calls[0], given[0], **given[1]))
        ended = await host.ended(run_id)
        assert "run.paused" not in ended.types, "the call was held all the time"
        assert shown(ended) == [found]


async def test_a_call_without_arguments_says_so(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        run_id = await host.start([calling("shop.prices"), ["tell"]], **PLACE)
        found = await requested(host, run_id)
        assert (found["arguments"], found["args_hash"]) == ({}, args_hash({}))
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0], "deny"))
        await host.ended(run_id)


async def test_calls_of_a_runner_s_own_pause_are_shown_too(tmp_path: Path, database_url: str) -> None:
    question = {
        "tool_name": "",
        "arguments": {},
        "kind": "question",
        "title": "Sure?",
        "schema": [{"name": "sure", "type": "boolean"}],
    }
    paused = {"pending": [{**APPROVAL, "call_id": "mine"}, question], "state": {"s": 1}, "expires_in": 75}
    steps: Steps = {"1": [["result", "run.paused", paused], ["silent"]], "2": [["say", "done"]]}
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        run_id = await host.start(steps, **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        approve, ask = pause.calls
        await decide(host, pause, decision(approve), decision(ask, "answer", values={"sure": True}))
        ended = await host.ended(run_id)
        assert ended.types[:3] == ["interaction.requested", "interaction.requested", "run.paused"]
        first, second = shown(ended)
        assert (first["call_id"], first["kind"], first["tool_call_id"]) == ("mine", "approval", "mine")
        assert first["arguments"] == APPROVAL["arguments"]
        assert first["args_hash"] == approve.args_hash
        assert first["expires_at"] == second["expires_at"] == pause.created_at + 75
        assert (second["kind"], second["fields"]) == ("form", question["schema"])
        assert [result["sequence"] for result in ended.results] == list(range(1, len(ended.results) + 1))


# -- how long people have -------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [TOO_SHORT, TOO_LONG, 0, -1])
async def test_a_question_that_expires_too_soon_or_too_late_is_refused(
    tmp_path: Path, seconds: float
) -> None:
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable")
        ask = asking(kind="confirmation", title="Go?", expires_in=seconds)
        ended = await host.run([ask, ["tell"]], **PLACE)
        (answer,) = ended.told
        assert answer["error"]["code"] == "invalid_argument"
        assert f"expires_in is {seconds:,g}" in answer["error"]["message"]
        assert "1 minute to 30 days" in answer["error"]["message"]
        assert shown(ended) == []


@pytest.mark.parametrize("seconds", [TOO_SHORT, TOO_LONG])
async def test_a_runner_s_own_pause_that_expires_too_soon_or_too_late_fails(
    tmp_path: Path, seconds: float
) -> None:
    paused = {"pending": [APPROVAL], "state": 1, "expires_in": seconds}
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        ended = await host.run([["result", "run.paused", paused], ["silent"]])
        assert ended.record.status_code == "runner.protocol"
        assert "1 minute to 30 days" in ended.last["error"]


@pytest.mark.parametrize("seconds", [MIN_EXPIRY_SECONDS, MAX_EXPIRY_SECONDS])
async def test_the_shortest_and_the_longest_time_are_kept_as_given(tmp_path: Path, seconds: float) -> None:
    async with shop(tmp_path, hold_seconds=HELD) as host:
        await host.agent(runner="resumable")
        ask = asking(kind="confirmation", title="Go?", expires_in=seconds)
        run_id = await host.start([ask, ["tell"]], **PLACE)
        found = await requested(host, run_id)
        pause = await waiting(host, run_id)
        assert found["expires_at"] == pause.created_at + seconds
        await decide(host, pause, decision(pause.calls[0], "answer"))
        await host.ended(run_id)


async def test_an_invalid_pause_does_not_end_the_run_well(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        for paused in ({"pending": [], "state": 1}, {"pending": [APPROVAL], "expires_in": "soon"}):
            ended = await host.run([["say", "hi"], ["result", "run.paused", paused]])
            assert (ended.record.status, ended.record.status_code) == ("failed", "runner.protocol")
            assert "run.paused" in ended.last["error"]


# -- in doubt -------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def toolbox(tmp_path: Path, database: str) -> AsyncIterator[Stage]:
    """A host whose hold time never ends, with tools that may die."""
    url = database if database.startswith("postgresql:") else None
    async with within(50), stage(tmp_path / "data", database=url, hold_seconds=HELD) as host:
        await host.host.apply(ConfigFile(plugins=[plugin_entry(TOOLBOX)]), actor="test")
        policy = {"tool_approval": {"toolbox.hold": "required"}, "allowed_tool_names": ["toolbox.*"]}
        await host.agent(runner="resumable", resource_policy=policy)
        yield host


DIE = calling("toolbox.die")
HOLD = ["call", "tool.call", {"tool_name": "toolbox.hold", "parameters": {"name": "a"}}]


async def test_a_run_with_a_call_in_doubt_is_paused_at_once(tmp_path: Path, database_url: str) -> None:
    async with toolbox(tmp_path, database_url) as host:
        run_id = await host.start([DIE, ["tell"]], **PLACE)
        pause = await waiting(host, run_id, status="needs_review")
        await parked(host, run_id)
        found = await requested(host, run_id)
        assert (found["kind"], found["tool_name"], found["arguments"]) == ("in_doubt", "toolbox.die", {})
        assert found["expires_at"] is None
        assert "expires_in" not in found
        assert (pause.expires_at, pause.calls[0].expires_at) == (None, None)
        await host.host.pauses.resolve(ADMIN, pause.id, pause.calls[0].call_id, "happened", "it died")
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.told[0]["result"] == "it died"
        assert ended.types.count("run.paused") == 1


async def test_a_call_that_waits_beside_one_in_doubt_waits_on(tmp_path: Path, database_url: str) -> None:
    async with toolbox(tmp_path, database_url) as host:
        together = ["together", [HOLD], [DIE]]
        run_id = await host.start([together, ["tell"]], **PLACE)
        pause = await waiting(host, run_id, status="needs_review", calls=2)
        await parked(host, run_id)
        approval, doubt = sorted(pause.calls, key=lambda call: call.kind)
        assert pause.expires_at is None, "nothing expires while somebody has to find out"
        await host.host.pauses.resolve(ADMIN, pause.id, doubt.call_id, "happened", "so be it")
        again = await waiting(host, run_id)
        assert again.revision == 2
        assert again.expires_at is not None
        await decide(host, again, decision(approval, "deny"))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last


async def test_an_approved_call_that_falls_in_doubt_is_shown_again(tmp_path: Path) -> None:
    async with toolbox(tmp_path, "") as host:
        policy = {"tool_approval": {"toolbox.die": "required"}, "allowed_tool_names": ["toolbox.*"]}
        await host.agent(runner="resumable", resource_policy=policy)
        run_id = await host.start([DIE, ["tell"]], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        await waiting(host, run_id, status="needs_review")
        await parked(host, run_id)
        await host.host.pauses.resolve(ADMIN, pause.id, pause.calls[0].call_id, "happened", 1)
        ended = await host.ended(run_id)
        assert [one["kind"] for one in shown(ended)] == ["approval", "in_doubt"]
        assert len({one["call_id"] for one in shown(ended)}) == 1
        assert shown(ended)[1]["expires_at"] is None


# -- lost on the way ------------------------------------------------------------------------------------


async def test_a_run_that_is_parked_because_its_plugin_died_says_so(
    tmp_path: Path, database_url: str
) -> None:
    async with shop(tmp_path, database=database_url, hold_seconds=HELD) as host:
        await host.agent(runner="resumable", resource_policy=ASK_ALL)
        await host.agent("killer")
        run_id = await host.start([["say", "first"], SEND, ["tell"]], **PLACE)
        watching = asyncio.create_task(host.seen(run_id, "run.paused"))
        pause = await waiting(host, run_id)
        await host.start([["crash"]], agent="killer")  # in the same process
        await parked(host, run_id)
        await watching
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.types.count("run.paused") == len(shown(ended)) == 1
        (paused,) = [r["data"] for r in ended.results if r["type"] == "run.paused"]
        assert [call["call_id"] for call in paused["pending"]] == [pause.calls[0].call_id]
        assert [result["sequence"] for result in ended.results] == list(range(1, len(ended.results) + 1))
