"""Events whose filters could not be evaluated: they wait, are tried again, and fail for all to see."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostler.domain import deferral
from hostler.domain.deferral import MAX_TRIES
from hostler.host.machine import Machine
from hostler.runs.filters import FilterProcesses
from hostler.storage.stores import deferred
from support.http_host import Served, serving
from support.http_runs import ended
from support.stepping import within

HEAVY = "event.data.n.exists(x, event.data.n.exists(y, y + x == -1))"
"""Takes minutes for many numbers, and nothing for none."""
NUMBERS = {"n": list(range(3_000))}
PLACE: dict[str, Any] = {"conversation_id": "c", "data": NUMBERS}


BRIEFLY = Machine(
    open_filters=partial(
        FilterProcesses,
        worker=[
            sys.executable,
            "-c",
            "from hostler.runs import filter_worker as worker; worker.CPU_SECONDS = 0.05; worker.main()",
        ],
    )
)
"""Filters get a tenth of their processor time, each of whose tries would use all of it."""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses between tries."""
    monkeypatch.setattr(deferral, "DELAYS_SECONDS", (0.05,) * len(deferral.DELAYS_SECONDS))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries without end."""
    monkeypatch.setattr(deferral, "DELAYS_SECONDS", (0.2,) * 100_000)


async def event(served: Served, event_id: str, **query: Any) -> dict[str, Any]:
    answer = await served.client.get(f"/v1/events/{event_id}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def metric(served: Served, name: str) -> float:
    text = (await served.client.get("/metrics")).text
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


async def messages(served: Served) -> AsyncIterator[str]:
    answer = await served.client.get("/v1/conversations/c/history")
    for item in answer.json()["items"]:
        yield item["content"]


async def test_an_event_is_routed_once_its_filters_can_be_evaluated(
    tmp_path: Path, database_url: str, patient: None
) -> None:
    """The filter is mended while the event waits for its next try."""
    async with within(), serving(tmp_path, agent=False, database=database_url) as served:
        await served.agent("picky", filters=[HEAVY])
        sent = await served.say("hello", wait=None, event_id="e", **PLACE)
        assert (sent["outcome"], sent["run"]) == ("deferred", None)
        again = await served.say("hello", wait=None, event_id="e", **PLACE)
        assert (again["outcome"], again["duplicate"]) == ("deferred", True)
        listed = (await served.client.get("/v1/events", params={"outcome": "deferred"})).json()["items"]
        assert [one["event_id"] for one in listed] == ["e"]
        assert "0.5 s of processor time" in listed[0]["routing"]["filter_errors"][0]["error"]
        assert await metric(served, "hostler_events_deferred") == 1
        await served.agent("picky", filters=["size(event.data.n) > 0"])
        found = await event(served, "e", wait=60)
        assert found["outcome"] == "started", found
        assert (await ended(served.client, found["run_id"]))["status"] == "completed"
        assert await metric(served, "hostler_events_deferred") == 0
        said = [text async for text in messages(served)]
        assert said.count("hello") == 1


async def test_a_client_that_waits_gets_the_run_of_a_deferred_event(tmp_path: Path, patient: None) -> None:
    async with within(), serving(tmp_path, agent=False, machine=BRIEFLY) as served:
        await served.agent("picky", filters=[HEAVY])
        waits = asyncio.create_task(served.say("hello", wait=60, event_id="e", **PLACE))
        while await served.host.db.read(lambda tx: deferred.count(tx, 1)) == 0:
            await asyncio.sleep(0.01)
        await served.agent("picky", filters=["true"])
        assert (await waits)["status"] == "completed"


@pytest.mark.usefixtures("soon")
async def test_an_event_whose_filters_never_can_be_evaluated_fails_loudly_and_can_be_sent_again(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with within(), serving(tmp_path, agent=False, machine=BRIEFLY, database=database_url) as served:
        await served.agent("picky", filters=[HEAVY])
        body = {"event_type": "message.received", "event_id": "e", "input": {"text": "hello"}, **PLACE}
        answer = await served.client.post("/v1/events", json=body, params={"wait": 60})
        assert answer.status_code == 503, answer.text
        assert "picky" in answer.json()["detail"]
        found = await event(served, "e")
        assert (found["outcome"], found["run_id"]) == ("failed", None)
        assert found["routing"]["tries"] == MAX_TRIES
        assert found["routing"]["filter_errors"][0]["filter"] == HEAVY
        assert await metric(served, "hostler_events_failed_total") == 1
        assert any("e was given to no agent" in record.message for record in caplog.records)
        assert [text async for text in messages(served)] == []
        await served.agent("picky", filters=["true"])
        sent = await served.say("hello", wait=None, event_id="e", **PLACE)
        assert (sent["outcome"], sent["duplicate"]) == ("started", True)
        assert (await event(served, "e"))["run_id"] == sent["run"]["run_id"]


async def test_the_events_after_a_process_that_could_not_start_are_routed(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a host is short of for a moment, memory or processes, costs no event its agent."""
    async with within(), serving(tmp_path, agent=False) as served:
        working, broken = served.host.filters, FilterProcesses(1, worker=[str(tmp_path / "nothing")])
        served.host.event_router._filters = broken
        await served.agent("picky", filters=["event.input.text == 'hello'"])
        await served.agent("other", filters=["event.input.text == 'x'"])
        for number in range(20):
            sent = await served.say("hello", wait=None, event_id=f"e{number}")
            assert sent["outcome"] == "deferred"
        served.host.event_router._filters = working
        for number in range(20):
            found = await event(served, f"e{number}", wait=60)
            assert (found["outcome"], found["routing"]["agent"]) == ("started", "picky"), found


async def test_a_deferred_event_whose_conversation_is_deleted_does_not_wait_for_ever(
    tmp_path: Path, database_url: str, patient: None
) -> None:
    async with within(), serving(tmp_path, agent=False, machine=BRIEFLY, database=database_url) as served:
        await served.agent("picky", filters=[HEAVY])
        await served.say("hello", wait=None, event_id="e", **PLACE)
        assert (await served.client.delete("/v1/conversations/c")).status_code == 200
        found = await event(served, "e", wait=60)
        assert (found["outcome"], found["envelope"]) == ("failed", None)
        assert "was deleted" in found["routing"]["reason"]
        assert await metric(served, "hostler_events_deferred") == 0


async def test_as_many_events_wait_as_may_and_the_next_is_refused(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.runs.admission.MAX_DEFERRED", 1)
    async with within(), serving(tmp_path, agent=False, machine=BRIEFLY) as served:
        await served.agent("picky", filters=[HEAVY])
        assert (await served.say("a", wait=None, event_id="a", **PLACE))["outcome"] == "deferred"
        body = {"event_type": "message.received", "event_id": "b", "input": {"text": "b"}, **PLACE}
        answer = await served.client.post("/v1/events", json=body)
        assert answer.status_code == 503
        assert "too many events wait" in answer.json()["detail"]
        assert (await served.client.get("/v1/events/b")).status_code == 404
