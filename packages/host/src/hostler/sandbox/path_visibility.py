"""Whether a path that a sandboxed process asked for lies in what its sandbox sees, and how to say so.

Pure: what links and files there are is asked of the functions that are given. Nothing is allowed or refused
here: the sandbox does that, this only tells a refusal from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hostler.sandbox.refusals import Refusal
from hostler.sandbox.traced_syscalls import READING

MOST_LINKS = 40
"""As many as the kernel follows."""
MOST_PARTS = 4200
"""Of one path, links followed: as many as a path of the longest kind has."""
SHOWN_CHARS = 240
"""Of a path in a line for people."""
QUIET = frozenset(
    {
        *(f"/etc/{name}" for name in ("passwd", "group", "hosts", "host.conf", "resolv.conf", "gai.conf")),
        *(f"/etc/{name}" for name in ("services", "protocols", "os-release", "lsb-release", "environment")),
        *("/dev/tty", "/proc", "/dev"),
    }
)
"""What libraries look at by themselves and get along without: that it was refused tells nothing."""
QUIET_BELOW = ("/sys/",)


class Opening(NamedTuple):
    """One path of one call, from the root on. `follows`: a link at its end is followed."""

    verb: str
    named: str
    follows: bool


class View:
    """What a sandbox sees: paths, each with all that lies below it."""

    def __init__(self, read: Iterable[str], write: Iterable[str], quiet: Iterable[str] = ()) -> None:
        self.write = frozenset(write)
        self.read = frozenset(read) | self.write
        self.quiet = frozenset(quiet) | QUIET

    def sees(self, path: str) -> bool:
        """Whether it lies in what may be read."""
        return _below(path, self.read)

    def changes(self, path: str) -> bool:
        """Whether it lies in what may be changed."""
        return _below(path, self.write)

    def is_quiet(self, path: str, *, reading: bool) -> bool:
        """Whether programs meet this refusal in their ordinary work."""
        if reading:
            return path in self.quiet or path.startswith(QUIET_BELOW) or _of_the_kernel(path)
        # Python keeps what it compiled beside the code, where it can
        folder, _, name = path.rpartition("/")
        compiled = name == "__pycache__" or (folder.endswith("/__pycache__") and ".pyc" in name)
        return path == "/dev/tty" or (compiled and self.sees(path))


def judge(
    opening: Opening,
    view: View,
    link_at: Callable[[str], str | None],
    is_there: Callable[[str, bool], bool],
) -> Refusal | None:
    """What is told of it: None where it works, or leads to nothing that is there.

    `link_at` gives where a link leads, None for what is none; `is_there(path, reading)` says whether the
    machine has it, and where it is to be read, whether the sandbox does not show one of that name.
    """
    reading = opening.verb in READING
    path, links = resolve(opening, link_at)
    if view.sees(path) if reading else view.changes(path):
        return None
    if view.is_quiet(path, reading=reading):
        return None
    if not is_there(path, reading) and (reading or not is_there(parent(path), False)):
        return None
    how = " through a link" if links else " by way of .." if "/../" in f"/{opening.named}/" else ""
    what = f"{opening.verb} {shown(path)}{how}"
    if how:
        how += f" ({shown(opening.named)})"
    may = "see" if reading else "change"
    return Refusal(what, f"{opening.verb} {shown(path)}{how}: not among what it may {may}")


def resolve(opening: Opening, link_at: Callable[[str], str | None]) -> tuple[str, int]:
    """Where a path leads, and how many links that took."""
    todo = opening.named.split("/")[::-1]
    done, links, parts = "", 0, 0
    while todo and parts < MOST_PARTS:
        parts += 1
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{name}"
        target = link_at(here) if links < MOST_LINKS and (opening.follows or any(todo)) else None
        if target is None:
            done = here
            continue
        links += 1
        if target.startswith("/"):
            done = ""
        todo += target.split("/")[::-1]
    return done or "/", links


def parent(path: str) -> str:
    """The folder a path lies in."""
    return path.rpartition("/")[0] or "/"


def shown(path: str) -> str:
    """A path in one line for people, whatever is in it."""
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


def _of_the_kernel(path: str) -> bool:
    """What /proc says of the machine, not of a process."""
    first = path.removeprefix("/proc/").partition("/")[0] if path.startswith("/proc/") else ""
    return bool(first) and not first.isdecimal()
