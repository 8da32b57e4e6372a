"""The doctor names schedules whose last firing went wrong: what failed, when, and what to do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.schedules import Schedule
from hostler.host import schedule_findings as rules
from hostler.host.machine_checks import Finding
from hostler.host.schedule_findings import DAY_MS, ENDED_DAYS, schedule_findings
from hostler.storage.port import Query, Tx
from hostler.storage.stores import schedules
from hostler.storage.stores.schedules import StoredFiring
from support.stepping import Stage, stage, within

WORKSPACE = "default"
GOOD = json.dumps([["say", "done"]])
BAD = json.dumps([["result", "run.failed", {"code": "acme.broken", "error": "no luck"}]])


async def put(host: Stage, name: str, **fields: Any) -> None:
    given: dict[str, Any] = {"every": 86_400.0, "agent": "main", "text": GOOD, "grace": 86_400.0} | fields
    await host.host.db.write(lambda tx: schedules.put(tx, WORKSPACE, Schedule(name=name, **given), "ada"))


async def moved(host: Stage, name: str, what: str) -> None:
    """Change what is stored of a schedule, and let the scheduler look."""
    text = f"UPDATE schedules SET {what} WHERE workspace_id = 'default' AND name = '{name}'"
    await host.host.db.write(lambda tx: tx.run(Query("test", text, text)))
    host.host.scheduler.wake()


async def fired(host: Stage, name: str, count: int, ago: int = 0) -> StoredFiring:
    """Let it be due as of `ago` milliseconds before it was made; wait for the end of what it starts."""
    planned = f"created_at - {ago} + {count}"
    await moved(host, name, f"next_at = {planned}, next_planned = {planned}, anchor = {planned}")

    def look(tx: Tx) -> list[StoredFiring]:
        return schedules.firings(tx, schedules.get(tx, WORKSPACE, name))

    async with within():
        while len(found := await host.host.db.read(look)) < count:
            await asyncio.sleep(0.01)
    if found[0].run_id is not None:
        await host.ended(found[0].run_id)
    return found[0]


async def findings(host: Stage) -> list[Finding]:
    return await host.host.db.read(lambda tx: schedule_findings(tx, WORKSPACE))


async def test_what_failed_last_is_named_until_it_goes_well(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = database_url if database_url.startswith("postgres") else None
    async with within(), stage(tmp_path / "data", database=database) as host:
        await put(host, "report", text=BAD)
        await put(host, "lost", agent="nobody")
        await put(host, "night", misfire="skip", grace=1.0)
        await put(host, "fine")
        failed = await fired(host, "report", 1)
        await fired(host, "lost", 1)
        left_out = await fired(host, "night", 1, ago=5 * DAY_MS // 2)
        await fired(host, "fine", 1)
        assert (left_out.outcome, left_out.left_out) == ("left_out", 3)
        found = {one.text.partition(":")[0]: one for one in await findings(host)}
        assert sorted(found) == ["lost", "night", "report"]
        assert {one.what for one in found.values()} == {"schedule"}
        assert [found[name].verdict for name in ("lost", "night", "report")] == ["wrong", "note", "wrong"]
        text = found["report"].text
        assert "its run of 20" in text
        assert " UTC failed (acme.broken): " in text
        assert f"`hostler runs show {failed.run_id}` says why" in text
        assert "`hostler schedules run report` tries again" in text
        assert "started nothing: not_found: " in found["lost"].text
        assert "'nobody'" in found["lost"].text
        assert "night: 3 missed from 20" in found["night"].text
        assert "`misfire: once`" in found["night"].text

        report = await host.host.doctor.findings()
        assert [one for one in report if one.what == "schedule" and one.text.startswith("report: ")] == [
            found["report"]
        ]
        monkeypatch.setattr(rules, "MAX_NAMED", 2)
        assert [one.text.partition(":")[0] for one in await findings(host)][2].startswith("more than 2 fail")
        monkeypatch.undo()

        # a change and a pause end it
        await put(host, "night", misfire="once", grace=86_400.0)
        await host.host.db.write(lambda tx: schedules.pause(tx, WORKSPACE, "lost", "ada"))
        await put(host, "report", text=GOOD)
        assert await findings(host) == []
        await put(host, "report", text=BAD)
        await fired(host, "report", 2)
        (again,) = await findings(host)
        assert again.text.startswith("report: its run of ")
        stored = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "report"))
        better = json.dumps({**json.loads(stored.text), "text": GOOD})
        await moved(host, "report", f"spec = '{better}'")
        await fired(host, "report", 3)
        assert await findings(host) == [], "a later firing went well"


async def test_one_that_fires_no_more_is_named_for_a_while(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "data") as host:
        await put(host, "once", text=BAD)
        await fired(host, "once", 1)
        await moved(host, "once", "next_at = NULL, next_planned = NULL")
        (found,) = await findings(host)
        assert found.text.startswith("once: its run of ")
        old = f"fired_at = fired_at - {(ENDED_DAYS + 1) * DAY_MS}"
        text = f"UPDATE firings SET {old} WHERE workspace_id = 'default'"
        await host.host.db.write(lambda tx: tx.run(Query("test", text, text)))
        await moved(host, "once", "changed_at = 0")
        assert await findings(host) == []
        await moved(host, "once", "next_at = 4000000000000, next_planned = 4000000000000")
        await moved(host, "once", "run_id = 'made-by-this'")
        (reminder,) = await findings(host)
        assert reminder.what == "reminder", "what still fires is named however long ago it failed"
