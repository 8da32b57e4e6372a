"""Webhooks are told how runs end: each end once, signed, as the run is stored, and not what was said."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.webhooks import RUN_EVENTS, NoticeEvent, Webhook
from hostler.host.config import ConfigFile
from hostler.storage.stores import notices
from hostler_protocol.runs import RunRecord
from support.budgeted import ASK as ASK_MODEL
from support.budgeted import COST, PLACE, TOKENS, model
from support.databases import TEST_SECONDS
from support.listening import Asked
from support.model_server import ModelServer
from support.receiver import Receiver
from support.stepping import WORKSPACE, Stage, stage, within

pytestmark = pytest.mark.gate("webhook-secrets")

SECRET = "the secret of these tests"
WORDS = "words of nobody's business"
ASK_PEOPLE: list[list[Any]] = [
    ["call", "interaction.request", {"kind": "confirmation", "title": WORDS}],
    ["tell"],
]
FIELDS = (
    "agent",
    "agent_version",
    "event_id",
    "conversation_id",
    "parent_run_id",
    "status",
    "status_code",
    "attempt",
    "created_at",
    "started_at",
    "finished_at",
    "usage",
    "cost",
)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


async def told_at(host: Stage, receiver: Receiver, *events: NoticeEvent, name: str = "hook") -> None:
    """Let a receiver be told of events."""
    webhook = Webhook(
        name=name, url=receiver.url, secret="env:HOOK_SECRET", events=list(events), network=["127.0.0.1"]
    )
    await host.host.apply(ConfigFile(webhooks=[webhook]), actor="test")


async def statuses(host: Stage) -> list[str]:
    """Of all deliveries."""
    return [one.status for one in await host.host.db.read(lambda tx: notices.deliveries(tx, WORKSPACE))]


def event_of(got: Asked) -> tuple[str, str]:
    """The event and the run of a delivery, whose signature is right."""
    signed = got.headers["hostler-timestamp"].encode() + b"." + got.body
    right = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert got.headers["hostler-signature"] == f"v1={right}"
    told = json.loads(got.body)
    assert told["event"] == got.headers["hostler-event"]
    return told["event"], told["run"]["id"]


def is_as_stored(got: Asked, run: RunRecord) -> bool:
    """Whether a delivery tells all of a run that it should, and nothing else."""
    stored = msgspec.to_builtins(run)
    facts = {name: stored.get(name) for name in FIELDS}
    told: dict[str, Any] = json.loads(got.body)["run"]
    return told == {"id": run.run_id, "url": f"/v1/runs/{run.run_id}", **facts}


async def every_end(host: Stage, server: ModelServer) -> dict[str, str]:
    """Let runs end in every way; the event of each."""
    await model(host, server)
    await host.agent(resource_policy={"allowed_agents": ["child"], "allowed_model_ids": ["m"]})
    await host.agent("child")
    await host.agent("crashing", recovery={"on_crash": "fail"})
    await host.agent("slow", config={"timeout": 0.2})
    await host.agent("asking", "resumable")
    child = [
        "call",
        "run.create",
        {"agent": "child", "input": {"text": json.dumps([["say", WORDS]])}, "wait": 30},
    ]
    parent = await host.run([ASK_MODEL, child, ["tell"]], conversation_id="c", **PLACE)
    failed = await host.run([["result", "run.failed", {"code": "runner.error", "error": WORDS}]])
    late = await host.run([["hold"]], agent="slow")
    crashed = await host.run([["crash"]], agent="crashing")
    assert parent.record.cost == COST
    ended = {
        parent.record.run_id: "run.completed",
        parent.told[1]["run_id"]: "run.completed",
        failed.record.run_id: "run.failed",
        late.record.run_id: "run.timeout",
        crashed.record.run_id: "run.failed",
    }
    held = await host.start([["hold"]], conversation_id="busy")
    queued = await host.start([["say", WORDS]], conversation_id="busy")
    asking = await host.start(ASK_PEOPLE, agent="asking", conversation_id="asked")
    await holds(partial(status_of, host, asking), "paused")
    for run_id in (queued, asking, held):
        await host.cancel(run_id, WORDS)
        await host.ended(run_id)
        ended[run_id] = "run.cancelled"
    return ended


async def status_of(host: Stage, run_id: str) -> str:
    return (await host.host.runs.record(WORKSPACE, run_id)).status


async def holds(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Wait until a look shows what is wanted."""
    async with asyncio.timeout(TEST_SECONDS):
        while await look() != wanted:
            await asyncio.sleep(0.01)


async def test_each_end_is_told_once_signed_and_as_the_run_is_stored(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        within(),
        ModelServer() as server,
        Receiver() as receiver,
        stage(tmp_path, database=database_url, hold_seconds=0.05) as host,
    ):
        await told_at(host, receiver, *RUN_EVENTS)
        ended = await every_end(host, server)
        await holds(partial(statuses, host), ["delivered"] * len(ended))
        assert {run: event for event, run in map(event_of, receiver.requests)} == ended
        assert len(receiver.requests) == len(ended)
        for got in receiver.requests:
            assert is_as_stored(got, await host.host.runs.record(WORKSPACE, event_of(got)[1]))
            assert WORDS.encode() not in got.body
        told = [json.loads(got.body)["run"] for got in receiver.requests]
        (child,) = [run for run in told if run["agent"] == "child"]
        (parent,) = [run for run in told if run["id"] == child["parent_run_id"]]
        assert (parent["cost"], parent["usage"]["total_tokens"]) == (COST, TOKENS)
        assert {run["status"] for run in told} == {event.removeprefix("run.") for event in RUN_EVENTS}


async def test_a_receiver_is_told_of_the_ends_that_it_names_and_without_names_of_none(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Receiver() as failures, Receiver() as unnamed:
        await told_at(host, failures, "run.failed", name="failures")
        await told_at(host, unnamed, name="unnamed")
        for steps in ([["say", "x"]], [["result", "run.failed", {"code": "runner.error", "error": "x"}]]):
            ended = await host.run(steps)
        asking = await host.start(ASK_PEOPLE)
        assert json.loads((await unnamed.request()).body)["pause"]["run_id"] == asking
        await host.cancel(asking)
        await holds(partial(statuses, host), ["delivered"] * 3)
        assert [event_of(got) for got in failures.requests] == [("run.failed", ended.record.run_id)]
        assert [json.loads(got.body)["event"] for got in unnamed.requests] == [
            "pause.opened",
            "pause.cancelled",
        ]


async def test_a_receiver_that_was_down_is_told_what_ended_meanwhile(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Receiver() as receiver:
        host.host.webhook_sender._pace = 0.001
        receiver.answers = ["503", "die", "500"]
        await told_at(host, receiver, *RUN_EVENTS)
        ended = [(await host.run([["say", "x"]])).record.run_id for _ in range(3)]
        await holds(partial(statuses, host), ["delivered"] * 3)
        bodies = {got.headers["hostler-delivery"]: got.body for got in receiver.requests}
        assert sorted(json.loads(body)["run"]["id"] for body in bodies.values()) == sorted(ended)
        assert all(got.body == bodies[got.headers["hostler-delivery"]] for got in receiver.requests)
        assert len(receiver.requests) == 6
