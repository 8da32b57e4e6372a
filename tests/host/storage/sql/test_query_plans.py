"""Statements of the hot path find their rows by an index, and do not walk a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hostler.storage.sql.connect import open_database
from hostler.storage.stores import transcripts

PLANS = {"of_event": "transcripts_by_event", "of_run": "transcripts_by_run"}


@pytest.mark.parametrize("name", PLANS)
async def test_items_of_an_event_and_of_a_run_are_found_by_their_index(tmp_path: Path, name: str) -> None:
    path = tmp_path / "facts.db"
    await open_database(path).close()
    query = getattr(transcripts._q, name)
    values = {"ws": "w", "event_id": "e", "run_id": "r", "limit": 1}
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", query.values(values)).fetchall()
    connection.close()
    assert [step for step in plan if PLANS[name] in step[3]], plan
