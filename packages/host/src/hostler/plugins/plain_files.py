"""Read files of a plugin folder, whose content is anybody's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_MANIFEST_BYTES = 256 * 1024


def read_plain_file(path: Path, most_bytes: int) -> bytes:
    """Read an ordinary file of unknown origin. Raises OSError.

    Raises ValueError for anything else, such as a FIFO or a device, and for a larger file. Never blocks, and
    reads at most one byte too much.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is not an ordinary file, but a folder, FIFO, socket or device")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise ValueError(f"has over {most_bytes:,} bytes, the maximum")
    return data
