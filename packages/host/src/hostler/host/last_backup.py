"""The last backup of a data directory, as `hostler backup` notes it there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from hostler_protocol._base import DECODE_ERRORS, Lenient

FILE_NAME = "last-backup.json"
MAX_BYTES = 4096


class LastBackup(Lenient):
    """When the last backup was made, in UTC epoch seconds; by which version, and how much it holds."""

    created_at: float
    version: str
    blobs: int
    blob_bytes: int


def note_backup(data_dir: Path, made: LastBackup) -> None:
    """Note a backup. One that cannot be noted is a backup all the same."""
    unfinished = data_dir / f".{FILE_NAME}.partial"
    with contextlib.suppress(OSError):
        unfinished.write_bytes(msgspec.json.encode(made))
        unfinished.replace(data_dir / FILE_NAME)


def find_backup(data_dir: Path) -> LastBackup | None:
    """Return the last backup; None if none is known. Blocks."""
    try:
        with (data_dir / FILE_NAME).open("rb") as file:
            return msgspec.json.decode(file.read(MAX_BYTES), type=LastBackup)
    except (OSError, *DECODE_ERRORS):
        return None
