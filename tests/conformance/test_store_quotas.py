"""Counters of what is stored, on both databases: they are the sums of the rows, and no quota is passed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.place import Place
from hostler.domain.quotas import (
    NOTHING,
    Account,
    Allotment,
    Amounts,
    Bounds,
    Holder,
    QuotaExceeded,
    Quotas,
    added,
)
from hostler.domain.retention import RetentionPolicy
from hostler.domain.scopes import StateArea
from hostler.storage.port import Query, Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import (
    artifacts,
    deletion,
    plugin_storage,
    quotas,
    retention,
    state_values,
    uploads,
)
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.registered_files import RegisteredFile, Stamp
from hostler.storage.stores.uploads import Part, ReceivedPart
from hostler_protocol.errors import CallerError, PayloadTooLargeError
from support.databases import read, write
from support.older_databases import ON_EACH_DATABASE, older_database

pytestmark = pytest.mark.gate("quotas")

RUN, OTHER = Holder("a1", "r1"), Holder("a2", "r2")
WORKSPACE = Account("workspace")
AREA = StateArea("conversation", "c" * 64, "a1", conversation_id="c1")
FIVE = Quotas(Bounds(artifact_bytes=5))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


def new(size: int, holder: Holder = RUN, **fields: Any) -> NewArtifact:
    blob = Blob(f"{size:064x}", size)
    given = {"agent_id": holder.agent_id, "run_id": holder.run_id, **fields}
    return NewArtifact(artifact_type="file", blob=blob, source="run", **given)


def make(database: SqlDatabase, size: int, bounds: Quotas = Quotas(), **fields: Any) -> Any:  # noqa: B008
    return write(database, lambda tx: artifacts.create(tx, "w", new(size, **fields), bounds))


def held(database: SqlDatabase, account: Account = WORKSPACE, ws: str = "w") -> Amounts:
    return read(database, lambda tx: quotas.of_accounts(tx, ws, [account])).get(account, NOTHING)


def right(database: SqlDatabase, ws: str = "w") -> bool:
    return read(database, lambda tx: quotas.recount(tx, ws)) == []


def test_an_artifact_counts_for_its_run_its_agent_and_its_workspace_until_it_is_gone(
    database: SqlDatabase,
) -> None:
    first, second = make(database, 10), make(database, 5, holder=Holder("a1", "r2"))
    assert held(database) == held(database, Account("agent", "a1")) == Amounts(2, 15)
    assert held(database, Account("run", "r1")) == Amounts(1, 10)
    assert held(database, ws="v") == NOTHING
    write(database, lambda tx: artifacts.remove(tx, "w", first.artifact_id))
    assert held(database) == Amounts(1, 5)
    assert write(database, lambda tx: artifacts.remove(tx, "w", first.artifact_id)) is None
    write(database, lambda tx: artifacts.remove(tx, "w", second.artifact_id))
    assert rows(database) == 0, "what holds nothing has no row"
    assert right(database)


def rows(database: SqlDatabase) -> int:
    found = read(database, lambda tx: tx.one(_sql("SELECT COUNT(*) AS rows FROM quota_use")))
    assert found is not None
    return int(found["rows"])


def _sql(text: str) -> Query:
    return Query("test.sql", text, text)


def test_a_file_in_place_counts_and_takes_no_room(database: SqlDatabase) -> None:
    in_place = RegisteredFile("/srv/x", f"{6:064x}", Stamp(1, 2, 6, 3, 4))
    assert isinstance(make(database, 6, FIVE, registered=in_place), StoredArtifact)
    assert held(database) == Amounts(1, 0)
    assert right(database)


def test_what_does_not_fit_leaves_nothing(database: SqlDatabase) -> None:
    assert isinstance(make(database, 3, FIVE), StoredArtifact)
    refused = make(database, 3, FIVE)
    assert refused == QuotaExceeded(WORKSPACE, "artifact_bytes", 5, 3, 3)
    assert held(database) == Amounts(1, 3)
    assert isinstance(make(database, 2, FIVE), StoredArtifact), "what fits still does"
    assert right(database)


def test_the_same_artifact_again_counts_once_and_is_answered_when_all_is_full(database: SqlDatabase) -> None:
    assert isinstance(make(database, 5, FIVE, artifact_id="x"), StoredArtifact)
    assert isinstance(make(database, 5, FIVE, artifact_id="x"), StoredArtifact)
    assert isinstance(make(database, 4, FIVE, artifact_id="x"), artifacts.Taken)
    assert held(database) == Amounts(1, 5)


def test_many_decisions_of_one_transaction_know_of_each_other(database: SqlDatabase) -> None:
    def story(tx: Tx) -> list[bool]:
        outcomes = [artifacts.create(tx, "w", new(2, artifact_id=f"x{n}"), FIVE) for n in range(4)]
        artifacts.remove(tx, "w", "x0")
        outcomes.append(artifacts.create(tx, "w", new(3, artifact_id="y"), FIVE))
        return [isinstance(one, StoredArtifact) for one in outcomes]

    assert write(database, story) == [True, True, False, False, True]
    assert held(database) == Amounts(2, 5)
    assert right(database)


def test_a_transaction_that_fails_counts_nothing(database: SqlDatabase) -> None:
    def fail(tx: Tx) -> None:
        artifacts.create(tx, "w", new(2))
        raise LookupError

    with pytest.raises(LookupError):
        write(database, fail)
    assert rows(database) == 0


# -- uploads ------------------------------------------------------------------------------------------------


async def send(
    database: SqlDatabase, folder: BlobFolder, part: Part, bounds: Quotas = FIVE, **declared: Any
) -> ReceivedPart | CallerError:
    allotment = Allotment(RUN, bounds)
    prepared = await uploads.prepare(database, folder, "w", "r1", part, allotment=allotment, **declared)

    def describe(blob: Blob) -> NewArtifact:
        return NewArtifact(artifact_type="file", blob=blob, source="upload", run_id="r1", agent_id="a1")

    return await database.write(
        lambda tx: uploads.commit(tx, "w", "r1", prepared, describe, allotment=allotment)
    )


async def amounts(database: SqlDatabase) -> Amounts:
    found = await database.read(lambda tx: quotas.of_accounts(tx, "w", [WORKSPACE]))
    return found.get(WORKSPACE, NOTHING)


async def is_right(database: SqlDatabase) -> bool:
    return await database.read(lambda tx: quotas.recount(tx, "w")) == []


async def test_an_upload_counts_with_each_part_and_is_refused_at_the_limit(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    first = await send(database, folder, Part(None, 0, b"abc", last=False))
    assert isinstance(first, ReceivedPart)
    assert await amounts(database) == Amounts(1, 3)
    with pytest.raises(PayloadTooLargeError, match="5 bytes of artifacts: 3 are stored, and 3 more"):
        await send(database, folder, Part(first.upload_id, 1, b"def", last=False))
    assert not isinstance(
        await send(database, folder, Part(first.upload_id, 1, b"d", last=False)), CallerError
    )
    whole = await send(database, folder, Part(first.upload_id, 2, b"e", last=True))
    assert isinstance(whole, ReceivedPart)
    assert whole.artifact is not None
    assert await amounts(database) == Amounts(1, 5), "the artifact took the place of its parts"
    assert await is_right(database)


async def test_an_upload_is_refused_early_for_the_size_it_declares(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    with pytest.raises(PayloadTooLargeError, match="6 more do not fit"):
        await send(database, folder, Part(None, 0, b"a", last=False), size_bytes=6)
    begun = await send(database, folder, Part(None, 0, b"ab", last=False))
    assert isinstance(begun, ReceivedPart)
    with pytest.raises(PayloadTooLargeError, match="2 are stored, and 4 more"):
        await send(database, folder, Part(begun.upload_id, 1, b"a", last=False), size_bytes=6)
    assert await amounts(database) == Amounts(1, 2)


async def test_a_last_part_that_does_not_fit_any_more_leaves_the_upload_as_it_was(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    begun = await send(database, folder, Part(None, 0, b"abc", last=False))
    assert isinstance(begun, ReceivedPart)
    allotment = Allotment(RUN, FIVE)
    last = Part(begun.upload_id, 1, b"de", last=True)
    prepared = await uploads.prepare(database, folder, "w", "r1", last, allotment=allotment)
    await database.write(lambda tx: artifacts.create(tx, "w", new(1), FIVE))  # meanwhile
    refused = await database.write(
        lambda tx: uploads.commit(tx, "w", "r1", prepared, lambda blob: new(5), allotment=allotment)
    )
    assert isinstance(refused, PayloadTooLargeError)
    assert await amounts(database) == Amounts(2, 4)
    released = await database.write(lambda tx: uploads.abandon(tx, "w", begun.upload_id))
    assert [part.size_bytes for part in released] == [3]
    assert await database.write(lambda tx: uploads.abandon(tx, "w", begun.upload_id)) == []
    assert await amounts(database) == Amounts(1, 1)
    assert await is_right(database)


# -- storage and state --------------------------------------------------------------------------------------


def test_a_storage_value_counts_for_the_run_that_wrote_it_last(database: SqlDatabase) -> None:
    def put(key: str, value: bytes, holder: Holder, **bounds: int) -> Any:
        allotment = Allotment(holder, Quotas(Bounds(**bounds)))
        return write(
            database, lambda tx: plugin_storage.set(tx, "w", "acme/echo", key, value, allotment=allotment)
        )

    assert put("k", b"12345", RUN) is None
    assert put("k", b"123", OTHER) is None
    assert held(database) == Amounts(storage_values=1, storage_bytes=3)
    assert held(database, Account("run", "r1")) == held(database, Account("agent", "a1")) == NOTHING
    assert held(database, Account("run", "r2")).storage_bytes == 3
    assert put("k", b"1234", OTHER, storage_bytes=3) == QuotaExceeded(WORKSPACE, "storage_bytes", 3, 3, 1)
    assert put("l", b"", RUN, storage_values=1) == QuotaExceeded(WORKSPACE, "storage_values", 1, 1, 1)
    assert put("k", b"12", RUN, storage_bytes=1) is None, "what shrinks fits"
    assert read(database, lambda tx: plugin_storage.get(tx, "w", "acme/echo", "k")) == b"12"
    assert right(database)
    assert write(database, lambda tx: plugin_storage.delete(tx, "w", "acme/echo", "k"))
    assert not write(database, lambda tx: plugin_storage.delete(tx, "w", "acme/echo", "k"))
    assert rows(database) == 0


def test_a_state_value_counts_for_its_agent_and_its_row_stays(database: SqlDatabase) -> None:
    def put(value: str, limit: int | None = None, **options: Any) -> Any:
        bounds = Quotas(Bounds(state_bytes=limit))
        return write(
            database, lambda tx: state_values.set(tx, "w", AREA, "k", value, bounds=bounds, **options)
        )

    assert put('"1234"') == 1
    assert held(database) == held(database, Account("agent", "a1")) == Amounts(state_bytes=107)
    assert put('"12345"', 107) == QuotaExceeded(WORKSPACE, "state_bytes", 107, 107, 1)
    assert isinstance(put('"12"', 107, if_version=7), state_values.VersionConflict)
    assert put('"12"', 1, if_version=1) == 2, "what shrinks fits"
    assert held(database) == Amounts(state_bytes=105)
    assert write(database, lambda tx: state_values.delete(tx, "w", AREA.scope_key, "k"))
    assert not write(database, lambda tx: state_values.delete(tx, "w", AREA.scope_key, "k"))
    assert held(database) == Amounts(state_bytes=101)
    assert right(database)


async def test_a_deleted_conversation_gives_back_all_that_it_held(
    database: SqlDatabase, folder: BlobFolder
) -> None:
    def store(tx: Tx) -> None:
        for agent_id in ("a1", "a2"):
            area = StateArea("conversation", agent_id * 32, agent_id, conversation_id="c1")
            state_values.set(tx, "w", area, "k", "1")
        artifacts.create(tx, "w", new(7, place=Place(conversation_id="c1")))

    await database.write(store)
    assert await amounts(database) == Amounts(1, 7, state_bytes=204)
    await deletion.delete_conversation(database, folder, "w", "c1", by="test")
    assert await amounts(database) == NOTHING
    assert await is_right(database)


async def test_what_retention_and_expiry_collect_makes_room(database: SqlDatabase) -> None:
    def store(tx: Tx) -> None:
        artifacts.create(tx, "w", new(2), FIVE)
        artifacts.create(tx, "w", new(3, expires_at=tx.now - 1), FIVE)
        area = StateArea("conversation", "s" * 64, "a1", conversation_id="c-old")
        state_values.set(tx, "w", area, "k", "1")

    await database.write(store)
    more = added(RUN, Amounts(artifacts=1, artifact_bytes=1))
    assert await database.read(lambda tx: quotas.take(tx, "w", more, FIVE)) is not None
    await retention.collect_workspace(database, "w", RetentionPolicy())
    assert await amounts(database) == Amounts(1, 2, state_bytes=102), "what expired"
    await retention.collect_workspace(database, "w", RetentionPolicy(artifacts=-1))
    assert await amounts(database) == Amounts(state_bytes=102)
    assert await is_right(database)
    await database.write(lambda tx: artifacts.create(tx, "w", new(5), FIVE))


# -- several hosts -------------------------------------------------------------------------------------------


async def test_hosts_that_store_at_once_fill_a_quota_exactly(database_url: str) -> None:
    """Many writers, in groups and from several databases: never over, nothing refused that fits."""
    count = 1 if not database_url.startswith("postgres") else 3
    opened = [open_database(database_url) for _ in range(count)]
    of_workspace = Bounds(artifacts=40, artifact_bytes=10_000, state_bytes=20 * 102)
    bounds = Quotas(of_workspace, Bounds(artifacts=25))
    try:

        async def one(n: int) -> list[bool]:
            database, agent_id = opened[n % count], f"a{n % 2}"

            def artifact(tx: Tx) -> Any:
                given = {"artifact_id": f"x{n}"}
                return artifacts.create(tx, "w", new(1, Holder(agent_id, f"r{n}"), **given), bounds)

            def state(tx: Tx) -> Any:
                area = StateArea("runner", f"{n:064d}", agent_id)
                return state_values.set(tx, "w", area, "k", "1", bounds=bounds)

            works = [artifact, state] if n % 3 else [state, artifact]
            outcomes = await asyncio.gather(*(database.write(work) for work in works))
            return [isinstance(outcome, QuotaExceeded) for outcome in outcomes]

        refused = await asyncio.gather(*(one(n) for n in range(90)))
        assert await amounts(opened[0]) == Amounts(artifacts=40, artifact_bytes=40, state_bytes=20 * 102)
        assert sum(map(sum, refused)) == 90 - 40 + 90 - 20
        by_agent = dict(await opened[0].read(lambda tx: quotas.of_level(tx, "w", "agent")))
        assert all(amount.artifacts <= 25 for amount in by_agent.values())
        assert await is_right(opened[0])
    finally:
        for database in opened:
            await database.close()


def put_value(tx: Tx, key: str, size: int, holder: Holder) -> None:
    plugin_storage.set(tx, "w", "p", key, bytes(size), allotment=Allotment(holder))


async def test_hosts_that_write_the_same_keys_lose_no_count(database_url: str) -> None:
    """The same storage and state keys from several hosts, written, moved and deleted at random."""
    count = 1 if not database_url.startswith("postgres") else 2
    opened = [open_database(database_url) for _ in range(count)]
    try:

        async def work(seed: int) -> None:
            chance = random.Random(seed)
            database = opened[seed % count]
            for _ in range(25):
                key, size = f"k{chance.randrange(3)}", chance.randrange(50)
                holder = Holder(f"a{chance.randrange(2)}", f"r{seed}")

                works: list[Callable[[Tx], Any]] = [
                    partial(put_value, key=key, size=size, holder=holder),
                    lambda tx, key=key: plugin_storage.delete(tx, "w", "p", key),  # type: ignore[misc]
                    lambda tx, key=key, size=size: state_values.set(tx, "w", AREA, key, "1" * (size + 1)),  # type: ignore[misc]
                    lambda tx, key=key: state_values.delete(tx, "w", AREA.scope_key, key),  # type: ignore[misc]
                ]
                await database.write(chance.choice(works))

        await asyncio.gather(*(work(seed) for seed in range(6)))
        assert await is_right(opened[0])
    finally:
        for database in opened:
            await database.close()


# -- counters that are wrong, and databases from before ------------------------------------------------------


def test_wrong_counters_are_found_and_mended(database: SqlDatabase) -> None:
    make(database, 10)
    write(database, lambda tx: quotas.take(tx, "w", added(OTHER, Amounts(artifacts=3)), Quotas()))
    write(database, lambda tx: tx.run(_sql("DELETE FROM quota_use WHERE level = 'run' AND owner_id = 'r1'")))
    found = read(database, lambda tx: quotas.recount(tx, "w"))
    assert {one.account for one in found} == {
        WORKSPACE,
        Account("agent", "a2"),
        Account("run", "r1"),
        Account("run", "r2"),
    }
    assert write(database, lambda tx: quotas.mend(tx, "w")) == found
    assert right(database)
    assert held(database) == Amounts(1, 10)


OLD_ROWS = """
INSERT INTO runs (workspace_id, run_id, agent_id, agent_name, agent_version, runner_id, lane, parallel,
                  priority, ordinal, status, attempt, crashes, position, sequence, kept_sequence, binding,
                  created_at)
VALUES ('w', 'r1', 'a1', 'a', 1, 'x', 'l', 0, 0, 1, 'completed', 1, 0, 0, 0, 0, '{}', 1);
INSERT INTO artifacts (workspace_id, artifact_id, artifact_type, size_bytes, sha256, source, run_id, metadata,
                       created_at)
VALUES ('w', 'x', 'file', 7, 'd', 'run', 'r1', '{}', 1), ('v', 'y', 'file', 5, 'e', 'event', NULL, '{}', 1);
INSERT INTO artifacts (workspace_id, artifact_id, artifact_type, size_bytes, sha256, source, registered_path,
                       metadata, created_at)
VALUES ('w', 'z', 'file', 100, 'f', 'registered', '{}', '{}', 1);
INSERT INTO uploads (workspace_id, upload_id, run_id, next_part, size_bytes, created_at)
VALUES ('w', 'u', 'r1', 1, 3, 1);
INSERT INTO states (workspace_id, scope_key, key, scope, value, version, agent_id, updated_at)
VALUES ('w', 's', 'ké', 'runner', '"é"', 1, 'a1', 1), ('w', 's', 'gone', 'runner', '', 2, 'a1', 1);
"""
BINARY = {
    "sqlite": "INSERT INTO storage VALUES ('w', 'p', 'k', CAST('12345' AS blob), 1);",
    "postgres": "INSERT INTO storage VALUES ('w', 'p', 'k', CAST('12345' AS bytea), 1);",
}


@ON_EACH_DATABASE
def test_what_an_older_version_stored_is_counted(
    dialect: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = older_database(dialect, tmp_path, request, before=22, rows=OLD_ROWS + BINARY[dialect])
    database = open_database(url)
    try:
        assert held(database) == Amounts(3, 10, 1, 5, len('ké"é"'.encode()) + len("gone") + 200)
        assert held(database, Account("agent", "a1")).artifact_bytes == 10
        assert held(database, Account("run", "r1")) == Amounts(2, 10)
        assert held(database, ws="v") == Amounts(1, 5)
        assert right(database)
        assert right(database, "v")
    finally:
        asyncio.run(database.close())
