"""Commands, files and working folders of a host that is an ordinary user, where the tests are root's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY

pytestmark = pytest.mark.gate("exec-limits")

BOUND_SECONDS = 200.0
CHOSEN = "(limit and disk and not file) or nobody_waits or artifacts or mode or closed"


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are an ordinary user's already")
def test_it_is_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    os.chown(tmp_path, ORDINARY_UID, ORDINARY_UID)
    needed = [sys.prefix, sys.base_prefix, str(REPOSITORY), str(tmp_path)]
    tests = [str(Path(__file__).with_name(name)) for name in ("test_exec.py", "test_files.py")]
    folders = str(Path(__file__).with_name("workspaces"))
    python = [sys.executable, "-m", "pytest", "-n0", "-c", str(REPOSITORY / "pyproject.toml")]
    choice = ["--basetemp", str(tmp_path / "t"), "-k", CHOSEN, *tests, folders]
    ended = subprocess.run(
        [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *python, *choice],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert " passed" in ended.stdout
