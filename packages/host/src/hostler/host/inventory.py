"""Inventories of an installation: its current contents, or those with another configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import Allowance, Allowances
from hostler.domain.channels import ChannelEntry
from hostler.domain.config_mistakes import Mistake
from hostler.domain.grants import SCHEDULE_CALLS
from hostler.domain.inventory import Inventory, PluginFacts
from hostler.domain.model_entries import ModelEntry
from hostler.domain.platform_actions import PLATFORM_ACTIONS
from hostler.domain.secret_refs import is_sealed, stored_name
from hostler.domain.skills import skill_tool
from hostler.domain.tool_entries import ToolEntry, tool_names
from hostler.host.bundled import shipped_plugin, shipped_plugins
from hostler.host.config import ConfigFile
from hostler.host.plugin_entries import shipped_folder
from hostler.host.secret_store import SecretStore
from hostler.models.catalog import model_mistakes
from hostler.plugins.discovery import Discovered
from hostler.plugins.source import Folder, PluginSource, Remote
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.secrets.resolver import unreadable_secret
from hostler.secrets.stored import missing_secret
from hostler.secrets.written import WrittenSecrets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents as agent_store
from hostler.storage.stores import api_keys
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.port import OfferedTool
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSources
from hostler_protocol.errors import HostlerError, PluginError
from hostler_protocol.ids import split_runner_id

DISCOVERY_SECONDS = 30.0
"""How long plugins get to report their runners and tools before agents are accepted without them."""
NOT_RUNNING = "it is not running"
NOT_CONNECTED = "it has not connected"
_UNKNOWN = Discovered(None)


@dataclass(slots=True)
class Inventories:
    """Takes inventories of one host.

    `silent_sources`: prefix of tools' names -> why their source lists none.
    """

    db: Database
    workspace_id: str
    supervisor: Supervisor
    tools: ToolSources
    skills: Skills
    silent_sources: Callable[[], Mapping[str, str]]
    allowances: Allowances
    running: bool = True
    """Whether the host keeps plugins and tool servers running; a passive host starts few of them."""
    knowledge: KnowledgeService | None = None
    secrets: SecretStore | None = None
    written: WrittenSecrets | None = None
    config: ConfigFile = field(default_factory=ConfigFile)
    """The active configuration."""
    unusable_models: Mapping[str, str] = field(default_factory=dict)
    """The models that were left out when it was activated, and why."""

    async def now(self, workspace_id: str | None = None) -> Inventory:
        """Return the inventory without starting any plugin.

        A passive host assumes that names which it cannot check are right.
        """
        known = {status.key: self._known(status) for status in self.supervisor.status()}
        workspace_id = workspace_id or self.workspace_id
        facts, agents = await self._with_stored(known, workspace_id)
        if self.running:
            return await self._of(self.config, facts, agents, workspace_id)
        unchecked = {key: found if found.runners is not None else _UNKNOWN for key, found in facts.items()}
        inventory = await self._of(self.config, unchecked, agents, workspace_id)
        return replace(inventory, unlisted_tools=dict.fromkeys(inventory.unlisted_tools, ""))

    async def with_discovery(self, agents: Sequence[AgentSpec], workspace_id: str | None = None) -> Inventory:
        """Return the inventory after starting the plugins of these agents that are unknown."""
        sources = {status.key: status.source for status in self.supervisor.status()}
        folders = {key: source for key, source in sources.items() if isinstance(source, Folder)}
        return await self.after_change(self.config, folders, agents, workspace_id=workspace_id)

    async def after_change(
        self,
        config: ConfigFile,
        plugins: Mapping[str, Folder],
        agents: Sequence[AgentSpec],
        *,
        channels: Sequence[ChannelEntry] = (),
        dry_run: bool = False,
        seconds: float = DISCOVERY_SECONDS,
        workspace_id: str | None = None,
    ) -> Inventory:
        """Return the inventory with this configuration in place of the active one.

        Unknown plugins that `agents` and `channels` name are started, within `seconds`; new ones wait in
        `supervisor.discovery` to be served or closed. In a dry run a new plugin runs in the sandbox even if
        its entry trusts it. If the same plugin is served already, the new one does not use its workspace.
        """
        of_channels = {_plugin_of_channel(entry) for entry in channels}
        known_keys = {*plugins, *shipped_plugins()}
        needed = [key for key in known_keys if is_needed(key, agents) or key in of_channels]
        trials: dict[str, Folder] = {}
        separate: list[str] = []
        unknown: list[str] = []
        for key in needed:
            source = plugins.get(key) or _shipped(key)
            served = self.supervisor.source_of(key)
            if served is None or (key in plugins and served != source):
                trials[key] = replace(source, level="sandboxed", network=()) if dry_run else source
                separate += [key] if dry_run or served is not None else []
            elif not self.supervisor.catalog.knows(key) and not isinstance(served, Remote):
                unknown.append(key)
        found, _ = await asyncio.gather(
            self.supervisor.discovery.learn(trials, seconds, apart=separate), self._start(unknown, seconds)
        )
        known = {status.key: self._known(status) for status in self._kept(plugins)} | found
        facts = {key: known.get(key, Discovered(None, why=NOT_RUNNING)) for key in {*plugins, *known}}
        workspace_id = workspace_id or self.workspace_id
        facts, stored = await self._with_stored(facts, workspace_id)
        others = stored if config is self.config else {spec.name for spec in config.agents}
        names = others | {spec.name for spec in agents}
        return await self._of(config, facts, names, workspace_id)

    # -- plugins ----------------------------------------------------------------------------------

    def _kept(self, plugins: Mapping[str, PluginSource]) -> list[PluginStatus]:
        """Return the plugins that stay served from the same source."""
        return [
            status
            for status in self.supervisor.status()
            if plugins.get(status.key, status.source) == status.source
        ]

    def _known(self, status: PluginStatus) -> Discovered:
        """Return what a served plugin offers, as far as it is known."""
        catalog = self.supervisor.catalog
        if catalog.knows(status.key):
            return Discovered(
                catalog.of_plugin(status.key),
                catalog.tools().get(status.key, {}),
                channels=catalog.channels_of(status.key),
            )
        if isinstance(status.source, Remote):
            return Discovered(None, why=NOT_CONNECTED)
        return Discovered(None, why=status.reason or NOT_RUNNING)

    async def _start(self, plugin_keys: Collection[str], seconds: float) -> None:
        """Start served plugins and wait at most `seconds`. An error of one is in its status."""

        async def start(key: str) -> None:
            try:
                await self.supervisor.connection(key)
            except HostlerError:
                return

        tasks = [asyncio.create_task(start(key)) for key in plugin_keys]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()  # the wait, not the start
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _with_stored(
        self, facts: Mapping[str, Discovered], workspace_id: str
    ) -> tuple[dict[str, Discovered], set[str]]:
        """Add the remote plugins that have a key, and what is shipped; return the names of agents too."""

        def read(tx: Tx) -> tuple[Iterable[str], list[str]]:
            return api_keys.remote_plugins(tx), agent_store.names(tx, workspace_id)

        remote, agents = await self.db.read(read)
        others = dict.fromkeys(shipped_plugins(), Discovered(None, why=NOT_RUNNING))
        return {**others, **dict.fromkeys(remote, Discovered(None, why=NOT_CONNECTED)), **facts}, set(agents)

    # -- everything -------------------------------------------------------------------------------

    async def _of(
        self,
        config: ConfigFile,
        plugins: Mapping[str, Discovered],
        agents: Collection[str],
        workspace_id: str,
    ) -> Inventory:
        skills = await self._skills(config.skills)
        allowances = self.allowances
        if config is not self.config:
            allowances = Allowances(self.workspace_id, config.workspaces)
        tools = _Tools(allowances.of(workspace_id))
        tools.add_plugins(plugins)
        self._add_entries(tools, config)
        usable = [name for name, problem in skills.items() if problem is None]
        own = {name: f"schedule:{name}" for name in SCHEDULE_CALLS}
        if config.channels:  # what each of them can do is looked at when an action is asked for
            own |= {one.tool_name: f"platform:{one.name}" for one in PLATFORM_ACTIONS.values()}
        tools.names |= {name: id_ for name, id_ in own.items() if tools.may.tool(name, id_)}
        tools.names |= {skill_tool(name): f"skill:{name}" for name in usable}
        offered = {} if self.knowledge is None else self.knowledge.offered(workspace_id)
        secrets = {} if self.secrets is None else await self.secrets.known(workspace_id, "workspace")
        return Inventory(
            workspace_id=workspace_id,
            plugins={
                key: PluginFacts(found.runners, found.why, found.channels) for key, found in plugins.items()
            },
            models={model.id: model.type for model in config.models},
            unusable_models=self._unusable_models(config),
            unpriced_models=frozenset(model.id for model in config.models if model.price is None),
            tools=tools.names,
            unusable_tools=tools.unusable,
            unlisted_tools=tools.unlisted,
            skills=usable,
            unusable_skills={name: problem for name, problem in skills.items() if problem is not None},
            knowledge_bases=list(offered),
            agents=agents,
            # those of the configuration serve the installation's own workspace
            channels={
                entry.name: entry.enabled for entry in config.channels if workspace_id == self.workspace_id
            },
            unreadable=partial(_unreadable, secrets, self.written, tools.may.secret_files),
            allowances=allowances,
        )

    def _unusable_models(self, config: ConfigFile) -> dict[str, str]:
        active = {model.id: model for model in self.config.models}
        unusable: dict[str, str] = {}
        for model in config.models:
            if active.get(model.id) == model:
                why = self.unusable_models.get(model.id)
            else:
                why = next((mistake.sentence for mistake in self._model_mistakes(model)), None)
            if why is not None:
                unusable[model.id] = why
        return unusable

    def _model_mistakes(self, model: ModelEntry) -> list[Mistake]:
        return model_mistakes(model) if self.secrets is None else model_mistakes(model, self.secrets.own.read)

    async def _skills(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        if sorted(paths) == sorted(self.config.skills):
            return {skill.name: skill.problem for skill in self.skills.statuses()}
        return await asyncio.to_thread(self.skills.names, paths)

    def _add_entries(self, tools: _Tools, config: ConfigFile) -> None:
        # all that there is: the bounds of each workspace come later
        offered = {*self.tools.offered(self.workspace_id), *self.tools.withheld(self.workspace_id)}
        refused = {tool.name: tool.problem or "" for tool in self.tools.refused(self.workspace_id)}
        silent = self.silent_sources()
        active = {entry.key: entry for entry in self.config.tools}
        for entry in config.tools:
            if active.get(entry.key) == entry:
                tools.add_offered(entry, offered, refused, silent, running=self.running)
            else:
                tools.add_new(entry)
        if config is self.config:
            tools.add_refused(self.tools.refused(self.workspace_id))


@dataclass(slots=True)
class _Tools:
    """Collects the tools of an inventory. Of those that cannot be used now, it takes what `may` be used."""

    may: Allowance
    names: dict[str, str] = field(default_factory=dict)
    """With the ids of the tools, or what of it is known: the kind and the source."""
    unusable: dict[str, str] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)

    def add_plugins(self, plugins: Mapping[str, Discovered]) -> None:
        for key, found in plugins.items():
            prefix = f"{key.partition('/')[2]}."
            self.names |= {f"{prefix}{name}": f"plugin:{key}#{name}" for name in found.tools}
            if found.runners is None and self.may.tools_of(prefix, f"plugin:{key}#"):
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
        """Add the tools of an active entry."""
        prefix = f"{entry.name}."
        names = tool_names(entry)
        if names is None:
            names = [name for name in (*offered, *refused) if name.startswith(prefix)]
        self.names |= {name: f"{entry.kind}:{entry.name}" for name in names if name in offered}
        source = f"{entry.kind}:{entry.name}"
        self.unusable.update(
            {name: refused[name] for name in names if name in refused and self.may.tool(name, source)}
        )
        if not names and self.may.tools_of(prefix, source):
            why = silent.get(
                prefix,
                "it has not listed its tools" if running else "no server is running that lists its tools",
            )
            self.unlisted[prefix] = f"{entry.kind} {entry.name!r}: {why}"

    def add_refused(self, tools: Iterable[OfferedTool]) -> None:
        """Add what no run may get now and no entry has named, such as tools of plugins."""
        for tool in tools:
            if tool.name not in self.names and self.may.tool(tool.name, tool.pin.tool_id):
                self.unusable[tool.name] = tool.problem or ""

    def add_new(self, entry: ToolEntry) -> None:
        """Add the tools of an entry that is not active yet."""
        names = tool_names(entry)
        if names is None:
            if self.may.tools_of(f"{entry.name}.", f"{entry.kind}:{entry.name}"):
                self.unlisted[f"{entry.name}."] = f"{entry.kind} {entry.name!r} is not active yet"
        else:
            self.names |= dict.fromkeys(names, f"{entry.kind}:{entry.name}")


def _unreadable(
    stored: Mapping[str, str | None],
    written: WrittenSecrets | None,
    within: Sequence[str] | None,
    reference: str,
) -> str | None:
    """Return why an agent cannot get the secret behind a reference, or one that is sealed.

    `stored`: name -> why it cannot. `within`: where its files may be, None for anywhere.
    """
    if is_sealed(reference):
        return None if written is None else written.why_closed(reference)
    name = stored_name(reference)
    if name is None:
        return unreadable_secret(reference, within=within)
    if name not in stored:
        return missing_secret(name, "workspace")
    return stored[name]


def _shipped(plugin_key: str) -> Folder:
    path = shipped_plugin(plugin_key)
    if path is None:
        raise PluginError(f"{plugin_key} did not come with this installation")
    return shipped_folder(path)


def is_needed(plugin_key: str, agents: Iterable[AgentSpec]) -> bool:
    """Whether an agent names the plugin: as its runner, or by one of its tools."""
    prefix = f"{plugin_key.partition('/')[2]}."
    return any(_plugin_of(spec) == plugin_key or _names_tool_of(spec, prefix) for spec in agents)


def _plugin_of_channel(entry: ChannelEntry) -> str | None:
    try:
        return entry.plugin_key
    except ValueError:
        return None


def _plugin_of(spec: AgentSpec) -> str | None:
    try:
        return split_runner_id(spec.runner)[0]
    except ValueError:
        return None


def _names_tool_of(spec: AgentSpec, prefix: str) -> bool:
    policy = spec.resource_policy
    names: list[Any] = [*(policy.allowed_tool_names or ()), *policy.tool_approval]
    for value in spec.config.values():
        names += value if isinstance(value, list) else [value]
    return any(isinstance(name, str) and name.startswith(prefix) for name in names)
