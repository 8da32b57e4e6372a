"""Start plugins to learn what they offer before the host serves them.

A configuration may name runners and tools of plugins that it adds itself. These plugins are started as they
would be served; if the configuration is then applied, the supervisor takes over the same processes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping

import msgspec.structs

from hostler.domain.record import Record
from hostler.plugins.catalog import PluginCatalog
from hostler.plugins.context import PluginContext
from hostler.plugins.lifecycle import PluginLifecycle
from hostler.plugins.pins import UnrecordedPins
from hostler.plugins.source import Folder, PluginSource
from hostler.tools.workspaces.tree_removal import try_remove_tree
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.errors import HostlerError
from hostler_protocol.manifest import AgentRunnerManifest, ToolManifest

MAX_STARTS = 4
"""Plugins started at once: each is a process that imports its framework."""


class Discovered(Record):
    """What a plugin offers. If `runners` is None that is unknown, and `why` has the reason."""

    runners: Mapping[str, AgentRunnerManifest] | None
    tools: Mapping[str, ToolManifest] = msgspec.field(default_factory=dict)
    why: str = ""
    channels: Mapping[str, ChannelManifest] = msgspec.field(default_factory=dict)


class Discovery:
    """Plugin processes that are not served. Call `close` after each `learn`."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._lives: dict[str, PluginLifecycle] = {}
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._trial: str | None = None

    async def learn(
        self, wanted: Mapping[str, Folder], seconds: float, *, apart: Collection[str] = ()
    ) -> dict[str, Discovered]:
        """Start plugins by key and return what each offers.

        A plugin that cannot be started within `seconds` is unknown. Those in `apart` get separate workspaces,
        which are removed afterwards: they do not affect a served plugin, and cannot be taken over.
        """
        if not wanted:
            return {}
        self._trial = secrets.token_hex(8)
        pins = None if self._context.pins is None else UnrecordedPins(self._context.pins)
        for key, source in wanted.items():
            trial = self._trial if key in apart else None
            context = msgspec.structs.replace(
                self._context, catalog=PluginCatalog(), notice=_no_notice, trial=trial, pins=pins
            )
            self._lives[key] = PluginLifecycle(key, source, context)
        tasks = {key: asyncio.create_task(self._start(self._lives[key])) for key in wanted}
        await asyncio.wait(tasks.values(), timeout=seconds)
        late = Discovered(None, why=f"it did not start within {seconds:g} seconds")
        found = {key: task.result() if task.done() else late for key, task in tasks.items()}
        for task in tasks.values():
            task.cancel()  # only the wait: a start in progress can still be taken over
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return found

    async def _start(self, life: PluginLifecycle) -> Discovered:
        async with self._starts:
            try:
                connection = await life.connection()
            except HostlerError as error:
                return Discovered(None, why=error.message)
            return Discovered(
                dict(connection.runners),
                dict(connection.tools),
                channels=dict(connection.channel_manifests),
            )

    def take(self, plugin_key: str, source: PluginSource) -> PluginLifecycle | None:
        """Hand over a plugin that was started from this source; None if there is none."""
        life = self._lives.get(plugin_key)
        if life is None or life.source != source or life.context.trial is not None:
            return None
        del self._lives[plugin_key]
        life.join(self._context)
        return life

    async def close(self) -> None:
        """End the processes that were not taken over."""
        lives, self._lives = list(self._lives.values()), {}
        trial, self._trial = self._trial, None
        await asyncio.gather(*(life.close(0) for life in lives))
        if trial is not None:
            await asyncio.to_thread(try_remove_tree, self._context.trials / trial)

    def sweep(self) -> None:
        """Remove trials left by a dead host. Blocks; call it before the first `learn`."""
        try_remove_tree(self._context.trials)


def _no_notice(kind: str, plugin_key: str, text: str) -> None:
    pass
