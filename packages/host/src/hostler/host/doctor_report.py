"""What holds at a running host: its machine, workers, plugins, keys and configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from hostler.domain.clock import monotonic_clock
from hostler.domain.config_changes import ConfigProblem
from hostler.host.channel_findings import channel_findings
from hostler.host.machine_checks import (
    Finding,
    Verdict,
    check_directory,
    check_python,
    check_sandbox,
    check_sqlite,
    check_uv,
)
from hostler.host.schedule_findings import schedule_findings
from hostler.host.worker_findings import worker_findings
from hostler.host.workers import Worker
from hostler.plugins.status import PluginStatus
from hostler.storage.port import Database
from hostler.version import VERSION

MACHINE_SECONDS = 60.0
"""What was found of the machine is good for so long: to try its sandboxes starts processes."""


async def stored_findings(db: Database, workspace_id: str) -> list[Finding]:
    """Return what is stored of a workspace's channels, schedules and remote workers."""
    return await db.read(
        lambda tx: [
            *channel_findings(tx, workspace_id),
            *schedule_findings(tx, workspace_id),
            *worker_findings(tx, workspace_id),
        ]
    )


async def _no_findings() -> Sequence[Finding]:
    return ()


class DoctorReport:
    """Reports what holds. `problems` looks at the configuration, `stored` at what is stored of
    channels, schedules and workers.
    """

    def __init__(
        self,
        data_dir: Path,
        workers: Callable[[], Sequence[Worker]],
        plugins: Callable[[], Sequence[PluginStatus]],
        problems: Callable[[], Awaitable[Sequence[ConfigProblem]]],
        stored: Callable[[], Awaitable[Sequence[Finding]]] = _no_findings,
    ) -> None:
        self._data_dir = data_dir
        self._workers, self._plugins, self._problems = workers, plugins, problems
        self._stored = stored
        self._lock = asyncio.Lock()
        self._machine: list[Finding] = []
        self._looked_at: float | None = None

    async def findings(self) -> list[Finding]:
        """Return all findings, those of the machine first."""
        stored = await self._stored()
        return [
            Finding("version", "ok", f"Hostler {VERSION}"),
            *await self._of_machine(),
            *(_of_worker(worker) for worker in self._workers() if not worker.running or worker.failures),
            *(_of_plugin(plugin) for plugin in self._plugins()),
            *stored,
            *(finding_of(one) for one in await self._problems() if not _is_said(one, stored)),
        ]

    async def _of_machine(self) -> list[Finding]:
        async with self._lock:
            now = monotonic_clock()
            if self._looked_at is None or now - self._looked_at > MACHINE_SECONDS:
                found = await asyncio.to_thread(self._folders)
                self._machine = [*found, *await check_sandbox(self._data_dir)]
                self._looked_at = monotonic_clock()
            return self._machine

    def _folders(self) -> list[Finding]:
        return [check_python(), check_sqlite(), check_uv(), *check_directory(self._data_dir)]


def _is_said(problem: ConfigProblem, stored: Sequence[Finding]) -> bool:
    """Whether what is stored says it, and more: who answers in a channel, why a schedule fired in vain."""
    if problem.kind == "channel" and problem.place == "agent" and problem.severity == "warning":
        return True
    about = f"{problem.name}: "
    return problem.kind == "schedule" and any(
        one.what == "schedule" and one.text.startswith(about) and problem.problem in one.text
        for one in stored
    )


def finding_of(problem: ConfigProblem) -> Finding:
    """Return a problem of the configuration. Those of skills are notes: agents work without them."""
    minor = problem.kind == "skill" or problem.severity == "warning"
    place = f"{problem.place}: " if problem.place else ""
    return Finding(problem.kind, "note" if minor else "wrong", f"{problem.name}: {place}{problem.problem}")


def _of_worker(worker: Worker) -> Finding:
    verdict: Verdict = "note" if worker.running else "wrong"
    state = "runs" if worker.running else "waits to be started again"
    return Finding(
        "worker", verdict, f"{worker.name} failed {worker.failures} times and {state}: the log says why"
    )


def _of_plugin(plugin: PluginStatus) -> Finding:
    if plugin.reason:
        return Finding("plugin", "wrong", f"{plugin.key} is {plugin.state}: {plugin.reason}")
    return Finding("plugin", "ok", f"{plugin.key} is {plugin.state}")
