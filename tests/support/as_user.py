"""Executes a command as an ordinary user, by root: `python as_user.py UID PATH... -- COMMAND ARGUMENTS...`.

The paths are what the command needs to read. Where they lie below a folder that is closed to others (like
root's home), the command sees that folder with nothing but these paths in it. The variable JOIN_GROUPS names
files of control groups (`cgroup.procs`) that it joins before.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
OTHERS_MAY_PASS = 0o001
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    """Mount, or raise."""
    data = options.encode() or None
    if LIBC.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def closed_above(path: Path) -> Path | None:
    """The outermost folder above a path that others cannot pass."""
    above = [folder for folder in reversed(path.parents) if not folder.stat().st_mode & OTHERS_MAY_PASS]
    return above[0] if above else None


def open_up(paths: list[Path]) -> None:
    """Make the paths, and nothing beside them, reachable for this process and what it executes."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace")
    mount("none", Path("/"), "none", MS_REC | MS_PRIVATE)
    below: dict[Path, list[Path]] = {}
    for path in sorted(set(paths)):
        if (closed := closed_above(path)) is not None:
            below.setdefault(closed, []).append(path)
    for closed, wanted in below.items():
        kept = [(path, Path(tempfile.mkdtemp())) for path in wanted]
        for path, place in kept:
            mount(str(path), place, "none", MS_BIND | MS_REC)
        mount("none", closed, "tmpfs", 0, "mode=755")
        for path, place in kept:
            path.mkdir(parents=True, exist_ok=True)
            mount(str(place), path, "none", MS_BIND | MS_REC)


def main(arguments: list[str]) -> None:
    """Open up, become the user, become the command."""
    uid, end = int(arguments[0]), arguments.index("--")
    os.umask(0o022)  # the folders above the paths are for others, whatever this process inherited
    open_up([Path(path).resolve() for path in arguments[1:end]])
    for path in filter(None, os.environ.pop("JOIN_GROUPS", "").split(os.pathsep)):
        Path(path).write_text("0")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execv(arguments[end + 1], arguments[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
