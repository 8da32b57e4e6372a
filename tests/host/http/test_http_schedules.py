"""Schedules over HTTP: made, changed, paused, asked for, removed; their next and last firings; wrong ones."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.port import Query
from hostler.storage.stores import schedules
from support.http_host import OTHER, WORKSPACE, serving

pytestmark = pytest.mark.gate("schedules")
SCHEDULE: dict[str, Any] = {
    "name": "report",
    "cron": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "agent": "puppet",
    "text": "say 1",
}


async def test_a_schedule_is_made_shown_changed_paused_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        made = await client.post("/v1/schedules", json=SCHEDULE)
        assert made.status_code == 201, made.text
        body = made.json()
        assert (body["status"], body["firings"], body["error"], body["run_id"]) == ("active", 0, None, None)
        assert body["spec"]["misfire"] == "once"
        assert body["next_at"] == body["next_planned"] > body["created_at"]
        again = await client.post("/v1/schedules", json=SCHEDULE)
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
        upcoming = (await client.get("/v1/schedules/report/next")).json()["items"]
        assert len(upcoming) == 10
        assert upcoming[0]["planned_at"] == body["next_planned"]
        gaps = {round((b["planned_at"] - a["planned_at"]) / 3600) for a, b in itertools.pairwise(upcoming)}
        assert gaps <= {23, 24, 25}
        changed = await client.put(
            "/v1/schedules/report", json={**SCHEDULE, "cron": "0 3 * * *", "jitter": 60}
        )
        assert changed.status_code == 200, changed.text
        assert changed.json()["schedule_id"] == body["schedule_id"]
        assert changed.json()["next_planned"] != body["next_planned"]
        paused = (await client.post("/v1/schedules/report/pause")).json()
        assert (paused["status"], paused["next_at"]) == ("paused", None)
        assert (await client.get("/v1/schedules/report/next")).json()["items"] == []
        resumed = (await client.post("/v1/schedules/report/resume")).json()
        assert (resumed["status"], resumed["paused_by"]) == ("active", None)
        assert [one["name"] for one in (await client.get("/v1/schedules")).json()["items"]] == ["report"]
        assert (await client.delete("/v1/schedules/report")).status_code == 204
        assert (await client.get("/v1/schedules/report")).status_code == 404
        actions = [one["action"] for one in (await client.get("/v1/audit")).json()["items"]]
        assert [one for one in actions if one.startswith("schedule.")] == [
            *(
                "schedule.removed",
                "schedule.resumed",
                "schedule.paused",
                "schedule.changed",
                "schedule.added",
            ),
        ]


async def test_one_is_asked_for_and_what_came_of_it_is_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        await client.post("/v1/schedules", json=SCHEDULE)
        key = {"idempotency-key": "once"}
        first = await client.post("/v1/schedules/report/run", headers=key)
        assert first.status_code == 202, first.text
        again = await client.post("/v1/schedules/report/run", headers=key)
        assert again.json()["event_id"] == first.json()["event_id"]
        assert len((await client.get("/v1/schedules/report/firings")).json()["items"]) == 1
        run_id = first.json()["run"]["run_id"]
        record = (await client.get(f"/v1/runs/{run_id}?wait=30")).json()
        assert record["status"] in {"queued", "running", "completed", "claimed"}
        (firing,) = (await client.get("/v1/schedules/report/firings")).json()["items"]
        assert (firing["run_id"], firing["outcome"], firing["asked_by"]) == (run_id, "started", "admin")
        event = (await client.get(f"/v1/events/{firing['event_id']}")).json()
        assert event["event_type"] == "schedule.triggered"
        assert event["envelope"]["data"]["schedule"]["asked"] is True


async def test_asking_again_after_the_host_died_before_its_answer_is_the_same_firing(tmp_path: Path) -> None:
    """The event is stored, and the key of the request has no answer."""
    unanswered = Query("test", *["DELETE FROM idempotency"] * 2)
    async with serving(tmp_path) as served:
        client = served.client
        await client.post("/v1/schedules", json=SCHEDULE)
        key = {"idempotency-key": "once"}
        first = (await client.post("/v1/schedules/report/run", headers=key)).json()
        await served.host.db.write(lambda tx: tx.run(unanswered))
        again = await client.post("/v1/schedules/report/run", headers=key)
        assert again.status_code == 202, again.text
        assert (again.json()["event_id"], again.json()["duplicate"]) == (first["event_id"], True)
        assert again.json()["run"]["run_id"] == first["run"]["run_id"]
        assert len((await client.get("/v1/schedules/report/firings")).json()["items"]) == 1
        other = (await client.post("/v1/schedules/report/run", headers={"idempotency-key": "two"})).json()
        assert other["event_id"] != first["event_id"]


async def test_all_schedules_of_a_full_workspace_are_replaced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULES", 2)
    async with serving(tmp_path) as served:
        for names in (("a", "b"), ("c", "d")):
            config = {"schedules": [{**SCHEDULE, "agent": None, "name": name} for name in names]}
            applied = await served.client.post("/v1/config?prune=true", json=config)
            assert applied.status_code == 200, applied.text
        found = (await served.client.get("/v1/schedules")).json()["items"]
        assert [one["name"] for one in found] == ["c", "d"]
        more = await served.client.post("/v1/schedules", json={**SCHEDULE, "agent": None})
        assert (more.status_code, more.json()["code"]) == (409, "conflict")


async def test_resuming_from_now_is_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.client.post("/v1/schedules", json=SCHEDULE)
        resumed = await served.client.post("/v1/schedules/report/resume?from_now=true")
        assert (resumed.status_code, resumed.json()["status"]) == (200, "active")
        wrong = await served.client.post("/v1/schedules/report/resume?from_now=soon")
        assert wrong.status_code == 400


async def test_a_schedule_that_is_due_fires_at_once(tmp_path: Path) -> None:
    """A new one wakes the worker: its first firing does not wait for the next look."""

    async with serving(tmp_path) as served:
        made = await served.client.post(
            "/v1/schedules", json={"name": "tick", "every": 1, "agent": "puppet", "text": "say 1"}
        )
        assert made.status_code == 201, made.text
        async with asyncio.timeout(60):
            while not (await served.client.get("/v1/schedules/tick/firings")).json()["items"]:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"cron": "30 25 * * *"}, "its hour is not valid"),
        ({"timezone": "Europe/Berlim"}, "did you mean 'Europe/Berlin'"),
        ({"agent": "puppett"}, "did you mean 'puppet'"),
        ({"every": 60}, "exactly one of cron, every and at"),
        ({"every": 0.1, "cron": None}, "1"),
        ({"cron": None, "at": "2001-01-01"}, "it would never fire"),
        ({"moon": "full"}, "moon"),
        ({"name": "a/b"}, "is no name"),
        ({"data": {"schedule": 1}}, "the host's own key"),
        ({"misfire": "sometimes"}, "misfire"),
    ],
)
async def test_a_wrong_one_is_refused_and_not_stored(
    tmp_path: Path, fields: dict[str, Any], wrong: str
) -> None:
    async with serving(tmp_path) as served:
        wanted = {name: value for name, value in {**SCHEDULE, **fields}.items() if value is not None}
        refused = await served.client.post("/v1/schedules", json=wanted)
        assert refused.status_code == 400, refused.text
        assert wrong in refused.text
        assert (await served.client.get("/v1/schedules")).json()["items"] == []


async def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        wanted = {**SCHEDULE, "cron": "x", "timezone": "Mars", "agent": "nobody"}
        refused = await served.client.post("/v1/schedules", json=wanted)
        fields = {one["field"] for one in refused.json()["details"]["errors"]}
        assert {"timezone", "agent"} <= fields
        wanted = {"name": "s", "every": 0.5, "agent": "puppet"}
        (only,) = (await served.client.post("/v1/schedules", json=wanted)).json()["details"]["errors"]
        assert only["field"] == "every"


async def test_entries_of_the_configuration_are_the_same_schedules(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        applied = await client.post("/v1/config", json={"schedules": [SCHEDULE]})
        assert applied.status_code == 200, applied.text
        assert (await client.get("/v1/schedules/report")).json()["made_by"] == "admin"
        await client.post("/v1/schedules/report/pause")
        exported = (await client.get("/v1/config")).json()
        assert exported["schedules"][0]["cron"] == "30 2 * * *"
        await client.post("/v1/config", json=exported)
        assert (await client.get("/v1/schedules/report")).json()["status"] == "paused", "as people left it"
        unknown = await client.post("/v1/config", json={"schedules": [{**SCHEDULE, "agent": "nobody"}]})
        assert unknown.status_code == 400
        assert "there is no agent 'nobody'" in unknown.text
        twice = await client.post("/v1/config", json={"schedules": [SCHEDULE, SCHEDULE]})
        assert "is used twice" in twice.text
        await client.post("/v1/schedules/report/resume")
        await client.delete("/v1/agents/puppet")
        problems = (await client.get("/v1/problems")).json()["items"]
        assert [
            (one["kind"], one["name"], one["place"]) for one in problems if one["kind"] == "schedule"
        ] == [("schedule", "report", "agent")]
        unchanged = await client.post("/v1/config", json={"schedules": [SCHEDULE]})
        assert unchanged.status_code == 200, "what is stored unchanged is never refused"
        pruned = await client.post("/v1/config?prune=true", json={})
        assert pruned.status_code == 200, pruned.text
        assert (await client.get("/v1/schedules")).json()["items"] == []


async def test_rights_of_keys_are_asked(tmp_path: Path) -> None:
    """Whoever reads agents reads schedules, whoever changes them changes those, and events ask for theirs."""
    async with serving(tmp_path) as served:
        await served.client.post("/v1/schedules", json=SCHEDULE)
        reader = await served.key(WORKSPACE, "agents:read")
        async with served.as_key(reader) as client:
            assert (await client.get("/v1/schedules/report/next")).status_code == 200
            for method, path in (
                ("DELETE", "/v1/schedules/report"),
                ("POST", "/v1/schedules/report/pause"),
                ("POST", "/v1/schedules/report/run"),
                ("GET", "/v1/schedules/report/firings"),
            ):
                assert (await client.request(method, path)).status_code == 403, path
        async with served.as_key(await served.key(WORKSPACE, "agents:write")) as client:
            for method, path in (("POST", "/v1/schedules"), ("PUT", "/v1/schedules/report")):
                wanted = {**SCHEDULE, "text": "say 2", "conversation_id": "of-others"}
                assert (await client.request(method, path, json=wanted)).status_code == 403, path
        both = await served.key(WORKSPACE, "agents:write", "events:write")
        async with served.as_key(both) as client:
            assert (await client.put("/v1/schedules/report", json=SCHEDULE)).status_code == 200
        async with served.as_key(await served.key(WORKSPACE, "events:write")) as client:
            assert (await client.post("/v1/schedules/report/run")).status_code == 202
        async with served.as_key(await served.key(OTHER, "admin")) as client:
            assert (await client.get("/v1/schedules")).json()["items"] == []
            assert (await client.get("/v1/schedules/report")).status_code == 404
