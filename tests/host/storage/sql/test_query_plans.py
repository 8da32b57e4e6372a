"""Statements of the hot path and of deletions find their rows by an index, and do not walk a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import (
    conversation_metadata,
    events,
    knowledge_documents,
    notices,
    outbox_upkeep,
    pauses,
    run_waits,
    runs,
    transcripts,
)

PRIMARY_KEY = "sqlite_autoindex_states_1 (workspace_id=? AND scope_key=? AND key=?)"
PLANS = {
    "items of an event": (transcripts._q.of_event, "transcripts_by_event"),
    "items of a run": (transcripts._q.of_run, "transcripts_by_run"),
    "items of a run before one": (
        transcripts._q.said_before,
        "transcripts_by_run (workspace_id=? AND run_id=? AND seq<?)",
    ),
    "events of who sent them": (
        events._q.page_requester,
        "events_by_requester (workspace_id=? AND requester=? AND seq<?)",
    ),
    "notices of a run": (notices._q.drop_notices_of_run, "notices_by_run"),
    "deliveries of its notices": (
        notices._q.drop_deliveries_of_run,
        "deliveries_by_notice (workspace_id=? AND notice_id=?)",
    ),
    "old notices": (notices._q.old_notices, "notices_by_created (workspace_id=? AND created_at<?)"),
    "deliveries of old notices": (
        notices._q.old_notices,
        "deliveries_by_notice (workspace_id=? AND notice_id=?)",
    ),
    "old deliveries": (notices._q.old_deliveries, "deliveries_by_created (workspace_id=? AND created_at<?)"),
    "deliveries that wait for too long": (notices._q.overdue, "deliveries_due (next_at<?)"),
    "webhooks with due deliveries": (notices._q.due, "deliveries_of_webhook (workspace_id=? AND webhook>?)"),
    "when the next delivery is due": (notices._q.next_due, "deliveries_due (next_at>?)"),
    "the inbox, without notices of runs": (notices._q.page, "notices_inbox (workspace_id=?)"),
    "the next delivery of a webhook": (
        notices._q.first_due,
        "deliveries_of_webhook (workspace_id=? AND webhook=? AND next_at<?)",
    ),
    "webhooks that want the end of a run": (
        runs._q.move,
        "sqlite_autoindex_settings_1 (workspace_id=? AND kind=?)",
    ),
    "what a run that ends has sent": (runs._q.move, "outbox_by_run (workspace_id=? AND run_id=?)"),
    "documents to index": (knowledge_documents._q.next_work, "knowledge_versions_work (workspace_id>?)"),
    "whether there are any": (knowledge_documents._q.waits, "knowledge_versions_work"),
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
    given = [values.get(name, 1) for name in query.names]
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", given).fetchall()
    connection.close()
    assert [step for step in plan if index in step[3]], plan
