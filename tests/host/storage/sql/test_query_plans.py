"""Statements of the hot path and of deletions find their rows by an index, and do not walk a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import (
    conversation_metadata,
    outbox_upkeep,
    pause_retention,
    pauses,
    run_waits,
    transcripts,
)

PRIMARY_KEY = "sqlite_autoindex_states_1 (workspace_id=? AND scope_key=? AND key=?)"
PLANS = {
    "items of an event": (transcripts._q.of_event, "transcripts_by_event"),
    "items of a run": (transcripts._q.of_run, "transcripts_by_run"),
    "notices of a pause": (pause_retention._q.drop_notices, "notices_by_pause"),
    "deliveries of its notices": (pause_retention._q.drop_deliveries, "notices_by_pause"),
    "metadata of a conversation": (conversation_metadata._q.find, PRIMARY_KEY),
    "metadata of a page of them": (conversation_metadata._q.of_page, PRIMARY_KEY),
    "channels with messages": (outbox_upkeep._q.next_unsent_channel, "outbox_unsent (workspace_id=? AND ch"),
    "messages of a channel by status": (
        outbox_upkeep._q.count_unsent,
        "outbox_unsent (workspace_id=? AND channel=? AND status=?)",
    ),
    "channels in which messages wait": (
        outbox_upkeep._q.next_waiting_channel,
        "(workspace_id=? AND channel>?)",
    ),
    "messages that wait": (outbox_upkeep._q.waiting, "outbox_due (workspace_id=? AND channel=?"),
    "messages that wait for too long": (outbox_upkeep._q.overdue, "outbox_due (workspace_id=? AND channel=?"),
    "actions of a run": (outbox_upkeep._q.not_begun_of_run, "outbox_by_run (workspace_id=? AND run_id=?)"),
    "runs that runs wait for": (run_waits._q.children, "runs_by_parent"),
    "which of them wait for people": (pauses._q.waiting_runs, "pauses_by_run (run_id=?)"),
    "whose turn it is": (run_waits._q.queued, "runs_waiting (lane=? AND ordinal<?)"),
    "what people are asked": (run_waits._q.of_people, "pauses_by_run (run_id=?)"),
    "conversations by metadata": (conversation_metadata._q.latest, "states_of_conversations"),
}


@pytest.mark.parametrize(("query", "index"), PLANS.values(), ids=PLANS)
async def test_rows_are_found_by_their_index(tmp_path: Path, query: Query, index: str) -> None:
    path = tmp_path / "facts.db"
    await open_database(path).close()
    values = {"ws": "w", "event_id": "e", "run_id": "r", "pause_id": "p", "limit": 1, "scope_key": "s"}
    values |= {"workspace_id": "w", "channel": "c", "status": "pending", "after": "", "now": 1, "before": 1}
    values |= {"scope_keys": '["s"]', "run_ids": '["r"]'}
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", query.values(values)).fetchall()
    connection.close()
    assert [step for step in plan if index in step[3]], plan
