"""Starts the process that tries a runner with faults, and reads its reports.

It has a process of its own, since each life takes the time, the entropy and the modules of its interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.source import DEFAULT_COMMAND, Folder, launch_of, process_environment
from hostler.simulation.faults.fault import Fault, read_fault
from hostler.simulation.faults.report import Report
from hostler_protocol.errors import HostError, InvalidArgumentError


class Trial(msgspec.Struct, frozen=True):
    """What the process is to try. `folder`: for its files; `packages`: folders of what plugins require."""

    plugins: list[str]
    runner: str | None
    inputs: list[str]
    config: dict[str, Any]
    faults: list[Fault]
    folder: str
    packages: list[str]


class Lived(msgspec.Struct, frozen=True, tag=True):
    """Says that one more life of this runner is over."""

    runner: str
    lives: int
    of: int


class Reported(msgspec.Struct, frozen=True, tag=True):
    """Says what came of all."""

    reports: list[Report]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Says why the trial is impossible."""

    reason: str


Said = Lived | Reported | Refused
OnLived = Callable[[Lived], None]


def try_faults(
    plugin: Path,
    *,
    runner: str | None = None,
    inputs: Sequence[str] = ("Hello",),
    config: Mapping[str, Any] | None = None,
    others: Sequence[Path] = (),
    faults: Sequence[str] = (),
    environments: Path | None = None,
    on_lived: OnLived = lambda _: None,
) -> list[Report]:
    """Try all runners of a plugin folder, or one, with each input.

    `others`: plugin folders whose tools it may use. `faults`: only these. `environments`: where packages that
    the plugins require are kept; None: nowhere. InvalidArgumentError, PluginStartError if a plugin cannot be
    tried; HostError if the trial itself fails.
    """
    plugins = [path.resolve() for path in (plugin, *others)]
    with tempfile.TemporaryDirectory(prefix="hostler-faults-", ignore_cleanup_errors=True) as folder:
        packages = [
            path
            for one in plugins
            for path in asyncio.run(_packages_of(one, environments or Path(folder) / "environments"))
        ]
        trial = Trial(
            plugins=[str(path) for path in plugins],
            runner=runner,
            inputs=list(inputs),
            config=dict(config or {}),
            faults=[read_fault(text) for text in faults],
            folder=folder,
            packages=packages,
        )
        return _carry_out(trial, process_environment(launch_of(Folder(plugins[0]))), on_lived)


async def _packages_of(plugin: Path, environments: Path) -> list[str]:
    """Return the folders from which a plugin imports what it requires."""
    launch = launch_of(Folder(plugin))
    if launch.argv != DEFAULT_COMMAND:
        raise InvalidArgumentError(
            f"{plugin} has a command of its own: faults are tried with runners in Python, of its entries"
        )
    built = Environments(environments, DEFAULT_START_LIMITS)
    python = await built.python_for(launch.requires, base=launch.cwd)
    return [] if python == sys.executable else [str(path) for path in _site_packages(Path(python))]


def _site_packages(python: Path) -> list[Path]:
    return sorted(python.parents[1].glob("lib/python*/site-packages"))


def _carry_out(trial: Trial, environment: dict[str, str], on_lived: OnLived) -> list[Report]:
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-m", "hostler.simulation.faults"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment, "PYTHONHASHSEED": "0"},
            start_new_session=True,  # Ctrl-C is for this process, which ends all of that one's
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(trial))
                process.stdin.close()
            for line in process.stdout:
                match msgspec.json.decode(line, type=Said):
                    case Lived() as lived:
                        on_lived(lived)
                    case Refused(reason=reason):
                        raise InvalidArgumentError(reason)
                    case Reported(reports=reports):
                        return reports
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        raise HostError(f"the trial with faults ended with status {status}: {_last_line(errors)}")


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
