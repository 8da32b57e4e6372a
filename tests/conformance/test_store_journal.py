"""The journal of a run on both databases: deltas that share rows, pages, cursors."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from hostler.storage.port import Query
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal
from hostler.storage.stores.journal import Deltas, NewEntry
from hostler.storage.stores.runs import Appended
from hostler_protocol.errors import ExpiredError
from support.run_rows import append, at, delta, new, opened, result

DROP_DELTAS = Query("t.drop", *["DELETE FROM journal WHERE type = 'message.delta'"] * 2)
ROWS = Query("t.rows", *["SELECT count FROM journal ORDER BY last_position"] * 2)


async def test_deltas_share_rows_and_come_back_one_by_one(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    outcome = await append(
        database,
        "r1",
        1,
        *[delta(n) for n in range(300)],
        result("message.completed", '{"pretty":\n1}'),
        NewEntry("call", "state.get", "{}"),
        delta(300),
    )
    assert outcome == Appended(2, 1)
    assert [row["count"] for row in await database.read(lambda tx: tx.all(ROWS))] == [1, 256, 44, 1, 1, 1]
    found = await database.read(lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in found.items] == list(range(1, 303))
    assert found.items[299].data == '{"data":{"n":299}}'
    assert found.items[300].data == '{"data":{"pretty": 1}}'
    assert [entry.position for entry in found.items[-2:]] == [302, 304]
    assert (await at(database, "r1")).kept_sequence == 301
    completed = await database.read(lambda tx: journal.of_type(tx, "r1", "message.completed"))
    assert [entry.sequence for entry in completed.items] == [301]


async def test_deltas_written_many_at_once_stand_as_those_written_one_by_one(database: SqlDatabase) -> None:
    many = [b'{"data":{"n":%d}}' % n for n in range(700)]
    long = b'{"data":"%b"}' % (b"x" * 30_000)
    last = [result("log"), delta(7)]
    together: list[Any] = [delta(0), Deltas(many[1:300]), Deltas(many[300:]), Deltas([long] * 5), *last]
    alone: list[Any] = [*map(delta, range(700)), *[NewEntry("result", "message.delta", long)] * 5, *last]
    await opened(database, new("r1"))
    assert await append(database, "r1", 1, *together) == Appended(2, 1)
    assert [row["count"] for row in await database.read(lambda tx: tx.all(ROWS))] == [
        1,
        256,
        256,
        190,
        2,
        1,
        1,
        1,
    ]
    await opened(database, new("r2"))
    assert await append(database, "r2", 1, *alone) == Appended(2, 1)
    assert (await at(database, "r1")).sequence == (await at(database, "r2")).sequence == 707
    pages = [(await database.read(partial(journal.results, run_id=run_id))).items for run_id in ("r1", "r2")]
    first, second = ([(entry.sequence, entry.position, entry.data) for entry in page] for page in pages)
    assert first == second
    assert [sequence for sequence, _, _ in first] == list(range(1, 708))


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
async def test_pages_of_the_journal_are_whole_from_any_point(database: SqlDatabase, limit: int) -> None:
    await opened(database, new("r1"))
    for _ in range(6):
        await append(database, "r1", 1, *[delta(n) for n in range(40)], NewEntry("warning", "w", "{}"))
    total = 1 + 6 * 41
    for start in (0, 1, 41, 42, 100, total, total + 5):
        seen: list[int] = []
        after, more = start, True
        while more:
            page = await database.read(lambda tx, a=after: journal.page(tx, "r1", a, limit))  # type: ignore[misc]
            assert len(page.items) <= limit
            seen += [entry.position for entry in page.items]
            after, more = (page.items[-1].position if page.items else after), page.more
        assert seen == list(range(start + 1, total + 1))
    before, backward = total + 1, list[int]()
    while page := await database.read(lambda tx, b=before: journal.page_backward(tx, "r1", b, limit)):  # type: ignore[misc]
        backward += [entry.position for entry in page.items]
        if not page.more:
            break
        before = page.items[-1].position
    assert backward == list(range(total, 0, -1))


async def test_a_page_is_bounded_by_its_bytes(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    for _ in range(10):
        await append(database, "r1", 1, result("log", '"' + "x" * 10_000 + '"'))
    page = await database.read(lambda tx: journal.results(tx, "r1", max_bytes=35_000))
    assert [entry.sequence for entry in page.items] == [1, 2, 3]
    assert page.more
    one = await database.read(lambda tx: journal.results(tx, "r1", 3, max_bytes=1))
    assert [entry.sequence for entry in one.items] == [4], "never nothing, or a reader would stand still"


async def test_a_cursor_into_what_was_dropped_is_expired(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    await append(database, "r1", 1, *[delta(n) for n in range(5)], result("message.completed"))
    await append(database, "r1", 1, *[delta(n) for n in range(5)], result("message.completed"))
    await database.write(lambda tx: tx.run(DROP_DELTAS))
    for sequence in (1, 3, 5, 7, 11):
        with pytest.raises(ExpiredError, match=f"sequence {sequence} "):
            await database.read(lambda tx, s=sequence: journal.results(tx, "r1", s))  # type: ignore[misc]
    with pytest.raises(ExpiredError, match="position 4 "):
        await database.read(lambda tx: journal.page(tx, "r1", 4))
    kept = await database.read(lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in kept.items] == [6, 12], "from the beginning it reads what is left"
    after = await database.read(lambda tx: journal.results(tx, "r1", 6))
    assert [entry.sequence for entry in after.items] == [12], "after a message that was kept, nothing is lost"
    assert (await database.read(lambda tx: journal.results(tx, "r1", 12))).items == []
