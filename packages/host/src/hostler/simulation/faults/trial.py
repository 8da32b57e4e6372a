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
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.plugins.environment import Environments, package_folder
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.sandbox_spec import spec_of
from hostler.plugins.source import DEFAULT_COMMAND, Folder, launch_of, process_environment
from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import MIB
from hostler.sandbox.probe import trial_folder
from hostler.simulation.faults.fault import Fault, read_fault
from hostler.simulation.faults.report import Report
from hostler_protocol.errors import HostError, InvalidArgumentError

COMMAND = [sys.executable, "-m", "hostler.simulation.faults"]
SETTINGS = {"PYTHONHASHSEED": "0"}
MAX_OUTPUT_BYTES = 64 * MIB
"""Of a trial in a sandbox: its reports, and what its plugins write to standard error."""
STDOUT = 1


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
    sandbox: MachineSandbox | None = None,
    on_lived: OnLived = lambda _: None,
) -> list[Report]:
    """Try all runners of a plugin folder, or one, with each input.

    `others`: plugin folders whose tools it may use. `faults`: only these. `environments`: where packages that
    the plugins require are kept; None: nowhere. `sandbox`: where their code runs; None: in an ordinary
    process. InvalidArgumentError, PluginStartError if a plugin cannot be tried; HostError if the trial itself
    fails.
    """
    plugins = [path.resolve() for path in (plugin, *others)]
    place = None if sandbox is None else trial_folder()
    with tempfile.TemporaryDirectory(
        prefix=".hostler-faults-", dir=place, ignore_cleanup_errors=True
    ) as folder:
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
        if sandbox is None:
            return _in_process(trial, on_lived)
        return asyncio.run(_in_sandbox(trial, sandbox, environments, on_lived))


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


class _Answers:
    """What the process says, line by line."""

    def __init__(self, on_lived: OnLived) -> None:
        self.reports: list[Report] | None = None
        self._refusal: str | None = None
        self._on_lived = on_lived
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Take a piece of its output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                said = msgspec.json.decode(line, type=Said)
            except (msgspec.DecodeError, UnicodeDecodeError):
                said = Refused("the plugin wrote into the answers of the trial")
            match said:
                case Lived():
                    self._on_lived(said)
                case Refused(reason=reason):
                    self._refusal = self._refusal or reason
                case Reported(reports=reports):
                    self.reports = reports

    def result(self, ended: str, errors: bytes) -> list[Report]:
        """Return the reports. InvalidArgumentError if it refused, HostError if it said neither."""
        if self._refusal is not None:
            raise InvalidArgumentError(self._refusal)
        if self.reports is None:
            lines = errors.decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
            raise HostError(f"the trial with faults has no result: {ended}: {last}")
        return self.reports


def _in_process(trial: Trial, on_lived: OnLived) -> list[Report]:
    answers = _Answers(on_lived)
    environment = process_environment(launch_of(Folder(Path(trial.plugins[0]))))
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**environment, **SETTINGS},
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
                answers.take(line)
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        errors.seek(0)
        return answers.result(str(ExitStatus(status)), errors.read())


async def _in_sandbox(
    trial: Trial, sandbox: MachineSandbox, environments: Path | None, on_lived: OnLived
) -> list[Report]:
    """Carry it out without network; it sees the plugins' folders and what they require, and writes none."""
    answers = _Answers(on_lived)
    folder, plugins = Path(trial.folder), [Folder(Path(path)) for path in trial.plugins]
    data = folder if environments is None else environments
    specs = [spec_of(one, launch_of(one), sys.executable, folder, data) for one in plugins]
    visible = [path for spec in specs for path in spec.read_only]
    spec = replace(
        specs[0],
        argv=COMMAND,
        cwd=folder,
        environment={**specs[0].environment, **SETTINGS},
        read_only=(*visible, package_folder("hostler").parent, *map(Path, trial.packages)),
        network=(),
        limits=replace(specs[0].limits, output_bytes=MAX_OUTPUT_BYTES),
    )

    def take(stream: int, data: bytes) -> None:
        if stream == STDOUT:
            answers.take(data)

    ended = await sandbox.run(spec, stdin=msgspec.json.encode(trial), on_output=take)
    limit = f"it reached its limit of {ended.limit_reached}" if ended.limit_reached else str(ended.status)
    return answers.result(limit, ended.stderr)
