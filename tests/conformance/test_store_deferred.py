"""Deferred events, on both databases: each is claimed by one worker at a time, and none is lost."""

from __future__ import annotations

from hostler.domain.deferral import DELAYS_SECONDS
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import deferred
from hostler.storage.stores.deferred import Deferred
from support.databases import read, write


def add(database: SqlDatabase, *event_ids: str, ws: str = "w", not_before: int | None = None) -> None:
    for event_id in event_ids:

        def work(tx: Tx, event_id: str = event_id) -> None:
            deferred.add(tx, ws, event_id, not_before)
            deferred.postpone(tx, ws, event_id, 0)

        write(database, work)


def test_a_deferred_event_is_due_after_the_first_pause(database: SqlDatabase) -> None:
    def work(tx: Tx) -> int:
        deferred.add(tx, "w", "e", 7)
        return tx.now

    now = write(database, work)
    assert read(database, deferred.next_due) == now + int(DELAYS_SECONDS[0] * 1000)
    assert write(database, deferred.claim) == []


def test_what_is_due_is_claimed_by_one(database: SqlDatabase) -> None:
    add(database, "a", "b", not_before=9)
    assert sorted(write(database, deferred.claim), key=lambda one: one.event_id) == [
        Deferred("w", "a", 1, 9),
        Deferred("w", "b", 1, 9),
    ]
    assert write(database, deferred.claim) == []
    due, now = read(database, lambda tx: (deferred.next_due(tx), tx.now))
    assert due is not None
    assert 0 < due - now <= deferred.CLAIM_MS, "it is tried again if whoever claimed it dies"


def test_tries_are_counted_and_a_second_deferral_changes_nothing(database: SqlDatabase) -> None:
    add(database, "a")
    write(database, lambda tx: deferred.retry(tx, "w", "a", 0))
    add(database, "a")
    assert [one.tries for one in write(database, deferred.claim)] == [2]
    write(database, lambda tx: deferred.remove(tx, "w", "a"))
    assert read(database, deferred.next_due) is None


def test_they_are_counted_within_a_bound_in_one_workspace_or_in_all(database: SqlDatabase) -> None:
    add(database, "a", "b", "c")
    add(database, "a", ws="other")
    counts = read(
        database,
        lambda tx: [deferred.count(tx, 9), deferred.count(tx, 9, "w"), deferred.count(tx, 2, "w")],
    )
    assert counts == [4, 3, 2]
