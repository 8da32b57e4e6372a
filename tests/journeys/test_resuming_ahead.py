"""Recorded answers that go ahead of their calls, with real processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support import stepping
from support.stepping import Ended, Stage, Steps, stage

PLUGINS = Path(stepping.__file__).with_name("plugins")
PLACE = {"conversation_id": "c1", "actor": {"actor_type": "user", "actor_id": "ada"}}
STATE = {"scope": "conversation", "key": "k", "alone": True}


@asynccontextmanager
async def repeating(tmp_path: Path, *, stall: float = 60.0, **agent: Any) -> AsyncIterator[Stage]:
    repeater = PLUGINS / "repeater"
    async with stage(tmp_path, plugin=repeater, agent=False, stall_seconds=stall) as host:
        spec = {"name": "main", "runner": "plugin:test/repeater/default", "recovery": {"max_attempts": 4}}
        await host.host.apply(convert({"agents": [spec | agent]}, ConfigFile, "t"), actor="test")
        yield host


async def repeated(host: Stage, **work: Any) -> Ended:
    return await host.run([], input={"text": json.dumps(work)}, **PLACE)


def numbers(ended: Ended) -> list[int]:
    """The numbers of the calls in the journal, each of which is there once."""
    return [entry["data"]["nth"] for entry in ended.entries("call", "state.set")]


async def test_a_resumed_run_waits_for_two_answers_only(tmp_path: Path) -> None:
    async with repeating(tmp_path) as host:
        ended = await repeated(host, calls=300, die={"1": 300 - 1})
    assert (ended.record.status, ended.record.attempt) == ("completed", 2)
    assert ended.told["answers"] == list(range(1, 301))
    assert ended.told["requests"] < 20, (
        "the first, the last recorded one and the new one; more on a busy machine"
    )
    assert len(ended.entries("call")) == 300
    assert [entry["data"]["frontier"] for entry in ended.entries("attempt", "resumed")] == [0]


async def test_what_it_did_is_not_done_again_when_it_dies_among_answers_sent_ahead(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    async with repeating(tmp_path) as host:
        ended = await repeated(
            host, calls=60, touches=str(touched), die={"1": 50, "2": 25, "3": 58}, say_every=20
        )
    assert (ended.record.status, ended.record.attempt) == ("completed", 4)
    assert [int(line) for line in touched.read_text().split()] == list(range(0, 60, 3))
    assert ended.told["answers"] == [n if n % 3 == 0 else n - n // 3 for n in range(60)]
    assert ended.told["requests"] < 40


async def test_answers_larger_than_the_window_wait_for_their_calls(tmp_path: Path) -> None:
    async with repeating(tmp_path) as host:
        ended = await repeated(host, calls=12, size=100_000, die={"1": 11})
    assert ended.told["answers"] == list(range(1, 13))
    assert len(numbers(ended)) == 12


async def test_calls_made_at_once_are_answered_as_they_were(tmp_path: Path) -> None:
    async with repeating(tmp_path) as host:
        ended = await repeated(host, calls=30, together=10, die={"1": 20})
    assert (ended.record.status, ended.record.attempt) == ("completed", 2)
    assert sorted(ended.told["answers"][10:13]) == [1, 1, 1]
    assert len(ended.entries("call")) == 32
    assert ended.told["requests"] < 30


async def test_a_runner_that_makes_another_call_goes_another_way(tmp_path: Path) -> None:
    async with repeating(tmp_path, stall=1.0) as host:
        ended = await repeated(host, calls=20, die={"1": 15}, change={"2": 8})
    assert ended.last["code"] == "replay.diverged"
    assert "state.set was not called before" in ended.last["error"]
    assert len(ended.entries("call")) == 15


async def test_a_run_may_start_again_where_it_diverges(tmp_path: Path) -> None:
    async with repeating(tmp_path, recovery={"on_crash": "restart", "max_attempts": 4}) as host:
        ended = await repeated(host, calls=5, die={"1": 3})
    assert (ended.record.status, ended.told["requests"]) == ("completed", 5)


# -- a plugin that says that it takes answers ahead, and does as it likes ---------------------------------


def sets(*values: Any) -> list[Any]:
    return [["call", "state.set", {**STATE, "value": value}] for value in values]


def taken(value: Any) -> list[Any]:
    return ["taken", "state.set", {**STATE, "value": value}]


@asynccontextmanager
async def cheating(tmp_path: Path) -> AsyncIterator[Stage]:
    plugin = tmp_path / "cheat"
    shutil.copytree(PLUGINS / "cheat", plugin)
    shutil.copy(PLUGINS / "stepper" / "stepper.py", plugin)
    async with stage(tmp_path / "data", plugin=plugin, agent=False) as host:
        spec = {"name": "main", "runner": "plugin:test/cheat/resumable"}
        await host.host.apply(convert({"agents": [spec]}, ConfigFile, "t"), actor="test")
        yield host


async def test_calls_that_took_their_answers_are_checked_and_what_follows_is_live(tmp_path: Path) -> None:
    first = [*sets(1, 2, 3, 4), ["crash"]]
    second = [*sets(1), taken(2), taken(3), *sets(4, 5), ["tell"]]
    async with cheating(tmp_path) as host:
        ended = await host.run({"1": first, "2": second}, **PLACE)
    assert [answer["version"] for answer in ended.told] == [1, 4, 5]
    assert [entry["data"]["params"]["value"] for entry in ended.entries("call")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", [3, True, 99])
async def test_an_answer_taken_for_another_call_ends_the_attempt(tmp_path: Path, value: Any) -> None:
    steps: Steps = {"1": [*sets(0, 1, 2, 3), ["crash"]], "2": [*sets(0), taken(value), *sets(4), ["tell"]]}
    async with cheating(tmp_path) as host:
        ended = await host.run(steps, **PLACE)
    assert ended.last["code"] == "replay.diverged"
    assert "with an answer that was sent ahead of another call" in ended.last["error"]
    assert [entry["data"]["params"]["value"] for entry in ended.entries("call")] == [0, 1, 2, 3]


async def test_the_answer_behind_the_last_one_sent_is_nobodys(tmp_path: Path) -> None:
    steps: Steps = {"1": [*sets(0, 1, 2), ["crash"]], "2": [*sets(0), taken(1), taken(2), ["tell"]]}
    async with cheating(tmp_path) as host:
        ended = await host.run(steps, **PLACE)
    assert ended.last["code"] == "replay.diverged"


async def test_a_call_without_an_id_where_nothing_was_sent_ahead_breaks_the_run(tmp_path: Path) -> None:
    async with cheating(tmp_path) as host:
        ended = await host.run([taken(1), *sets(2), ["tell"]], **PLACE)
        assert ended.last["code"] == "runner.protocol"
        assert "state.set came without an id" in ended.last["error"]
        assert ended.entries("call") == []
        again = await host.run([*sets(2), ["tell"]], **PLACE)
        assert [answer["version"] for answer in again.told] == [1], "it was not carried out"
