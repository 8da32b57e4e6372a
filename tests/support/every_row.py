"""All rows of a database."""

from __future__ import annotations

from hostler.storage.port import Query, Tx

TABLES = Query(
    "t.tables",
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'transcript_search%' "
    "AND name NOT LIKE 'knowledge_search%'",
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
)


def everything(tx: Tx) -> str:
    """All rows of all tables."""
    found = []
    for table in [row["name"] for row in tx.all(TABLES)]:
        whole = f"SELECT * FROM {table}"
        found += [str(dict(row)) for row in tx.all(Query(f"t.{table}", whole, whole))]
    return "\n".join(found)
