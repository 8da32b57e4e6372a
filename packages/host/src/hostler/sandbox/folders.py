"""The writable folders of a sandbox, opened once: what takes their place later is never followed.

The shim uses this, too: only the standard library.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class PinnedFolder(NamedTuple):
    """A folder that a sandbox may write to, and which one it is."""

    named: str
    real: str
    device: int
    inode: int


def open_folder(path: str) -> int:
    """Open a folder by an absolute path without links, for use as `dir_fd`. Raises OSError at a link."""
    folder = os.open("/", _STEP)
    for name in filter(None, path.split("/")):
        try:
            below = os.open(name, _STEP, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


def pin(path: str) -> tuple[PinnedFolder, int]:
    """Return which folder a path leads to now, and a descriptor of it. Raises OSError."""
    real = os.path.realpath(path)
    folder = open_folder(real)
    status = os.fstat(folder)
    return PinnedFolder(os.path.abspath(path), real, status.st_dev, status.st_ino), folder  # noqa: PTH100


def open_pinned(pinned: PinnedFolder) -> int:
    """Open a folder again. Raises OSError if another one has taken its place."""
    folder = open_folder(pinned.real)
    status = os.fstat(folder)
    if (status.st_dev, status.st_ino) != (pinned.device, pinned.inode):
        os.close(folder)
        raise FileNotFoundError(2, "another folder has taken its place", pinned.real)
    return folder
