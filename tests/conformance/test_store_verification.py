"""The whole verification on both databases, beside writers that delete in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.domain.audit_anchors import ChainEnd
from hostler.domain.events import Event
from hostler.domain.retention import RetentionPolicy
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import audit, deletion, events, retention
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.verification import Noted, verify_all
from hostler_protocol.events import Actor, EventEnvelope, Input

pytestmark = pytest.mark.gate("chain-ends")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


async def said(database: SqlDatabase, conversation: str, count: int, ws: str = "w") -> None:
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

    await database.write(work)


async def verified(database: SqlDatabase, *noted: Noted) -> dict[tuple[str, str], str | None]:
    return {(one.workspace, one.chain): one.broken for one in await verify_all(database, noted)}


async def accounts(database: SqlDatabase, ws: str = "w") -> list[tuple[str, str]]:
    facts = await database.read(lambda tx: audit.page(tx, ws, limit=100))
    return [(fact.actor, fact.target.partition(":")[0]) for fact in facts if fact.action == emptied.ACTION]


async def test_nothing_at_all_is_nothing_to_verify(database: SqlDatabase) -> None:
    assert await verify_all(database) == []


async def test_each_deletion_is_accounted_for_once(database: SqlDatabase, folder: BlobFolder) -> None:
    await said(database, "a", 5)
    await said(database, "b", 5)
    await said(database, "c", 5, ws="w2")
    await deletion.delete_conversation(database, folder, "w", "a", by="admin")
    assert await accounts(database) == [("admin", "conversation")]
    await deletion.delete_conversation(database, folder, "w", "a", by="admin")
    assert len(await accounts(database)) == 1, "there was nothing left to empty"
    await deletion.delete_actor(database, folder, "w", "person 1", by="ada")
    assert await accounts(database) == [("ada", "actor"), ("admin", "conversation")]
    await retention.collect_workspace(database, "w", RetentionPolicy(events=0))
    assert (await accounts(database))[0] == ("host", "retention")
    await retention.collect_workspace(database, "w", RetentionPolicy(events=0))
    assert len(await accounts(database)) == 3
    assert await verified(database) == dict.fromkeys([("w", "events"), ("w", "audit"), ("w2", "events")])
    (report,) = [one for one in await verify_all(database) if (one.workspace, one.chain) == ("w", "events")]
    assert (report.checked, report.deleted) == (10, 10)


async def test_many_events_have_few_accounts(database: SqlDatabase, folder: BlobFolder) -> None:
    await said(database, "a", 700)
    await retention.collect_workspace(database, "w", RetentionPolicy(events=0))
    await said(database, "b", 450)
    await deletion.delete_conversation(database, folder, "w", "b", by="admin")
    assert [target for _, target in await accounts(database)] == ["conversation", "retention"]
    assert (await verified(database))["w", "events"] is None


async def test_an_account_that_is_none_of_ours_accounts_for_nothing(database: SqlDatabase) -> None:
    await said(database, "a", 3)
    await database.write(lambda tx: audit.record(tx, "w", "mallory", emptied.ACTION, "x", {"events": "all"}))
    await database.write(
        lambda tx: audit.record(tx, "w", "mallory", "data.deleted", "x", {"chain_seq": "one"})
    )
    assert (await verified(database))["w", "events"] is None
    empty = parse("-- name: one\nUPDATE events SET body = NULL WHERE workspace_id = 'w' AND seq = 2", "t").one
    await database.write(lambda tx: tx.run(empty))
    assert "row 2" in str((await verified(database))["w", "events"])


async def test_an_end_that_a_receipt_notes_is_held_against_the_log(database: SqlDatabase) -> None:
    await said(database, "a", 3)
    wrong = {"chain_seq": 2, "chain_digest": "another"}
    await database.write(lambda tx: audit.record(tx, "w", "admin", "data.deleted", "x", wrong))
    assert "row 2" in str((await verified(database))["w", "events"])


async def test_a_workspace_that_is_gone_is_known_by_what_was_noted(database: SqlDatabase) -> None:
    await said(database, "a", 1)
    noted = Noted(ChainEnd(workspace="gone", chain="events", seq=3, head="x"), "a file")
    assert "row 3: it is missing, and was noted in a file" in str(
        (await verified(database, noted))["gone", "events"]
    )
    assert (await verified(database, noted))["w", "events"] is None


async def test_deletions_meanwhile_are_no_breaks(database: SqlDatabase, folder: BlobFolder) -> None:
    for number in range(12):
        await said(database, f"c{number}", 3)

    async def delete() -> None:
        for number in range(12):
            await deletion.delete_conversation(database, folder, "w", f"c{number}", by="admin")

    deleting = asyncio.create_task(delete())
    while not deleting.done():
        assert [one.broken for one in await verify_all(database)] in ([None], [None, None])
    await deleting
    assert [one.deleted for one in await verify_all(database) if one.chain == "events"] == [36]
