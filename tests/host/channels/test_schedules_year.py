"""A simulated year of schedules: several zones, two hosts that are killed and started again, clocks apart.

What should fire is found by reading a clock minute by minute (support/wall_clock.py), not by the code under
test.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from hostler.domain.schedules import Schedule
from hostler.simulation.entropy import EPOCH
from support import schedule_year
from support.schedule_year import DAY, DAYS, GRACE, entries
from support.wall_clock import Reader

pytestmark = pytest.mark.timeout(600)


def _planned(entry: Schedule, made_at: int, readers: dict[str, Reader]) -> list[int]:
    """The times for which it should fire, found without the code under test."""
    last = int((EPOCH + DAYS * DAY) * 1000)
    if entry.every is not None:
        return list(range(made_at + int(entry.every * 1000), last, int(entry.every * 1000)))
    reader = readers.get(entry.timezone)
    if reader is None:
        begin = datetime.fromtimestamp(EPOCH, UTC).replace(second=0)
        zone = ZoneInfo(entry.timezone)
        reader = readers[entry.timezone] = Reader(zone, begin, begin + timedelta(days=DAYS))
    return [at for at in reader.times(f"0 {entry.cron}") if made_at < at < last]


def _was_up(up: list[list[float]], planned: int) -> bool:
    """Whether a host worked all the time from when a firing was due until it was late."""
    due = planned / 1000 - EPOCH
    return any(since <= due and due + GRACE <= until for since, until in up)


def test_each_time_of_a_year_fires_once(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "support.schedule_year", tmp_path], cwd=Path(__file__).parents[2], check=True
    )
    up = json.loads((tmp_path / schedule_year.UP).read_text())
    facts = sqlite3.connect(tmp_path / schedule_year.FACTS)
    assert len(up) > 20, "at times no host was up"
    readers: dict[str, Reader] = {}
    total = missed = 0
    for entry in entries():
        query = "SELECT schedule_id, created_at FROM schedules WHERE name = ?"
        schedule_id, made_at = facts.execute(query, (entry.name,)).fetchone()
        query = "SELECT event_time FROM events WHERE json_extract(body, '$.data.schedule.id') = ?"
        fired = Counter(int(at) for (at,) in facts.execute(query, (schedule_id,)))
        planned = set() if entry.at is not None else set(_planned(entry, made_at, readers))
        assert [at for at, times in fired.items() if times > 1] == [], entry.name
        assert set(fired) - planned == set(), entry.name
        in_time = {at for at in planned if _was_up(up, at)}
        assert in_time - set(fired) == set(), entry.name
        if entry.misfire == "all":
            assert planned == set(fired), entry.name
        if entry.misfire == "skip":
            assert len(planned - set(fired)) > 5, "some were missed"
        total += len(fired)
        missed += len(planned - set(fired))
    assert total > 6_000
    assert missed > 50, "the policies had something to decide"
    assert facts.execute("SELECT count(*) FROM events").fetchone() == (total,)
    facts.close()
