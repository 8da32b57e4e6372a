"""Programs in a sandbox that a host of some user made; a program prints what it found as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY

BOUND_SECONDS = 120.0
"""Of one program with its host; it only has to end what hangs."""


def look(mechanism: str, user: str, folder: Path, program: str, *options: str, status: int = 0) -> Any:
    """What the program printed as JSON, in a sandbox that a host of this user made.

    Its working folder is `folder/own`; it may read `folder/readable`. `options` are those of sandbox_look.py.
    """
    own, readable = folder / "own", folder / "readable"
    for path in (own, readable):
        path.mkdir(exist_ok=True)
    command = [sys.executable, str(HERE / "sandbox_look.py"), mechanism, str(own), str(readable), *options]
    if user == "ordinary" and os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY)]
        command = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *command]
    ended = subprocess.run(
        command,
        input=f"import json, os, shutil, subprocess, sys\n{program}",
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    said = json.loads(ended.stdout)
    assert said["status"] == status, said["errors"]
    return json.loads(said["output"]) if said["output"] else None
