"""Settings and services shared by all plugins of one host, and what starting a plugin gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hostler.domain.record import Record
from hostler.plugins.catalog import PluginCatalog
from hostler.plugins.connection import PluginConnection
from hostler.plugins.environment import Environments
from hostler.plugins.limits import ConnectionLimits, ProcessLimits, StartLimits
from hostler.plugins.logs import PluginLog
from hostler.plugins.orphans import Register
from hostler.plugins.pins import PluginPins
from hostler.plugins.process import PluginProcess
from hostler.plugins.source import Folder, SingleFile
from hostler.plugins.transport import PluginTransport
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import Violation

OnViolation = Callable[[Violation], None]


@dataclass(slots=True, eq=False)
class RunningPlugin:
    """One process or remote connection of a plugin."""

    connection: PluginConnection
    transport: PluginTransport
    started_at: float
    process: PluginProcess | None = None
    log: PluginLog | None = None
    level: str = ""
    """How it is confined, for people."""
    warnings: tuple[str, ...] = ()
    """Defects of its sandbox."""
    leaving: bool = False

    @property
    def containment(self) -> str | None:
        """How it is confined, and how the end of its processes is ensured; None for a remote plugin."""
        return None if self.process is None else f"{self.level}; {self.process.containment}"


class StartPlugin(Protocol):
    """Starts the process of a plugin."""

    async def __call__(
        self,
        key: str,
        source: Folder | SingleFile,
        context: PluginContext,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_violation: OnViolation,
    ) -> RunningPlugin:
        """Start the plugin from its current files and do the handshake. PluginStartError with the reason.

        `spawn` runs the clean-up after the process in the background.
        """


class PluginContext(Record):
    """Settings and services shared by all plugins of one host."""

    log_folder: Path
    register: Register
    environments: Environments
    catalog: PluginCatalog
    containment: str
    connection_limits: ConnectionLimits
    process_limits: ProcessLimits
    start_limits: StartLimits
    clock: Callable[[], float]
    notice: Callable[[str, str, str], None]
    """Called with (kind, plugin, text); kinds: started, start_failed, crashed, stopped, limit, refused,
    network."""
    data_dir: Path
    sandbox: Callable[[], Awaitable[MachineSandbox]]
    """Returns the machine's sandbox; called when the first plugin needs it."""
    start: StartPlugin
    """Starts the process of a plugin."""
    command_prefix: tuple[str, ...] = ()
    """A command that executes every trusted plugin's command, passed as its arguments."""
    pins: PluginPins | None = None
    """Which folders the operator confirmed; None: none is asked about."""
    trial: str | None = None
    """The name of a trial; its plugins get workspaces that are removed afterwards."""

    @property
    def workspaces(self) -> Path:
        """The folder with the workspaces of sandboxed plugins."""
        if self.trial is not None:
            return self.trials / self.trial
        return self.data_dir / "plugins" / "workspaces"

    @property
    def trials(self) -> Path:
        """The folder with the workspaces of trials."""
        return self.data_dir / "plugins" / "trials"
