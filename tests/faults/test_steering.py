"""Steers at any moment of a run, its end included: each is heard exactly once, in order, by somebody."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler.storage.port import Tx
from hostler.storage.stores import audit, events, journal, runs, steering
from hostler.storage.stores.events import StoredEvent
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import TERMINAL_STATUSES
from support.examples import SOAK
from support.server_process import PLUGINS, HostProcess, config_file
from support.stepping import CALLER, WORKSPACE, stage
from support.wire_client import ask

STEERS = 10_000 if SOAK else 160
CONVERSATIONS = 20 if SOAK else 8
SECONDS = 4_000.0 if SOAK else 200.0
"""Bound of it all; generous, since it only has to end what hangs."""
LISTENER = PLUGINS / "listener"


async def _agents(host: Host, **concurrency: Any) -> None:
    specs = [
        convert(
            {"name": name, "runner": f"plugin:test/listener/{name}", "concurrency": concurrency},
            AgentSpec,
            name,
        )
        for name in ("default", "resumable", "deaf", "reader")
    ]
    await host.apply(ConfigFile(agents=specs), actor="test")


async def _send(host: Host, conversation: str, text: str, agent: str = "default") -> str:
    """Send a message; what it was answered. It is durable by then: another connection sees it."""
    envelope = msgspec.convert(
        {
            "event_id": text.replace(" ", "-"),
            "event_type": "message.received",
            "agent": agent,
            "conversation_id": conversation,
            "input": {"text": text},
        },
        EventEnvelope,
    )
    accepted = await host.orchestrator.accept(envelope, CALLER)
    stored = await _event(host, accepted.event_id)
    assert accepted.run is not None
    if accepted.outcome == "steered":
        assert stored.steering is not None
    return accepted.outcome


async def _event(host: Host, event_id: str) -> StoredEvent:
    found = await host.db.read(lambda tx: events.find(tx, WORKSPACE, event_id))
    assert found is not None
    return found


async def _heard(host: Host, conversation: str) -> list[str]:
    """What the runs of a conversation heard, in the order they took place, once all are over."""

    def look(tx: Tx) -> list[runs.Run]:
        found: list[runs.Run] = []
        before = None
        while page := runs.page(tx, WORKSPACE, conversation_id=conversation, before=before):
            found += page
            before = (page[-1].created_at, page[-1].run_id)
        return found

    while True:
        made = await host.db.read(look)
        if all(one.status in TERMINAL_STATUSES for one in made):
            break
        for one in made:
            if one.status not in TERMINAL_STATUSES:
                await host.runs.wait(WORKSPACE, one.run_id, SECONDS)
    heard: list[str] = []
    for one in sorted(made, key=lambda run_: (run_.started_at or 0, run_.finished_at or 0)):
        assert one.status == "completed", one
        record = await host.runs.record(WORKSPACE, one.run_id)
        assert record.output is not None
        heard += json.loads(record.output.text)
    return heard


async def _check_receipt(host: Host, event_id: str) -> str:
    """What became of a message, as its sender can ask; checked against the journals. How it ended."""
    event = await _event(host, event_id)
    if event.steering is None:
        assert event.run_id is not None
        return "own run"
    receipt = event.steering
    if receipt["status"] == "requeued":
        following = await host.db.read(lambda tx: runs.get(tx, WORKSPACE, receipt["next_run_id"]))
        assert following.event_id == event_id
        assert event.run_id == following.run_id
        await _noted(host, receipt["claimed_by_run_id"], "steering.requeued", event_id)
        return "requeued"
    assert receipt["status"] == "injected", receipt
    assert event.run_id == receipt["claimed_by_run_id"]
    position = await _noted(host, receipt["claimed_by_run_id"], "steering.injected", event_id)
    assert position == receipt["step"]
    return "injected"


async def _noted(host: Host, run_id: str, type_: str, event_id: str) -> int:
    """The position of the one entry of a run's journal that says so."""
    found: list[int] = []
    after = 0
    while True:
        page = await host.db.read(lambda tx, after=after: journal.page(tx, run_id, after))  # type: ignore[misc]
        for entry in page.items:
            after = entry.position
            if entry.type == type_ and json.loads(entry.data)["source_event_id"] == event_id:
                found.append(entry.position)
        if not page.more:
            break
    assert len(found) == 1, (run_id, type_, event_id, found)
    return found[0]


@pytest.mark.timeout(SECONDS + 60)
async def test_steers_at_random_moments_are_each_heard_once_and_in_order(
    tmp_path: Path, database_url: str
) -> None:
    seed = int(os.environ.get("HOSTLER_SEED", "7"))
    database = database_url if database_url.startswith("postgres") else None

    async def customer(host: Host, number: int, outcomes: Counter[str]) -> list[str]:
        chance = random.Random(seed * 1_000 + number)
        sent = []
        for count in range(STEERS // CONVERSATIONS):
            text = f"m {number} {count} {chance.random()}"
            outcomes[await _send(host, f"c{number}", text)] += 1
            sent.append(text)
            await asyncio.sleep(chance.random() ** 3 * 0.04)
        return sent

    # a lease as long as all of it: on a busy machine nothing is lost but what the test takes away
    options: dict[str, Any] = {"plugin": LISTENER, "agent": False, "lease_seconds": SECONDS}
    async with stage(tmp_path / "data", database=database, **options) as made:
        await _agents(made.host)
        outcomes: Counter[str] = Counter()
        customers = [customer(made.host, number, outcomes) for number in range(CONVERSATIONS)]
        sent = await asyncio.gather(*customers)
        ends: Counter[str] = Counter()
        for number, texts in enumerate(sent):
            assert await _heard(made.host, f"c{number}") == texts
        for texts in sent:
            for text in texts:
                ends[await _check_receipt(made.host, text.replace(" ", "-"))] += 1
        print(dict(outcomes), dict(ends))
        assert sum(outcomes.values()) == sum(ends.values()) == STEERS
        assert min(outcomes["steered"], ends["injected"], ends["requeued"]) > STEERS // 100


async def test_a_pulled_message_reads_like_the_input_of_a_run(tmp_path: Path, database_url: str) -> None:
    database = database_url if database_url.startswith("postgres") else None
    latch = tmp_path / "latch"
    picture = {"type": "image_url", "image_url": {"url": "http://pics/cat.png"}}
    given = {
        "event_id": "second",
        "event_type": "message.received",
        "agent": "reader",
        "conversation_id": "c",
        "actor": {"actor_id": "ada"},
        "subject": {"subject_type": "order", "subject_id": "17"},
        "input": {"text": "in euros", "contents": [{"type": "text", "text": "in euros"}, picture]},
    }
    only_contents = given | {"event_id": "third", "actor": None, "subject": None}
    only_contents["input"] = {"contents": [{"type": "text", "text": "please"}]}
    async with stage(tmp_path / "data", database=database, plugin=LISTENER, agent=False) as made:
        await _agents(made.host)
        await _send(made.host, "c", str(latch), "reader")
        for one in (given, only_contents):
            accepted = await made.host.orchestrator.accept(msgspec.convert(one, EventEnvelope), CALLER)
            assert accepted.outcome == "steered"
        latch.touch()
        assert accepted.run is not None
        second, third = (await made.ended(accepted.run.run_id)).told
        assert second == {
            "text": "in euros",
            "words": ["in", "euros"],
            "contents": ["TextElement", "ImageUrlElement"],
            "event": ["second", "message.received"],
            "actor": "ada",
            "conversation": "c",
            "subject": "17",
        }
        assert (third["text"], third["actor"], third["subject"]) == ("please", None, None)


async def test_a_runner_that_never_pulls_leaves_nobody_unanswered(tmp_path: Path, database_url: str) -> None:
    database = database_url if database_url.startswith("postgres") else None
    async with stage(tmp_path / "data", database=database, plugin=LISTENER, agent=False) as made:
        await _agents(made.host)
        sent = [f"to the deaf {number}" for number in range(12)]
        outcomes = [await _send(made.host, "c", text, "deaf") for text in sent]
        assert outcomes.count("steered") > 1
        assert await _heard(made.host, "c") == sent


async def test_what_is_left_is_dropped_where_the_policy_says_so_and_audited(
    tmp_path: Path, database_url: str
) -> None:
    database = database_url if database_url.startswith("postgres") else None
    async with stage(tmp_path / "data", database=database, plugin=LISTENER, agent=False) as made:
        await _agents(made.host, leftover="drop")
        assert await _send(made.host, "c", "hold on") == "started"
        for text in ("first", "second"):
            assert await _send(made.host, "c", text) == "steered"
        first = await _event(made.host, "first")
        assert first.run_id is not None
        await made.cancel(first.run_id)
        await made.ended(first.run_id)
        for text in ("first", "second"):
            event = await _event(made.host, text)
            assert event.steering is not None
            assert event.steering["status"] == "dropped"
            assert "policy" in event.steering["reason"]
        await _noted(made.host, first.run_id, "steering.dropped", "second")
        facts = await made.host.db.read(lambda tx: audit.page(tx, WORKSPACE))
        dropped = [fact.target for fact in facts if fact.action == "steering.dropped"]
        assert sorted(dropped) == ["event:first", "event:second"]


async def test_a_full_run_takes_no_more_and_the_next_message_waits_behind_it(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", plugin=LISTENER, agent=False) as made:
        await _agents(made.host)
        latch = tmp_path / "latch"
        sent = [f"wait {latch}", *(f"steer {number}" for number in range(102))]
        outcomes = [await _send(made.host, "c", text) for text in sent]
        assert outcomes == ["started", *["steered"] * 100, "queued", "queued"]
        latch.touch()
        assert await _heard(made.host, "c") == sent


# -- kill -9 between the claim and the pull -----------------------------------------------------------


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("policy", ["restart", "fail"])
async def test_a_host_killed_between_claim_and_pull_loses_no_message(
    tmp_path: Path, database_url: str, policy: str
) -> None:
    latch = tmp_path / "latch"
    first = f"wait {latch}"
    config = config_file(
        tmp_path / "config.yaml",
        plugins=[LISTENER],
        agents=[
            {
                "name": "default",
                "runner": "plugin:test/listener/default",
                "recovery": {"on_crash": policy},
            }
        ],
    )
    database = database_url if database_url.startswith("postgres") else None
    host = HostProcess(tmp_path / "host", config, database)

    async def post(text: str) -> dict[str, Any]:
        event = {
            "event_id": text.replace(" ", "-").replace("/", "_"),
            "event_type": "message.received",
            "conversation_id": "c",
            "input": {"text": text},
        }
        answer = await ask(host.url, "POST", "/v1/events", event)
        assert answer.status == 202, answer
        accepted: dict[str, Any] = answer.json()
        return accepted

    async def ended(run_id: str) -> dict[str, Any]:
        while True:
            answer = (await ask(host.url, "GET", f"/v1/runs/{run_id}")).json()
            if answer["status"] in TERMINAL_STATUSES:
                found: dict[str, Any] = answer
                return found
            await asyncio.sleep(0.05)

    try:
        await host.start()
        run_id = (await post(first))["run"]["run_id"]
        texts = ["one", "two", "three"]
        answers: list[dict[str, Any]] = []
        while not answers:  # until its plugin is there it is not known whether it can be steered
            status = (await ask(host.url, "GET", f"/v1/runs/{run_id}")).json()["status"]
            assert status in {"claimed", "running"}, host.log
            if status == "running":
                answers = [await post(text) for text in texts]
            await asyncio.sleep(0.02)
        assert [(one["outcome"], one["run"]["run_id"]) for one in answers] == [("steered", run_id)] * 3
        host.kill()
        latch.touch()
        await host.start()
        record = await ended(run_id)
        if policy == "restart":
            assert json.loads(record["output"]["text"]) == [first, *texts]
        else:
            assert record["status_code"] == "host.restarted"
            heard: list[str] = []
            for text in texts:
                event = (await ask(host.url, "GET", f"/v1/events/{text}")).json()
                if event["steering"]["status"] == "requeued":
                    following = await ended(event["steering"]["next_run_id"])
                    heard += json.loads(following["output"]["text"])
            assert heard == texts
        assert await host.stop() == 0
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


async def test_a_message_and_the_end_of_its_run_in_one_commit(database_url: str, tmp_path: Path) -> None:
    """Whichever comes first, the message has a run."""
    database = database_url if database_url.startswith("postgres") else None
    async with stage(tmp_path / "data", database=database, plugin=LISTENER, agent=False) as made:
        await _agents(made.host)
        host = made.host
        for number in range(20):
            conversation = f"c{number}"
            latch = tmp_path / f"latch {number}".replace(" ", "-")
            opening = f"wait {latch}"
            assert await _send(host, conversation, opening) == "started"
            run_id = (await _event(host, opening.replace(" ", "-"))).run_id
            assert run_id is not None
            late = f"late {number}"
            await asyncio.gather(
                made.cancel(run_id), *(_send(host, conversation, f"{late} {n}") for n in range(3))
            )
            await made.ended(run_id)
            left = await host.db.read(lambda tx, run_id=run_id: steering.queued(tx, WORKSPACE, run_id))  # type: ignore[misc]
            assert left == []
