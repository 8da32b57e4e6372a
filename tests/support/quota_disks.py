"""File systems with project quotas, in files of their own, mounted where the kernel can do that."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1 << 20
BOUND_SECONDS = 60.0
MAKE = {
    "ext4": (64 * MIB, ["mkfs.ext4", "-q", "-F", "-O", "quota,project"]),
    "xfs": (320 * MIB, ["mkfs.xfs", "-q", "-f"]),
}
"""Sizes of the files, which are sparse, and the commands."""


@contextlib.contextmanager
def quota_disk(kind: str, options: str = "prjquota") -> Iterator[Path]:
    """A folder on a new file system; the test is skipped if this machine cannot mount it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root mounts a file system with project quotas")
    size, command = MAKE[kind]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    top = Path(tempfile.mkdtemp(prefix="q-", dir=os.environ.get("HOSTLER_TEST_DISKS", "/var/tmp")))
    top.chmod(0o755)
    image, mounted = top / "image", top / "m"
    mounted.mkdir()
    try:
        with image.open("wb") as file:
            file.truncate(size)
        subprocess.run([*command, str(image)], check=True, timeout=BOUND_SECONDS)
        mount = ["mount", "-t", kind, "-o", f"loop,{options}", str(image), str(mounted)]
        done = subprocess.run(mount, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
        if done.returncode != 0:
            why = " ".join(done.stderr.split())[:200]
            pytest.skip(f"this kernel mounts no {kind} with project quotas: {why}")
        try:
            yield mounted
        finally:
            subprocess.run(["umount", str(mounted)], check=True, timeout=BOUND_SECONDS)
    finally:
        shutil.rmtree(top)
