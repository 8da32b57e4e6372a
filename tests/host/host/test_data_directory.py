"""The note in a data directory that says which database it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.host.data_directory import (
    NOTE_NAME,
    address_of,
    check_address,
    check_database,
    note_database,
    own_database,
    read_note,
)
from hostler_protocol.errors import InvalidArgumentError, StorageError

pytestmark = pytest.mark.gate("meant-database")

SERVER = "postgresql://ada:secret@db.example:5433/facts?sslmode=require"


@pytest.mark.parametrize(
    ("database", "address"),
    [
        (None, "sqlite"),
        (SERVER, "postgresql://db.example:5433/facts"),
        ("postgresql:///facts?host=/run/pg&password=secret", "postgresql:///facts?host=/run/pg"),
        ("sqlite:///var/facts.db", "sqlite:///var/facts.db"),
    ],
)
def test_an_address_for_people_holds_no_secret(tmp_path: Path, database: str | None, address: str) -> None:
    assert address_of(tmp_path, database) == address


def test_the_own_database_is_the_same_however_it_is_named(tmp_path: Path) -> None:
    assert address_of(tmp_path, str(own_database(tmp_path))) == "sqlite"


def test_a_directory_without_a_note_takes_any_database(tmp_path: Path) -> None:
    check_address(tmp_path, SERVER)
    check_database(tmp_path, SERVER, "one")
    assert read_note(tmp_path) is None


def test_another_database_is_refused_and_the_same_under_another_name_is_not(tmp_path: Path) -> None:
    note_database(tmp_path, SERVER, "one")
    assert (tmp_path / NOTE_NAME).stat().st_mode & 0o777 == 0o600
    check_address(tmp_path, "postgresql://127.0.0.1/facts")
    check_database(tmp_path, "postgresql://127.0.0.1/facts", "one")
    for installation in ("two", None):
        with pytest.raises(InvalidArgumentError, match=r"db\.example:5433/facts.*another database"):
            check_database(tmp_path, SERVER, installation)
    with pytest.raises(InvalidArgumentError, match="no database was named") as refused:
        check_address(tmp_path, None)
    assert "secret" not in refused.value.message


def test_a_directory_with_facts_of_its_own_is_not_lent_to_a_server(tmp_path: Path) -> None:
    note_database(tmp_path, None, "one")
    check_address(tmp_path, None)
    check_database(tmp_path, None, "begun anew")
    with pytest.raises(InvalidArgumentError, match="SQLite, in it"):
        check_address(tmp_path, SERVER)


def test_a_note_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / NOTE_NAME).write_text("{")
    with pytest.raises(StorageError, match=r"database\.json"):
        check_address(tmp_path, None)


def test_a_note_is_replaced_whole(tmp_path: Path) -> None:
    note_database(tmp_path, SERVER, "one")
    note_database(tmp_path, "postgresql://other/facts", "one")
    found = read_note(tmp_path)
    assert found is not None
    assert found.address == "postgresql://other/facts"
    assert [path.name for path in tmp_path.iterdir()] == [NOTE_NAME]
