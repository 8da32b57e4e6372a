"""The record of the database that a data directory belongs to.

A directory holds the files (blobs, working folders) that its database references. With another database they
would look unused and be collected, and a command would show no data, or the data of another installation.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from hostler_protocol._base import Lenient
from hostler_protocol.errors import InvalidArgumentError, StorageError

DEFAULT_WORKSPACE = "default"
"""The workspace of a host without another setting."""
NOTE_NAME = "database.json"
MAX_NOTE_BYTES = 16 * 1024


class DatabaseNote(Lenient):
    """The database of a directory. `address` without secrets; `installation`: the identity stored in the
    database (`stores.installation.identity`)."""

    address: str
    installation: str


def default_data_dir() -> Path:
    """Return `HOSTLER_DATA`, or the user's data folder (`~/.local/share/hostler` on Linux)."""
    if named := os.environ.get("HOSTLER_DATA"):
        return Path(named).expanduser()
    if not sys.platform.startswith("linux"):
        import platformdirs  # noqa: PLC0415  only where folders are named differently

        return Path(platformdirs.user_data_dir("hostler", appauthor=False))
    xdg_data = os.environ.get("XDG_DATA_HOME", "").strip()
    return Path(xdg_data or "~/.local/share").expanduser() / "hostler"


def own_database(data_dir: Path) -> Path:
    """Return the SQLite file of a directory, used if no database is configured."""
    return data_dir / "hostler.db"


def address_of(data_dir: Path, database: str | None) -> str:
    """Return the address of a database without user, password and options, for people.

    InvalidArgumentError for a URL that is none; it is not repeated, since it may have a password.
    """
    if database is None or database == str(own_database(data_dir)):
        return "sqlite"
    try:
        parts = urlsplit(database)
    except ValueError:
        raise InvalidArgumentError("the address of the database is no URL") from None
    if not parts.scheme.startswith("postgres"):
        return database
    host = parts.netloc.rpartition("@")[2]
    sockets = parse_qs(parts.query).get("host")
    return f"{parts.scheme}://{host}{parts.path}" + (f"?host={sockets[0]}" if sockets else "")


def read_note(data_dir: Path) -> DatabaseNote | None:
    """Return the note of a directory, or None if it has none yet. StorageError if it cannot be read."""
    path = data_dir / NOTE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_NOTE_BYTES), type=DatabaseNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StorageError(f"{path} cannot be read: {error}; {_MOVED}") from error


_MOVED = "if the data was moved on purpose, delete that file"


def check_address(data_dir: Path, database: str | None) -> None:
    """Check the kind of a database before it is opened or created.

    InvalidArgumentError, naming the database of the directory, if it has one of the other kind.
    """
    note = read_note(data_dir)
    if note is None:
        return
    address = address_of(data_dir, database)
    if (note.address == "sqlite") != (address == "sqlite"):
        raise _other_database(data_dir, note, address)


def check_database(data_dir: Path, database: str | None, installation: str | None) -> None:
    """Check the identity of an opened database; None: it has none yet.

    InvalidArgumentError for another one.
    """
    note = read_note(data_dir)
    address = address_of(data_dir, database)
    if note is None or (address == "sqlite" and note.address == "sqlite"):  # it is the file in the directory
        return
    if note.installation != installation:
        raise _other_database(data_dir, note, address)


def note_database(data_dir: Path, database: str | None, installation: str) -> None:
    """Record the database of the directory durably. StorageError if that fails."""
    note = DatabaseNote(address=address_of(data_dir, database), installation=installation)
    if read_note(data_dir) != note:
        replace_file(data_dir / NOTE_NAME, msgspec.json.encode(note))


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a small file atomically. `mode`: its permissions. StorageError if that fails."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _other_database(data_dir: Path, note: DatabaseNote, address: str) -> InvalidArgumentError:
    own = "SQLite, in it" if note.address == "sqlite" else note.address
    named = "no database was named" if address == "sqlite" else f"{address} is another database"
    remedy = (
        "name no database"
        if note.address == "sqlite"
        else "name that one with HOSTLER_DATABASE or --database"
    )
    return InvalidArgumentError(
        f"the data directory {data_dir} belongs to the facts in {own}, and {named}: {remedy}, or name "
        f"another directory with --data ({_MOVED}: {data_dir / NOTE_NAME})"
    )
