"""Notices of ends of runs, on every database: for webhooks that want them, once, and in no inbox."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.pauses import ROWS_KEPT_SECONDS
from hostler.domain.retention import RetentionPolicy
from hostler.domain.webhooks import Webhook
from hostler.storage.port import Query, Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import notices, pause_retention, retention, run_endings, runs, settings
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.notices import DueWebhook, WebhookDelivery
from hostler_protocol.content import Usage
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus
from support.databases import read, run, write
from support.older_databases import ON_EACH_DATABASE, older_database
from support.run_rows import H1, new

pytestmark = pytest.mark.gate("both-databases")
WS = "w1"
BODIES = Query("t.bodies", *["SELECT workspace_id, pause_id, body FROM notices ORDER BY notice_id"] * 2)
AGED = Query(
    "t.aged",
    "UPDATE notices SET created_at = created_at - ?",
    "UPDATE notices SET created_at = created_at - %(by)s",
    names=("by",),
    values=lambda given: [given["by"]],
)
WAITS = Query(
    "t.waits",
    "UPDATE deliveries SET next_at = ? WHERE webhook = ?",
    "UPDATE deliveries SET next_at = %(since)s WHERE webhook = %(webhook)s",
    names=("since", "webhook"),
    values=lambda given: [given["since"], given["webhook"]],
)
INBOX = Query(
    "t.inbox",
    *[
        "INSERT INTO notices (workspace_id, notice_id, event, pause_id, run_id, body, created_at) "
        f"VALUES ('w2', {of}, 'pause.opened', 'p', 'r', '{{}}', {at})"
        for of, at in (("?", "?"), ("%(notice_id)s", "%(at)s"))
    ],
    names=("notice_id", "at"),
    values=lambda given: [given["notice_id"], given["at"]],
)
DELIVERED = Query(
    "t.delivered", *["UPDATE deliveries SET status = 'delivered', created_at = 0 WHERE webhook = 'hook'"] * 2
)
OLD_ROWS = """
INSERT INTO notices (workspace_id, notice_id, event, pause_id, run_id, conversation_id, body, created_at)
VALUES ('w1', 'n1', 'pause.opened', 'p1', 'r1', NULL, '{"event":"pause.opened"}', 5),
       ('w1', 'n2', 'pause.settled', 'p1', 'r1', 'c', '{"event":"pause.settled"}', 6);
INSERT INTO deliveries (workspace_id, delivery_id, notice_id, webhook, event, status, attempts, next_at,
                        lease_until, created_at)
VALUES ('w1', 'd1', 'n1', 'hook', 'pause.opened', 'delivered', 1, 5, 0, 5),
       ('w1', 'd2', 'n2', 'hook', 'pause.settled', 'pending', 2, 6, 0, 6);
"""


def hook(database: SqlDatabase, *events: str, name: str = "hook", workspace: str = WS) -> None:
    webhook = msgspec.convert(
        {"name": name, "url": "https://a.example", "secret": "env:S", "events": events}, Webhook
    )
    write(database, lambda tx: settings.put(tx, workspace, "webhook", name, msgspec.to_builtins(webhook)))


def begin(database: SqlDatabase, run_id: str, workspace: str = WS, **fields: Any) -> None:
    """Open a run, and let it run."""
    write(database, lambda tx: runs.open(tx, new(run_id, workspace=workspace, **fields), H1))
    write(database, lambda tx: runs.transition(tx, run_id, 1, "running", cause="c", actor="t"))


def end(
    database: SqlDatabase, run_id: str, status: RunStatus, attempt: int | None = None, **more: Any
) -> Any:
    return write(
        database,
        lambda tx: run_endings.finish(tx, run_id, attempt, status, cause="words", actor="t", **more),
    )


def deliveries(database: SqlDatabase, workspace: str = WS) -> list[WebhookDelivery]:
    return read(database, lambda tx: notices.deliveries(tx, workspace))


def bodies(database: SqlDatabase) -> list[dict[str, Any]]:
    return [json.loads(row["body"]) for row in read(database, lambda tx: tx.all(BODIES))]


@pytest.mark.parametrize("status", sorted(TERMINAL_STATUSES))
def test_an_end_is_noted_once_for_who_wants_it(database: SqlDatabase, status: RunStatus) -> None:
    event = f"run.{status}"
    others = [f"run.{other}" for other in TERMINAL_STATUSES if other != status]
    hook(database, event, "pause.opened")
    hook(database, *others, name="others")
    hook(database, name="unnamed")
    begin(database, "r1", conversation_id="c", event_id="e", parent_run_id="r0")
    end(database, "r1", status, status_code="a.code", usage=Usage(input_tokens=3), cost="0.5")
    end(database, "r1", "failed")
    (delivery,) = deliveries(database)
    assert (delivery.webhook, delivery.event, delivery.status) == ("hook", event, "pending")
    run = read(database, lambda tx: runs.get(tx, WS, "r1"))
    assert run.started_at is not None
    assert run.finished_at is not None
    (body,) = bodies(database)
    assert body == {
        "event": event,
        "id": delivery.notice_id,
        "at": run.finished_at / 1000,
        "workspace_id": WS,
        "run": {
            "id": "r1",
            "agent": "echo",
            "agent_version": 1,
            "event_id": "e",
            "conversation_id": "c",
            "parent_run_id": "r0",
            "status": status,
            "status_code": "a.code",
            "attempt": 1,
            "created_at": run.created_at / 1000,
            "started_at": run.started_at / 1000,
            "finished_at": run.finished_at / 1000,
            "usage": {"input_tokens": 3},
            "cost": 0.5,
            "url": "/v1/runs/r1",
        },
    }


def test_nothing_is_noted_where_no_webhook_names_the_end(database: SqlDatabase) -> None:
    hook(database)
    hook(database, "run.completed", name="run.failed", workspace="w2")
    for number, status in enumerate(sorted(TERMINAL_STATUSES)):
        begin(database, f"r{number}")
        end(database, f"r{number}", status)
    assert bodies(database) == []
    begin(database, "r9", workspace="w2")
    end(database, "r9", "completed")
    assert [body["workspace_id"] for body in bodies(database)] == ["w2"]
    assert deliveries(database) == []


def test_a_webhook_that_only_looks_as_if_it_wanted_the_end_has_no_notice(database: SqlDatabase) -> None:
    spec = {"name": "odd", "url": "run.completed", "secret": "env:S", "events": ["pause.opened"]}
    write(database, lambda tx: settings.put(tx, WS, "webhook", "odd", spec))
    begin(database, "r1")
    end(database, "r1", "completed")
    assert bodies(database) == []


def test_an_end_that_is_fenced_is_not_noted(database: SqlDatabase) -> None:
    hook(database, "run.failed", "run.completed")
    begin(database, "r1")
    end(database, "r1", "failed", attempt=7)
    assert bodies(database) == []


def test_ends_of_runs_are_in_no_inbox(database: SqlDatabase) -> None:
    hook(database, "run.completed")
    begin(database, "r1")
    end(database, "r1", "completed")
    assert len(bodies(database)) == 1
    assert read(database, lambda tx: notices.page(tx, WS)) == []


def test_a_deletion_takes_the_notices_of_its_run_alone(database: SqlDatabase) -> None:
    hook(database, "run.completed")
    for run_id in ("r1", "r2"):
        begin(database, run_id)
        end(database, run_id, "completed")
    write(database, lambda tx: pause_retention.drop_of_run(tx, "w2", "r1"))
    assert len(bodies(database)) == 2
    write(database, lambda tx: pause_retention.drop_of_run(tx, WS, "r1"))
    assert [body["run"]["id"] for body in bodies(database)] == ["r2"]
    (delivery,) = deliveries(database)
    assert delivery.notice_id == bodies(database)[0]["id"]


def test_old_notices_go_once_they_are_delivered(database: SqlDatabase) -> None:
    hook(database, "run.completed")
    begin(database, "r1")
    end(database, "r1", "completed")
    write(database, lambda tx: tx.run(AGED, by=ROWS_KEPT_SECONDS * 1000 + 60_000))
    assert write(database, lambda tx: notices.drop_old(tx, WS)) == 0
    write(database, lambda tx: tx.run(DELIVERED))
    assert write(database, lambda tx: notices.drop_old(tx, WS)) == 2, "the delivery, and its notice"
    assert bodies(database) == []


def test_a_collection_takes_the_old_notices_of_every_workspace_in_steps(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other workspaces have an inbox, and no webhooks."""
    monkeypatch.setattr(notices, "STEP_ROWS", 2)
    hook(database, "run.completed")
    for number in range(7):
        begin(database, f"r{number}")
        end(database, f"r{number}", "completed")
        write(database, lambda tx, of=f"n{number}": tx.run(INBOX, notice_id=of, at=tx.now))  # type: ignore[misc]
    begin(database, "of w2", "w2")
    write(database, lambda tx: tx.run(AGED, by=ROWS_KEPT_SECONDS * 1000 + 60_000))
    write(database, lambda tx: tx.run(INBOX, notice_id="new", at=tx.now))
    write(database, lambda tx: tx.run(DELIVERED))
    assert write(database, lambda tx: notices.drop_old(tx, WS)) == 4
    assert (len(deliveries(database)), len(bodies(database))) == (5, 5 + 7 + 1)
    collect(database, tmp_path)
    assert deliveries(database) == []
    assert [one.notice_id for one in read(database, lambda tx: notices.page(tx, "w2"))] == ["new"]
    assert len(bodies(database)) == 1


def test_a_delivery_whose_turn_does_not_come_is_given_up(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "STEP_ROWS", 1)
    hook(database, "run.completed", name="soon")
    for name in ("late", "tried"):
        hook(database, "run.completed", name=name)
        hook(database, "run.completed", name=name, workspace="w2")
    for workspace in (WS, "w2"):
        begin(database, f"of {workspace}", workspace)
        end(database, f"of {workspace}", "completed")

    def wait(tx: Tx) -> None:
        bound = tx.now - notices.OVERDUE_DAYS * 86_400_000
        for webhook, since in (("late", bound - 1), ("tried", bound - 1), ("soon", bound + 3_600_000)):
            tx.run(WAITS, webhook=webhook, since=since)

    write(database, wait)
    tries = [
        write(database, lambda tx, ws=ws: notices.claim(tx, DueWebhook(ws, "tried"), 3_600_000))  # type: ignore[misc]
        for ws in (WS, "w2")
    ]
    assert write(database, notices.give_up_overdue) == 1
    collect(database, tmp_path)
    found = {one.webhook: one for one in deliveries(database)}
    assert {name: one.status for name, one in found.items()} == {
        "late": "dead",
        "tried": "pending",
        "soon": "pending",
    }
    assert [one.status for one in deliveries(database, "w2") if one.webhook == "late"] == ["dead"]
    late = found["late"]
    assert late.error == "its turn did not come for 3 days: the receiver is too slow, or no host ran"
    assert late.settled_at is not None
    for claimed in tries:
        assert claimed is not None
        assert write(database, lambda tx, claimed=claimed: notices.mark_delivered(tx, claimed, 200))  # type: ignore[misc]
    write(database, lambda tx: notices.send_again(tx, WS, late.delivery_id))
    assert write(database, notices.give_up_overdue) == 0, "it is old, and its turn has just begun"


def collect(database: SqlDatabase, tmp_path: Path) -> None:
    """Collect as a host does every hour."""
    folder = BlobFolder(tmp_path / "blobs")
    run(retention.collect(database, folder, lambda _: RetentionPolicy()))
    folder.close()


def test_each_receiver_with_something_due_is_found(database: SqlDatabase) -> None:
    """Of each workspace, however many deliveries another one has."""
    everyone = [DueWebhook("w1", "a"), DueWebhook("w1", "b"), DueWebhook("w2", "a"), DueWebhook("w3", "c")]
    for receiver in everyone:
        hook(database, "run.completed", name=receiver.webhook, workspace=receiver.workspace_id)
    assert read(database, notices.due) == []
    assert read(database, notices.seconds_to_next) is None
    for workspace in ("w1", "w2", "w3"):
        for number in range(3):
            begin(database, f"{workspace} {number}", workspace)
            end(database, f"{workspace} {number}", "completed")
    assert sorted(read(database, notices.due), key=repr) == everyone
    later = everyone[1]
    for _ in range(3):
        fail_once(database, later)
    assert sorted(read(database, notices.due), key=repr) == [one for one in everyone if one != later]
    wait = read(database, notices.seconds_to_next)
    assert wait is not None
    assert 0 < wait <= 50


def fail_once(database: SqlDatabase, receiver: DueWebhook) -> None:
    """Try the next delivery of a webhook in vain."""
    claimed = write(database, lambda tx: notices.claim(tx, receiver, 60_000))
    assert claimed is not None
    write(database, lambda tx: notices.mark_failed(tx, claimed, http_status=500, error="x", again_in=50))


@ON_EACH_DATABASE
def test_notices_of_an_older_version_stay(
    dialect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = older_database(dialect, tmp_path, request, before=57, rows=OLD_ROWS)
    database = open_database(url)
    try:
        inbox = read(database, lambda tx: notices.page(tx, WS))
        assert [(one.notice_id, one.pause_id, one.conversation_id) for one in inbox] == [
            ("n2", "p1", "c"),
            ("n1", "p1", None),
        ]
        claimed = write(database, lambda tx: notices.claim(tx, DueWebhook(WS, "hook"), 1_000))
        assert claimed is not None
        assert (claimed.delivery.delivery_id, claimed.delivery.attempts) == ("d2", 3)
        assert claimed.body == {"event": "pause.settled"}
        hook(database, "run.completed")
        begin(database, "r2")
        end(database, "r2", "completed")
        assert len(bodies(database)) == 3
        assert len(read(database, lambda tx: notices.page(tx, WS))) == 2
    finally:
        asyncio.run(database.close())
