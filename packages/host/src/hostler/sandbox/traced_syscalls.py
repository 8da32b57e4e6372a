"""The calls that a sandbox's filter asks about and then lets go on: the host only wants to know of them.

Whether they work is decided by what the sandbox sees (namespaces, Landlock), so it does not matter that what
they name may change between the question and the work.
"""

from __future__ import annotations

import os
from typing import NamedTuple

O_PATH = 0o10000000
"""Opens nothing to read: the file is only named."""
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MEMORY = ("mmap", "mremap")
"""Asked about only for more than a share of the limit at once."""


class Asked(NamedTuple):
    """What a call does with which paths. `paths`: for each the argument that holds it, after the argument
    that holds the descriptor of the folder it is relative to, if any."""

    verb: str
    paths: tuple[tuple[int | None, int], ...]
    follows: bool = False
    """A link at the end of the path is followed."""
    flags: int | None = None
    """The argument that says whether it is opened to be read or to be changed."""
    kind: int | None = None
    """The argument that says what is made."""


_FIRST, _AT, _TWO, _TWO_AT = ((None, 0),), ((0, 1),), ((None, 0), (None, 1)), ((0, 1), (2, 3))

PATHS = {
    "open": Asked("reading", _FIRST, follows=True, flags=1),
    "openat": Asked("reading", _AT, follows=True, flags=2),
    "openat2": Asked("reading", _AT, follows=True, flags=2),
    "creat": Asked("writing", _FIRST, follows=True),
    "truncate": Asked("writing", _FIRST, follows=True),
    "mkdir": Asked("making the folder", _FIRST),
    "mkdirat": Asked("making the folder", _AT),
    "mknod": Asked("making the pipe", _FIRST, kind=1),
    "mknodat": Asked("making the pipe", _AT, kind=2),
    "symlink": Asked("making the link", ((None, 1),)),
    "symlinkat": Asked("making the link", ((1, 2),)),
    "link": Asked("linking", _TWO),
    "linkat": Asked("linking", _TWO_AT),
    "rename": Asked("moving", _TWO),
    "renameat": Asked("moving", _TWO_AT),
    "renameat2": Asked("moving", _TWO_AT),
    "rmdir": Asked("removing", _FIRST),
    "unlink": Asked("removing", _FIRST),
    "unlinkat": Asked("removing", _AT),
    "execve": Asked("executing", _FIRST, follows=True),
    "execveat": Asked("executing", _AT, follows=True),
}
"""By name of the call. Calls that change owners, modes or times of files are not among them."""
READING = frozenset({"reading", "executing"})
"""What needs a file only to be seen; the rest changes something."""
GROWING = frozenset(
    {"creat", "mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "link", "linkat"}
)
"""What makes files, besides those that are opened to be changed."""
