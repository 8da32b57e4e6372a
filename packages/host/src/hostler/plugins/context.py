"""Settings and services shared by all plugins of one host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hostler.plugins.catalog import Catalog
from hostler.plugins.environment import Environments
from hostler.plugins.limits import ConnectionLimits, ProcessLimits, StartLimits
from hostler.plugins.orphans import Register
from hostler.sandbox.machine import MachineSandbox


@dataclass(frozen=True, slots=True)
class PluginContext:
    """Settings and services shared by all plugins of one host."""

    log_folder: Path
    register: Register
    environments: Environments
    catalog: Catalog
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
    command_prefix: tuple[str, ...] = ()
    """A command that executes every trusted plugin's command, passed as its arguments."""
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
