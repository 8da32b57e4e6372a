"""Turns: messages of one person in quick succession are one run, later ones are steers; delayed runs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.lanes import lane_of
from hostler.domain.place import Place
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.runs.orchestrator import Accepted
from hostler.storage.port import Query, Tx
from hostler.storage.stores import agents, events, pauses, runs, transcripts
from hostler.storage.stores import debounce as gathering
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import RunRecord
from support.pauses import call, open_pause, park
from support.server_process import PLUGINS
from support.stepping import CALLER, WORKSPACE, Stage, stage, within

SECONDS = 110.0
LISTENER = PLUGINS / "listener"


async def _agent(
    made: Stage, debounce: float, *, more: dict[str, Any] | None = None, **concurrency: Any
) -> None:
    given = {
        "name": "main",
        "runner": "plugin:test/listener/default",
        "concurrency": {"debounce": debounce, **concurrency},
        **(more or {}),
    }
    await made.host.apply(ConfigFile(agents=[convert(given, AgentSpec, "main")]), actor="test")


async def _say(made: Stage, text: str, who: str = "ada", **more: Any) -> Accepted:
    return await made.send(
        [],
        input={"text": text},
        conversation_id="c",
        actor={"actor_type": "user", "actor_id": who},
        event_id=text.replace(" ", "-").replace("/", "_"),
        **more,
    )


async def _over(made: Stage, accepted: Accepted) -> RunRecord:
    assert accepted.run is not None
    return (await made.ended(accepted.run.run_id)).record


def _url(database_url: str) -> str | None:
    return database_url if database_url.startswith("postgres") else None


async def test_a_burst_of_five_is_one_run_with_all_of_them_in_order(
    tmp_path: Path, database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gathering, "MAX_GATHERED", 5)  # it begins with the fifth, however slow they come
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 60.0)
        texts = [f"part {number}" for number in range(5)]
        answers = [await _say(made, text) for text in texts]
        assert [one.outcome for one in answers] == ["queued"] * 5
        ids = {one.run.run_id for one in answers if one.run is not None}
        assert len(ids) == 1
        ended = await made.ended(ids.pop())
        assert json.loads(ended.said[0]) == ["\n".join(texts)]
        context = ended.entries("context")[0]["data"]
        assert [element["text"] for element in context["input"]["contents"]] == texts
        assert context["event"]["event_id"] == "part-4" == ended.record.event_id
        assert not context["context"]["has_history_before"], "what is its input is not its history too"
        page = await made.host.db.read(lambda tx: transcripts.page(tx, WORKSPACE, conversation_id="c"))
        assert [item.content for item in reversed(page.items)] == [*texts, ended.said[0]]
        for text in texts:
            event = await made.host.db.read(
                lambda tx, text=text: events.find(tx, WORKSPACE, text.replace(" ", "-"))  # type: ignore[misc]
            )
            assert event is not None
            assert event.envelope is not None
            assert (event.envelope.input.text, event.run_id) == (text, ended.record.run_id)
        again = await _say(made, "part 2")
        assert (again.duplicate, again.outcome) == (True, "queued")


async def test_what_comes_after_the_start_is_a_steer(tmp_path: Path, database_url: str) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 0.3)
        latch = tmp_path / "latch"
        first = await _say(made, f"wait {latch}")
        assert first.run is not None
        while (await made.host.runs.record(WORKSPACE, first.run.run_id)).status != "running":
            await asyncio.sleep(0.02)
        late = await _say(made, "one more thing")
        assert (late.outcome, late.run and late.run.run_id) == ("steered", first.run.run_id)
        latch.touch()
        ended = await made.ended(first.run.run_id)
        assert json.loads(ended.said[0]) == [f"wait {latch}", "one more thing"]


async def test_where_actions_are_for_some_a_run_absorbs_nothing_of_others(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        policy = {"resource_policy": {"action_actors": {"member.*": ["user:ada"]}}}
        await _agent(made, 0.0, on_busy="steer", more=policy)
        latch = tmp_path / "latch"
        first = await _say(made, f"wait {latch}")
        assert first.run is not None
        while (await made.host.runs.record(WORKSPACE, first.run.run_id)).status != "running":
            await asyncio.sleep(0.02)
        other = await _say(made, "kick ada", "bob")
        assert other.run is not None
        assert (other.outcome, other.run.run_id != first.run.run_id) == ("queued", True)
        latch.touch()
        assert json.loads((await made.ended(first.run.run_id)).said[0]) == [f"wait {latch}"]
        assert json.loads((await made.ended(other.run.run_id)).said[0]) == ["kick ada"]


async def test_who_began_a_run_steers_it_also_where_actions_are_for_some(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "d", plugin=LISTENER, agent=False) as made:
        policy = {"resource_policy": {"action_actors": {"member.*": ["user:ada"]}}}
        await _agent(made, 0.0, on_busy="steer", more=policy)
        latch = tmp_path / "latch"
        first = await _say(made, f"wait {latch}")
        assert first.run is not None
        while (await made.host.runs.record(WORKSPACE, first.run.run_id)).status != "running":
            await asyncio.sleep(0.02)
        assert (await _say(made, "one more thing")).outcome == "steered"
        latch.touch()


async def test_two_people_are_two_turns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(gathering, "MAX_GATHERED", 2)
    async with within(), stage(tmp_path / "d", plugin=LISTENER, agent=False) as made:
        await _agent(made, 60.0, on_busy="queue")
        answers = [await _say(made, f"{who} {number}", who) for number in range(2) for who in "ab"]
        runs_ = [one.run.run_id for one in answers if one.run is not None]
        assert runs_[0] == runs_[2] != runs_[1] == runs_[3]
        assert json.loads((await made.ended(runs_[0])).said[0])[0] == "a 0\na 1"
        assert json.loads((await made.ended(runs_[1])).said[0])[0] == "b 0\nb 1"


async def test_a_turn_that_is_full_begins(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(gathering, "MAX_GATHERED", 3)
    async with within(), stage(tmp_path / "d", plugin=LISTENER, agent=False) as made:
        await _agent(made, 60.0, on_busy="queue")
        answers = [await _say(made, f"m {number}") for number in range(3)]
        record = await _over(made, answers[0])  # it does not wait a minute
        assert record.output is not None
        assert json.loads(record.output.text)[0] == "m 0\nm 1\nm 2"


async def test_a_turn_too_large_for_one_more_begins_without_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(gathering, "MAX_GATHERED_BYTES", 500)
    async with within(), stage(tmp_path / "d", plugin=LISTENER, agent=False) as made:
        await _agent(made, 60.0, on_busy="queue")
        first = await _say(made, "x" * 100)
        second = await _say(made, "y" * 150)
        assert first.run is not None
        assert second.run is not None
        assert first.run.run_id != second.run.run_id
        assert (await _over(made, first)).status == "completed"


async def test_a_message_joins_one_turn_although_the_clock_was_set_back(
    tmp_path: Path, database_url: str
) -> None:
    """The first of two turns, which was due, would wait again, and be overtaken by the second."""
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 60.0, on_busy="queue")
        latch = tmp_path / "latch"
        busy = await _say(made, f"wait {latch}", "bob")
        assert busy.run is not None
        await _make_due(made, busy)
        while (await made.host.runs.record(WORKSPACE, busy.run.run_id)).status != "running":
            await asyncio.sleep(0.02)
        first = await _say(made, "one")
        await _make_due(made, first)
        second = await _say(made, "two")
        await _change(made, f"not_before = {int(time.time() * 1000) + 3_600_000}", "status = 'queued'")
        third = await _say(made, "three")
        assert first.run is not None
        assert second.run is not None
        assert third.run is not None
        assert first.run.run_id != second.run.run_id == third.run.run_id
        await _change(made, "not_before = 1", f"run_id = '{second.run.run_id}'")
        latch.touch()
        assert json.loads((await made.ended(first.run.run_id)).said[0]) == ["one"]
        assert json.loads((await made.ended(second.run.run_id)).said[0]) == ["two\nthree"]


async def _make_due(made: Stage, accepted: Accepted) -> None:
    assert accepted.run is not None
    await _change(made, "not_before = 1", f"run_id = '{accepted.run.run_id}'")
    made.host.dispatcher.look()


async def _change(made: Stage, what: str, where: str) -> None:
    change = Query("change", *[f"UPDATE runs SET {what} WHERE {where}"] * 2)
    await made.host.db.write(lambda tx: tx.run(change))


async def test_an_event_with_a_delay_begins_later_and_stands_in_nobodys_way(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 0.0)
        envelope = {"event_type": "message.received", "conversation_id": "c"}
        later = await made.host.orchestrator.accept(
            msgspec.convert({**envelope, "input": {"text": "later"}}, EventEnvelope), CALLER, delay=3600
        )
        assert later.outcome == "queued"
        at_once = await _say(made, "at once")
        assert at_once.outcome == "started"
        assert (await _over(made, at_once)).status == "completed"
        assert later.run is not None
        assert later.run.status == "queued"
        elsewhere = {**envelope, "conversation_id": "d", "input": {"text": "soon"}}
        began = time.time()
        other = msgspec.convert(elsewhere, EventEnvelope)
        soon = await made.host.orchestrator.accept(other, CALLER, delay=0.5)
        assert ((await _over(made, soon)).started_at or 0) - began >= 0.49
        waits = await made.host.runs.record(WORKSPACE, later.run.run_id)
        assert waits.status == "queued"


async def test_an_event_with_a_delay_is_no_part_of_a_turn(tmp_path: Path, database_url: str) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 0.3)
        envelope = {"event_type": "message.received", "conversation_id": "c", "input": {"text": "later"}}
        later = await made.host.orchestrator.accept(
            msgspec.convert(envelope, EventEnvelope), CALLER, delay=3600
        )
        first, second = await _say(made, "a"), await _say(made, "b")
        assert first.run is not None
        assert second.run is not None
        assert later.run is not None
        assert first.run.run_id == second.run.run_id != later.run.run_id
        assert (await _over(made, second)).status == "completed"
        waits = await made.host.runs.record(WORKSPACE, later.run.run_id)
        assert (waits.status, waits.event_id) == ("queued", later.event_id)


# -- while a run waits for a person ---------------------------------------------------------------


@pytest.mark.parametrize("on_pause", ["hold", "supersede", "reject"])
async def test_a_message_that_comes_while_a_run_is_paused(
    tmp_path: Path, database_url: str, on_pause: str
) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), plugin=LISTENER, agent=False) as made,
    ):
        await _agent(made, 0.0, on_pause=on_pause)
        await made.host.db.write(_paused)
        sent = await _say(made, "hello again")
        if on_pause == "reject":
            assert (sent.outcome, sent.run) == ("rejected", None)
            return
        assert sent.outcome == "queued"
        if on_pause == "hold":
            assert sent.run is not None
            assert sent.run.status == "queued"
            await made.cancel("asks")  # which is one way a pause ends
        assert (await _over(made, sent)).status == "completed"
        asked = await made.ended("asks")
        assert asked.record.status == "cancelled"
        pause = await made.host.db.read(lambda tx: pauses.get(tx, WORKSPACE, "p1"))
        assert pause.status == ("superseded" if on_pause == "supersede" else "cancelled")


def _paused(tx: Tx) -> None:
    """A run of the conversation that another host began, and that waits for a decision."""
    agent = agents.get(tx, WORKSPACE, "main")
    lane = lane_of(
        workspace_id=WORKSPACE,
        agent_id=agent.agent_id,
        place=Place(conversation_id="c"),
        event_id="e",
    )
    new = NewRun(
        workspace_id=WORKSPACE,
        run_id="asks",
        agent_id=agent.agent_id,
        agent_name="main",
        agent_version=agent.version,
        runner_id=agent.spec.runner,
        conversation_id="c",
        lane=lane,
    )
    runs.open(tx, new, Membership("another host"))
    runs.transition(tx, "asks", 1, "running", cause="taken", actor="another host")
    open_pause(tx, call("k1", "question"), run_id="asks")
    park(tx, "asks")
