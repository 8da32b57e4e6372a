"""What all plugins of one host share."""

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
    """What all plugins of one host share."""

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
    """Found out when the first plugin needs it."""
    command_prefix: tuple[str, ...] = ()
    """What executes every trusted plugin's command; it takes the command as its arguments."""
    trial: str | None = None
    """The name of a trial, whose plugins have workspaces that are removed with it."""

    @property
    def workspaces(self) -> Path:
        """Where each sandboxed plugin has a folder of its own."""
        if self.trial is not None:
            return self.trials / self.trial
        return self.data_dir / "plugins" / "workspaces"

    @property
    def trials(self) -> Path:
        """Where the workspaces of trials are."""
        return self.data_dir / "plugins" / "trials"
