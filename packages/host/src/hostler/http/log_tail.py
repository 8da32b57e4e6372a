"""The end of a log file, and what was written to it since it was last read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from hostler.http.limits import MAX_LOG_TAIL_BYTES
from hostler_protocol.errors import InvalidArgumentError

_NEXT = re.compile(r"([0-9a-f]{1,32})-([0-9]{1,18})")
"""The inode of a file, and a position in it."""


class LogPart(NamedTuple):
    """Lines, oldest first. `next` is where those that follow will begin; `skipped`: some are left out."""

    lines: list[str]
    next: str
    skipped: bool


def read_log(path: Path, lines: int, after: str | None = None) -> LogPart:
    """Return the last `lines` of a file, of those behind `after` if it is given. Blocks.

    Reads at most MAX_LOG_TAIL_BYTES. Behind `after`, a line comes once it is complete, and another file of
    the name (the log was rotated) is read from its beginning. InvalidArgumentError if `after` is no `next`.
    """
    known = None if after is None else _NEXT.fullmatch(after)
    if after is not None and known is None:
        raise InvalidArgumentError("after is not what an earlier answer gave as `next`")
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            inode, size = f"{status.st_ino:x}", status.st_size
            is_same = known is not None and known[1] == inode and int(known[2]) <= size
            wanted = int(known[2]) if known is not None and is_same else 0
            start = max(wanted, size - MAX_LOG_TAIL_BYTES)
            file.seek(start)
            data = file.read(size - start)
    except FileNotFoundError:
        return LogPart([], "", skipped=False)
    if known is not None and len(data) < MAX_LOG_TAIL_BYTES:
        data = data[: data.rfind(b"\n") + 1]
    found = [line.decode("utf-8", "replace").rstrip("\r") for line in data.split(b"\n")]
    if not found[-1]:
        found.pop()
    if start > wanted:
        found = found[1:]  # its beginning is missing
    kept = found[-lines:]
    skipped = known is not None and (not is_same or start > wanted or len(kept) < len(found))
    return LogPart(kept, f"{inode}-{start + len(data)}", skipped)
