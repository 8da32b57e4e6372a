"""Control groups of this machine, as tests see them: found without the host's own code."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from support.hostile_runs import ORDINARY_UID


def own_groups() -> list[Path]:
    """The folders of this process's groups, in each tree that has memory, pids or cpu, or is version 2."""
    found = []
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        paths.update(dict.fromkeys(names.split(","), path))
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        mount, kind, options = before.split()[4], after.split()[0], after.split()[2].split(",")
        wanted = [name for name in ("memory", "pids", "cpu") if name in options]
        if kind == "cgroup2":
            found.append(Path(mount + paths[""]))
        elif kind == "cgroup" and wanted:
            found.append(Path(mount + paths[wanted[0]]))
    return found


@contextlib.contextmanager
def delegated(uid: int = ORDINARY_UID) -> Iterator[list[Path]]:
    """Groups that belong to an ordinary user, one in each tree, as a service manager would make them."""
    made = []
    name = f"test-{secrets.token_hex(4)}"
    try:
        for own in own_groups():
            group = own / name
            group.mkdir()
            made.append(group)
            for path in (group, *group.iterdir()):
                if path == group or path.name in (
                    "cgroup.procs",
                    "cgroup.subtree_control",
                    "cgroup.threads",
                    "tasks",
                ):
                    os.chown(path, uid, uid)
        yield made
    finally:
        for group in made:
            for path in [*sorted(group.rglob("*"), reverse=True), group]:
                if path.is_dir():
                    with contextlib.suppress(OSError):
                        path.rmdir()
