"""Folders for the files of lives: in memory where there is such a place, and removed whatever happens.

The one that reports makes a folder, which it and its workers lock. Whoever is killed removes nothing; the
next one that reports removes the folders that nobody locks any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "hostler-lives-"
MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def own_folder(place: Path | None = None) -> Iterator[Path]:
    """Make a folder, and remove it in the end. Before that, remove those of processes that are gone."""
    place = place or (MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir()))
    remove_abandoned(place)
    unnamed = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=place))
    with locked(unnamed):
        folder = unnamed.rename(place / unnamed.name[1:])  # locked before anybody sees it
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against its removal by others, together with others that lock it."""
    with _opened(folder) as number:
        fcntl.flock(number, fcntl.LOCK_SH)
        yield


def remove_abandoned(place: Path) -> None:
    """Remove the folders that nobody locks, but not those of other users."""
    for folder in place.glob(f"{PREFIX}*"):
        gone_used_foreign = FileNotFoundError, BlockingIOError, PermissionError
        with contextlib.suppress(*gone_used_foreign), _opened(folder) as number:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)  # another one may be removing it, too


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    number = os.open(folder, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)
