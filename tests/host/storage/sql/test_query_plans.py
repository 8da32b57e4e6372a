"""Statements of the hot path and of deletions find their rows by an index, and do not walk a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import pause_retention, transcripts

PLANS = {
    "items of an event": (transcripts._q.of_event, "transcripts_by_event"),
    "items of a run": (transcripts._q.of_run, "transcripts_by_run"),
    "notices of a pause": (pause_retention._q.drop_notices, "notices_by_pause"),
    "deliveries of its notices": (pause_retention._q.drop_deliveries, "notices_by_pause"),
}


@pytest.mark.parametrize(("query", "index"), PLANS.values(), ids=PLANS)
async def test_rows_are_found_by_their_index(tmp_path: Path, query: Query, index: str) -> None:
    path = tmp_path / "facts.db"
    await open_database(path).close()
    values = {"ws": "w", "event_id": "e", "run_id": "r", "pause_id": "p", "limit": 1}
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", query.values(values)).fetchall()
    connection.close()
    assert [step for step in plan if index in step[3]], plan
