"""Decide whether a path is visible in a sandbox, and describe the refusal if not.

Pure: links and files are looked up by functions passed in. The sandbox itself refuses; this module only
recognises refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hostler.sandbox.refusals import Refusal
from hostler.sandbox.traced_syscalls import READING_VERBS

MAX_LINKS = 40
"""The kernel's maximum."""
MAX_PARTS = 4200
"""Parts of one path with its links followed: as many as the longest path has."""
SHOWN_CHARS = 240
"""Maximum length of a path in a line for people."""
IGNORED = frozenset(
    {
        *(f"/etc/{name}" for name in ("passwd", "group", "hosts", "host.conf", "resolv.conf", "gai.conf")),
        *(f"/etc/{name}" for name in ("services", "protocols", "os-release", "lsb-release", "environment")),
        *("/dev/tty", "/proc", "/dev"),
    }
)
"""Paths that libraries probe in normal work and can do without: their refusals are not reported."""
IGNORED_BELOW = ("/sys/",)


class PathAccess(NamedTuple):
    """An absolute path named by a call. With `follows` a link at its end is followed."""

    verb: str
    named: str
    follows: bool


class VisiblePaths:
    """Paths visible in a sandbox, each with everything below it."""

    def __init__(self, read: Iterable[str], write: Iterable[str], ignored: Iterable[str] = ()) -> None:
        self.write = frozenset(write)
        self.read = frozenset(read) | self.write
        self.ignored = frozenset(ignored) | IGNORED

    def can_read(self, path: str) -> bool:
        """Whether a path may be read."""
        return _below(path, self.read)

    def can_write(self, path: str) -> bool:
        """Whether a path may be changed."""
        return _below(path, self.write)

    def is_ignored(self, path: str, *, reading: bool) -> bool:
        """Whether programs meet this refusal in normal work."""
        if reading:
            return path in self.ignored or path.startswith(IGNORED_BELOW) or _is_kernel_wide(path)
        # Python stores compiled modules next to the code if it can
        folder, _, name = path.rpartition("/")
        compiled = name == "__pycache__" or (folder.endswith("/__pycache__") and ".pyc" in name)
        return path == "/dev/tty" or (compiled and self.can_read(path))


def check_access(
    access: PathAccess,
    visible: VisiblePaths,
    link_at: Callable[[str], str | None],
    exists: Callable[[str, bool], bool],
) -> Refusal | None:
    """Return the refusal to report; None if the access works or the path does not exist.

    `link_at` returns a link's target, or None for anything else. `exists(path, reading)` returns whether the
    machine has the path; for reading, it must also be hidden from the sandbox.
    """
    reading = access.verb in READING_VERBS
    path, links = resolve(access, link_at)
    if visible.can_read(path) if reading else visible.can_write(path):
        return None
    if visible.is_ignored(path, reading=reading):
        return None
    if not exists(path, reading) and (reading or not exists(parent(path), False)):
        return None
    how = " through a link" if links else " by way of .." if "/../" in f"/{access.named}/" else ""
    what = f"{access.verb} {shown(path)}{how}"
    if how:
        how += f" ({shown(access.named)})"
    may = "see" if reading else "change"
    return Refusal(what, f"{access.verb} {shown(path)}{how}: not among what it may {may}")


def resolve(access: PathAccess, link_at: Callable[[str], str | None]) -> tuple[str, int]:
    """Return the path with links resolved, and how many links were followed."""
    todo = access.named.split("/")[::-1]
    done, links, parts = "", 0, 0
    while todo and parts < MAX_PARTS:
        parts += 1
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{name}"
        target = link_at(here) if links < MAX_LINKS and (access.follows or any(todo)) else None
        if target is None:
            done = here
            continue
        links += 1
        if target.startswith("/"):
            done = ""
        todo += target.split("/")[::-1]
    return done or "/", links


def parent(path: str) -> str:
    """Return the parent folder of a path."""
    return path.rpartition("/")[0] or "/"


def shown(path: str) -> str:
    """Return a path as one printable line, shortened to SHOWN_CHARS."""
    text = path if len(path) <= SHOWN_CHARS else f"{path[: SHOWN_CHARS - 80]}...{path[-77:]}"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _below(path: str, roots: frozenset[str]) -> bool:
    while path:
        if path in roots:
            return True
        path = path.rpartition("/")[0]
    return "/" in roots


def _is_kernel_wide(path: str) -> bool:
    """Whether a path in /proc describes the machine, not a process."""
    first = path.removeprefix("/proc/").partition("/")[0] if path.startswith("/proc/") else ""
    return bool(first) and not first.isdecimal()
