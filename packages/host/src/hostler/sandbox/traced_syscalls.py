"""System calls that the filter reports to the shim and then lets continue.

They are observed only: namespaces and Landlock decide whether a call succeeds, so it is harmless that a path
may change between the report and the call.
"""

from __future__ import annotations

import os
from typing import NamedTuple

O_PATH = 0o10000000
"""Opens a path without access to its content."""
O_UNNAMED = 0o20000000
"""Makes a file without a name (O_TMPFILE)."""
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MEMORY_CALLS = ("mmap", "mremap")
"""Reported only for requests above a share of the memory limit, and for shared mappings where they count."""

CONNECT = "connect"
"""Reported where TCP is allowed, to say which address is out of reach."""


class TracedCall(NamedTuple):
    """The paths in the arguments of a call, and what the call does with them. `paths` has a pair per path:
    the argument with the descriptor of the folder it is relative to (or None), and the argument with the
    path."""

    verb: str
    paths: tuple[tuple[int | None, int], ...]
    follows: bool = False
    """The call follows a link at the end of the path."""
    flags: int | None = None
    """The argument with the open flags."""
    kind: int | None = None
    """The argument with the type of the new file."""


_FIRST, _AT, _TWO, _TWO_AT = ((None, 0),), ((0, 1),), ((None, 0), (None, 1)), ((0, 1), (2, 3))

PATH_CALLS = {
    "open": TracedCall("reading", _FIRST, follows=True, flags=1),
    "openat": TracedCall("reading", _AT, follows=True, flags=2),
    "openat2": TracedCall("reading", _AT, follows=True, flags=2),
    "creat": TracedCall("writing", _FIRST, follows=True),
    "truncate": TracedCall("writing", _FIRST, follows=True),
    "mkdir": TracedCall("making the folder", _FIRST),
    "mkdirat": TracedCall("making the folder", _AT),
    "mknod": TracedCall("making the pipe", _FIRST, kind=1),
    "mknodat": TracedCall("making the pipe", _AT, kind=2),
    "symlink": TracedCall("making the link", ((None, 1),)),
    "symlinkat": TracedCall("making the link", ((1, 2),)),
    "link": TracedCall("linking", _TWO),
    "linkat": TracedCall("linking", _TWO_AT),
    "rename": TracedCall("moving", _TWO),
    "renameat": TracedCall("moving", _TWO_AT),
    "renameat2": TracedCall("moving", _TWO_AT),
    "rmdir": TracedCall("removing", _FIRST),
    "unlink": TracedCall("removing", _FIRST),
    "unlinkat": TracedCall("removing", _AT),
    "execve": TracedCall("executing", _FIRST, follows=True),
    "execveat": TracedCall("executing", _AT, follows=True),
}
"""By name of the call. Calls that change owners, modes or times of files are not traced."""
READING_VERBS = frozenset({"reading", "executing"})
"""Operations that only need to see a file; all others change something."""
CREATING_CALLS = frozenset(
    {"creat", "mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "link", "linkat"}
)
"""Calls that create files, besides opening for writing."""
REMOVING_CALLS = frozenset({"unlink", "unlinkat", "rename", "renameat", "renameat2", "openat2"})
"""Calls after which a file may have no name any more; openat2 has its flags in memory, where they may
change."""
