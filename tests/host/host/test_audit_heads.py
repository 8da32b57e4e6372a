"""Heads of the hash chains, noted beside the database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.host.audit_heads import FILE_NAME, MAX_FILE_BYTES, AuditHeads, read_noted, read_own
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import audit
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("chain-ends")

CUT = parse(
    """
-- name: rows
DELETE FROM audit WHERE workspace_id = 'w1' AND seq > 1
-- name: head
UPDATE heads SET seq = 1, digest = (SELECT digest FROM audit WHERE workspace_id = 'w1' AND seq = 1)
WHERE workspace_id = 'w1' AND chain = 'audit'
""",
    "cut",
)


async def record(database: SqlDatabase, *workspaces: str) -> None:
    for workspace in workspaces:
        await database.write(lambda tx, ws=workspace: audit.record(tx, ws, "ada", "did", "it", {}))  # type: ignore[misc]


def noted(folder: Path) -> dict[str, int]:
    return {one.end.workspace: one.end.seq for one in read_own(folder)}


async def cut(database: SqlDatabase) -> None:
    def work(tx: Tx) -> None:
        tx.run(CUT.rows)
        tx.run(CUT.head)

    await database.write(work)


async def test_the_latest_heads_of_all_workspaces_are_noted(database: SqlDatabase, tmp_path: Path) -> None:
    heads = AuditHeads(database, tmp_path)
    await heads.note()
    assert not (tmp_path / FILE_NAME).exists(), "there is nothing to note"
    await record(database, "w1", "w2", "w1")
    await heads.note()
    assert noted(tmp_path) == {"w1": 2, "w2": 1}
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    before = (tmp_path / FILE_NAME).stat().st_mtime_ns
    await heads.note()
    assert (tmp_path / FILE_NAME).stat().st_mtime_ns == before, "nothing changed"
    await record(database, "w2")
    await AuditHeads(database, tmp_path).note()
    assert noted(tmp_path) == {"w1": 2, "w2": 2}


@pytest.mark.parametrize("restarted", [True, False])
async def test_a_chain_that_lost_what_was_noted_is_told_of_and_noted_no_further(
    database: SqlDatabase, tmp_path: Path, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await record(database, "w1", "w1", "w2")
    heads = AuditHeads(database, tmp_path)
    await heads.note()
    await cut(database)
    heads = AuditHeads(database, tmp_path) if restarted else heads
    await heads.note()
    await record(database, "w1", "w1", "w2")
    await heads.note()
    assert noted(tmp_path) == {"w1": 2, "w2": 2}
    assert list(heads.broken) == [("w1", "audit")]
    assert [line.message for line in caplog.records] == [heads.broken["w1", "audit"]], "once"


async def test_what_is_not_a_list_of_heads_is_refused_with_its_name(
    database: SqlDatabase, tmp_path: Path
) -> None:
    path = tmp_path / FILE_NAME
    for content in ("{}", "[1]", "not JSON", '[{"workspace": "w", "chain": "runs", "seq": 1, "head": ""}]'):
        path.write_text(content)
        with pytest.raises(InvalidArgumentError, match=FILE_NAME):
            read_noted(path)
        with pytest.raises(InvalidArgumentError, match=FILE_NAME):
            await AuditHeads(database, tmp_path).note()
    assert path.read_text() != ""
    with pytest.raises(InvalidArgumentError, match="no such file"):
        read_noted(tmp_path / "gone")
    assert len(json.dumps([])) < MAX_FILE_BYTES


async def test_a_file_that_cannot_be_used_is_told_of_and_stops_nothing(
    database: SqlDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    await AuditHeads(database, tmp_path).try_note()
    assert FILE_NAME in caplog.text
