"""Writable folders: what a sandbox puts in their place leads neither its host nor its shim elsewhere."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path

import pytest

from hostler.sandbox.port import MIB, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_capabilities, find_sandbox
from hostler.sandbox.process import ChildProcess
from hostler_protocol.errors import UnavailableError

pytestmark = [
    pytest.mark.gate("writable-folders"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
MECHANISMS = asyncio.run(find_capabilities()).mechanisms if sys.platform == "linux" else ()
on_each = pytest.mark.parametrize("mechanism", MECHANISMS)
LIMITS = SandboxLimits(memory_bytes=256 * MIB, disk_bytes=4 * MIB, files=100, seconds=60.0, output_bytes=1000)


def spec_of(code: str, *writable: Path) -> SandboxSpec:
    argv = [os.path.realpath(sys.executable), "-I", "-S", "-c", code]
    return SandboxSpec("test", argv, writable[0], {}, writable=writable, limits=LIMITS)


@on_each
async def test_links_that_take_the_place_of_a_folder_are_not_measured(mechanism: str, folder: Path) -> None:
    """Otherwise it learns from its own end how much others have, and what it has itself is not counted."""
    outer, foreign = folder / "outer", folder / "foreign"
    inner = outer / "below" / "inner"
    for place in (inner, foreign / "inner"):
        place.mkdir(parents=True)
    (foreign / "inner" / "large").write_bytes(os.urandom(8 * MIB))
    code = f"""
import os, time
os.rename("below", "away")
os.symlink({str(foreign)!r}, "below")
time.sleep(1)
print("not killed")
"""
    sandbox = await find_sandbox(mechanism)  # type: ignore[arg-type]
    made = await sandbox.run(spec_of(code, outer, inner))
    assert (made.stdout, made.limit_reached) == (b"not killed\n", None)


@on_each
async def test_a_folder_that_is_replaced_while_the_sandbox_starts_is_not_used(
    mechanism: str, folder: Path
) -> None:
    own, foreign = folder / "own", folder / "foreign"
    own.mkdir()
    foreign.mkdir()
    sandbox = await find_sandbox(mechanism)  # type: ignore[arg-type]
    command = await sandbox._prepare(spec_of("open('written', 'w')", own), None)
    own.rename(folder / "away")
    own.symlink_to(foreign)
    with pytest.raises(UnavailableError, match="own: "):
        await ChildProcess().begin(command, marker=secrets.token_hex(16))
    own.unlink()
    own.mkdir()  # no link, but another folder
    with pytest.raises(UnavailableError, match="another folder has taken its place"):
        await ChildProcess().begin(command, marker=secrets.token_hex(16))
    assert list(foreign.iterdir()) == list(own.iterdir()) == []


@pytest.mark.skipif("landlock" not in MECHANISMS, reason="no Landlock here")
async def test_what_a_sandbox_puts_in_the_place_of_its_tmp_does_not_keep_it_from_starting(
    folder: Path,
) -> None:
    own = folder / "own"
    own.mkdir()
    sandbox = await find_sandbox("landlock")
    for spoil in ("os.symlink('/nowhere/at/all', '.tmp')", "open('.tmp', 'w')", "os.mkfifo('.tmp')"):
        made = await sandbox.run(spec_of(f"import os; os.rmdir('.tmp'); {spoil}", own))
        assert made.status.code == 0, made.stderr
        made = await sandbox.run(spec_of("import os; print(os.lstat('.tmp').st_mode >> 12)", own))
        assert made.stdout == b"4\n", made.stderr  # a folder
