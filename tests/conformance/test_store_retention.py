"""Retention and deletion on request, on every database: what goes, what stays, and the proof of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Event
from hostler.domain.place import Place
from hostler.domain.retention import Retention, RetentionPolicy, WorkspaceRetention
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import (
    artifacts,
    audit,
    deletion,
    deletion_steps,
    events,
    idempotency,
    journal,
    retention,
    runs,
    search,
    search_index,
    transcripts,
    uploads,
)
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.filters import ANY
from hostler.storage.stores.retention import DAY_MS
from hostler.storage.stores.transcripts import item_of
from hostler_protocol.content import Message
from hostler_protocol.errors import ConflictError, ExpiredError
from hostler_protocol.events import EventEnvelope, Input
from support.old_facts import AGE, World

pytestmark = pytest.mark.gate("retention")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


@pytest.fixture
def world(database: SqlDatabase, folder: BlobFolder) -> World:
    return World(database, folder)


# -- deletion on request ----------------------------------------------------------------------------------


async def test_a_deleted_conversation_is_gone_everywhere_and_the_chain_still_verifies(world: World) -> None:
    gone = [await world.turn("c-gone", "ada") for _ in range(3)]
    await world.turn("c-kept", "ada")
    await world.turn("c-gone", "ada", ws="w2")
    child = await world.turn(None, "ada", parent=gone[0])
    others = [await world.facts("c-gone", "w2"), await world.facts("c-kept")]
    receipt = await deletion.delete_conversation(world.database, world.folder, "w", "c-gone", by="admin")
    assert await world.facts("c-gone") == []
    assert await world.facts("ada in None") == ["states actor"], (
        "what a deleted run did by another run goes too"
    )
    assert [await world.facts("c-gone", "w2"), await world.facts("c-kept")] == others
    assert world.files("c-gone") == 2, "those of the other workspace"
    assert await world.purge_blobs() == 0, "none is left for later"
    assert receipt.deleted == {
        "artifacts": 8,
        "events": 4,
        "journal_entries": 4 * 606,
        "runs": 4,
        "states": 1,
        "transcripts": 8,
    }
    assert await world.verify() == 4
    head = await world.database.read(lambda tx: chain.head(tx, "w", "events"))
    assert (receipt.chain_seq, receipt.chain_digest) == (head.seq, head.digest)
    for run_id in (*gone, child):
        found = await world.database.read(lambda tx, run_id=run_id: runs.get(tx, "w", run_id))  # type: ignore[misc]
        assert found.status == "completed", "how it ended stays in the ledger"
        assert found.grant_json is None
    fact = (await world.database.read(lambda tx: audit.page(tx, "w", limit=1)))[0]
    assert (fact.audit_id, fact.action, fact.actor) == (receipt.audit_id, "data.deleted", "admin")
    assert fact.target == receipt.target == f"conversation:{hashlib.sha256(b'c-gone').hexdigest()}"
    assert await world.verify("w2") == 0


async def test_a_deleted_conversation_is_in_no_page_no_search_and_no_index(world: World) -> None:
    await world.turn("c-gone", "ada")
    await world.turn("c-kept", "ada")
    if world.database.dialect == "sqlite":  # a few messages wait for more
        await world.database.write(lambda tx: search_index.index_waiting(tx, "w"))
    await deletion.delete_conversation(world.database, world.folder, "w", "c-gone", by="admin")

    def look(tx: Tx) -> None:
        assert not transcripts.page(tx, "w", conversation_id="c-gone").items
        assert search.search(tx, "w", "secret", conversation_id="c-gone").total_count == 0
        assert search.search(tx, "w", "secret", conversation_id=ANY).total_count == 2
        assert not events.page(tx, "w", conversation_id="c-gone")
        if tx.dialect == "sqlite":
            block = Query("t.index", *["SELECT block FROM transcript_search_data"] * 2)
            index = b"".join(bytes(row["block"]) for row in tx.all(block))
            assert (b"kept" in index) is not tx.seals, "words are in the index, unless content is sealed"
            assert b"gone" not in index

    await world.database.read(look)


async def test_deleting_again_finds_nothing_and_a_second_delivery_is_still_known(world: World) -> None:
    await world.turn("c", "ada")
    await deletion.delete_conversation(world.database, world.folder, "w", "c", by="admin")
    again = await deletion.delete_conversation(world.database, world.folder, "w", "c", by="admin")
    assert again.deleted == {}

    def deliver(tx: Tx) -> None:
        event_id = tx.all(Query("t.id", *["SELECT event_id FROM events"] * 2))[0]["event_id"]
        envelope = EventEnvelope(event_type="message.received", event_id=event_id, input=Input(text="x"))
        outcome = events.insert(tx, Event("w", event_id, envelope, "digest", False, 1), "started", None, {})
        assert isinstance(outcome, events.Duplicate)
        assert outcome.same_body
        assert outcome.record.envelope is None

    await world.database.write(deliver)


async def test_what_arrives_after_the_request_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.turn("c", "ada")
    begin = deletion_steps.begin

    async def begin_then_more(*given: Any) -> Any:
        erasure = await begin(*given)
        late = item_of(Message(role="user", content="said meanwhile"), Place(conversation_id="c"))
        await world.database.write(lambda tx: transcripts.append(tx, "w", late))
        return erasure

    monkeypatch.setattr(deletion, "begin", begin_then_more)
    await deletion.delete_conversation(world.database, world.folder, "w", "c", by="admin")
    page = await world.database.read(lambda tx: transcripts.page(tx, "w", conversation_id="c"))
    assert [item.content for item in page.items] == ["said meanwhile"]


@pytest.mark.parametrize("what", ["c", "ada"])
async def test_a_run_that_began_meanwhile_keeps_nothing_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    delete: Any = deletion.delete_conversation if what == "c" else deletion.delete_actor
    begin = deletion_steps.begin
    late: dict[str, str] = {}

    async def begin_then_a_run(*given: Any) -> Any:
        erasure = await begin(*given)
        late["ended"] = await world.turn("c", "ada" if what == "c" else "eve")
        late["child"] = await world.turn(None, "eve", parent=late["ended"])
        if "active" not in late:
            late["active"] = await world.turn("c", "ada", end=None)
        return erasure

    await world.turn("c", "ada")
    monkeypatch.setattr(deletion, "begin", begin_then_a_run)
    with pytest.raises(ConflictError, match="still active"):
        await delete(world.database, world.folder, "w", what, by="admin")
    active = late["active"]
    await world.database.write(
        lambda tx: runs.transition(tx, active, None, "cancelled", cause="t", actor="t")
    )
    await delete(world.database, world.folder, "w", what, by="admin")
    late_rows = await world.facts(f"secret words of {'ada' if what == 'c' else 'eve'} in c")
    assert "journal" not in late_rows
    rows = parse("-- name: of\nSELECT * FROM journal WHERE run_id = :run_id", "t").of
    for run_id in (late["ended"], late["child"]):
        assert await world.database.read(lambda tx, of=run_id: tx.all(rows, run_id=of)) == []  # type: ignore[misc]


async def test_what_came_before_the_clock_was_set_back_goes_too(world: World) -> None:
    await world.turn("c-gone", "ada")
    await world.turn("shared", "ada")
    ahead = ("UPDATE {} SET created_at = created_at + 600000",) * 2
    for table in ("runs", "artifacts", "events"):
        move = Query("t.ahead", *(text.format(table) for text in ahead))
        await world.database.write(lambda tx, move=move: tx.run(move))  # type: ignore[misc]
    await world.turn("shared", "eve")
    await deletion.delete_conversation(world.database, world.folder, "w", "c-gone", by="admin")
    assert await world.facts("c-gone") == []
    deleted = await deletion.delete_actor(world.database, world.folder, "w", "ada", by="admin")
    assert deleted.deleted["journal_entries"] == 2 * 606, "eve's run could read what ada said"


async def test_a_conversation_with_an_active_run_is_not_deleted(world: World) -> None:
    active = await world.turn("c", "ada", end=None)
    before = await world.facts("ada")
    with pytest.raises(ConflictError, match=active):
        await deletion.delete_conversation(world.database, world.folder, "w", "c", by="admin")
    assert await world.facts("ada") == before
    with pytest.raises(ConflictError, match=active):
        await deletion.delete_actor(world.database, world.folder, "w", "ada", by="admin")
    await world.database.write(
        lambda tx: runs.transition(tx, active, None, "cancelled", cause="t", actor="t")
    )
    assert (await deletion.delete_actor(world.database, world.folder, "w", "ada", by="admin")).deleted[
        "runs"
    ] == 1


async def test_a_persons_data_goes_from_shared_conversations_and_others_keep_theirs(world: World) -> None:
    await world.turn("before", "eve")
    await world.turn("shared", "eve")
    await world.turn("shared", "ada")
    eves_run = await world.turn("shared", "eve")
    await world.turn("shared", "ada", outcome="steered", absorbed_by=eves_run)
    await world.turn("private", "ada")
    await world.turn("added", "eve", subject="ada")
    await world.turn("private", "ada", ws="w2")
    other = await world.facts("of ada", "w2")
    receipt = await deletion.delete_actor(world.database, world.folder, "w", "ada", by="admin")
    await world.purge_blobs()
    # State of a conversation belongs to all who take part in it.
    assert set(await world.facts("ada in")) == {"states conversation"}
    assert sorted(await world.facts("eve in added")) == ["states actor", "states conversation"], "about ada"
    assert await world.facts("eve in before"), "nothing of ada there"
    assert await world.facts("of ada", "w2") == other
    assert world.files("of ada in shared") == 0
    page = await world.database.read(lambda tx: transcripts.page(tx, "w", conversation_id="shared"))
    texts = [item.content for item in page.items]
    assert texts == ["answer with secret words of eve in shared", "secret words of eve in shared"] * 2
    assert not (await world.database.read(lambda tx: journal.page(tx, eves_run))).items, (
        "it read what ada said"
    )
    assert receipt.deleted["events"] == 4
    assert receipt.deleted["runs"] == 3
    assert await world.verify() == 4


# -- retention by age -------------------------------------------------------------------------------------


async def test_each_kind_goes_when_it_is_old_and_only_then(world: World) -> None:
    old, new = await world.turn("c-old", "ada", age_days=40), await world.turn("c-new", "eve", age_days=1)
    await world.turn("c-old", "ada", ws="w2", age_days=40)
    policy = RetentionPolicy(events=30, transcripts=30, journals=30, deltas=7)
    counts = await retention.collect_workspace(world.database, "w", policy)
    assert {kind: counts[kind] for kind in ("events", "transcripts", "journal_entries", "deltas")} == {
        "events": 1,
        "transcripts": 1,  # the answer was stored with the transaction's own, present time
        "journal_entries": 606 - 601,
        "deltas": 601,
    }
    assert await world.verify() == 1

    def look(tx: Tx) -> None:
        assert not journal.page(tx, old).items
        assert len(journal.page(tx, new).items) > 5
        assert [event.envelope is None for event in events.page(tx, "w")] == [False, True]
        assert not any(event.envelope is None for event in events.page(tx, "w2"))

    await world.database.read(look)
    assert await retention.collect_workspace(world.database, "w", RetentionPolicy()) == {
        "artifacts": 0,
        "uploads": 0,
        "answers": 0,
        "pauses": 0,
        "sessions": 0,
        "tokens": 0,
        "pause_states": 0,
    }


async def test_dropped_deltas_leave_the_rest_and_expire_the_cursors_into_them(world: World) -> None:
    run_id = await world.turn("c", "ada", age_days=10)
    assert (await retention.collect_workspace(world.database, "w", RetentionPolicy(deltas=7)))[
        "deltas"
    ] == 601

    def look(tx: Tx) -> None:
        kinds = {entry.type for entry in journal.page(tx, run_id).items}
        assert "message.completed" in kinds
        assert "history.page" in kinds
        assert "message.delta" not in kinds
        assert [entry.sequence for entry in journal.results(tx, run_id).items] == [602]
        with pytest.raises(ExpiredError):
            journal.results(tx, run_id, 300)

    await world.database.read(look)
    assert (await retention.collect_workspace(world.database, "w", RetentionPolicy(deltas=7)))["deltas"] == 0


async def test_an_event_goes_only_when_its_run_has_ended_and_is_not_forgotten(world: World) -> None:
    waiting = await world.turn("c1", "ada", age_days=40, end=None)
    await world.turn("c2", "eve", age_days=40)
    policy = RetentionPolicy(events=30)
    assert (await retention.collect_workspace(world.database, "w", policy))["events"] == 1
    assert (await retention.collect_workspace(world.database, "w", policy))["events"] == 0
    await world.database.write(lambda tx: runs.transition(tx, waiting, None, "failed", cause="t", actor="t"))
    assert (await retention.collect_workspace(world.database, "w", policy))["events"] == 1
    assert await world.verify() == 2


async def test_many_rows_go_in_bounded_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (retention,):
        monkeypatch.setattr(module, "STEP_ROWS", 3)
        monkeypatch.setattr(module, "_RUNS_PER_STEP", 2)
    for n in range(8):
        await world.turn(f"c{n}", "ada", age_days=40)
    await world.turn("new", "ada")
    policy = RetentionPolicy(events=30, transcripts=30, journals=30, artifacts=-1)
    counts = await retention.collect_workspace(world.database, "w", policy)
    assert (counts["events"], counts["journal_entries"], counts["artifacts"]) == (8, 8 * 606, 18)
    again = await retention.collect_workspace(world.database, "w", policy)
    assert (again["events"], again["journal_entries"], again["artifacts"]) == (0, 0, 0)


async def test_state_goes_where_nobody_touched_the_conversation(world: World) -> None:
    await world.turn("c-old", "ada", age_days=40)
    await world.turn("c-talks", "eve")

    def age(tx: Tx) -> None:
        tx.run(AGE.states, ws="w", at=tx.now - 40 * DAY_MS)

    await world.database.write(age)
    policy = RetentionPolicy(states=30, transcripts=30)
    # The old conversation's answer is of today, so it counts as touched until its transcript is gone.
    assert (await retention.collect_workspace(world.database, "w", policy))["states"] == 0
    seqs = [
        item.seq
        for item in (
            await world.database.read(lambda tx: transcripts.page(tx, "w", conversation_id="c-old"))
        ).items
    ]
    await world.database.write(lambda tx: transcripts.remove(tx, "w", seqs))
    assert (await retention.collect_workspace(world.database, "w", policy))["states"] == 1
    rows = await world.database.read(
        lambda tx: tx.all(Query("t.s", *["SELECT scope, conversation_id FROM states"] * 2))
    )
    assert sorted((row["scope"], row["conversation_id"]) for row in rows if row["conversation_id"]) == [
        ("conversation", "c-talks")
    ]
    assert len(rows) == 3, "state of actors stays"


async def test_expired_artifacts_abandoned_uploads_and_old_answers_go_and_their_bytes_after_them(
    world: World,
) -> None:
    now = await world.database.read(lambda tx: tx.now)
    kept, expired = [await world.put(data) for data in (b"kept", b"expired")]
    new = {blob: NewArtifact(artifact_type="file", blob=blob, source="run") for blob in (kept, expired)}
    await world.database.write(lambda tx: artifacts.create(tx, "w", new[kept]))
    gone = NewArtifact(artifact_type="file", blob=expired, source="run", expires_at=now - 1)
    await world.database.write(lambda tx: artifacts.create(tx, "w", gone))
    part = uploads.Part(None, 0, b"part", False)
    prepared = [await uploads.prepare(world.database, world.folder, "w", "r", part)]
    await world.database.write(lambda tx: uploads.commit(tx, "w", "r", prepared[0], lambda blob: new[kept]))
    prepared.clear()
    await world.database.write(lambda tx: idempotency.begin(tx, "w", "caller", "key", "digest"))
    first = await retention.collect_workspace(world.database, "w", RetentionPolicy())
    none = {"pauses": 0, "pause_states": 0, "sessions": 0, "tokens": 0}
    assert first == {"artifacts": 1, "uploads": 0, "answers": 0, **none}

    def age(tx: Tx) -> None:
        for query in (AGE.uploads, AGE.answers):
            tx.run(query, ws="w", at=now - 2 * DAY_MS)

    await world.database.write(age)
    second = await retention.collect_workspace(world.database, "w", RetentionPolicy())
    assert second == {"artifacts": 0, "uploads": 1, "answers": 1, **none}
    assert await world.purge_blobs() == 2
    assert await world.folder.read(kept.sha256) == b"kept"


async def test_each_workspace_has_a_retention_of_its_own(world: World) -> None:
    for ws in ("w", "w2", "w3"):
        await world.turn("c", "ada", ws=ws, age_days=10)
    said = Retention(
        events=30,
        transcripts=1,
        journals=5,
        workspaces={
            "w2": WorkspaceRetention(events=5, journals=20),
            "w3": WorkspaceRetention(journals="forever"),
            "nobody": WorkspaceRetention(events=0),
        },
    )
    await retention.collect(world.database, world.folder, said.of)

    async def kept(table: str, ws: str) -> bool:
        return any(fact.startswith(table) for fact in await world.facts("words of ada", ws))

    assert [await kept("events", ws) for ws in ("w", "w2", "w3")] == [True, False, True]
    journals = [await world.database.read(lambda tx, ws=ws: _journals(tx, ws)) for ws in ("w", "w2", "w3")]  # type: ignore[misc]
    assert journals == [0, 1, 1]


def _journals(tx: Tx, ws: str) -> int:
    """How many runs of a workspace still have a journal."""
    query = "SELECT DISTINCT j.run_id FROM journal AS j JOIN runs AS r ON r.run_id = j.run_id"
    return len(tx.all(parse(f"-- name: all\n{query} WHERE r.workspace_id = :ws", "t").all, ws=ws))


async def test_old_artifacts_go_and_new_ones_stay(world: World) -> None:
    blob = await world.folder.put(b"bytes")
    for name in ("old", "new"):
        artifact = NewArtifact(artifact_type="file", blob=blob, source="run", artifact_id=name)
        await world.database.write(lambda tx, artifact=artifact: artifacts.create(tx, "w", artifact))  # type: ignore[misc]
    now = await world.database.read(lambda tx: tx.now)
    await world.database.write(lambda tx: tx.run(AGE.artifact, artifact_id="old", at=now - 40 * DAY_MS))
    counts = await retention.collect_workspace(world.database, "w", RetentionPolicy(artifacts=30))
    assert counts["artifacts"] == 1
    assert await world.database.read(lambda tx: artifacts.find(tx, "w", "new")) is not None
    assert await world.purge_blobs() == 0, "the other one names the same bytes"


async def test_one_collection_serves_all_workspaces(world: World) -> None:
    for n in range(5):
        await world.turn("c", "ada", ws=f"w{n}", age_days=40)
    collected = await retention.collect(world.database, world.folder, lambda _: RetentionPolicy(events=30))
    assert collected.counts["events"] == 5
    for n in range(5):
        assert await world.verify(f"w{n}") == 1
