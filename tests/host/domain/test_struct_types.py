"""Types are learnt before there are threads: a type that is learnt late may crash the process."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hostler.storage.sql.connect import open_database


class Late(msgspec.Struct):
    value: int


class OnlyEncoded(msgspec.Struct):
    value: dict[int, Late] | list[Late] | Late | msgspec.Struct


Late.__module__ = OnlyEncoded.__module__ = "hostler.late"


async def test_opening_a_database_leaves_no_type_to_be_learnt_by_its_threads(tmp_path: Path) -> None:
    database = open_database(tmp_path / "facts.db")
    try:
        Late.__annotations__["value"] = "str"  # comes too late: it is known what it is
        assert msgspec.json.decode(b'{"value": 1}', type=Late) == Late(1)
    finally:
        await database.close()
