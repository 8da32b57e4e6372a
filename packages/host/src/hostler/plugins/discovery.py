"""Plugins started to learn what they offer, before anything is served by them.

A configuration names runners and tools of plugins that may be new in the same file. They are started as they
would be served; if the configuration is then applied, the supervisor goes on with the same process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.plugins.catalog import Catalog
from hostler.plugins.context import PluginContext
from hostler.plugins.lifecycle import PluginLifecycle
from hostler.plugins.source import Folder, PluginSource
from hostler.tools.workspaces.tree_removal import remove_tree
from hostler_protocol.errors import HostlerError
from hostler_protocol.manifest import AgentRunnerManifest, ToolManifest

_log = logging.getLogger(__name__)

MAX_STARTS = 4
"""Plugins that are started at once: each is a process that loads its framework."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """What a plugin offers. `runners` None: it is not known, and `why` says why."""

    runners: Mapping[str, AgentRunnerManifest] | None
    tools: Mapping[str, ToolManifest] = dataclasses.field(default_factory=dict)
    why: str = ""


class Discovery:
    """Processes of plugins that nothing is served by. Each `learn` is followed by `close`."""

    def __init__(self, around: PluginContext) -> None:
        self._around = around
        self._lives: dict[str, PluginLifecycle] = {}
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._trial: str | None = None

    async def learn(
        self, wanted: Mapping[str, Folder], seconds: float, *, apart: Collection[str] = ()
    ) -> dict[str, Discovered]:
        """Start the plugins by key, and say what each offers.

        One that takes longer than `seconds`, or cannot be started, is not known. Those of `apart` get
        workspaces of their own, which are removed with them: they touch nothing of a plugin that is served,
        and cannot be taken.
        """
        if not wanted:
            return {}
        self._trial = secrets.token_hex(8)
        for key, source in wanted.items():
            trial = self._trial if key in apart else None
            around = dataclasses.replace(self._around, catalog=Catalog(), notice=_no_notice, trial=trial)
            self._lives[key] = PluginLifecycle(key, source, around)
        tasks = {key: asyncio.create_task(self._start(self._lives[key])) for key in wanted}
        await asyncio.wait(tasks.values(), timeout=seconds)
        late = Discovered(None, why=f"it did not start within {seconds:g} seconds")
        found = {key: task.result() if task.done() else late for key, task in tasks.items()}
        for task in tasks.values():
            task.cancel()  # of the waiting alone: a start that goes on can still be taken
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return found

    async def _start(self, life: PluginLifecycle) -> Discovered:
        async with self._starts:
            try:
                connection = await life.connection()
            except HostlerError as error:
                return Discovered(None, why=error.message)
            return Discovered(dict(connection.runners), dict(connection.tools))

    def take(self, plugin_key: str, source: PluginSource) -> PluginLifecycle | None:
        """A plugin that was started from this source, to be served from here on; None where there is none."""
        life = self._lives.get(plugin_key)
        if life is None or life.source != source or life.around.trial is not None:
            return None
        del self._lives[plugin_key]
        life.join(self._around)
        return life

    async def close(self) -> None:
        """End the processes that nobody took."""
        lives, self._lives = list(self._lives.values()), {}
        trial, self._trial = self._trial, None
        await asyncio.gather(*(life.close(0) for life in lives))
        if trial is not None:
            await asyncio.to_thread(_remove, self._around.trials / trial)

    def sweep(self) -> None:
        """Remove what a dead host left of its trials. Blocks; call it before the first `learn`."""
        _remove(self._around.trials)


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            remove_tree(folder)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", folder, error)


def _no_notice(kind: str, plugin_key: str, text: str) -> None:
    pass


__all__ = ["Discovered", "Discovery"]
