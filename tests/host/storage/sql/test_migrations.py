"""Migrations: whole steps, once, by one host at a time, and the same schema on both databases."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from hostler.storage.port import Dialect, Query
from hostler.storage.sql import migrate
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.migrate import Migration, Migrator, migrations_for
from hostler.storage.sql.sqlite import SqliteDriver, _Migrations, connect
from hostler_protocol.errors import StorageError
from support.databases import write
from support.postgres import PostgresServer

COLUMNS = Query(
    "t.columns",
    'SELECT m.name AS table_name, c.name AS column_name, c."notnull" AS required FROM sqlite_schema m,'
    " pragma_table_info(m.name) c WHERE m.type = 'table'",
    "SELECT table_name, column_name, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END AS required"
    " FROM information_schema.columns WHERE table_schema = 'public'",
)
INDEXES = Query(
    "t.indexes",
    "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
    "SELECT indexname AS name FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE %(pkey)s",
)
SEARCHES = ("transcript_search", "knowledge_search")
ONLY_HERE = {
    "sqlite": {"transcript_docs", "sqlite_sequence", "sqlite_stat1"},
    "postgres": {"writers"},
}
NEWER = Query("t.newer", *["INSERT INTO schema_versions VALUES (9999, 'later', '7.8.9', 0)"] * 2)


def documented(dialect: Dialect) -> dict[str, set[str]]:
    """Tables and their columns as the migration files state them, read without a database."""
    tables: dict[str, set[str]] = {}
    folder = resources.files("hostler.storage.sql").joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        other = "postgres" if dialect == "sqlite" else "sqlite"
        if file.name.endswith(".sql") and not file.name.endswith(f".{other}.sql"):
            table = None
            for line in file.read_text("utf-8").splitlines():
                words = line.replace(" UNLOGGED", "").split()
                if words[:2] == ["CREATE", "TABLE"]:
                    table = words[2]
                    tables[table] = set()
                elif line.startswith("ALTER TABLE") and words[3:5] == ["ADD", "COLUMN"]:
                    tables[words[2]].add(words[5])
                elif line.startswith(")"):
                    table = None
                elif table and words and words[0].isidentifier() and words[0].islower():
                    tables[table].add(words[0])
    return tables


async def schema(database: SqlDatabase) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in await database.read(lambda tx: tx.all(COLUMNS)):
        if not str(row["table_name"]).startswith(SEARCHES):  # built differently on purpose
            found.setdefault(row["table_name"], {})[row["column_name"]] = row["required"]
    for table in ONLY_HERE[database.dialect]:
        found.pop(table, None)
    return found


async def test_migrating_gives_the_documented_tables(database: SqlDatabase) -> None:
    found = {table: set(columns) for table, columns in (await schema(database)).items()}
    found.pop("schema_versions")
    expected = documented(database.dialect)
    for table in (*SEARCHES, *ONLY_HERE[database.dialect]):
        expected.pop(table, None)
    assert found == expected


async def test_both_databases_have_the_same_tables_columns_and_indexes(
    tmp_path: Path, postgres_server: PostgresServer, postgres_template: str
) -> None:
    ours = open_database(f"{tmp_path}/facts.db")
    url = postgres_server.create(postgres_template)
    theirs = open_database(url)
    first, second = await schema(ours), await schema(theirs)
    assert first.keys() == second.keys()
    for table, columns in first.items():
        assert columns.keys() == second[table].keys(), table
    keyed = {"pkey": "%pkey"}
    names = [
        {
            row["name"]
            for row in await opened.read(lambda tx: tx.all(INDEXES, **keyed))
            if not row["name"].startswith((*SEARCHES, "transcript_docs"))
        }
        for opened in (ours, theirs)
    ]
    assert names[0] == names[1]
    for opened in (ours, theirs):
        await opened.close()
    postgres_server.drop(url)


def test_a_database_of_a_newer_build_is_refused_naming_both(database: SqlDatabase, database_url: str) -> None:
    write(database, lambda tx: tx.run(NEWER))
    with pytest.raises(StorageError, match=r"7\.8\.9") as caught:
        open_database(database_url)
    assert migrate.build_version() in caught.value.message
    assert caught.value.details == {
        "database_version": "7.8.9",
        "build_version": migrate.build_version(),
    }


async def test_opening_again_changes_nothing(database: SqlDatabase, database_url: str) -> None:
    before = await schema(database)
    again = open_database(database_url)
    assert await schema(again) == before
    await again.close()


async def test_hosts_that_start_at_once_migrate_once(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.create()
    for address in (f"{tmp_path}/facts.db", url):
        with ThreadPoolExecutor(6) as pool:
            opened = list(pool.map(open_database, [address] * 6))
        for one in opened:
            assert "runs" in await schema(one)
            await one.close()
    postgres_server.drop(url)


def test_a_migration_that_breaks_off_leaves_whole_ones_and_goes_on_later(tmp_path: Path) -> None:
    def step(number: int, sql: str) -> Migration:
        return Migration(number, f"step{number}", sql.replace("; ", ";\n"))

    good = [
        step(1, "CREATE TABLE a (x bigint);"),
        step(2, "CREATE TABLE b (x bigint); INSERT INTO b VALUES (1);"),
    ]
    broken = [good[0], step(2, "CREATE TABLE b (x bigint); INSERT INTO b VALUES (1); SELECT broken;")]
    connection = connect(tmp_path / "facts.db")
    with pytest.raises(sqlite3.OperationalError, match="broken"):
        Migrator(_Migrations(connection), broken).migrate()
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"schema_versions", "a"}
    assert Migrator(_Migrations(connection), good).migrate() == 1
    assert Migrator(_Migrations(connection), good).migrate() == 0
    assert connection.execute("SELECT count(*) FROM b").fetchone() == (1,)
    connection.close()


def test_a_power_failure_loses_only_the_last_migrations_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(connect(path)) as keeps_the_log:
        keeps_the_log.execute("PRAGMA journal_mode=WAL").fetchone()
        keeps_the_log.execute("SELECT name FROM sqlite_schema").fetchall()
        SqliteDriver(path).close()
        file, log = path.read_bytes(), path.with_name("a.db-wal").read_bytes()
    whole = _objects(path)
    left = []
    for eighth in range(9):
        cut = tmp_path / f"{eighth}.db"
        cut.write_bytes(file)
        cut.with_name(f"{cut.name}-wal").write_bytes(log[: len(log) * eighth // 8])
        left.append(len(_objects(cut)))
        SqliteDriver(cut).close()
        assert _objects(cut) == whole
    assert (left[0], left[-1]) == (0, len(whole))
    assert left == sorted(left)


def _objects(path: Path) -> list[tuple[str, str]]:
    """The tables and indexes of a SQLite file, with their SQL."""
    with closing(connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_migrations_are_numbered_without_doubles(dialect: Dialect) -> None:
    numbers = [migration.number for migration in migrations_for(dialect)]
    assert numbers == sorted(set(numbers))
    assert all("[" not in migration.sql.split("--")[0] for migration in migrations_for(dialect))
