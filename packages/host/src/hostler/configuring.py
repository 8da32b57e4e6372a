"""Applying a configuration to a running host, and reading it back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hostler.bindery import Bindery
from hostler.bundled import shipped_runner
from hostler.config import ConfigFile, ModelEntry, PluginEntry, convert
from hostler.domain.agents import AgentSpec
from hostler.domain.changes import Change, ConfigDiff, compare
from hostler.domain.filters import MAX_FILTERS_PER_AGENT, check_filter
from hostler.domain.retention import RetentionPolicy, check_retention
from hostler.domain.tool_entries import ToolEntry, ToolKind, WorkingFolderSettings, entries_by_key
from hostler.domain.webhooks import Webhook, check_webhooks
from hostler.egress import EgressPolicy
from hostler.models.catalog import ModelCatalog, build_catalog, usable_catalog
from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.plugins.sources import Folder, identity_of
from hostler.plugins.supervisor import Supervisor
from hostler.ports import Database, Tx
from hostler.sandbox.port import MIB, SandboxLimits
from hostler.stores import agents, audit, settings
from hostler.vault import LiveVault, Locked, open_vault
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, PluginError
from hostler_protocol.ids import split_runner_id

POLICY = "policy"
"""The one name under which is stored what there is one of: the retention policy, the keys of pauses."""


class PauseKeys(Strict):
    """Where the keys of pauses lie, the current one first."""

    keys: list[str]


class LiveModels:
    """The models as configured right now: runs that use them see a change at their next call."""

    def __init__(self) -> None:
        self._catalog = ModelCatalog([])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    async def replace(self, catalog: ModelCatalog) -> None:
        """Use another catalog; the old one's connections end when its calls do."""
        self._catalog = catalog


class SkillFolder(Strict):
    """An entry of `skills`, as it is stored."""

    path: str


class SkillShelf(Protocol):
    """Whoever offers skills: `skills.shelf.Skills` is one."""

    def check(self, paths: Sequence[str]) -> None:
        """InvalidArgumentError where one of these folders can't be used. Blocks."""
        ...

    async def configure(self, paths: Sequence[str]) -> dict[str, str]:
        """Offer the skills of these folders, and no others any more; which of them don't work, and why."""
        ...


class Configurator:
    """Plugins, models and agents of one workspace: stored, compared, put into effect."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        supervisor: Supervisor,
        models: LiveModels,
        bindery: Bindery,
        *,
        tools: Sequence[ToolKind] = (),
        working_folders: Callable[[WorkingFolderSettings], None] = lambda _: None,
        skills: SkillShelf | None = None,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._supervisor = supervisor
        self._models = models
        self._bindery = bindery
        self._tools = tools
        self._working_folders = working_folders
        self._skills = skills
        self.vault = LiveVault()
        """What pauses are sealed with, as configured right now."""

    async def load(self) -> dict[str, str]:
        """Put what is stored into effect, at a start. What does not work is told by key, path or name."""
        stored = await self.export()
        models, wrong = usable_catalog(stored.models)
        await self._models.replace(models)
        troubles = {f"model {name}": problem for name, problem in wrong.items()}
        try:
            self.vault.replace(open_vault(stored.pause_key))
        except InvalidArgumentError as error:
            self.vault.replace(Locked(error.message))
            troubles["pause_key"] = error.message
        for entry in _plugins(stored):
            try:
                self._supervisor.add(_source(entry))
            except PluginError as error:
                troubles[entry.path] = error.message
        try:
            await self._configure_tools(stored)
        except InvalidArgumentError as error:
            troubles["tools"] = error.message
        return troubles | await self._configure_skills(stored)

    async def _configure_skills(self, config: ConfigFile) -> dict[str, str]:
        wrong = {} if self._skills is None else await self._skills.configure(config.skills)
        return {f"skill {name}": problem for name, problem in wrong.items()}

    async def _configure_tools(self, config: ConfigFile) -> None:
        self._working_folders(config.working_folders or WorkingFolderSettings())
        for kind in self._tools:
            await kind.configure(config.tools)

    async def export(self) -> ConfigFile:
        """What is stored, as a configuration file."""
        return await self._db.read(self._stored)

    async def apply(
        self, config: ConfigFile, *, actor: str, dry_run: bool = False, prune: bool = False
    ) -> ConfigDiff:
        """Make the configuration hold. Nothing is changed where any part of it is wrong.

        What the file does not name stays, unless `prune`. InvalidArgumentError says what is wrong where.
        """
        sources = self._check(config)
        await self._check_skills(config)
        catalog = build_catalog(config.models)
        before = await self.export()
        changes = _changes(before, config, prune=prune)
        if dry_run:
            return ConfigDiff(changes=changes, applied=False)
        for source in sources:
            await self._add(source)
        await self._db.write(lambda tx: self._write(tx, config, changes, actor))
        after = await self.export()
        await self._models.replace(catalog if prune else usable_catalog(after.models)[0])
        self.vault.replace(open_vault(after.pause_key))
        await self._configure_tools(after)
        await self._configure_skills(after)
        await self._remove_plugins(changes, before)
        self._bindery.changed(self._workspace)
        return ConfigDiff(changes=changes, applied=True)

    async def _check_skills(self, config: ConfigFile) -> None:
        if self._skills is None or not config.skills:
            return
        try:
            await asyncio.to_thread(self._skills.check, config.skills)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"skills: {error.message}") from None

    async def _add(self, source: Folder) -> None:
        """Make a plugin known; it takes the place of a shipped one of the same name."""
        key = identity_of(source).key
        shipped = shipped_runner(key)
        if key in self._supervisor and shipped is not None and source.path != shipped:
            await self._supervisor.remove(key)
        self._supervisor.add(source)

    def _check(self, config: ConfigFile) -> list[Folder]:
        if config.retention is not None:
            check_retention(config.retention)
        check_webhooks(config.webhooks)
        for webhook in config.webhooks:
            EgressPolicy.of(webhook.network)
        open_vault(config.pause_key)
        entries_by_key(config.tools)
        for kind in self._tools:
            kind.check(config.tools)
        for spec in config.agents:
            check_agent(spec)
        sources = [_source(entry) for entry in _plugins(config)]
        keys: dict[str, Path] = {}
        for source in sources:
            try:
                key = identity_of(source).key
            except PluginError as error:
                raise InvalidArgumentError(f"plugins: {error.message}") from error
            if keys.setdefault(key, source.path) != source.path:
                raise InvalidArgumentError(f"plugins: {keys[key]} and {source.path} both say they are {key}")
        return sources

    def _stored(self, tx: Tx) -> ConfigFile:
        ws = self._workspace
        plugins = [convert(s.spec, PluginEntry, s.name) for s in settings.page(tx, ws, "plugin")]
        models = [convert(s.spec, ModelEntry, s.name) for s in settings.page(tx, ws, "model")]
        kept = settings.find(tx, ws, "retention", POLICY)
        sealed = settings.find(tx, ws, "pause_key", POLICY)
        folders = settings.find(tx, ws, "working_folders", POLICY)
        return ConfigFile(
            plugins=list(plugins),
            models=models,
            agents=[agent.spec for agent in agents.active(tx, ws)],
            retention=None if kept is None else convert(kept.spec, RetentionPolicy, "retention"),
            webhooks=[convert(s.spec, Webhook, s.name) for s in settings.page(tx, ws, "webhook")],
            pause_key=[] if sealed is None else convert(sealed.spec, PauseKeys, "pause_key").keys,
            tools=[convert(s.spec, ToolEntry, s.name) for s in settings.page(tx, ws, "tool")],
            skills=[s.name for s in settings.page(tx, ws, "skill")],
            working_folders=None
            if folders is None
            else convert(folders.spec, WorkingFolderSettings, "working_folders"),
        )

    def _write(self, tx: Tx, config: ConfigFile, changes: list[Change], actor: str) -> None:
        ws = self._workspace
        for plugin in _plugins(config):
            settings.put(tx, ws, "plugin", plugin.path, _plain(plugin))
        for model in config.models:
            settings.put(tx, ws, "model", model.id, _plain(model))
        if config.retention is not None:
            settings.put(tx, ws, "retention", POLICY, _plain(config.retention))
        for webhook in config.webhooks:
            settings.put(tx, ws, "webhook", webhook.name, _plain(webhook))
        for key, entry in entries_by_key(config.tools).items():
            settings.put(tx, ws, "tool", key, _plain(entry))
        for path in config.skills:
            settings.put(tx, ws, "skill", path, _plain(SkillFolder(path=path)))
        if config.working_folders is not None:
            settings.put(tx, ws, "working_folders", POLICY, _plain(config.working_folders))
        if config.pause_key:
            settings.put(tx, ws, "pause_key", POLICY, {"keys": config.pause_key})
        for spec in config.agents:
            agents.apply(tx, ws, spec)
        self._write_changes(tx, changes, actor)

    def _write_changes(self, tx: Tx, changes: list[Change], actor: str) -> None:
        ws = self._workspace
        for change in changes:
            if change.change == "removed":
                if change.kind == "agent":
                    agents.delete(tx, ws, change.name)
                else:
                    settings.delete(tx, ws, change.kind, change.name)
            if change.change in {"added", "changed", "removed"}:
                audit.record(
                    tx, ws, actor=actor, action=f"{change.kind}.{change.change}", target=change.name, body={}
                )

    async def _remove_plugins(self, changes: list[Change], before: ConfigFile) -> None:
        for change in changes:
            if change.kind == "plugin" and change.change == "removed":
                try:
                    key = identity_of(Folder(Path(change.name))).key
                except PluginError:
                    continue  # its folder is gone: nothing of it was running
                if key in self._supervisor:
                    await self._supervisor.remove(key)


def check_agent(spec: AgentSpec) -> None:
    """Refuse what no agent may be, when it is saved. InvalidArgumentError names the place."""
    where = f"agent {spec.name!r}"
    if not spec.name.strip() or len(spec.name) > 255 or "\x00" in spec.name:
        raise InvalidArgumentError(f"{where}: a name has 1 to 255 characters and no NUL")
    try:
        split_runner_id(spec.runner)
    except ValueError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
    if spec.scope.id == "":
        raise InvalidArgumentError(f"{where}: scope.id is empty: leave it out, or name one")
    if len(spec.filters) > MAX_FILTERS_PER_AGENT:
        raise InvalidArgumentError(f"{where}: {len(spec.filters)} filters; at most {MAX_FILTERS_PER_AGENT}")
    for text in spec.filters:
        try:
            check_filter(text)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{where}: {error.message}") from None
    if spec.recovery.max_attempts < 1:
        raise InvalidArgumentError(
            f"{where}: recovery.max_attempts is {spec.recovery.max_attempts}; at least 1"
        )


def _plugins(config: ConfigFile) -> list[PluginEntry]:
    return [PluginEntry(path=entry) if isinstance(entry, str) else entry for entry in config.plugins]


def _source(entry: PluginEntry) -> Folder:
    level = entry.level or "sandboxed"
    return Folder(Path(entry.path), level=level, network=tuple(entry.network), limits=_limits(entry))


def _limits(entry: PluginEntry) -> SandboxLimits:
    said: dict[str, Any] = {} if entry.limits is None else msgspec.to_builtins(entry.limits)
    changed = {name: value for name, value in said.items() if value is not None}
    for name in ("memory", "disk", "tmp"):
        if (mib := changed.pop(f"{name}_mib", None)) is not None:
            changed[f"{name}_bytes"] = mib * MIB
    return dataclasses.replace(PLUGIN_LIMITS, **changed)


def _plain(entry: msgspec.Struct) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(entry)
    return data


def _sealing(config: ConfigFile) -> dict[str, PauseKeys]:
    return {POLICY: PauseKeys(keys=config.pause_key)} if config.pause_key else {}


def _skills(config: ConfigFile) -> dict[str, SkillFolder]:
    return {path: SkillFolder(path=path) for path in config.skills}


def _by_name(webhooks: list[Webhook]) -> dict[str, Webhook]:
    return {webhook.name: webhook for webhook in webhooks}


def _changes(before: ConfigFile, after: ConfigFile, *, prune: bool) -> list[Change]:
    def by_path(config: ConfigFile) -> Mapping[str, PluginEntry]:
        return {entry.path: entry for entry in _plugins(config)}

    def policy(config: ConfigFile) -> Mapping[str, RetentionPolicy]:
        return {} if config.retention is None else {POLICY: config.retention}

    def folders(config: ConfigFile) -> Mapping[str, WorkingFolderSettings]:
        return {} if config.working_folders is None else {POLICY: config.working_folders}

    return [
        *compare("plugin", by_path(before), by_path(after), prune=prune),
        *compare("model", {m.id: m for m in before.models}, {m.id: m for m in after.models}, prune=prune),
        *compare("retention", policy(before), policy(after), prune=prune),
        *compare("pause_key", _sealing(before), _sealing(after), prune=prune),
        *compare("working_folders", folders(before), folders(after), prune=prune),
        *compare("skill", _skills(before), _skills(after), prune=prune),
        *compare("tool", entries_by_key(before.tools), entries_by_key(after.tools), prune=prune),
        *compare("webhook", _by_name(before.webhooks), _by_name(after.webhooks), prune=prune),
        *compare("agent", {a.name: a for a in before.agents}, {a.name: a for a in after.agents}, prune=prune),
    ]
