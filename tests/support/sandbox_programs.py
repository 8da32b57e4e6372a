"""Programs in a sandbox that a host of some user made; a program prints what it found as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY

BOUND_SECONDS = 120.0
"""Of one program with its host; it only has to end what hangs."""


def look(mechanism: str, user: str, folder: Path, program: str, *options: str, status: int = 0) -> Any:
    """What the program printed as JSON, in a sandbox that a host of this user made.

    Its working folder is `folder/own`; it may read `folder/readable`. `options` are those of sandbox_look.py.
    """
    said = ended(mechanism, user, folder, program, *options)
    assert said["status"] == status, said["errors"]
    return json.loads(said["output"]) if said["output"] else None


def ended(
    mechanism: str, user: str, folder: Path, program: str, *options: str, join: Sequence[str] = ()
) -> dict[str, Any]:
    """How the program ended: `output`, `errors`, `status`, `limit`; and the `groups` that there were.

    `join` are groups (their cgroup.procs) that the host is put into before it becomes an ordinary user.
    """
    (said,) = ended_each(mechanism, user, folder, [program], *options, join=join)
    return said


def ended_each(
    mechanism: str, user: str, folder: Path, programs: Sequence[str], *options: str, join: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The same of several programs, each in a sandbox of its own that one host made, one after the other."""
    own, readable = folder / "own", folder / "readable"
    for path in (own, readable):
        path.mkdir(exist_ok=True)
    command = [sys.executable, str(HERE / "sandbox_look.py"), mechanism, str(own), str(readable), *options]
    if user == "ordinary" and os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY)]
        command = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *command]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "JOIN_GROUPS": os.pathsep.join(join)}
    made = subprocess.run(
        command,
        input=json.dumps([f"import json, os, shutil, subprocess, sys\n{program}" for program in programs]),
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        timeout=BOUND_SECONDS * len(programs),
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    said: list[dict[str, Any]] = json.loads(made.stdout)
    return said
