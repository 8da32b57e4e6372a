"""The status of a plugin, for people."""

from __future__ import annotations

from pathlib import Path

from hostler.domain.record import Record
from hostler.plugins.source import PluginSource


class PluginStatus(Record):
    """The status of a plugin. `state`: stopped, starting, ready, waiting, failed, disconnected."""

    key: str
    source: PluginSource
    state: str
    version: str
    pid: int | None
    runners: tuple[str, ...]
    tools: tuple[str, ...]
    active_runs: int
    restarts: int
    reason: str | None
    """Why it is not ready."""
    retry_in_seconds: float | None
    containment: str | None
    log_path: Path | None
    started_at: float | None
    """UTC epoch seconds."""
    warnings: tuple[str, ...]
    """Defects of its process or manifests that do not stop it from running."""
