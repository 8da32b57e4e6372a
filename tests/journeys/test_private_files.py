"""Everything that the host writes is its user's alone, whatever the user's umask is."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from support.command_line import BOUND_SECONDS, ECHO, HOSTLER, CommandLine, environment

pytestmark = [pytest.mark.gate("data-directory"), pytest.mark.timeout(600)]


def readable_by_others(folder: Path) -> list[str]:
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path.relative_to(folder)}"
        for path in [folder, *folder.rglob("*")]
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


def carelessly(hostler: CommandLine, *arguments: str | Path) -> None:
    """Run a command under a umask that takes nothing from anybody."""
    subprocess.run(
        [*HOSTLER, *map(str, arguments)],
        cwd=hostler.cwd,
        env=environment(hostler.data),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        umask=0,
        check=True,
        timeout=BOUND_SECONDS,
    )


def test_what_commands_write_is_private(hostler: CommandLine) -> None:
    hostler.data.mkdir(mode=0o755, exist_ok=True)
    hostler.data.chmod(0o755)
    carelessly(hostler, "run", ECHO, "hello")
    carelessly(hostler, "backup", hostler.cwd / "backup")
    carelessly(hostler, "gc")
    carelessly(hostler, "restore", hostler.cwd / "backup", "--data", hostler.cwd / "again")
    for folder in (hostler.data, hostler.cwd / "backup", hostler.cwd / "again"):
        assert (folder / "hostler.db").exists()
        assert readable_by_others(folder) == []


def test_a_place_for_everyone_is_refused_without_bad_advice(hostler: CommandLine) -> None:
    hostler.data.mkdir(exist_ok=True)
    hostler.data.chmod(0o1777)
    refused = hostler("config", "set", "models", "small", "api_key=x")
    assert refused.status == 1
    assert refused.error.endswith("a place for everyone's files: name a folder of its own with --data")
    assert stat.S_IMODE(hostler.data.stat().st_mode) == 0o1777


def test_the_demo_is_private_and_its_plugins_work(hostler: CommandLine) -> None:
    carelessly(hostler, "demo", "--play", "--port", "0", "--data", hostler.data)
    assert (hostler.data / "logs").exists()
    assert readable_by_others(hostler.data) == []
