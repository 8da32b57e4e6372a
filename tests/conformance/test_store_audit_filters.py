"""Filters of the audit log, on both databases, against a filter written down plainly."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit
from hostler.storage.stores.audit import AuditFact, AuditFilter, outcome_of
from support.databases import read, write

ACTORS, TARGETS = ["ada", "bea", "oidc:x#1"], ["t1", "t2", "t3"]
ACTIONS = ["key.created", "key.revoked", "keys.other", "tool.refused", "run.retried"]


def filled(database: SqlDatabase, count: int = 60, ws: str = "w") -> list[AuditFact]:
    dice = random.Random(4)

    def one(tx: Any) -> None:
        names = (dice.choice(ACTORS), dice.choice(ACTIONS), dice.choice(TARGETS))
        audit.record(tx, ws, *names, {"n": dice.random()})

    for _ in range(count):
        write(database, one)
    return read(database, lambda tx: audit.page(tx, ws, limit=count))


def all_of(database: SqlDatabase, wanted: AuditFilter, limit: int, ws: str = "w") -> list[AuditFact]:
    found: list[AuditFact] = []
    before: int | None = None
    for _ in range(1000):
        page = read(
            database,
            lambda tx, at=before: audit.find(tx, ws, wanted, before_seq=at, limit=limit),  # type: ignore[misc]
        )
        found += page.facts
        before = page.before_seq
        if before is None:
            return found
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_every_combination_finds_what_it_says(database: SqlDatabase, limit: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(audit, "WALK_ROWS", 8)
    monkeypatch.setattr(audit, "MAX_WALKED", 24)  # pages are short, and the list goes on
    facts = filled(database)
    filled(database, 5, ws="v")
    times = [facts[40].created_at, facts[10].created_at]
    dice = random.Random(limit)
    for _ in range(40):
        wanted = AuditFilter(
            actor=dice.choice([None, *ACTORS, "nobody"]),
            action=dice.choice([None, *ACTIONS, "key", "k"]),
            target=dice.choice([None, *TARGETS]),
            outcome=dice.choice([None, "done", "refused"]),
            since=dice.choice([0, times[0]]),
            until=dice.choice([2**62, times[1]]),
        )
        expected = [
            fact
            for fact in facts
            if wanted.actor in (None, fact.actor)
            and wanted.target in (None, fact.target)
            and wanted.outcome in (None, outcome_of(fact.action))
            and (wanted.action in (None, fact.action) or fact.action.split(".")[0] == wanted.action)
            and wanted.since <= fact.created_at < wanted.until
        ]
        assert all_of(database, wanted, limit) == expected, wanted


def test_a_full_page_that_is_the_last_says_so(database: SqlDatabase) -> None:
    filled(database, 3)
    page = read(database, lambda tx: audit.find(tx, "w", AuditFilter(), before_seq=None, limit=3))
    assert (len(page.facts), page.before_seq) == (3, None)
    page = read(database, lambda tx: audit.find(tx, "w", AuditFilter(), before_seq=None, limit=2))
    assert len(page.facts) == 2
    assert page.before_seq is not None


def test_a_time_after_everything_finds_nothing(database: SqlDatabase) -> None:
    facts = filled(database, 3)
    later = facts[0].created_at + 10 * audit.SKEW_MS
    assert all_of(database, AuditFilter(since=later), 10) == []
    assert all_of(database, AuditFilter(until=1), 10) == []
