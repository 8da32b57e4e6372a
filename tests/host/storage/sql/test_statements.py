"""Statement files: versions, parameters and marks."""

from __future__ import annotations

import pytest

from hostler.storage.sql.statements import parse, query_of


@pytest.mark.parametrize(
    ("sql", "sqlite", "postgres"),
    [
        (
            "id IN [texts :ids]",
            "id IN (SELECT value FROM json_each(?))",
            "id IN (SELECT value FROM jsonb_array_elements_text(CAST(%(ids)s AS jsonb)) AS value)",
        ),
        (
            "seq IN [numbers :seqs]",
            "seq IN (SELECT value FROM json_each(?))",
            "seq IN (SELECT CAST(value AS bigint) AS value"
            " FROM jsonb_array_elements_text(CAST(%(seqs)s AS jsonb)) AS value)",
        ),
        (
            "[is w.bot_id :bot_id]",
            "w.bot_id IS ?",
            "(w.bot_id = %(bot_id)s OR (w.bot_id IS NULL AND CAST(%(bot_id)s AS text) IS NULL))",
        ),
        ("[field usage.cost]", "json_extract(usage, '$.cost')", "(CAST(usage AS jsonb) ->> 'cost')"),
        ("SELECT 1\n[postgres FOR UPDATE]", "SELECT 1", "SELECT 1 FOR UPDATE"),
    ],
)
def test_marks_stand_for_the_sql_of_each_database(sql: str, sqlite: str, postgres: str) -> None:
    query = query_of("t.one", sql, sql)
    assert (query.sqlite, query.postgres) == (sqlite, postgres)


def test_a_second_version_is_for_postgresql_alone() -> None:
    queries = parse("-- name: one\nSELECT :a\n-- name: one (postgres)\n-- why\nSELECT :b", "t")
    assert (queries.one.sqlite, queries.one.postgres) == ("SELECT ?", "SELECT %(b)s")
    assert queries.one.names == ("a",)


def test_a_part_stands_for_what_statements_have_in_common() -> None:
    part = "-- part: some\n-- why\nIN [texts :ids]\n"
    queries = parse(f"{part}-- name: a\nSELECT :x [part some]\n-- name: b\nSELECT 2 [part some]", "t")
    assert [query.name for query in queries] == ["t.a", "t.b"]
    assert queries.a.sqlite == "SELECT ? IN (SELECT value FROM json_each(?))"
    assert queries.a.names == ("x", "ids")
    assert queries.b.postgres.startswith("SELECT 2 IN (SELECT value FROM jsonb_array_elements_text(")
    for wrong, words in (
        ("-- name: a\nSELECT [part gone]", "t.sql: there is no part 'gone'"),
        ("-- part: p\n1\n-- part: p\n2", "two parts are named 'p'"),
    ):
        with pytest.raises(ValueError, match=words):
            parse(wrong, "t")


def test_a_name_stands_for_one_statement() -> None:
    with pytest.raises(ValueError, match="two statements are named 'one'"):
        parse("-- name: one\nSELECT 1\n-- name: one\nSELECT 2", "t")
