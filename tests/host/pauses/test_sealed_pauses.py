"""Invariant 26: with a key, what a runner keeps for itself stands in no table and no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain.pause_sealing import SealedError
from hostler.pauses import explicit_states
from hostler.pauses.encryption import PauseCipher
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import pauses
from hostler.storage.stores.blobs import BlobFolder
from support.pauses import WORKSPACE, call, open_pause, open_run

pytestmark = pytest.mark.gate("sealed-pauses")

CANARY = "canary-4711-in-the-state"


@pytest.mark.parametrize("padding", [0, 400_000], ids=["in the row", "in a file"])
async def test_26_a_sealed_state_is_readable_nowhere_and_gone_with_its_key(
    database: SqlDatabase, tmp_path: Path, padding: int
) -> None:
    blobs, vault = BlobFolder(tmp_path / "blobs"), PauseCipher([b"k" * 32])
    state = {"secret": CANARY, "more": "x" * padding}
    kept = await explicit_states.keep(blobs, vault, "p1", state)
    await database.write(open_run)
    await database.write(
        lambda tx: open_pause(
            tx,
            call("k1"),
            form="explicit",
            state=kept.state,
            state_digest=kept.state_digest,
            state_blob=kept.state_blob,
            state_format=kept.state_format,
            data_key=kept.data_key,
        )
    )
    pause = await database.read(lambda tx: pauses.get(tx, WORKSPACE, "p1"))
    assert await explicit_states.load(blobs, vault, pause) == state
    for table, row in await everything(database):
        assert CANARY not in row, table
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
    with pytest.raises(SealedError):
        await explicit_states.load(blobs, PauseCipher([b"o" * 32]), pause)


async def everything(database: SqlDatabase) -> list[tuple[str, str]]:
    """Every row of every table, as text; bytes as they are."""
    queries = parse(
        """
-- name: tables
SELECT name AS name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
-- name: tables (postgres)
SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema()
""",
        "test",
    )
    tables = [row["name"] for row in await database.read(lambda tx: tx.all(queries.tables))]
    found: list[tuple[str, str]] = []
    for table in tables:
        rows = parse(f"-- name: rows\nSELECT * FROM {table}", "test").rows
        for row in await database.read(lambda tx, rows=rows: tx.all(rows)):  # type: ignore[misc]
            text = "\n".join(map(_text, dict(row).values()))
            found += [(table, text)]
    assert len(tables) > 20
    return found


def _text(value: object) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
