"""Use over time, the audit log with filters, its verification, and what holds, over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.storage.stores import agents, usage_series, verification
from support.http_host import OTHER, Served, serving

DAY = 86_400


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def test_a_report_has_totals_steps_and_groups(served: Served) -> None:
    await served.say("say 1")
    await served.say("fail")
    found = (await served.client.get("/v1/usage/series")).json()
    assert (found["step"], found["by"], found["complete"]) == (DAY, "agent", True)
    (group,) = found["groups"]
    assert (group["name"], group["title"]) == ("puppet", None)
    assert (group["total"]["runs"], group["total"]["completed"], group["total"]["failed"]) == (2, 1, 1)
    assert group["total"]["calls"] is None
    assert 0 <= group["total"]["p50"] <= group["total"]["p95"] < 60
    assert group["total"] == found["total"]
    assert group["points"] == found["points"]
    assert all(point["at"] % DAY == 0 for point in found["points"])
    hours = (await served.client.get("/v1/usage/series", params={"since": time.time() - DAY})).json()
    assert (hours["step"], hours["total"]["runs"]) == (3600, 2)
    nothing = (await served.client.get("/v1/usage/series", params={"agent": "none"})).json()
    assert (nothing["groups"], nothing["total"]["runs"], nothing["total"]["p50"]) == ([], 0, None)


async def test_periods_that_cannot_be_are_refused(served: Served) -> None:
    for query, told in (
        ({"since": 20, "until": 10}, "since must be before until"),
        ({"since": 0, "step": "hour"}, "more than 800 steps of a hour"),
        ({"by": "moon"}, "by"),
        ({"most": 0}, "most"),
    ):
        answer = await served.client.get("/v1/usage/series", params=query)  # type: ignore[arg-type]
        assert answer.status_code == 400, query
        assert told in answer.text


async def test_workspaces_are_compared_by_the_installations_administrator_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.say("say 1")
    await served.agent(workspace=OTHER)
    assert await served.host.db.read(lambda tx: agents.get(tx, OTHER, "puppet"))
    async with served.as_key(await served.key(OTHER)) as other:
        body = {"event_type": "message.received", "input": {"text": "say 1"}}
        for _ in range(2):
            assert (await other.post("/v1/events", json=body, params={"wait": 30})).status_code == 200
        for query in ({"by": "workspace"}, {"workspace_id": "default"}):
            assert (await other.get("/v1/usage/series", params=query)).status_code == 403
        own = (await other.get("/v1/usage/series", params={"workspace_id": OTHER})).json()
        assert own["total"]["runs"] == 2
    both = (await served.client.get("/v1/usage/series", params={"by": "workspace"})).json()
    assert [(one["name"], one["total"]["runs"]) for one in both["groups"]] == [(OTHER, 2), ("default", 1)]
    first = (await served.client.get("/v1/usage/series", params={"by": "workspace", "most": 1})).json()
    assert [(one["name"], one["total"]["runs"]) for one in first["groups"]] == [(OTHER, 2), (None, 1)]
    theirs = (await served.client.get("/v1/usage/series", params={"workspace_id": OTHER})).json()
    assert theirs["total"]["runs"] == 2
    assert both["complete"]
    monkeypatch.setattr(usage_series, "MAX_COUNTED", 2)  # of all together
    newest = (await served.client.get("/v1/usage/series", params={"by": "workspace"})).json()
    assert not newest["complete"]
    assert newest["counted_since"] > newest["since"]
    assert newest["total"]["runs"] <= 2


async def test_the_log_is_found_by_who_what_and_when(served: Served) -> None:
    keys = []
    for name in ("one", "two"):
        made = await served.client.post("/v1/keys", json={"name": name, "rights": ["runs:read"]})
        keys.append(made.json()["record"]["key_id"])
    await served.client.delete(f"/v1/keys/{keys[0]}")

    async def found(**query: str | float) -> list[tuple[str, str]]:
        answer = await served.client.get("/v1/audit", params=query)
        assert answer.status_code == 200, answer.text
        return [(fact["action"], fact["target"]) for fact in answer.json()["items"]]

    whole = [("key.revoked", keys[0]), ("key.created", keys[1]), ("key.created", keys[0])]
    assert await found(action="key") == whole
    assert await found(action="key.created") == whole[1:]
    assert await found(target=keys[0]) == [whole[0], whole[2]]
    assert await found(target=keys[0], actor="admin", action="key.revoked") == whole[:1]
    assert await found(action="key", outcome="refused") == []
    assert await found(action="key", since=time.time() + 60) == []
    assert await found(action="key", until=time.time() + 60) == whole
    first = (await served.client.get("/v1/audit", params={"action": "key", "limit": 2})).json()
    assert first["has_more"]
    rest = {"action": "key", "limit": 2, "cursor": first["next_cursor"]}
    assert len((await served.client.get("/v1/audit", params=rest)).json()["items"]) == 1
    other = {**rest, "action": "key.created"}
    assert (await served.client.get("/v1/audit", params=other)).status_code == 400  # another list's cursor


async def test_chains_are_verified_and_a_change_is_found(served: Served) -> None:
    await served.say("say 1")
    good = (await served.client.get("/v1/audit/verification")).json()
    assert good["ok"]
    assert {(one["workspace"], one["chain"]) for one in good["chains"]} >= {("default", "events")}
    assert (good["anchor_file"], good["problem"]) == (False, None)
    async with served.as_key(await served.key(OTHER)) as other:
        theirs = (await other.get("/v1/audit/verification")).json()
        assert theirs["ok"]
        assert {one["workspace"] for one in theirs["chains"]} <= {OTHER}
    async with served.as_key(await served.key("default", "audit:read")) as reader:
        assert (await reader.get("/v1/audit/verification")).status_code == 403
    await served.host.audit_heads.try_note()
    heads = served.host.settings.data_dir / "audit-heads.json"
    text = heads.read_text("utf-8")
    head = next(one["head"] for one in good["chains"] if one["chain"] == "events")
    assert head in text
    heads.write_text(text.replace(head, "0" * len(head)), "utf-8")
    bad = (await served.client.get("/v1/audit/verification")).json()
    assert not bad["ok"]
    assert any("differs" in (one["broken"] or "") for one in bad["chains"])
    heads.write_text("nonsense", "utf-8")
    unread = (await served.client.get("/v1/audit/verification")).json()
    assert (unread["ok"], "holds no heads" in unread["problem"]) == (False, True)


async def test_one_verification_runs_at_a_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    await served.say("say 1")
    begun, go_on = asyncio.Event(), asyncio.Event()
    walk = verification._walk

    async def slow(*given: object) -> object:
        begun.set()
        await go_on.wait()
        return await walk(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "_walk", slow)
    first = asyncio.create_task(served.client.get("/v1/audit/verification"))
    await begun.wait()
    assert (await served.client.get("/v1/audit/verification")).status_code == 409
    go_on.set()
    assert (await first).json()["ok"]


async def test_what_holds_is_told_to_the_installations_administrator(served: Served) -> None:
    found = (await served.client.get("/v1/doctor")).json()["items"]
    by = {one["what"]: one for one in found}
    assert by["python"]["verdict"] == "ok"
    assert by["data directory"]["text"] == str(served.host.settings.data_dir)
    assert by["plugin"]["text"] == "test/puppet is ready"
    assert {one["verdict"] for one in found} <= {"ok", "note", "wrong"}
    async with served.as_key(await served.key()) as admin:
        assert (await admin.get("/v1/doctor")).status_code == 403
