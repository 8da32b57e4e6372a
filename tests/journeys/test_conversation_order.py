"""The order of a conversation: a message takes its place when a run takes it up, and not before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.historian import Dialogue, historian_host
from support.server_process import HostProcess
from support.wire_client import ask

SECONDS = 240.0
pytestmark = pytest.mark.timeout(SECONDS + 30)


@contextlib.asynccontextmanager
async def talking(tmp_path: Path, database: str | None = None, **agent: Any) -> AsyncIterator[Dialogue]:
    """A conversation with an agent `main`, on a host that is gone afterwards."""
    host = historian_host(tmp_path, database, main=agent, other={"runner": "deaf"})
    try:
        await host.start()
        yield Dialogue(host)
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


async def killed(host: HostProcess) -> None:
    """Kill the host, and start it again."""
    host.kill()
    await host.start()


BETWEEN = pytest.mark.parametrize("between", ["nothing", "a kill"])
QUEUE = {"runner": "deaf", "concurrency": {"on_busy": "queue"}, "recovery": {"on_crash": "restart"}}


@BETWEEN
async def test_a_queued_message_stands_behind_the_answer_it_waited_for(
    tmp_path: Path, database_url: str, between: str
) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, **QUEUE) as talk:
        await talk.say(f"one|gate {gate}")
        await talk.started("one")
        assert (await talk.say("two"))["outcome"] == "queued"
        assert (await talk.say("three"))["outcome"] == "queued"
        assert await talk.history() == ["user: one"]
        assert await talk.waiting() == ["user: two", "user: three"]
        assert await talk.found("two") == 0
        if between == "a kill":
            await killed(talk.host)
            assert await talk.history() == ["user: one"]
            assert await talk.waiting() == ["user: two", "user: three"]
        gate.touch()
        for name in ("one", "two", "three"):
            assert (await talk.ended(talk.runs[name]))["status"] == "completed"
        turns = [
            f"{role}{name}"
            for name in ("one", "two", "three")
            for role in ("user: ", "assistant: answer to ")
        ]
        assert await talk.history() == turns
        assert await talk.waiting() == []
        assert await talk.found("two") == 2
        for number, name in enumerate(("one", "two", "three")):
            assert (await talk.saw(talk.runs[name]))[-1] == turns[: 2 * number]


@BETWEEN
async def test_steers_that_nobody_pulled_stand_behind_the_answer_before_them(
    tmp_path: Path, database_url: str, between: str
) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, recovery={"on_crash": "restart"}) as talk:
        await talk.say(f"one|gate {gate}")
        first = await talk.started("one")
        for name in ("two", "three"):
            assert (await talk.say(name))["outcome"] == "steered"
        assert await talk.waiting() == ["user: two", "user: three"]
        if between == "a kill":
            await killed(talk.host)
        gate.touch()
        await talk.settled("one", "two", "three")
        turns = [
            f"{role}{name}"
            for name in ("one", "two", "three")
            for role in ("user: ", "assistant: answer to ")
        ]
        assert await talk.history() == turns
        assert await talk.waiting() == []
        for number, run_id in enumerate((first, await talk.run_of("two"), await talk.run_of("three"))):
            assert (await talk.saw(run_id))[-1] == turns[: 2 * number]


async def test_a_pulled_message_stands_where_it_was_pulled(tmp_path: Path, database_url: str) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url) as talk:
        await talk.say(f"one|say thinking|gate {gate}|say still thinking|pull|look")
        first = await talk.started("one")
        await talk.say("two")
        assert await talk.waiting() == ["user: two"]
        assert await talk.found("two") == 0
        gate.touch()
        await talk.ended(first)
        assert await talk.history() == [
            "user: one",
            "assistant: thinking",
            "assistant: still thinking",
            "user: two",
            "assistant: answer to one",
        ]
        assert await talk.waiting() == []
        assert await talk.saw(first) == [[], []], "it is no history of its own run"


async def test_what_an_attempt_had_pulled_waits_again_and_stands_once(
    tmp_path: Path, database_url: str
) -> None:
    first_gate, second_gate = tmp_path / "first", tmp_path / "second"
    async with talking(tmp_path, database_url, recovery={"on_crash": "restart"}) as talk:
        await talk.say(f"one|gate {first_gate}|pull 1|die 1|gate {second_gate}")
        first = await talk.started("one")
        await talk.say("two")
        first_gate.touch()
        while len(await talk.saw(first)) < 2:
            await asyncio.sleep(0.02)
        assert await talk.history() == ["user: one"]
        assert await talk.waiting() == ["user: two"]
        second_gate.touch()
        await talk.settled("one", "two")
        turns = ["user: one", "assistant: answer to one", "user: two", "assistant: answer to two"]
        assert await talk.history() == turns
        assert (await talk.saw(await talk.run_of("two")))[-1] == turns[:2]


async def test_a_message_whose_run_never_began_takes_its_place_at_that_end(
    tmp_path: Path, database_url: str
) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, **QUEUE) as talk:
        await talk.say(f"one|gate {gate}|say thinking|gate {gate}")
        await talk.started("one")
        await talk.say("two")
        await talk.say("three")
        cancelled = await ask(talk.host.url, "POST", f"/v1/runs/{talk.runs['two']}/cancel", {})
        assert cancelled.status == 200
        assert await talk.history() == ["user: one", "user: two"]
        assert await talk.waiting() == ["user: three"]
        assert await talk.found("two") == 1
        gate.touch()
        await talk.ended(talk.runs["three"])
        assert await talk.history() == [
            "user: one",
            "user: two",
            "assistant: thinking",
            "assistant: answer to one",
            "user: three",
            "assistant: answer to three",
        ]


@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_a_dropped_steer_takes_its_place_at_the_end_of_the_run(
    tmp_path: Path, database_url: str, end: str
) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, concurrency={"leftover": "drop"}) as talk:
        await talk.say(f"one|gate {gate}" + ("|fail" if end == "failed" else ""))
        await talk.started("one")
        await talk.say("two")
        gate.touch()
        assert (await talk.ended(talk.runs["one"]))["status"] == end
        said = ["user: one", "assistant: answer to one", "user: two"]
        assert await talk.history() == [line for line in said if end == "completed" or "user" in line]
        assert await talk.waiting() == []


async def test_a_delayed_message_stands_where_its_run_began(tmp_path: Path, database_url: str) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, **QUEUE) as talk:
        await talk.say(f"now|gate {gate}")
        await talk.started("now")
        await talk.say("later", delay=0.1)
        assert await talk.waiting() == ["user: later"]
        gate.touch()
        await talk.ended(talk.runs["later"])
        said = ["user: now", "assistant: answer to now", "user: later", "assistant: answer to later"]
        assert await talk.history() == said
        assert (await talk.saw(talk.runs["later"]))[0] == said[:2]


async def test_a_conversation_in_which_nothing_has_begun_is_listed_and_deleted_like_any_other(
    tmp_path: Path, database_url: str
) -> None:
    async with talking(tmp_path, database_url, runner="deaf") as talk:
        await talk.say("later", delay=3600)
        (listed,) = (await talk.get("/v1/conversations"))["items"]
        assert (listed["conversation_id"], listed["latest_content"], listed["latest_role"]) == (
            "c",
            "later",
            "user",
        )
        refused = await ask(talk.host.url, "DELETE", "/v1/conversations/c")
        assert refused.status == 409
        assert await talk.waiting() == ["user: later"]
        await ask(talk.host.url, "POST", f"/v1/runs/{talk.runs['later']}/cancel", {})
        assert await talk.history() == ["user: later"]
        deleted = await ask(talk.host.url, "DELETE", "/v1/conversations/c")
        assert (deleted.status, deleted.json()["deleted"]["transcripts"]) == (200, 1)
        assert await talk.history() == []


async def test_a_message_that_interrupts_stands_behind_what_it_interrupted(
    tmp_path: Path, database_url: str
) -> None:
    async with talking(tmp_path, database_url, concurrency={"on_busy": "interrupt"}) as talk:
        await talk.say(f"one|say thinking|gate {tmp_path / 'never'}")
        await talk.started("one")
        while "assistant: thinking" not in await talk.history():
            await asyncio.sleep(0.02)
        await talk.say("two")
        await talk.settled("one", "two")
        assert await talk.history() == [
            "user: one",
            "assistant: thinking",
            "user: two",
            "assistant: answer to two",
        ]
        assert (await talk.saw(talk.runs["two"]))[0] == ["user: one", "assistant: thinking"]


async def test_messages_of_parallel_runs_stand_as_they_began(tmp_path: Path, database_url: str) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, runner="deaf", concurrency={"on_busy": "parallel"}) as talk:
        await talk.say(f"one|gate {gate}")
        await talk.started("one")
        await talk.say("two")
        await talk.ended(talk.runs["two"])
        gate.touch()
        await talk.ended(talk.runs["one"])
        assert await talk.history() == [
            "user: one",
            "user: two",
            "assistant: answer to two",
            "assistant: answer to one",
        ]


async def test_a_rejected_message_stands_nowhere(tmp_path: Path, database_url: str) -> None:
    gate = tmp_path / "gate"
    async with talking(tmp_path, database_url, concurrency={"on_busy": "reject"}) as talk:
        await talk.say(f"one|gate {gate}")
        first = await talk.started("one")
        assert (await talk.say("two"))["outcome"] == "rejected"
        assert await talk.waiting() == []
        gate.touch()
        await talk.ended(first)
        await talk.say("three")
        await talk.settled("three")
        turns = ["user: one", "assistant: answer to one", "user: three", "assistant: answer to three"]
        assert await talk.history() == turns
        assert (await talk.saw(talk.runs["three"]))[-1] == turns[:2]


@BETWEEN
async def test_a_turn_of_several_messages_stands_behind_the_answer_it_waited_for(
    tmp_path: Path, database_url: str, between: str
) -> None:
    gate = tmp_path / "gate"
    concurrency = {"on_busy": "queue", "debounce": 3.0}
    ada = {"actor": {"actor_id": "ada"}}
    async with talking(tmp_path, database_url, **{**QUEUE, "concurrency": concurrency}) as talk:
        await talk.say(f"one|gate {gate}", **ada)
        await talk.started("one")
        for name in ("two", "three"):
            assert (await talk.say(name, **ada))["outcome"] == "queued"
        assert await talk.history() == ["user: one"]
        assert await talk.waiting() == ["user: two", "user: three"]
        if between == "a kill":
            await killed(talk.host)
            assert await talk.waiting() == ["user: two", "user: three"]
        gate.touch()
        await talk.settled("one", "two", "three")
        history = await talk.history()
        assert history[:4] == ["user: one", "assistant: answer to one", "user: two", "user: three"]
        assert history[4].startswith("assistant: answer to two")
        assert await talk.waiting() == []
        assert (await talk.saw(await talk.run_of("two")))[-1] == history[:2]


@pytest.mark.parametrize("event_type", ["message.received", "webhook.received"])
@pytest.mark.parametrize("policy", ["resume", "restart"])
async def test_every_attempt_of_a_run_sees_the_history_of_its_first(
    tmp_path: Path, database_url: str, event_type: str, policy: str
) -> None:
    gate = tmp_path / "gate"
    runner = "resumable" if policy == "resume" else "deaf"
    recovery = {"on_crash": policy}
    async with talking(tmp_path, database_url, runner=runner, recovery=recovery) as talk:
        other = Dialogue(talk.host, agent="other")
        await other.say("before")
        await other.ended(other.runs["before"])
        await talk.say(f"one|say thinking|gate {gate}|die 1|look", event_type=event_type)
        await talk.started("one")
        await other.say("meanwhile")
        await other.ended(other.runs["meanwhile"])
        gate.touch()
        assert (await talk.ended(talk.runs["one"]))["status"] == "completed"
        saw = await talk.saw(talk.runs["one"])
        assert len(saw) >= 2
        assert all(history == ["user: before", "assistant: answer to before"] for history in saw)


async def test_a_retry_and_a_fork_say_nothing_anew(tmp_path: Path, database_url: str) -> None:
    async with talking(tmp_path, database_url, runner="deaf") as talk:
        await talk.say("one|fail")
        await talk.ended(talk.runs["one"])
        for what in ("retry", "fork"):
            answer = await ask(talk.host.url, "POST", f"/v1/runs/{talk.runs['one']}/{what}", {})
            assert answer.status == 201, answer
            await talk.ended(answer.json()["run_id"])
        assert await talk.history() == ["user: one"]
        assert await talk.waiting() == []
