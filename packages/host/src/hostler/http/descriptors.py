"""File descriptors of the server: as many as the system gives, and a part of them for connections."""

from __future__ import annotations

import contextlib
import resource

from hostler.http.limits import MAX_CONNECTIONS

WANTED_FILES = 32_768
"""MAX_CONNECTIONS, and what plugins, databases and requests to other services need beside them."""
RESERVED_FILES = 128
"""At least these are not for connections: some ten plugins with eight each, a database, files being read."""
RESERVED_SHARE = 4
"""One in so many is not for connections: who has many connections has many runs."""
MIN_CONNECTIONS = 8


def raise_open_files() -> int:
    """Raise the soft limit of open files to WANTED_FILES, or to the hard limit; return what holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_within(files: int) -> int:
    """Return how many connections may be open with a limit of so many files."""
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    left = files - max(RESERVED_FILES, files // RESERVED_SHARE)
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, left))
