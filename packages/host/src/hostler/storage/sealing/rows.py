"""Statements on the rows of all tables with content, made from `columns.TABLES`: a new column is in them.

Every part of them is a name from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from hostler.storage.port import Query
from hostler.storage.sealing.columns import TABLES, Leaf, Table
from hostler.storage.sealing.envelope import BYTES_MARK, MARK, bytes_head_of, head_of
from hostler.storage.sql.statements import query_of

BINARY = frozenset({("storage", "value"), ("pauses", "state")})
"""Columns of bytes; all others are text."""
BY_RUN_ID = frozenset({"runs", "run_sources", "journal"})
"""Tables whose rows are found by a run id alone, which is unique in the installation."""

PLACES = dict.fromkeys(
    ("events", "waiting_messages", "artifacts", "states", "runs", "pauses", "outbox", "schedules"),
    ("conversation_id",),
) | {"transcripts": ("conversation_id", "thread_id", "bot_id"), "knowledge_passages": ("base_id", "number")}
"""Columns that say where a row belongs, besides those that name its key."""


def heads(key_id: str) -> dict[str, str | bytes]:
    """Return the parameters by which rows are found that a key sealed."""
    return {"head": head_of(key_id), "bytes_head": bytes_head_of(key_id)}


def marks() -> dict[str, str | bytes]:
    """Return the parameters by which sealed values are told from others."""
    return {"mark": MARK, "bytes_mark": BYTES_MARK}


@cache
def sealed_by(kind: str) -> Sequence[Query]:
    """Return statements that find a row with a value that a data key of a kind sealed.

    Parameters: those of `heads`, `workspace_id`, and the values that name the key, as `named_0`, `named_1`.
    """
    return tuple(_sealed_by(table, leaf) for table, leaf in _of_kind(kind))


@cache
def columns_of(table: Table) -> Query:
    """Return the statement that reads key and content of the next rows with a plain value, to seal them.

    Parameters: those of `marks`, `after_0` ... (the key of the last row), `limit`.
    """
    others = [column for leaf in table.leaves for column in leaf.columns]
    places = PLACES.get(table.name, ())
    names = list(dict.fromkeys([*table.key, *others, "workspace_id", *places, *table.columns]))
    after = ", ".join(f":after_{n}" for n in range(len(table.key)))
    plain = " OR ".join(_is_plain(table.name, column) for column in table.columns)
    key = ", ".join(table.key)
    text = (
        f"SELECT {', '.join(names)} FROM {table.name} WHERE ({key}) > ({after}) AND {table.holds} "  # noqa: S608
        f"AND ({plain}) ORDER BY {key} LIMIT :limit [postgres FOR UPDATE]"
    )
    return query_of(f"sealing.plain_{table.name}", text, text)


@cache
def update_of(table: Table) -> Query:
    """Return the statement that writes the content of a row again. The key's parameters begin with `key_`."""
    columns = ", ".join(f"{column} = :{column}" for column in table.columns)
    key = " AND ".join(f"{column} = :key_{column}" for column in table.key)
    text = f"UPDATE {table.name} SET {columns} WHERE {key}"  # noqa: S608
    return query_of(f"sealing.seal_{table.name}", text, text)


@cache
def count_of(table: Table) -> Query:
    """Return the statement that counts rows with a plain value, up to `limit`."""
    plain = " OR ".join(_is_plain(table.name, column) for column in table.columns)
    found = f"SELECT 1 FROM {table.name} WHERE {table.holds} AND ({plain}) LIMIT :limit"  # noqa: S608
    text = f"SELECT count(*) AS total FROM ({found}) AS plain"  # noqa: S608
    return query_of(f"sealing.count_{table.name}", text, text)


def _of_kind(kind: str) -> Iterator[tuple[Table, Leaf]]:
    for table in TABLES.values():
        for leaf in table.leaves:
            if leaf.kind == kind:
                yield table, leaf


def _sealed_by(table: Table, leaf: Leaf) -> Query:
    heads = " OR ".join(
        f"substr({column}, 1, {len(bytes_head_of(''.ljust(16)))}) = :bytes_head"
        if (table.name, column) in BINARY
        else f"substr({column}, 1, {len(head_of(''.ljust(16)))}) = :head"
        for column in table.columns
    )
    where = [_named(column, n) for n, column in enumerate(leaf.columns)]
    if table.name not in BY_RUN_ID:
        where.insert(0, "workspace_id = :workspace_id")
    named = " AND ".join(where)
    text = f"SELECT 1 AS found FROM {table.name} WHERE {named} AND ({heads}) LIMIT 1"  # noqa: S608
    return query_of(f"sealing.{leaf.kind}_in_{table.name}", text, text)


def _named(column: str, n: int) -> str:
    is_number = column == "seq"
    return f"{column} = CAST(:named_{n} AS bigint)" if is_number else f"{column} = :named_{n}"


def _is_plain(table: str, column: str) -> str:
    if (table, column) in BINARY:
        return f"(length({column}) > 0 AND substr({column}, 1, {len(BYTES_MARK)}) <> :bytes_mark)"
    return f"({column} NOT IN ('', '{{}}', '[]') AND substr({column}, 1, {len(MARK)}) <> :mark)"
