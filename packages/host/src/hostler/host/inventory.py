"""Inventories of an installation: what it has now, and what it would have with another configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.domain.inventory import Inventory, PluginFacts
from hostler.domain.skills import skill_tool
from hostler.domain.tool_entries import ToolEntry, tool_names
from hostler.host.bundled import shipped_runner, shipped_runners
from hostler.host.config import ConfigFile
from hostler.models.catalog import model_mistakes
from hostler.plugins.discovery import Discovered
from hostler.plugins.source import Folder, PluginSource, Remote
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.secrets.resolver import unreadable_secret
from hostler.storage.port import Database
from hostler.storage.stores import api_keys
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSources
from hostler_protocol.errors import HostlerError, PluginError
from hostler_protocol.ids import split_runner_id

DISCOVERY_SECONDS = 30.0
"""What plugins get to say which runners and tools they have, before agents are accepted without that."""
NOT_RUNNING = "it is not running"
NOT_CONNECTED = "it has not connected"
_UNASKED = Discovered(None)


@dataclass(slots=True)
class Inventories:
    """Takes inventories of one host. `silent_sources` says why a source of tools lists none, by what their
    names begin with.
    """

    db: Database
    workspace_id: str
    supervisor: Supervisor
    tools: ToolSources
    skills: Skills
    silent_sources: Callable[[], Mapping[str, str]]
    running: bool = True
    """Whether the host keeps plugins and servers of tools running; one that does not asks few of them."""
    knowledge: KnowledgeService | None = None
    config: ConfigFile = field(default_factory=ConfigFile)
    """The configuration that is in effect."""
    unusable_models: Mapping[str, str] = field(default_factory=dict)
    """The models that were left out when it took effect, and why."""

    async def now(self, workspace_id: str | None = None) -> Inventory:
        """What there is, without asking any plugin.

        What a host that keeps nothing running was never told is taken to be right.
        """
        known = {status.key: self._known(status) for status in self.supervisor.status()}
        facts = await self._with_others(known)
        if self.running:
            return await self._of(self.config, facts, workspace_id)
        asked = {key: found if found.runners is not None else _UNASKED for key, found in facts.items()}
        inventory = await self._of(self.config, asked, workspace_id)
        return replace(inventory, unlisted_tools=dict.fromkeys(inventory.unlisted_tools, ""))

    async def with_discovery(self, agents: Sequence[AgentSpec], workspace_id: str | None = None) -> Inventory:
        """What there is, with the plugins of these agents started where they were never seen."""
        sources = {status.key: status.source for status in self.supervisor.status()}
        folders = {key: source for key, source in sources.items() if isinstance(source, Folder)}
        return replace(
            await self.after(self.config, folders, agents), workspace_id=workspace_id or self.workspace_id
        )

    async def after(
        self,
        config: ConfigFile,
        plugins: Mapping[str, Folder],
        agents: Sequence[AgentSpec],
        *,
        dry_run: bool = False,
        seconds: float = DISCOVERY_SECONDS,
    ) -> Inventory:
        """What there would be with this whole configuration.

        Plugins that `agents` name and that were never seen are started, within `seconds`; those that the
        configuration brings wait in `supervisor.discovery` to be served or closed. In a dry run a plugin that
        is new runs in the sandbox even if its entry trusts it. Where the same plugin is served already, the
        new one leaves its workspace alone.
        """
        needed = [key for key in {*plugins, *shipped_runners()} if _is_needed(key, agents)]
        trials: dict[str, Folder] = {}
        apart: list[str] = []
        asked: list[str] = []
        for key in needed:
            source = plugins.get(key) or _shipped(key)
            served = self.supervisor.source_of(key)
            if served is None or (key in plugins and served != source):
                trials[key] = replace(source, level="sandboxed", network=()) if dry_run else source
                apart += [key] if dry_run or served is not None else []
            elif not self.supervisor.catalog.knows(key) and not isinstance(served, Remote):
                asked.append(key)
        found, _ = await asyncio.gather(
            self.supervisor.discovery.learn(trials, seconds, apart=apart), self._ask(asked, seconds)
        )
        known = {status.key: self._known(status) for status in self._kept(plugins)} | found
        facts = {key: known.get(key, Discovered(None, why=NOT_RUNNING)) for key in {*plugins, *known}}
        return await self._of(config, await self._with_others(facts))

    # -- plugins ----------------------------------------------------------------------------------

    def _kept(self, plugins: Mapping[str, PluginSource]) -> list[PluginStatus]:
        """The plugins that are served now and would be, from the same source."""
        return [
            status
            for status in self.supervisor.status()
            if plugins.get(status.key, status.source) == status.source
        ]

    def _known(self, status: PluginStatus) -> Discovered:
        """What a plugin that is served says of itself, as far as it was seen."""
        catalog = self.supervisor.catalog
        if catalog.knows(status.key):
            return Discovered(catalog.of_plugin(status.key), catalog.tools().get(status.key, {}))
        if isinstance(status.source, Remote):
            return Discovered(None, why=NOT_CONNECTED)
        return Discovered(None, why=status.reason or NOT_RUNNING)

    async def _ask(self, plugin_keys: Collection[str], seconds: float) -> None:
        """Start plugins that are served and were never seen; what keeps one from it is in its status."""

        async def ask(key: str) -> None:
            try:
                await self.supervisor.connection(key)
            except HostlerError:
                return

        tasks = [asyncio.create_task(ask(key)) for key in plugin_keys]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()  # of the waiting alone
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _with_others(self, facts: Mapping[str, Discovered]) -> dict[str, Discovered]:
        """Also the plugins that have a key to dial in, and the runners that come with the host."""
        remote = await self.db.read(api_keys.remote_plugins)
        others = dict.fromkeys(shipped_runners(), Discovered(None, why=NOT_RUNNING))
        return {**others, **dict.fromkeys(remote, Discovered(None, why=NOT_CONNECTED)), **facts}

    # -- everything -------------------------------------------------------------------------------

    async def _of(
        self, config: ConfigFile, plugins: Mapping[str, Discovered], workspace_id: str | None = None
    ) -> Inventory:
        skills = await self._skills(config.skills)
        tools = _Tools()
        tools.add_plugins(plugins)
        self._add_entries(tools, config)
        usable = [name for name, problem in skills.items() if problem is None]
        tools.names |= {skill_tool(name) for name in usable}
        offered = {} if self.knowledge is None else self.knowledge.offered(self.workspace_id)
        return Inventory(
            workspace_id=workspace_id or self.workspace_id,
            plugins={key: PluginFacts(found.runners, found.why) for key, found in plugins.items()},
            models={model.id: model.type for model in config.models},
            unusable_models=self._unusable_models(config),
            tools=tools.names,
            unusable_tools=tools.unusable,
            unlisted_tools=tools.unlisted,
            skills=usable,
            unusable_skills={name: problem for name, problem in skills.items() if problem is not None},
            knowledge_bases=list(offered),
            unreadable=unreadable_secret,
        )

    def _unusable_models(self, config: ConfigFile) -> dict[str, str]:
        in_effect = {model.id: model for model in self.config.models}
        found: dict[str, str] = {}
        for model in config.models:
            if in_effect.get(model.id) == model:
                why = self.unusable_models.get(model.id)
            else:
                why = next((mistake.sentence for mistake in model_mistakes(model)), None)
            if why is not None:
                found[model.id] = why
        return found

    async def _skills(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        if sorted(paths) == sorted(self.config.skills):
            return {one.name: one.problem for one in self.skills.standings()}
        return await asyncio.to_thread(self.skills.names, paths)

    def _add_entries(self, tools: _Tools, config: ConfigFile) -> None:
        offered = self.tools.offered(self.workspace_id)
        refused = {one.name: one.problem or "" for one in self.tools.refused(self.workspace_id)}
        silent = self.silent_sources()
        in_effect = {entry.key: entry for entry in self.config.tools}
        for entry in config.tools:
            if in_effect.get(entry.key) == entry:
                tools.add_offered(entry, offered, refused, silent, running=self.running)
            else:
                tools.add_new(entry)
        if config is self.config:
            tools.unusable.update({name: why for name, why in refused.items() if name not in tools.names})


@dataclass(slots=True)
class _Tools:
    """The tools of an inventory while it is taken."""

    names: set[str] = field(default_factory=set)
    unusable: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)

    def add_plugins(self, plugins: Mapping[str, Discovered]) -> None:
        for key, found in plugins.items():
            prefix = f"{key.partition('/')[2]}."
            self.names |= {f"{prefix}{name}" for name in found.tools}
            if found.runners is None:
                self.unlisted[prefix] = f"plugin {key!r}: {found.why}"

    def add_offered(
        self,
        entry: ToolEntry,
        offered: Collection[str],
        refused: Mapping[str, str],
        silent: Mapping[str, str],
        *,
        running: bool,
    ) -> None:
        """The tools of an entry that is in effect."""
        prefix = f"{entry.name}."
        mine = tool_names(entry)
        names = [name for name in (*offered, *refused) if name.startswith(prefix)] if mine is None else mine
        self.names |= {name for name in names if name in offered}
        self.unusable.update({name: refused[name] for name in names if name in refused})
        if not names:
            why = silent.get(
                prefix, "it has not said which tools it has" if running else "no server runs that asks it"
            )
            self.unlisted[prefix] = f"{entry.kind} {entry.name!r}: {why}"

    def add_new(self, entry: ToolEntry) -> None:
        """The tools of an entry that is not in effect yet."""
        names = tool_names(entry)
        if names is None:
            self.unlisted[f"{entry.name}."] = f"{entry.kind} {entry.name!r} is not in effect yet"
        else:
            self.names |= set(names)


def _shipped(plugin_key: str) -> Folder:
    path = shipped_runner(plugin_key)
    if path is None:
        raise PluginError(f"{plugin_key} did not come with this installation")
    return Folder(path)


def _is_needed(plugin_key: str, agents: Iterable[AgentSpec]) -> bool:
    """Whether an agent names the plugin: as its runner, or by one of its tools."""
    prefix = f"{plugin_key.partition('/')[2]}."
    return any(_plugin_of(spec) == plugin_key or _names_tool_of(spec, prefix) for spec in agents)


def _plugin_of(spec: AgentSpec) -> str | None:
    try:
        return split_runner_id(spec.runner)[0]
    except ValueError:
        return None


def _names_tool_of(spec: AgentSpec, prefix: str) -> bool:
    policy = spec.resource_policy
    given: list[Any] = [*(policy.allowed_tool_names or ()), *policy.tool_approval]
    for value in spec.config.values():
        given += value if isinstance(value, list) else [value]
    return any(isinstance(name, str) and name.startswith(prefix) for name in given)


__all__ = ["Inventories"]
