"""What is read at the end of a group sees all of it, and undoes nothing of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.storage.port import Look, Tx
from hostler.storage.sql import database as database_module
from hostler.storage.sql import session as session_module
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.errors import NotFoundError, StorageError
from support.group_commits import Guilty, ids, insert, look_at_ids, queued_behind, with_table


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups end when nothing is queued, not when time is over."""
    monkeypatch.setattr(database_module, "MAX_GROUP_SECONDS", 60.0)


@pytest.mark.usefixtures("unhurried")
async def test_a_look_sees_all_that_its_group_writes(database: SqlDatabase) -> None:
    def at_end(tx: Tx, numbers: list[int]) -> None:
        for number in numbers:
            insert(number)(tx)

    def work(number: int) -> Callable[[Tx], Look[list[int]]]:
        def do(tx: Tx) -> Look[list[int]]:
            look = tx.look(look_at_ids)
            tx.at_end(("heads", str(number)), at_end, number)
            return look

        return do

    await with_table(database)
    outcomes = await queued_behind(database, [work(1), work(2)])
    seen = [outcome.value for outcome in outcomes if isinstance(outcome, Look)]
    assert seen == ([None, None] if database.dialect == "postgres" else [[1, 2], [1, 2]])
    assert await ids(database) == [1, 2]


async def test_a_group_stops_looking_once_that_takes_long(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "MAX_LOOK_SECONDS", -1.0)  # over after the first
    await with_table(database)
    await database.write(insert(1))
    looks = await database.write(lambda tx: [tx.look(look_at_ids), tx.look(look_at_ids)])
    assert [look.value for look in looks] == [None if database.dialect == "postgres" else [1], None]
    assert await ids(database) == [1]


async def test_a_look_that_finds_nothing_undoes_nothing(database: SqlDatabase) -> None:
    def nothing(_tx: Tx) -> int:
        raise NotFoundError("there is nothing")

    await with_table(database)
    look = await database.write(lambda tx: insert(1)(tx) and tx.look(nothing))
    assert isinstance(look, Look)
    assert look.value is None
    assert await ids(database) == [1]


@pytest.mark.parametrize("error", [Guilty("unexpected"), StorageError("the disk is gone")])
async def test_a_look_that_fails_undoes_its_own_work_alone(database: SqlDatabase, error: Exception) -> None:
    def fail(_tx: Tx) -> None:
        raise error

    await with_table(database)
    if database.dialect == "sqlite":
        works = [insert(1), lambda tx: insert(2)(tx) and tx.look(fail), insert(3)]
        outcomes = await queued_behind(database, works)
        assert [type(outcome) for outcome in outcomes] == [int, type(error), int]
        assert await ids(database) == [1, 3]
