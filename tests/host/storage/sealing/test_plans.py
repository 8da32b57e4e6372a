"""What statements write into columns with content: all of them are understood, and none computes with it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostler
from hostler.storage.port import Query
from hostler.storage.sealing.columns import LABELS, TABLES
from hostler.storage.sealing.plans import plan_of
from hostler.storage.sql.migrate import migrations_for, split_statements
from hostler.storage.sql.statements import load, query_of

pytestmark = pytest.mark.gate("sealed-content")

COMPARED = {
    "erasure.answers_naming": "the ids in a sealed answer stand beside it",
    "search.recent": "only where nothing is sealed",
    "search.recent_anywhere": "only where nothing is sealed",
}
"""Statements that look into the text of a column with content."""


def statements() -> Iterator[Query]:
    for file in sorted(Path(hostler.__file__).parent.rglob("*.sql")):
        if file.parent.name != "migrations":
            yield from load(file)


def test_every_statement_that_writes_content_says_which_and_whose() -> None:
    """A form that is not understood, or a row without its key or workspace, would be found here first."""
    found = [(query, plan) for query in statements() if (plan := plan_of(query)) is not None]
    assert len(found) >= 25
    for query, plan in found:
        row = dict.fromkeys(plan.columns, "x")
        assert plan.table.leaf_of(row) is not None, query.name
        assert "workspace_id" in row, query.name
    written = {(plan.table.name, column) for _, plan in found for column in plan.sealed.values()}
    assert written == {(table.name, column) for table in TABLES.values() for column in table.columns}


def test_results_name_columns_of_content_as_they_are() -> None:
    """A value is opened by the name of its column in the result."""
    renamed = re.compile(rf"(?:SELECT|,)\s+(?:\w+\.)?({'|'.join(LABELS)}) AS (\w+)")
    for query in statements():
        for column, name in renamed.findall(f"{query.sqlite} {query.postgres}"):
            assert name == column, query.name


def test_no_statement_looks_into_content() -> None:
    inside = re.compile(rf"\b(?:instr|strpos|substr|json_extract|length)\([^)]*\b({'|'.join(LABELS)})\b")
    like = re.compile(rf"\b({'|'.join(LABELS)})\b (?:LIKE|GLOB)")
    heads = re.compile(r"substr\((?:search_text|passage), 1, 1\) AS head|length\(request_digest\) > 64")
    for query in statements():
        text = heads.sub("", f"{query.sqlite} {query.postgres}").replace("p.value", "")
        if query.name not in COMPARED:
            assert not inside.search(text), query.name
            assert not like.search(text), query.name


def test_the_columns_exist_and_the_keys_are_those_of_the_tables() -> None:
    database = sqlite3.connect(":memory:")
    for migration in migrations_for("sqlite"):
        for statement in split_statements(migration.sql):
            database.execute(statement)
    for table in TABLES.values():
        info = database.execute(f"PRAGMA table_info({table.name})").fetchall()
        columns = {row[1] for row in info}
        key = [row[1] for row in sorted((row for row in info if row[5]), key=lambda row: row[5])]
        assert columns >= table.columns.keys(), table.name
        assert tuple(key) == table.key, table.name
        assert all(columns.issuperset(leaf.columns) for leaf in table.leaves), table.name


@pytest.mark.parametrize(
    ("sql", "sealed"),
    [
        ("INSERT INTO journal (run_id, data) VALUES (:run, :text)", {"text": "data"}),
        ("INSERT INTO journal (run_id, data) VALUES (:run, '')", None),
        ("INSERT INTO heads (workspace_id, seq) VALUES (:ws, :seq)", None),
        ("UPDATE states SET value = :value, version = version + 1 WHERE key = :key", {"value": "value"}),
        ("UPDATE states SET value = '' WHERE key = :key", None),
        (
            "UPDATE runs SET cancel_reason = coalesce(cancel_reason, :why) WHERE run_id = :r",
            {"why": "cancel_reason"},
        ),
        ("UPDATE runs SET cancel_reason = CAST(:why AS text) WHERE run_id = :r", {"why": "cancel_reason"}),
        ("DELETE FROM states WHERE key = :key", None),
        ("SELECT value FROM states WHERE key = :key", None),
    ],
)
def test_forms(sql: str, sealed: dict[str, str] | None) -> None:
    plan = plan_of(query_of("t.form", sql, sql))
    assert (None if plan is None else dict(plan.sealed)) == sealed


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE states SET value = :value || 'x' WHERE key = :key",
        "UPDATE states SET value = upper(:value) WHERE key = :key",
        "UPDATE states SET value = :value WHERE key = :value",
        "INSERT INTO states (key, value) SELECT key, value FROM states WHERE key = :key",
        "INSERT INTO states (key, value) VALUES (:key, :value || :more)",
    ],
)
def test_forms_that_compute_with_content_are_refused(sql: str) -> None:
    with pytest.raises(ValueError, match=r"t\.form"):
        plan_of(query_of("t.form", sql, sql))
