"""Whom a working folder belongs to, on every database: whether anybody can come back to it."""

from __future__ import annotations

from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import settings, working_folders
from hostler_protocol.ids import new_id
from support.databases import read, write

FACTS = parse(
    """
-- name: event
INSERT INTO events (workspace_id, event_id, body_digest, request_digest, event_type, source, conversation_id,
                    actor_type, actor_id, input_summary, body, content_redacted, outcome, routing, created_at)
VALUES (:ws, :event_id, '', '', 'message.received', 'api', :conversation_id,
        'user', 'ada', '', :body, 0, 'started', '{}', 0)
-- name: empty
UPDATE events SET body = NULL WHERE workspace_id = :ws AND event_id = :event_id
""",
    "facts",
)


def owner(ws: str, conversation: str) -> FolderOwner:
    return FolderOwner(kind="conversation", workspace_id=ws, agent_id="a", conversation_id=conversation)


def test_a_conversation_is_there_while_anything_is_left_of_it(database: SqlDatabase) -> None:
    event_id = new_id()
    with_event = {"ws": "w", "event_id": event_id}

    def orphan(ws: str, conversation: str) -> bool:
        return read(database, lambda tx: working_folders.is_orphan(tx, owner(ws, conversation)))

    write(database, lambda tx: tx.run(FACTS.event, **with_event, conversation_id="c", body="{}"))
    assert not orphan("w", "c")
    assert orphan("w", "d")
    assert orphan("w2", "c")
    write(database, lambda tx: tx.run(FACTS.empty, **with_event))
    assert orphan("w", "c")


def test_who_took_part_in_a_conversation_is_known_by_its_events(database: SqlDatabase) -> None:
    event = {"ws": "w", "event_id": new_id(), "conversation_id": "c", "body": "{}"}
    write(database, lambda tx: tx.run(FACTS.event, **event))

    def took_part(found: FolderOwner, actor: str, kind: str | None) -> bool:
        return read(database, lambda tx: working_folders.took_part(tx, found, actor, kind))

    assert took_part(owner("w", "c"), "ada", None)
    assert took_part(owner("w", "c"), "ada", "user")
    assert not took_part(owner("w", "c"), "ada", "bot")
    assert not took_part(owner("w", "c"), "eve", None)
    assert not took_part(owner("w", "d"), "ada", None)
    assert not took_part(owner("w2", "c"), "ada", None)
    assert not took_part(FolderOwner(kind="run", workspace_id="w", run_id="r"), "ada", None)


def test_a_run_that_nobody_knows_is_over(database: SqlDatabase) -> None:
    run = FolderOwner(kind="run", workspace_id="w", run_id=new_id())
    assert read(database, lambda tx: working_folders.is_orphan(tx, run))


def test_settings_are_those_that_were_stored(database: SqlDatabase) -> None:
    assert read(database, lambda tx: working_folders.configured(tx, "w")) == WorkingFolderSettings()
    spec = {"per": "run", "disk_mib": 5}
    write(database, lambda tx: settings.put(tx, "w", "working_folders", "policy", spec))
    found = read(database, lambda tx: working_folders.configured(tx, "w"))
    assert found == WorkingFolderSettings(per="run", disk_mib=5)
    assert read(database, lambda tx: working_folders.configured(tx, "w2")) == WorkingFolderSettings()
