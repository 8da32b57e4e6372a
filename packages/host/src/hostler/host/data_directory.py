"""Which database a data directory belongs to, written down in it.

A directory holds the files (blobs, working folders) that its database names. With another database they would
look unused, and be collected; and a command that opened the wrong one would show nothing, or somebody else's.
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
"""Of a host that is told no other."""
NOTE_NAME = "database.json"
MAX_NOTE_BYTES = 16 * 1024


class DatabaseNote(Lenient):
    """The database of a directory. `address` without secrets; `installation` is the identity that the
    database itself holds (`stores.installation.identity`)."""

    address: str
    installation: str


def default_data_dir() -> Path:
    """`HOSTLER_DATA`, or the user's data folder (`~/.local/share/hostler` on Linux)."""
    if named := os.environ.get("HOSTLER_DATA"):
        return Path(named).expanduser()
    if not sys.platform.startswith("linux"):
        import platformdirs  # noqa: PLC0415  only where folders are named differently

        return Path(platformdirs.user_data_dir("hostler", appauthor=False))
    given = os.environ.get("XDG_DATA_HOME", "").strip()
    return Path(given or "~/.local/share").expanduser() / "hostler"


def own_database(data_dir: Path) -> Path:
    """The SQLite file that a directory has where no database is named."""
    return data_dir / "hostler.db"


def address_of(data_dir: Path, database: str | None) -> str:
    """How to name a database to people: its address without user, password or options."""
    if database is None or database == str(own_database(data_dir)):
        return "sqlite"
    parts = urlsplit(database)
    if not parts.scheme.startswith("postgres"):
        return database
    host = parts.netloc.rpartition("@")[2]
    sockets = parse_qs(parts.query).get("host")
    return f"{parts.scheme}://{host}{parts.path}" + (f"?host={sockets[0]}" if sockets else "")


def read_note(data_dir: Path) -> DatabaseNote | None:
    """What the directory says; None where it says nothing yet. StorageError where it cannot be read."""
    path = data_dir / NOTE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_NOTE_BYTES), type=DatabaseNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StorageError(f"{path} cannot be read: {error}; {_MOVED}") from error


_MOVED = "where the facts were moved on purpose, delete that file"


def check_address(data_dir: Path, database: str | None) -> None:
    """Refuse a kind of database that is not the directory's, before it is opened (or made).

    InvalidArgumentError says which database the directory belongs to.
    """
    note = read_note(data_dir)
    if note is None:
        return
    given = address_of(data_dir, database)
    if (note.address == "sqlite") != (given == "sqlite"):
        raise _other(data_dir, note, given)


def check_database(data_dir: Path, database: str | None, installation: str | None) -> None:
    """Refuse an opened database that is not the directory's. `installation` None: it has no identity yet."""
    note = read_note(data_dir)
    given = address_of(data_dir, database)
    if note is None or (given == "sqlite" and note.address == "sqlite"):  # it is the one that lies in there
        return
    if note.installation != installation:
        raise _other(data_dir, note, given)


def note_database(data_dir: Path, database: str | None, installation: str) -> None:
    """Write down which database the directory belongs to, durably. StorageError where it cannot be."""
    note = DatabaseNote(address=address_of(data_dir, database), installation=installation)
    if read_note(data_dir) != note:
        replace_file(data_dir / NOTE_NAME, msgspec.json.encode(note))


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file anew: it is the old or the new one, whole. StorageError where that fails."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _other(data_dir: Path, note: DatabaseNote, given: str) -> InvalidArgumentError:
    own = "SQLite, in it" if note.address == "sqlite" else note.address
    named = "no database was named" if given == "sqlite" else f"{given} is another database"
    right = (
        "name no database"
        if note.address == "sqlite"
        else "name that one with HOSTLER_DATABASE or --database"
    )
    return InvalidArgumentError(
        f"the data directory {data_dir} belongs to the facts in {own}, and {named}: {right}, or name another "
        f"directory with --data ({_MOVED}: {data_dir / NOTE_NAME})"
    )
