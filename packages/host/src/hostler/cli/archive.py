"""Backups: a folder with a consistent copy of the database and the blobs; writing and restoring it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from hostler.cli.database import StorageLocation, open_storage, sync_folder
from hostler.cli.terminal import err
from hostler.domain.same_fields import with_fields_of
from hostler.host.last_backup import LastBackup, note_backup
from hostler.host.lock import maintenance
from hostler_protocol._base import DECODE_ERRORS, Lenient
from hostler_protocol.errors import InvalidArgumentError, StorageError

FORMAT = 1
NOTE_NAME = "backup.json"
CHUNK_BYTES = 1024 * 1024
MAX_NOTE_BYTES = 64 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BackupNote(Lenient):
    """The content of backup.json. `created_at` in UTC epoch seconds; `database`: SHA-256 of the copy."""

    format: int
    version: str
    created_at: float
    database: str
    blobs: int
    blob_bytes: int


async def back_up(location: StorageLocation, target: Path) -> BackupNote:
    """Copy the database and the blobs into the new folder `target`, as one consistent state.

    InvalidArgumentError if the database is PostgreSQL, which has its own tools; StorageError if it fails.
    """
    from hostler.version import VERSION

    data_dir = location.data_dir
    if location.is_postgres:
        raise InvalidArgumentError(
            "the database is PostgreSQL: back it up with pg_dump, and then copy "
            f"{data_dir / 'blobs'}, while no `hostler gc` runs"
        )
    unfinished = _new_folder(target)
    try:
        async with open_storage(location) as database:
            with maintenance(data_dir, shared=True):
                with err().status("copying the database"):
                    await database.backup(unfinished / "hostler.db")
                count, size = _copy_blobs(data_dir / "blobs", unfinished / "blobs", "copying blobs")
        made = BackupNote(
            format=FORMAT,
            version=VERSION,
            created_at=time.time(),
            database=_digest(unfinished / "hostler.db"),
            blobs=count,
            blob_bytes=size,
        )
        _write_durably(unfinished / NOTE_NAME, msgspec.json.encode(made))
        unfinished.rename(target)
        sync_folder(target.parent)
        note_backup(data_dir, with_fields_of(made, LastBackup))
    except OSError as error:
        raise StorageError(f"the backup to {target} failed: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def _new_folder(target: Path) -> Path:
    """Make a folder next to the target, which is renamed to it when complete."""
    if target.exists():
        raise InvalidArgumentError(f"{target} exists already: name a new folder for the backup")
    unfinished = target.with_name(f".{target.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"the backup to {target} failed: {error}") from error
    return unfinished


async def restore_backup(source: Path, location: StorageLocation, *, keys: Path | None = None) -> BackupNote:
    """Copy a backup into a data directory that has no database, and verify each file.

    `keys`: a later database, whose keys open the sealed content; what was erased until then is removed.

    InvalidArgumentError if the directory has a database, or another database than the directory's own is
    named. StorageError if a file is damaged or missing.
    """
    from hostler.host.audit_heads import FILE_NAME
    from hostler.host.data_directory import check_address
    from hostler.host.lock import DataDirLock, Holder
    from hostler.storage.sql.connect import open_database
    from hostler.version import VERSION

    data_dir = location.data_dir
    if location.database is not None:
        raise InvalidArgumentError(
            "a backup is restored into a data directory, but --database or HOSTLER_DATABASE names another "
            "database: leave that out; restore the output of pg_dump with pg_restore"
        )
    check_address(data_dir, None)
    found = _read_note(source)
    with DataDirLock(data_dir) as lock:
        lock.acquire(Holder(pid=os.getpid(), started_at=time.time(), version=VERSION))
        if (data_dir / "hostler.db").exists():
            raise InvalidArgumentError(
                f"{data_dir} has a database already: name an empty directory with --data, or move it away"
            )
        unfinished = data_dir / ".hostler.db.partial"
        try:
            if _copy_durably(source / "hostler.db", unfinished) != found.database:
                raise StorageError(f"{source}: the database was changed after the backup: its digest differs")
            count, _ = _copy_blobs(source / "blobs", data_dir / "blobs", "restoring blobs")
            if count < found.blobs:
                raise StorageError(f"{source}: {found.blobs - count:,} of {found.blobs:,} blobs are missing")
            if keys is not None:
                await _take_keys(unfinished, keys)
            (data_dir / FILE_NAME).unlink(missing_ok=True)  # heads of another database
            unfinished.rename(data_dir / "hostler.db")  # last: until then, the directory has no database
            sync_folder(data_dir)
        except OSError as error:
            raise StorageError(f"the restore into {data_dir} failed: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)
        await open_database(data_dir / "hostler.db").close()  # migrates an older schema
    return found


async def _take_keys(copy: Path, later: Path) -> None:
    from hostler.storage.sealing.restored import remove_erased, take_keys
    from hostler.storage.sql.connect import open_database

    await open_database(copy).close()  # migrates an older schema
    take_keys(copy, later)
    database = open_database(copy, readers=1)
    try:
        await remove_erased(database)
    finally:
        await database.close()


def _read_note(source: Path) -> BackupNote:
    try:
        with _open_file(source / NOTE_NAME) as file:
            found = msgspec.json.decode(file.read(MAX_NOTE_BYTES), type=BackupNote)
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"{source} is not a backup, as it has no {NOTE_NAME}: name a folder that `hostler backup` wrote"
        ) from None
    except (OSError, *DECODE_ERRORS) as error:
        raise StorageError(f"{source / NOTE_NAME} cannot be read: {error}") from error
    if found.format != FORMAT:
        raise InvalidArgumentError(
            f"{source} was made by hostler {found.version}: restore it with that version"
        )
    return found


def _copy_blobs(source: Path, target: Path, what: str) -> tuple[int, int]:
    """Copy all blobs, verify each against its name, and return their number and bytes."""
    from rich.progress import track

    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = list(_blobs(source))
    size = 0
    shown: Iterable[Path] = track(paths, what, console=err(), transient=True) if err().is_terminal else paths
    folders = {target}
    for path in shown:
        copy = target / path.relative_to(source)
        if not copy.parent.exists():
            copy.parent.mkdir(parents=True, mode=0o700)
        folders |= {copy.parent, copy.parent.parent}
        unfinished = copy.with_name(f".{copy.name}.partial")
        if _copy_durably(path, unfinished) != path.name and not _is_sealed_whole(unfinished):
            unfinished.unlink()
            raise StorageError(f"the blob {path} is damaged: its content does not match its name")
        unfinished.rename(copy)
        size += copy.stat().st_size
    for folder in folders:
        sync_folder(folder)
    return len(paths), size


def _is_sealed_whole(path: Path) -> bool:
    """Whether a file is a sealed blob, whose digest is at its end, and is not damaged."""
    from hostler.storage.sealing.files import is_whole, key_id_of

    return key_id_of(path) is not None and is_whole(path)


def _blobs(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("??/??/*")):
        if _SHA256.fullmatch(path.name):
            yield path


def _copy_durably(source: Path, target: Path) -> str:
    """Copy a file, sync it, and return the SHA-256 of the copied bytes."""
    digest = hashlib.sha256()
    with _open_file(source) as reader, target.open("wb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


def _open_file(path: Path) -> IO[bytes]:
    """Open a file to read. OSError for links and for what is no file, which may never end or answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
