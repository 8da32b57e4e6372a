"""The timeline of a workspace on both databases: one order, read from any sequence, and what leaves it."""

from __future__ import annotations

from hostler.journal.timeline_entries import read_page
from hostler.journal.timeline_feed import TimelineFilter
from hostler.storage.port import Query
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import timeline
from support.run_rows import append, delta, new, opened, result

AGE = Query("t.age", *["UPDATE timeline SET created_at = 0 WHERE last_seq <= 100"] * 2)
FORGET = Query("t.forget", *["UPDATE runs SET conversation_id = NULL WHERE run_id = 'r1'"] * 2)


async def read(database: SqlDatabase, after: int, wanted: TimelineFilter) -> list[tuple[int, str]]:
    """All entries after a sequence, page by page: sequence and type."""
    found: list[tuple[int, str]] = []
    more = True
    while more:
        page = await database.read(
            lambda tx, after=after: read_page(  # type: ignore[misc]
                tx,
                "w1",
                after,
                conversation_id=wanted.conversation_id,
                wants=wanted.wants_row,
                deltas=wanted.wants_deltas,
            )
        )
        found += [(entry.sequence, entry.type) for entry in page.entries]
        after, more = page.until, page.more
    return found


async def test_entries_have_one_order_and_are_read_from_anywhere(database: SqlDatabase) -> None:
    await opened(database, new("r1", conversation_id="c1"), new("r2", conversation_id="c2"))
    for _ in range(3):
        await append(database, "r1", 1, *[delta(n) for n in range(300)], result("message.completed"))
        await append(database, "r2", 1, delta(0))
    everything, first = TimelineFilter("w1"), TimelineFilter("w1", "c1")
    whole = await read(database, 0, everything)
    assert [sequence for sequence, _ in whole] == list(range(1, 2 + 3 * 302 + 1))
    for cut in (0, 1, 150, 303, 304, 700, len(whole)):
        assert await read(database, cut, everything) == whole[cut:]
    of_first = await read(database, 0, first)
    assert len(of_first) == 1 + 3 * 301
    assert set(of_first) < set(whole)
    without = TimelineFilter("w1", types=frozenset({"message.completed", "run.status"}))
    assert len(await read(database, 0, without)) == 2 + 3


async def test_what_is_old_or_forgotten_leaves_it(database: SqlDatabase) -> None:
    await opened(database, new("r1", conversation_id="c1"), new("r2", conversation_id="c2"))
    await append(database, "r1", 1, *[delta(n) for n in range(150)])
    await append(database, "r2", 1, delta(0))
    await database.write(lambda tx: tx.run(AGE))
    assert await database.write(lambda tx: timeline.sweep(tx, "w1", 2 * timeline.SKEW_MS)) == 2
    assert await database.read(lambda tx: timeline.floor(tx, "w1")) == 2
    assert len(await read(database, 0, TimelineFilter("w1"))) == 151
    await database.write(lambda tx: tx.run(FORGET))
    assert await database.write(lambda tx: timeline.forget(tx, "w1", "c1", 0)) == (1, 152, False)
    assert await database.write(lambda tx: timeline.forget(tx, "w1", "c2", 0)) == (0, 153, False)
    await database.write(lambda tx: timeline.add_deletion(tx, "w1", "c1"))
    assert await read(database, 0, TimelineFilter("w1")) == [
        (153, "message.delta"),
        (154, "conversation.deleted"),
    ]
    assert await read(database, 0, TimelineFilter("w1", "c1")) == [(154, "conversation.deleted")]
    before = await database.read(lambda tx: timeline.head(tx, "w1"))
    await database.write(timeline.skip)
    assert await database.read(lambda tx: timeline.head(tx, "w1")) == before + timeline.SKIPPED
