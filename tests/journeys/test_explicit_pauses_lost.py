"""A runner that paused its run itself goes on with its state and the decisions, however often it is lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.pause_actions import Action
from hostler.host.config import ConfigFile
from hostler.storage.stores.audit import page as audit_page
from support.shop import (
    ASK_ALL,
    BOOK,
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
from support.stepping import STEPPER, WORKSPACE, Ended, Stage, Steps
from support.trust import plugin_entry

quick = pytest.mark.usefixtures("quick_again")
PENDING = {
    "tool_name": "shop.send",
    "arguments": {"to": "ada", "text": "hi"},
    "kind": "approval",
    "call_id": "mine",
}
PAUSED: list[Any] = [
    ["say", "before"],
    ["result", "run.paused", {"pending": [PENDING], "state": {"step": 3}}],
    ["silent"],
]
READ = ["call", "state.get", {"scope": "conversation", "key": "n"}]
PRICES = ["call", "tool.call", {"tool_name": "shop.prices", "parameters": {}}]
ASK_SEND = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.send": "required"}}


async def approved(host: Stage, steps: Steps, **fields: Any) -> str:
    """A run that has paused itself and whose calls were approved; its id."""
    run_id = await host.start(steps, **{**PLACE, **fields})
    await parked(host, run_id)
    pause = await waiting(host, run_id)
    assert pause.form == "explicit"
    await decide(host, pause, *[decision(call) for call in pause.calls])
    return run_id


def went_on(ended: Ended) -> None:
    """The run came to its end with the state and the decision that it was given first."""
    assert ended.record.status == "completed", ended.last
    continuation = ended.told["continuation"]
    assert continuation["state"] == {"step": 3}
    (decided,) = continuation["decisions"]
    assert (decided["call_id"], decided["decision"]) == ("mine", "approved")
    made = [entry["data"]["tool_name"] for entry in ended.entries("intent")]
    assert made == ["shop.send"], "once, and without being asked again"


LOST: dict[str, list[Any]] = {
    "at once": [],
    "after deltas": [["deltas", 3]],
    "after a read": [READ],
    "after a log": [["result", "log", {"level": "info", "text": "going on"}]],
    "after a pure tool": [PRICES],
    "after telemetry": [["result", "tool.call.started", {"tool_call_id": "t", "tool_name": "x"}]],
}


POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    "fail": {"on_crash": "fail"},
    "restart": {"on_crash": "restart", "max_attempts": 1},
}
CASES = [(runner, "default", lost) for runner in ("keeper", "both") for lost in LOST]
CASES += [(runner, policy, "at once") for runner in ("keeper", "both") for policy in ("fail", "restart")]


@quick
@pytest.mark.parametrize(("runner", "policy", "lost"), CASES)
async def test_a_runner_that_dies_before_it_did_anything_is_begun_again(
    tmp_path: Path, runner: str, policy: str, lost: str
) -> None:
    first = [*LOST[lost], ["at", 2, [["crash"]]]]
    async with shop(tmp_path) as host:
        await host.agent(runner=runner, resource_policy=ASK_SEND, recovery=POLICIES[policy])
        ended = await host.ended(
            await approved(host, {"1": PAUSED, "else": [*first, SEND, ["show_context"]]})
        )
        went_on(ended)
        assert ended.record.attempt == 3
        assert (await waiting(host, ended.record.run_id, status="resumed")).calls[0].decision == "approved"


@quick
@pytest.mark.parametrize("runner", ["keeper", "both"])
async def test_it_is_begun_again_more_often_than_a_crash_is_recovered_from(
    tmp_path: Path, database_url: str, runner: str
) -> None:
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner=runner, resource_policy=ASK_SEND, recovery={"max_attempts": 2})
        crashes: list[Any] = [["crash", attempt] for attempt in (2, 3, 4)]
        ended = await host.ended(
            await approved(host, {"1": PAUSED, "else": [*crashes, SEND, ["show_context"]]})
        )
        went_on(ended)
        assert ended.record.attempt == 5


async def test_a_host_that_is_stopped_in_order_hands_the_decisions_on(
    tmp_path: Path, database_url: str
) -> None:
    steps: Steps = {"1": PAUSED, "2": [["deltas", 1], ["hold"]], "else": [SEND, ["show_context"]]}
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        run_id = await approved(host, steps)
        await host.seen(run_id, "message.delta")
    async with shop(tmp_path, database=database_url) as host:
        went_on(await host.ended(run_id))


@quick
async def test_what_it_did_before_the_pause_is_no_effect_of_going_on(tmp_path: Path) -> None:
    first: list[Any] = [["call", "state.set", {"scope": "conversation", "key": "n", "value": 1}], *PAUSED]
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        steps: Steps = {"1": first, "else": [["crash", 2], SEND, ["show_context"]]}
        went_on(await host.ended(await approved(host, steps)))


EFFECTS: dict[str, list[Any]] = {
    "a tool": [SEND],
    "a message": [["say", "half"]],
    "a state": [["call", "state.set", {"scope": "conversation", "key": "n", "value": 1}]],
    "a state result": [["result", "state.updated", {"scope": "conversation", "key": "n", "value": 1}]],
}


@pytest.mark.parametrize("effect", EFFECTS)
async def test_once_it_has_had_an_effect_the_policy_rules(tmp_path: Path, effect: str) -> None:
    steps: Steps = {"1": PAUSED, "else": [*EFFECTS[effect], ["crash"]]}
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        ended = await host.ended(await approved(host, steps))
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.crashed")
        assert ended.record.attempt == 2
        assert len(ended.entries("intent")) == (effect == "a tool")


@quick
async def test_a_resumable_runner_goes_on_from_its_journal_after_an_effect(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="both", resource_policy=ASK_SEND)
        steps: Steps = {"1": PAUSED, "else": [["crash", 2], SEND, ["crash", 3], ["show_context"]]}
        ended = await host.ended(await approved(host, steps))
        went_on(ended)
        assert ended.record.attempt == 4


async def test_a_question_put_to_people_meanwhile_is_an_effect(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        await host.agent("killer")
        steps: Steps = {"1": PAUSED, "else": [asking(kind="confirmation", title="Now?"), ["tell"]]}
        run_id = await approved(host, steps)
        while (await waiting(host, run_id)).form != "implicit":
            await asyncio.sleep(0.01)
        await host.start([["crash"]], agent="killer")  # in the same process
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.crashed")


@pytest.mark.parametrize("lost", ["plugin", "host"])
async def test_a_question_of_a_resumable_runner_still_waits(tmp_path: Path, lost: str) -> None:
    question = asking(kind="confirmation", title="Now?")
    steps: Steps = {"1": PAUSED, "else": [question, ["show_context"]]}
    async with shop(tmp_path) as host:
        await host.agent(runner="both", resource_policy=ASK_SEND)
        await host.agent("killer")
        run_id = await approved(host, steps)
        while (asked := await waiting(host, run_id)).form != "implicit":
            await asyncio.sleep(0.01)
        if lost == "plugin":
            await host.ended(await host.start([["crash"]], agent="killer"))  # in the same process
    async with shop(tmp_path) as host:
        assert (await waiting(host, run_id)).id == asked.id
        answer = Action(call_id=asked.calls[0].call_id, type="answer", values={})
        await decide(host, asked, answer)
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.told["continuation"]["state"] == {"step": 3}


async def test_a_question_put_to_people_meanwhile_may_be_repeated_where_the_policy_says_so(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND, recovery={"on_crash": "restart"})
        await host.agent("killer")
        question = asking(kind="confirmation", title="Now?")
        steps: Steps = {"1": PAUSED, "2": [question, ["tell"]], "else": [["show_context"]]}
        run_id = await approved(host, steps)
        while (await waiting(host, run_id)).form != "implicit":
            await asyncio.sleep(0.01)
        await host.start([["crash"]], agent="killer")  # in the same process
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.attempt == 3


@quick
async def test_a_later_pause_of_the_runner_is_begun_again_from_its_own_state(tmp_path: Path) -> None:
    later = {**PENDING, "call_id": "later", "tool_name": "shop.book", "arguments": {"kind": "double"}}
    again = ["result", "run.paused", {"pending": [later], "state": {"step": 4}}]
    steps: Steps = {
        "1": PAUSED,
        "2": [SEND, again, ["silent"]],
        "else": [["crash", 3], BOOK, ["show_context"]],
    }
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_ALL)
        run_id = await approved(host, steps)
        while (pause := await waiting(host, run_id)).segment != 2:
            await asyncio.sleep(0.01)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.told["continuation"]["state"] == {"step": 4}
        made = [entry["data"]["tool_name"] for entry in ended.entries("intent")]
        assert made == ["shop.send", "shop.book"]


@quick
@pytest.mark.parametrize("runner", ["keeper", "both"])
async def test_edits_and_refusals_are_told_again_as_they_were(tmp_path: Path, runner: str) -> None:
    calls = [
        {**PENDING, "call_id": "edited", "editable": True},
        {**PENDING, "call_id": "denied", "arguments": {"to": "bob", "text": "no"}},
    ]
    paused: list[Any] = [["result", "run.paused", {"pending": calls, "state": {"step": 3}}], ["silent"]]
    policy = {**ASK_SEND, "tool_approval": {"shop.send": {"approval": "required", "editable": True}}}
    other = {"to": "ada", "text": "hello"}
    steps: Steps = {
        "1": paused,
        "else": [["crash", 2], ["crash", 3], calling("shop.send", **other), ["show_context"]],
    }
    async with shop(tmp_path) as host:
        await host.agent(runner=runner, resource_policy=policy)
        run_id = await host.start(steps, **PLACE)
        await parked(host, run_id)
        pause = await waiting(host, run_id)
        edited, denied = pause.calls
        await decide(host, pause, decision(edited, edited_args=other, comment="kinder"))
        await decide(host, pause, decision(denied, "deny", comment="not him"))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        told = ended.told["continuation"]["decisions"]
        assert [(one["call_id"], one["decision"], one["comment"]) for one in told] == [
            ("edited", "approved", "kinder"),
            ("denied", "denied", "not him"),
        ]
        assert told[0]["arguments"] == other
        (made,) = ended.entries("intent")
        assert made["data"]["params"]["parameters"] == other


async def test_a_run_that_is_cancelled_between_two_attempts_ends_with_its_pause(
    tmp_path: Path, database_url: str
) -> None:
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        run_id = await approved(host, {"1": PAUSED, "else": [["crash"]]})
        pause = await waiting(host, run_id, status="ready")
        while await releases(host, pause.id) < 2:
            await asyncio.sleep(0.02)
        await host.cancel(run_id)
        assert (await host.ended(run_id)).record.status == "cancelled"
        assert (await waiting(host, run_id, status="cancelled")).calls[0].execution == "none"


async def test_a_run_that_is_cancelled_meanwhile_ends(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        run_id = await approved(host, {"1": PAUSED, "else": [["crash"]]})
        await host.seen(run_id, "attempt.started", 2)
        await host.cancel(run_id)
        assert (await host.ended(run_id)).record.status == "cancelled"


async def test_the_deadline_stands_still_while_nobody_works_on_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ASK_SEND)
        steps: Steps = {"1": PAUSED, "else": [["crash", 2], ["crash", 3], ["show_context"]]}
        ended = await host.ended(await approved(host, steps))
        begun = [entry["at"] / 1000 for entry in ended.entries("context")]
        left = ended.told["runtime"]["deadline_at"] - begun[-1]
        assert begun[-1] - begun[0] > 3, "1 and 2 seconds of back-off"
        assert left > 300 - 2, "of 300 seconds"


# -- a plugin that does not start -----------------------------------------------------------------------


def mended(plugin: Path, code: str) -> None:
    (plugin / "stepper.py").write_text(code)


@pytest.mark.parametrize("form", ["explicit", "implicit"])
async def test_decisions_outlast_a_plugin_that_does_not_start(
    tmp_path: Path, database_url: str, form: str
) -> None:
    plugin = tmp_path / "stepper"
    shutil.copytree(STEPPER, plugin)
    code = (plugin / "stepper.py").read_text()
    last: list[Any] = [SEND, ["show_context"]]
    steps: Steps = {"1": PAUSED if form == "explicit" else last, "else": last}
    async with shop(tmp_path, database=database_url) as host:
        await host.host.apply(ConfigFile(plugins=[plugin_entry(plugin)]), actor="test")
        runner = "keeper" if form == "explicit" else "resumable"
        await host.agent(runner=runner, resource_policy=ASK_SEND)
        await host.agent("killer")
        run_id = await host.start(steps, **PLACE)
        await parked(host, run_id)
        mended(plugin, "raise SystemExit(5)\n")
        await host.ended(await host.start([["crash"]], agent="killer"))
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        while not await releases(host, pause.id):
            await asyncio.sleep(0.02)
        found = await waiting(host, run_id, status="ready")
        assert [call.decision for call in found.calls] == ["approved"]
        mended(plugin, code)
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert len(ended.entries("intent")) == 1


async def releases(host: Stage, pause_id: str) -> int:
    """How often an attempt took the pause and gave it back."""
    facts = await host.host.db.read(lambda tx: audit_page(tx, WORKSPACE))
    return sum(fact.target == pause_id and fact.action == "pause.ready" for fact in facts) - 1
