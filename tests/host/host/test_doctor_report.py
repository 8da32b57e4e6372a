"""What is reported of a running host: what is wrong is said to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain.config_changes import ConfigProblem
from hostler.host import doctor_report, machine_checks
from hostler.host.doctor_report import DoctorReport
from hostler.host.workers import Worker

BROKEN = ConfigProblem(kind="agent", name="lost", problem="its runner is gone", place="runner")
MINOR = ConfigProblem(kind="skill", name="odd", problem="it has no description")
WARNING = ConfigProblem(kind="model", name="m", problem="it has no price", severity="warning")


async def test_problems_and_workers_that_fail_are_wrong(tmp_path: Path) -> None:
    async def problems() -> list[ConfigProblem]:
        return [BROKEN, MINOR, WARNING]

    waits, runs, well = Worker("pauses"), Worker("webhooks"), Worker("leases")
    waits.failures, waits.running = 3, False
    runs.failures, runs.running, well.running = 1, True, True
    report = DoctorReport(tmp_path, lambda: [waits, runs, well], lambda: [], problems)
    found = [(one.what, one.verdict, one.text) for one in await report.findings()]
    told = [one for one in found if one[0] in ("agent", "skill", "model", "worker")]
    assert told == [
        ("worker", "wrong", "pauses failed 3 times and waits to be started again: the log says why"),
        ("worker", "note", "webhooks failed 1 times and runs: the log says why"),
        ("agent", "wrong", "lost: runner: its runner is gone"),
        ("skill", "note", "odd: it has no description"),
        ("model", "note", "m: it has no price"),
    ]


async def test_the_machine_is_looked_at_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, now = 0, 1000.0

    async def look(data_dir: Path) -> list[machine_checks.Finding]:
        nonlocal looks
        looks += 1
        return []

    async def none() -> list[ConfigProblem]:
        return []

    monkeypatch.setattr(doctor_report, "check_sandbox", look)
    monkeypatch.setattr(doctor_report, "monotonic_clock", lambda: now)
    report = DoctorReport(tmp_path, list, list, none)
    for seconds in (0, 30, 31):
        now += seconds
        await report.findings()
    assert looks == 2
