"""A server with schedules is killed at random moments and started again: each time is one event, one run."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from itertools import pairwise
from pathlib import Path

import pytest

from hostler.host.data_directory import own_database
from support.command_line import ECHO, CommandLine

pytestmark = pytest.mark.timeout(900)
KILLS = 6
SECONDS = 200.0
ENDED = ("completed", "failed", "cancelled", "timeout")
CONFIG = f"""
plugins: [{{path: {ECHO}, level: trusted}}]
agents:
- name: echo
  runner: plugin:acme/echo/default
  recovery: {{on_crash: restart, max_attempts: 50}}
schedules:
- {{name: all, every: 1, misfire: all, agent: echo, text: each}}
- {{name: once, cron: "* * * * * *", misfire: once, grace: 1, agent: echo, text: some}}
- {{name: lane, every: 1, misfire: all, agent: echo, text: in order, conversation_id: c}}
"""


def test_each_planned_time_is_one_event_and_one_run(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    hostler, chance = CommandLine(tmp_path / "data", work), random.Random("schedules killed")
    config = work / "hostler.yaml"
    config.write_text(CONFIG)
    assert hostler("apply", config).status == 0
    for _ in range(KILLS):
        with hostler.serving() as server:
            wanted = _count(tmp_path) + chance.randint(1, 6)
            until = time.monotonic() + SECONDS
            while _count(tmp_path) < wanted:
                assert time.monotonic() < until, server.log
            server.stop(signal.SIGKILL)
    with hostler.serving() as server:
        for name in ("all", "once", "lane"):
            assert hostler("schedules", "pause", name).status == 0
        until = time.monotonic() + SECONDS
        while _unfinished(tmp_path):
            assert time.monotonic() < until, _unfinished(tmp_path)
            time.sleep(0.1)
        server.stop()
    facts = sqlite3.connect(own_database(tmp_path / "data"))
    rows = facts.execute(
        "SELECT json_extract(body, '$.data.schedule.name'), event_time, events.event_id, events.outcome,"
        " (SELECT count(*) FROM runs WHERE runs.event_id = events.event_id),"
        " (SELECT status FROM runs WHERE runs.event_id = events.event_id) FROM events ORDER BY event_time"
    ).fetchall()
    assert len(rows) > KILLS
    assert {(outcome, runs) for _, _, _, outcome, runs, _ in rows} <= {("started", 1), ("queued", 1)}
    assert {status for *_, status in rows} == {"completed"}
    for name in ("all", "once", "lane"):
        times = [at for one, at, *_ in rows if one == name]
        gaps = {later - earlier for earlier, later in pairwise(times)}
        assert 0 not in gaps, "no planned time is two events"
        assert all(gap % 1000 == 0 for gap in gaps)
        if name != "once":
            assert gaps <= {1000}, "and with `all` none is missing"
    recorded = facts.execute("SELECT firings, (SELECT count(*) FROM firings) FROM schedules").fetchall()
    assert sum(count for count, _ in recorded) >= len(rows)
    facts.close()


def _count(tmp_path: Path) -> int:
    facts = sqlite3.connect(own_database(tmp_path / "data"), timeout=60)
    try:
        found: int = facts.execute("SELECT count(*) FROM events").fetchone()[0]
        return found
    finally:
        facts.close()


def _unfinished(tmp_path: Path) -> list[str]:
    facts = sqlite3.connect(own_database(tmp_path / "data"), timeout=60)
    try:
        marks = ", ".join("?" * len(ENDED))
        query = f"SELECT run_id FROM runs WHERE status NOT IN ({marks}) LIMIT 5"
        return [run_id for (run_id,) in facts.execute(query, ENDED)]
    finally:
        facts.close()
