"""The whole verification on both databases, beside writers that delete in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.domain.events import Event
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import audit, deletion, events, retention
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.retention import RetentionPolicy
from hostler.storage.stores.verification import Noted, verify_all
from hostler_protocol.events import Actor, EventEnvelope, Input
from support.databases import read, run, write


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


def said(database: SqlDatabase, conversation: str, count: int, ws: str = "w") -> None:
    def work(tx: Tx) -> None:
        for number in range(count):
            event_id = f"{conversation}-{number}"
            envelope = EventEnvelope(
                event_type="message.received",
                event_id=event_id,
                workspace_id=ws,
                conversation_id=conversation,
                actor=Actor(actor_id=f"person {number % 3}"),
                input=Input(text="words"),
            )
            events.insert(tx, Event(ws, event_id, envelope, "d", False, tx.now), "unrouted", None, {})

    write(database, work)


def verified(database: SqlDatabase, *noted: Noted) -> dict[tuple[str, str], str | None]:
    return {(one.workspace, one.chain): one.broken for one in run(verify_all(database, noted))}


def accounts(database: SqlDatabase, ws: str = "w") -> list[tuple[str, str]]:
    facts = read(database, lambda tx: audit.page(tx, ws, limit=100))
    return [(fact.actor, fact.target.partition(":")[0]) for fact in facts if fact.action == emptied.ACTION]


def test_nothing_at_all_is_nothing_to_verify(database: SqlDatabase) -> None:
    assert run(verify_all(database)) == []


def test_each_deletion_is_accounted_for_once(database: SqlDatabase, folder: BlobFolder) -> None:
    said(database, "a", 5)
    said(database, "b", 5)
    said(database, "c", 5, ws="w2")
    run(deletion.delete_conversation(database, folder, "w", "a", by="admin"))
    assert accounts(database) == [("admin", "conversation")]
    run(deletion.delete_conversation(database, folder, "w", "a", by="admin"))
    assert len(accounts(database)) == 1, "there was nothing left to empty"
    run(deletion.delete_actor(database, folder, "w", "person 1", by="ada"))
    assert accounts(database) == [("ada", "actor"), ("admin", "conversation")]
    run(retention.collect_workspace(database, "w", RetentionPolicy(events=0)))
    assert accounts(database)[0] == ("host", "retention")
    run(retention.collect_workspace(database, "w", RetentionPolicy(events=0)))
    assert len(accounts(database)) == 3
    assert verified(database) == dict.fromkeys([("w", "events"), ("w", "audit"), ("w2", "events")])
    (report,) = [one for one in run(verify_all(database)) if (one.workspace, one.chain) == ("w", "events")]
    assert (report.checked, report.deleted) == (10, 10)


def test_many_events_have_few_accounts(database: SqlDatabase, folder: BlobFolder) -> None:
    said(database, "a", 700)
    run(retention.collect_workspace(database, "w", RetentionPolicy(events=0)))
    said(database, "b", 450)
    run(deletion.delete_conversation(database, folder, "w", "b", by="admin"))
    assert [target for _, target in accounts(database)] == ["conversation", "retention"]
    assert verified(database)["w", "events"] is None


def test_an_account_that_is_none_of_ours_accounts_for_nothing(database: SqlDatabase) -> None:
    said(database, "a", 3)
    write(database, lambda tx: audit.record(tx, "w", "mallory", emptied.ACTION, "x", {"events": "all"}))
    write(database, lambda tx: audit.record(tx, "w", "mallory", "data.deleted", "x", {"chain_seq": "one"}))
    assert verified(database)["w", "events"] is None
    empty = parse("-- name: one\nUPDATE events SET body = NULL WHERE workspace_id = 'w' AND seq = 2", "t").one
    write(database, lambda tx: tx.run(empty))
    assert "row 2" in str(verified(database)["w", "events"])


def test_an_end_that_a_receipt_notes_is_held_against_the_log(database: SqlDatabase) -> None:
    said(database, "a", 3)
    wrong = {"chain_seq": 2, "chain_digest": "another"}
    write(database, lambda tx: audit.record(tx, "w", "admin", "data.deleted", "x", wrong))
    assert "row 2" in str(verified(database)["w", "events"])


def test_a_workspace_that_is_gone_is_known_by_what_was_noted(database: SqlDatabase) -> None:
    said(database, "a", 1)
    noted = Noted(workspace="gone", chain="events", seq=3, head="x")
    assert "sequence 3 was noted" in str(verified(database, noted)["gone", "events"])
    assert verified(database, noted)["w", "events"] is None


def test_deletions_meanwhile_are_no_breaks(database: SqlDatabase, folder: BlobFolder) -> None:
    for number in range(12):
        said(database, f"c{number}", 3)

    async def story() -> None:
        async def delete() -> None:
            for number in range(12):
                await deletion.delete_conversation(database, folder, "w", f"c{number}", by="admin")

        deleting = asyncio.create_task(delete())
        while not deleting.done():
            assert [one.broken for one in await verify_all(database)] in ([None], [None, None])
        await deleting

    run(story())
    assert [one.deleted for one in run(verify_all(database)) if one.chain == "events"] == [36]
