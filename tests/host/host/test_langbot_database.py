"""A database of LangBot is read as it is, and never changed, whatever state and origin it has."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.host.langbot import database
from hostler.host.langbot.database import Table, read_database
from hostler.host.langbot.items import Row
from hostler.host.langbot.source import read_source
from hostler_protocol.errors import InvalidArgumentError
from support.langbot import LangBot, legacy

pytestmark = pytest.mark.gate("langbot-import")

CONFIG = legacy("dify-service-api", {"api-key": "app-1"})


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def named(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_a_write_ahead_log_is_read_while_langbot_writes(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data", wal=True)
    bot.pipeline("a", CONFIG)
    bot.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bot.pipeline("only in the log", CONFIG)
    bot.db.execute("BEGIN IMMEDIATE")
    bot.pipeline("not committed", CONFIG)
    before = files(bot.data)
    assert named(read_database(bot.path)) == ["a", "only in the log"]
    after = files(bot.data)
    assert after.keys() == before.keys()
    assert (after["langbot.db"], after["langbot.db-wal"]) == (before["langbot.db"], before["langbot.db-wal"])
    bot.db.execute("COMMIT")
    assert named(read_database(bot.path)) == ["a", "only in the log", "not committed"]
    bot.close()


def test_a_link_leads_to_the_log_beside_the_database(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data", wal=True)
    bot.pipeline("only in the log", CONFIG)
    (tmp_path / "langbot.db").symlink_to(bot.path)
    assert named(list(read_source(tmp_path).rows)) == ["only in the log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "langbot.db"]
    bot.close()


def test_a_database_that_was_closed_gets_no_file_beside_it(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data", wal=True)
    bot.pipeline("a", CONFIG)
    bot.close()
    before = files(bot.data)
    assert list(before) == ["langbot.db"]
    bot.data.chmod(0o555)
    try:
        assert named(read_database(bot.path)) == ["a"]
    finally:
        bot.data.chmod(0o755)
    assert files(bot.data) == before


@pytest.mark.parametrize("wal", [True, False], ids=["log", "journal"])
def test_what_a_crash_left_is_recovered_in_a_copy(tmp_path: Path, wal: bool) -> None:
    bot = LangBot(tmp_path / "data", wal=wal)
    bot.pipeline("committed", CONFIG)
    if not wal:
        bot.db.execute("PRAGMA cache_size = 1")
        bot.db.execute("PRAGMA cache_spill = 1")
        bot.db.execute("BEGIN")
        for number in range(200):
            bot.pipeline(f"lost {number}", legacy("dify-service-api", {"base-prompt": "x" * 2_000}))
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for path in bot.data.glob("langbot.db*"):
        if not path.name.endswith("-shm"):
            shutil.copyfile(path, crashed / path.name)
    bot.close()
    before = files(crashed)
    assert len(before) == 2
    assert named(read_database(crashed / "langbot.db")) == ["committed"]
    assert files(crashed) == before


def test_a_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    bot = LangBot(tmp_path / "data")
    bot.db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InvalidArgumentError, match="LangBot has it locked: try again"):
        read_database(bot.path)
    bot.close()


def test_pages_that_are_damaged_cost_what_was_on_them(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data")
    for number in range(60):
        bot.pipeline(f"p{number}", legacy("dify-service-api", {"base-prompt": "x" * 3_000}))
    bot.server("still there", "http", {"url": "https://mcp.example/mcp"})
    bot.close()
    whole = bytearray(bot.path.read_bytes())
    middle = whole.index(b'"p30"') if b'"p30"' in whole else len(whole) // 2
    page = middle - middle % 4096
    whole[page : page + 4096] = b"\xff" * 4096
    bot.path.write_bytes(whole)
    rows = read_database(bot.path)
    assert "still there" in named(rows)
    assert len([row for row in rows if row.kind == "pipeline" and not row.damage]) < 60
    assert any("damaged" in row.damage for row in rows)


@pytest.mark.parametrize("size", [0, 10, 100, 5000])
def test_a_file_that_is_cut_short_is_an_error(tmp_path: Path, size: int) -> None:
    bot = LangBot(tmp_path / "data")
    bot.pipeline("a", CONFIG)
    bot.close()
    bot.path.write_bytes(bot.path.read_bytes()[:size])
    with pytest.raises(
        InvalidArgumentError, match=r"no SQLite database|cannot be read|no database of LangBot"
    ):
        read_source(bot.path.parent)


def test_tables_that_langbot_does_not_make_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views and virtual tables would run what a stranger wrote."""
    monkeypatch.setattr(database, "READ_SECONDS", 0.2)
    path = tmp_path / "langbot.db"
    db = sqlite3.connect(path, isolation_level=None)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'u' || i AS uuid FROM n"
    db.execute(f"CREATE VIEW legacy_pipelines AS {endless}")
    db.execute("CREATE VIRTUAL TABLE mcp_servers USING fts5(uuid, name)")
    db.execute("CREATE TABLE llm_models (name TEXT PRIMARY KEY) WITHOUT ROWID")
    db.execute("CREATE TABLE knowledge_bases (a TEXT)")
    db.execute("CREATE TABLE model_providers (uuid TEXT, name TEXT AS (hex(zeroblob(length(uuid)))))")
    db.execute("INSERT INTO model_providers (uuid) VALUES ('p')")
    db.close()
    rows = {row.name: row.damage for row in read_database(path)}
    assert "is a virtual table" in rows["mcp_servers"]
    assert "has no column that is known" in rows["knowledge_bases"]
    assert "legacy_pipelines" not in rows
    assert "cannot be read to its end" in rows["llm_models"]
    assert rows["p"] == ""  # known by its id: a computed name is not read


def test_bounds_are_reached_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_ROWS", 3)
    monkeypatch.setattr(database, "MAX_VALUE_BYTES", 100_000)
    bot = LangBot(tmp_path / "data")
    bot.pipeline("large", legacy("dify-service-api", {"base-prompt": "x" * 200_000}))
    for number in range(4):
        bot.pipeline(f"p{number}", CONFIG)
    bot.pipeline("deep", "[" * 3000 + "]" * 3000)
    bot.close()
    found = {row.name: row.damage for row in read_database(bot.path)}
    assert found == {
        "row 1": "row 1 of legacy_pipelines: a value has over 100,000 bytes",
        "p0": "",
        "p1": "",
        "legacy_pipelines": "the table legacy_pipelines has more than 3 rows; the others are not read",
    }


def test_values_of_any_kind_are_damage_and_no_error(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data")
    for name, raw in {
        "deep": "[" * 3000 + "]" * 3000,
        "nan": '{"a": NaN}',
        "bytes": b"\x00\xff",
        "empty": "",
        "huge number": "1e999",
        "half": '{"a": "\\ud800"}',
    }.items():
        bot.pipeline(name, raw)
    bot.db.execute("UPDATE legacy_pipelines SET config = 7 WHERE name = 'empty'")
    bot.db.execute(
        "INSERT INTO legacy_pipelines (uuid, name, description, for_version, is_default, stages, config)"
        " VALUES (x'ff', x'fffe', '', '', 0, '', '{}')"
    )
    bot.close()
    rows = read_database(bot.path)
    damage = {row.name: row.damage for row in rows}
    assert "nested" in damage["deep"]
    assert "is no JSON" in damage["nan"]
    assert damage["pipeline without a name"] == "uuid is no text in UTF-8; name is no text in UTF-8"
    assert len(rows) == 7


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "langbot.db")
    for path in (tmp_path, tmp_path / "langbot.db"):
        with pytest.raises(InvalidArgumentError, match=r"there is no database|neither a file nor a folder"):
            read_source(path)
    os.mkfifo(tmp_path / "config.yaml")
    with pytest.raises(InvalidArgumentError, match="not an ordinary file"):
        read_source(tmp_path)


def test_the_place_of_the_database_is_that_of_its_configuration(tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "elsewhere")
    bot.pipeline("a", CONFIG)
    bot.close()
    data = tmp_path / "langbot" / "data"
    data.mkdir(parents=True)
    settings = data / "config.yaml"
    settings.write_text(f"database:\n  use: sqlite\n  sqlite: {{path: {bot.path}}}\n")
    assert named(list(read_source(data).rows)) == ["a"]
    (data / "langbot.db").symlink_to(bot.path)
    settings.write_text("database: {sqlite: {path: 'nowhere.db'}}\n")
    assert named(list(read_source(data).rows)) == ["a"]
    settings.write_text("database: {use: postgresql}\n")
    with pytest.raises(InvalidArgumentError, match="keeps its pipelines in 'postgresql', which is not read"):
        read_source(data)
    settings.write_text("a: &a [1, *a]\n")
    with pytest.raises(InvalidArgumentError, match="it has an alias"):
        read_source(data)


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("bomb.yaml", BOMB, "it has an alias"),
        ("cycle.yaml", "ai: &x {runner: *x}\n", "it has an alias"),
        ("deep.yaml", "[" * 500, "nested over 64 levels"),
        ("deep.json", "[" * 50_000, "is no JSON"),
        ("tag.yaml", "ai: !!python/object/apply:os.system ['true']\n", "neither JSON nor YAML"),
        ("text.yaml", "hello", "has no pipeline"),
        ("empty.json", "", "is no JSON"),
        ("none.json", '{"data": {"data": {"data": {"data": {"ai": {}}}}}}', "has no pipeline"),
        ("large.json", '"' + "x" * (4 * 1024 * 1024) + '"', "has over 4,194,304 bytes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidArgumentError, match=wanted):
        read_source(tmp_path / name)


def test_values_that_only_yaml_has_are_damage(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("- ai: {runner: {runner: 2026-01-01}}\n- ai: {1: x}\n- hello\n")
    rows = read_source(tmp_path / "p.yaml").rows
    assert [row.name for row in rows] == ["p 1", "p 2", "p 3"]
    assert [bool(row.damage) for row in rows] == [True, True, False]  # the last one is refused as it is used


def test_more_exported_pipelines_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.host.langbot.source.MAX_EXPORTED", 2)
    (tmp_path / "p.json").write_text(json.dumps([CONFIG, CONFIG]))
    assert len(read_source(tmp_path / "p.json").rows) == 2
    (tmp_path / "p.json").write_text(json.dumps([CONFIG, CONFIG, CONFIG]))
    with pytest.raises(InvalidArgumentError, match="has more than 2 pipelines: split it"):
        read_source(tmp_path / "p.json")


def test_a_database_that_is_too_large_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_COPY_BYTES", 1000)
    bot = LangBot(tmp_path / "data", wal=True)
    bot.pipeline("a", CONFIG)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("langbot.db", "langbot.db-wal"):
        shutil.copyfile(bot.data / name, crashed / name)
    bot.close()
    with pytest.raises(InvalidArgumentError, match="was not closed properly, and is too large"):
        read_database(crashed / "langbot.db")


def test_reading_takes_no_longer_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "READ_SECONDS", -1.0)
    monkeypatch.setattr(database, "_STEPS", 1)
    bot = LangBot(tmp_path / "data")
    bot.pipeline("a", CONFIG)
    bot.close()
    with pytest.raises(InvalidArgumentError, match="it takes more than -1 seconds"):
        read_database(bot.path)


def test_all_tables_are_read_as_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = LangBot(tmp_path / "data", wal=True)
    bot.pipeline("a", CONFIG)

    def meanwhile(db: sqlite3.Connection, name: str, table: Table) -> Iterator[Row]:
        found = list(rows(db, name, table))
        if name == "legacy_pipelines":
            bot.server("later", "http", {"url": "https://mcp.example/mcp"})
        return iter(found)

    rows = database._rows
    monkeypatch.setattr(database, "_rows", meanwhile)
    assert named(read_database(bot.path)) == ["a"]
    bot.close()
