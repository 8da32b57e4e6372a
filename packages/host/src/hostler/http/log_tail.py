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
_NO_FILE = "0"
"""In place of an inode: the log was not there yet."""


class LogPart(NamedTuple):
    """Lines, oldest first. `next` is where those that follow will begin; `skipped`: some are left out.

    Without `after` the last line may be unfinished: `next` is at its beginning, and it comes again once it is
    complete.
    """

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
        return LogPart([], after or f"{_NO_FILE}-0", skipped=False)
    complete = data.rfind(b"\n") + 1
    if not complete and len(data) >= MAX_LOG_TAIL_BYTES:
        complete = len(data)  # a line that does not end is shown in parts
    if known is not None:
        data = data[:complete]
    found = [line.decode("utf-8", "replace").rstrip("\r") for line in data.split(b"\n")]
    if not found[-1]:
        found.pop()
    if start > wanted:
        found = found[1:]  # its beginning is missing
    kept = found[-lines:]
    is_new = known is not None and not is_same and known[1] != _NO_FILE
    skipped = known is not None and (is_new or start > wanted or len(kept) < len(found))
    return LogPart(kept, f"{inode}-{start + complete}", skipped)
