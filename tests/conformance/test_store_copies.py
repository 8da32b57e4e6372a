"""Copies of conversations, single runs that are deleted, and items of clients, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.domain.quotas import UNBOUNDED
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import (
    client_items,
    conversation_forks,
    conversation_metadata,
    copies,
    deletion,
    journal,
    quotas,
    transcripts,
)
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.conversation_forks import Fork
from hostler_protocol.errors import ConflictError
from support.old_facts import World

pytestmark = pytest.mark.gate("both-databases")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


@pytest.fixture
def world(database: SqlDatabase, folder: BlobFolder) -> World:
    return World(database, folder)


def texts(tx: Tx, conversation_id: str, ws: str = "w") -> list[str]:
    """What is said in a conversation, in order."""
    found = transcripts.page(tx, ws, conversation_id=conversation_id, direction="forward")
    return [item.content for item in found.items]


def copy(tx: Tx, source: str, target: str) -> int:
    done = conversation_forks.fork(tx, "w", source, target, before_seq=None, bounds=UNBOUNDED)
    assert isinstance(done, Fork)
    return done.messages


async def test_a_copy_outlives_its_source_and_a_person_goes_from_both(world: World) -> None:
    database = world.database
    for person in ("ada", "bob"):
        await world.turn("c", person)
    await world.turn("c", "eve", subject="ada")
    await world.turn("c", "ada", ws="w2")
    before = await database.read(lambda tx: texts(tx, "c"))
    assert await database.write(lambda tx: copy(tx, "c", "copy")) == len(before)
    assert await database.write(lambda tx: copy(tx, "copy", "again")) == len(before)
    assert await database.read(lambda tx: texts(tx, "copy")) == before
    assert await database.read(lambda tx: texts(tx, "copy", "w2")) == []
    await deletion.delete_conversation(database, world.folder, "w", "c", by="admin")
    assert await database.read(lambda tx: texts(tx, "again")) == before
    await deletion.delete_actor(database, world.folder, "w", "ada", by="admin")
    left = [text for text in before if "of bob" in text]
    for place in ("copy", "again"):
        assert await database.read(lambda tx, place=place: texts(tx, place)) == left  # type: ignore[misc]
    assert await database.read(lambda tx: quotas.recount(tx, "w")) == []
    # all of it goes with the copy, and what is noted of people as well
    for place in ("copy", "again"):
        await deletion.delete_conversation(database, world.folder, "w", place, by="admin")
    assert await database.read(lambda tx: [*texts(tx, "copy"), *texts(tx, "again")]) == []
    assert await database.read(lambda tx: copies.places_of_person(tx, "w", "bob", None)) == []


async def test_more_places_than_one_step_finds_are_all_gone_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MAX_PLACES", 2)
    database = world.database
    await world.turn("c", "ada")
    await world.turn("c", "bob")
    places, eves_runs = [f"copy{number}" for number in range(5)], []
    for place in places:
        await database.write(lambda tx, place=place: copy(tx, "c", place))  # type: ignore[misc]
        eves_runs.append(await world.turn(place, "eve"))
    receipt = await deletion.delete_actor(database, world.folder, "w", "ada", by="admin")
    for place in places:
        left = await database.read(lambda tx, place=place: texts(tx, place))  # type: ignore[misc]
        assert [text for text in left if "of ada" in text] == []
        assert [text for text in left if "of bob" in text]
    assert await database.read(lambda tx: copies.places_of_person(tx, "w", "ada", None)) == []
    assert receipt.deleted["copies"] == 5 * 2
    for run_id in eves_runs:
        page = await database.read(lambda tx, run_id=run_id: journal.page(tx, run_id))  # type: ignore[misc]
        assert not page.items, "it could read what ada said"


async def test_a_deleted_run_leaves_nothing_and_its_neighbours_stay(world: World) -> None:
    database = world.database
    await world.turn("c", "ada")
    second = await world.turn("c", "bob")
    await world.turn(None, "bob", parent=second)
    receipt = await deletion.delete_run(database, world.folder, "w", second, conversation_id="c", by="admin")
    assert receipt.target.startswith("run:")
    assert (receipt.deleted["runs"], receipt.deleted["events"]) == (2, 2)
    assert await database.read(lambda tx: [text for text in texts(tx, "c") if "of bob" in text]) == []
    assert [text for text in await database.read(lambda tx: texts(tx, "c")) if "of ada" in text]
    assert await world.verify() >= 2, "the chain still verifies"
    # the same again has nothing to do; a run that is active is refused
    again = await deletion.delete_run(database, world.folder, "w", second, conversation_id="c", by="admin")
    assert again.deleted.keys() <= {"runs"}
    active = await world.turn("c", "eve", end=None)
    with pytest.raises(ConflictError, match="still active"):
        await deletion.delete_run(database, world.folder, "w", active, conversation_id="c", by="admin")


async def test_items_by_namespace(database: SqlDatabase) -> None:
    def put(tx: Tx, ws: str, *names: str) -> None:
        client_items.put(tx, ws, names[:-1], names[-1], {"of": "/".join((ws, *names))}, bounds=UNBOUNDED)

    for names in (("a", "k"), ("a", "b", "k"), ("ab", "k"), ("a", "b", "c", "k2"), ("z", "ada")):
        await database.write(lambda tx, names=names: put(tx, "w", *names))  # type: ignore[misc]
        await database.write(lambda tx, names=names: put(tx, "w2", *names))  # type: ignore[misc]

    def keys(tx: Tx, *prefix: str) -> list[str]:
        found = client_items.page(tx, "w", prefix, offset=0, limit=100)
        assert all(item.value["of"].startswith("w/") for item in found)
        return sorted("/".join((*item.namespace, item.key)) for item in found)

    assert await database.read(lambda tx: keys(tx, "a")) == ["a/b/c/k2", "a/b/k", "a/k"]
    assert await database.read(lambda tx: keys(tx, "a", "b")) == ["a/b/c/k2", "a/b/k"]
    everyone = await database.read(lambda tx: client_items.namespaces(tx, "w", ()))
    assert everyone == [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("z",)]
    # those that a name is a label or the key of, in small steps
    assert await database.write(lambda tx: client_items.drop_named(tx, "w", "b", 1)) == 1
    assert await database.write(lambda tx: client_items.drop_named(tx, "w", "b", 10)) == 1
    assert await database.write(lambda tx: client_items.drop_named(tx, "w", "ada", 10)) == 1
    assert await database.read(keys) == ["a/k", "ab/k"]
    assert await database.write(lambda tx: client_items.drop_named(tx, "w", "%", 10)) == 0
    assert len(await database.read(lambda tx: client_items.namespaces(tx, "w2", ()))) == 5
    assert await database.read(lambda tx: quotas.recount(tx, "w")) == []


async def test_metadata_of_conversations_latest_first(database: SqlDatabase) -> None:
    for name in ("c1", "c2", "c3"):
        await database.write(
            lambda tx, name=name: conversation_metadata.put(tx, "w", name, {"n": name}, UNBOUNDED)  # type: ignore[misc]
        )
    await database.write(lambda tx: conversation_metadata.put(tx, "w2", "c1", {"n": "other"}, UNBOUNDED))
    found = await database.read(lambda tx: conversation_metadata.latest(tx, "w", limit=10))
    assert {one.conversation_id: one.metadata["n"] for one in found} == {n: n for n in ("c1", "c2", "c3")}
    assert [one.updated_at for one in found] == sorted((one.updated_at for one in found), reverse=True)
    assert len(await database.read(lambda tx: conversation_metadata.latest(tx, "w", limit=2))) == 2
    for name in ("c2", "c4"):
        await database.write(
            lambda tx, name=name: conversation_metadata.put(tx, "w", name, {}, UNBOUNDED)  # type: ignore[misc]
        )
    one = await database.read(lambda tx: conversation_metadata.find(tx, "w", "c1"))
    assert one is not None
    assert (one.conversation_id, one.metadata) == ("c1", {"n": "c1"})
    emptied = await database.read(lambda tx: conversation_metadata.find(tx, "w", "c2"))
    assert emptied is not None
    assert emptied.metadata == {}
    assert await database.read(lambda tx: conversation_metadata.find(tx, "w", "c4")) is None


async def test_titles_of_several_conversations_at_once(database: SqlDatabase) -> None:
    def name(tx: Tx) -> None:
        for ws in ("w", "w2"):
            for number in range(3):
                conversation_metadata.put_title(tx, ws, f"c{number}", f"{ws} {number} 好", UNBOUNDED)
        conversation_metadata.put_title(tx, "w", "c1", "", UNBOUNDED)
        conversation_metadata.put(tx, "w", "c9", {"title": ["no text"]}, UNBOUNDED)

    await database.write(name)
    names = ["c0", "c1", "c2", "c9", "unknown"]
    found = await database.read(lambda tx: conversation_metadata.titles(tx, "w", names))
    assert found == {"c0": "w 0 好", "c2": "w 2 好"}
    assert await database.read(lambda tx: conversation_metadata.titles(tx, "w", [])) == {}
