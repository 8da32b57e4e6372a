"""A plugin's child process, with its stderr written to its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS, ProcessLimits
from hostler.plugins.logs import LogPump, PluginLog
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import SandboxSpec, Violation
from hostler.sandbox.process import ChildProcess, Command
from hostler.sandbox.read_pipe import connect_read_pipe
from hostler_protocol.errors import PluginStartError, UnavailableError

FLOOD = "errors"
"""Subject of the violation when a plugin writes errors faster than they are read."""


class PluginProcess(ChildProcess):
    """A running plugin process, started by `start_process` and ended by `kill`, which leaves no process
    behind."""

    def __init__(self, log: PluginLog, limits: ProcessLimits = DEFAULT_PROCESS_LIMITS) -> None:
        super().__init__(limits.kill_seconds)
        self.log = log
        self.limits = limits
        self._pump: LogPump | None = None

    @property
    def log_finished(self) -> asyncio.Future[None] | None:
        """Done when all of stderr is in the log."""
        return None if self._pump is None else self._pump.finished

    async def _before_start(self) -> None:
        pump = self._pump = LogPump(self.log, self._flooded)
        await connect_read_pipe(lambda: pump, self.take_pipe(2, "rb"))

    def _flooded(self, text: str) -> None:
        if not any(violation.subject == FLOOD for violation in self.violations):
            self.add_violation(Violation("refused", FLOOD, text))


async def start_process(
    command: Command, log: PluginLog, *, marker: str, limits: ProcessLimits = DEFAULT_PROCESS_LIMITS
) -> PluginProcess:
    """Start `command`; take its stdin and stdout with `take_pipe` afterwards.

    `marker` identifies its processes (orphans.py). Raises PluginStartError if it cannot be executed.
    """
    process = PluginProcess(log, limits)
    try:
        await process.begin(command, marker=marker)
    except UnavailableError as error:
        text = f"its command cannot be executed: {error.message}"
        raise PluginStartError(text, lasting=True) from error
    return process


async def start_sandboxed(
    sandbox: MachineSandbox,
    spec: SandboxSpec,
    log: PluginLog,
    *,
    marker: str,
    on_violation: Callable[[Violation], None],
    limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
) -> PluginProcess:
    """Start it in a sandbox. `on_violation` is called with each violation, which is also logged."""

    def note(violation: Violation) -> None:
        log.note(f"{violation.kind}: {violation.text}")
        on_violation(violation)

    process = PluginProcess(log, limits)
    try:
        await sandbox.begin(process, spec, marker=marker, on_violation=note)
    except UnavailableError as error:
        last = log.last_line
        text = f"{error.message}: {last}" if last else error.message
        raise PluginStartError(f"its sandbox does not start: {text}", lasting=True) from error
    return process
