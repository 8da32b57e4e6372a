"""Applying a configuration to a running host, and reading it back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec
from hostler.domain.config_changes import Change, ChangeType, ConfigDiff, ConfigProblem, Kind, compare, sparse
from hostler.domain.config_mistakes import Mistake
from hostler.domain.inventory import Inventory
from hostler.domain.suggestions import did_you_mean
from hostler.domain.tool_entries import MAX_TOOL_ENTRIES, ToolKind
from hostler.domain.webhooks import MAX_WEBHOOKS
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.bundled import shipped_runner
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_entries import POLICY, EntryKind, entries_by_kind, read_entry, with_entry
from hostler.host.config_file import ConfigSource
from hostler.host.config_review import Reviewer, SkillCheck
from hostler.host.inventory import DISCOVERY_SECONDS, Inventories
from hostler.host.plugin_entries import folder_of, identify_stored, stored_by_name
from hostler.host.stored_config import NewConfig, StoredConfig, read_config, write_config
from hostler.models.catalog import ModelCatalog, usable_catalog
from hostler.pauses.encryption import LiveCipher, Locked, open_vault
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.storage.port import Database
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import split_runner_id

_MOST: Mapping[Kind, int] = {"tool": MAX_TOOL_ENTRIES, "webhook": MAX_WEBHOOKS}
"""Entries of one kind that can be stored."""


class LiveModels:
    """The models as configured right now: runs that use them see a change at their next call."""

    def __init__(self) -> None:
        self._catalog = ModelCatalog([])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    async def replace(self, catalog: ModelCatalog) -> None:
        """Use another catalog; the old one's connections end when its calls do."""
        self._catalog = catalog


class SkillService(SkillCheck, Protocol):
    """Whoever offers skills: `tools.skills.service.Skills` is one."""

    async def configure(self, paths: Sequence[str]) -> None:
        """Offer the skills of these folders, and no others any more."""
        ...


@dataclass(frozen=True, slots=True)
class Entries:
    """Stored entries by kind and name (plugins: `author/name`, else the path)."""

    readable: Mapping[Kind, Mapping[str, msgspec.Struct]]
    unreadable: Sequence[ConfigProblem]

    def get(self, kind: EntryKind, name: str) -> msgspec.Struct:
        """One entry. NotFoundError; InvalidArgumentError where it cannot be read."""
        found = self.readable[kind.kind]
        if name in found:
            return found[name]
        for entry in found.values():
            if isinstance(entry, PluginEntry) and entry.path == name:
                return entry
        for problem in self.unreadable:
            if (problem.kind, problem.name) == (kind.kind, name):
                raise InvalidArgumentError(f"{kind.kind} {name!r}: {problem.problem}")
        hint = did_you_mean(name, found) if found else "none is stored"
        raise NotFoundError(f"the configuration has no {kind.kind} {name!r}: {hint}")

    def removal(self, kind: EntryKind, name: str) -> Change:
        """The change that removes an entry. NotFoundError."""
        if any((problem.kind, problem.name) == (kind.kind, name) for problem in self.unreadable):
            return Change(kind=kind.kind, name=name, change="removed")
        entry = self.get(kind, name)
        stored_as = entry.path if isinstance(entry, PluginEntry) else name
        return Change(kind=kind.kind, name=stored_as, change="removed", before=sparse(entry))


def _entries(stored: StoredConfig) -> Entries:
    return Entries(entries_by_kind(stored.config, stored_by_name(stored)), stored.problems)


class Configurator:
    """The configuration of one workspace: checked, compared, stored, put into effect."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        supervisor: Supervisor,
        models: LiveModels,
        event_router: EventRouter,
        *,
        tools: Sequence[ToolKind] = (),
        working_folders: Callable[[WorkingFolderSettings], None] = lambda _: None,
        skills: SkillService | None = None,
        inventories: Inventories | None = None,
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._supervisor = supervisor
        self._models = models
        self._event_router = event_router
        self._tools = tools
        self._working_folders = working_folders
        self._skills = skills
        self._inventories = inventories
        self.reviewer = Reviewer(tools, skills, inventories)
        self._plugins: frozenset[str] = frozenset()
        """The plugins that the supervisor has because of an entry."""
        self._applying = asyncio.Lock()
        self.problems: Sequence[ConfigProblem] = ()
        """The stored entries that are not in effect, as of the last `load` or `apply`."""
        self.vault = LiveCipher()
        """What pauses are sealed with, as configured right now."""

    async def load(self) -> None:
        """Put what is stored into effect, at a start. Entries that do not work become `problems`."""
        async with self._applying:
            await self._take_effect()

    async def export(self) -> ConfigFile:
        """What is stored, as a configuration file."""
        return (await self._read()).config

    async def entries(self) -> Entries:
        """The stored entries by kind and name, and those that cannot be read."""
        return await asyncio.to_thread(_entries, await self._read())

    async def apply(
        self,
        config: ConfigFile,
        *,
        actor: str,
        dry_run: bool = False,
        prune: bool = False,
        source: ConfigSource | None = None,
        guard: Callable[[NewConfig], None] = lambda _: None,
        discovery_seconds: float = DISCOVERY_SECONDS,
    ) -> ConfigDiff:
        """Make the configuration hold. Nothing is changed where any part of it is wrong.

        What the file does not name stays, unless `prune`. `source`: the file that it was read from.
        `discovery_seconds`: what new plugins get to say what they offer; later that is not known.
        ConfigurationError names everything that is wrong. An entry that is stored like this already, and does
        not work any more, is one of the `problems` instead. `guard` is given what would be stored, and may
        raise.
        """
        async with self._applying:
            try:
                stored = await self._read()
                review = await self.reviewer.review(
                    config, stored, source, dry_run=dry_run, prune=prune, seconds=discovery_seconds
                )
                review.refuse()
                known = await asyncio.to_thread(stored_by_name, stored)
                changes = _changes(stored, known, config, review.plugins, prune=prune)
                _refuse_too_many(changes)
                if dry_run:
                    return ConfigDiff(changes=changes, applied=False, problems=review.problems)
                new = NewConfig(config, review.plugins, changes)
                guard(new)
                await self._db.write(lambda tx: write_config(tx, self._workspace, new, actor))
                await self._take_effect()
                return ConfigDiff(changes=changes, applied=True, problems=list(self.problems))
            finally:
                await self._supervisor.discovery.close()

    async def put(
        self, kind: EntryKind, data: dict[str, Any], *, actor: str, name: str | None = None
    ) -> ConfigDiff:
        """Store one entry, as a file has it. `name`: the one that it must have; None: it must be new.

        ConfigurationError with all that is wrong; InvalidArgumentError for another name; ConflictError where
        it is not new.
        """
        guard = must_be_named(kind, name) if name is not None else must_be_new
        entry, source = read_entry(kind, data)
        if entry is None:
            raise source.error()
        return await self.apply(with_entry(kind, entry), actor=actor, guard=guard, source=source)

    async def review_agent(self, spec: AgentSpec, workspace_id: str) -> list[Mistake]:
        """What is wrong with an agent that is to be saved or run; a plugin never seen is started for it."""
        inventory = await self.inventory([spec])
        inventory = dataclasses.replace(inventory, workspace_id=workspace_id)
        return await asyncio.to_thread(review_agent, spec, inventory)

    async def inventory(self, agents: Sequence[AgentSpec]) -> Inventory:
        """What there is; the plugins of these agents are started where they were never seen."""
        if self._inventories is None:
            return Inventory(self._workspace)
        async with self._applying:
            try:
                return await self._inventories.with_discovery(agents)
            finally:
                await self._supervisor.discovery.close()

    async def remove(self, kind: EntryKind, name: str, *, actor: str) -> ConfigDiff:
        """Remove one entry; a plugin's may also be named by its path. NotFoundError where there is none."""
        async with self._applying:
            change = (await self.entries()).removal(kind, name)
            new = NewConfig(ConfigFile(), {}, [change])
            await self._db.write(lambda tx: write_config(tx, self._workspace, new, actor))
            await self._take_effect()
            return ConfigDiff(changes=[change], applied=True, problems=list(self.problems))

    async def _read(self) -> StoredConfig:
        return await self._db.read(lambda tx: read_config(tx, self._workspace))

    # -- taking effect ----------------------------------------------------------------------------

    async def _take_effect(self) -> None:
        """Make the host do what is stored. Never fails for an entry: it becomes one of the `problems`."""
        stored = await self._read()
        config = stored.config
        problems = [*stored.problems, *_model_problems(config)]
        await self._models.replace(usable_catalog(config.models)[0])
        problems += self._open_vault(config)
        plugins, unknown = await asyncio.to_thread(identify_stored, stored)
        problems += unknown
        self._serve_plugins(plugins)
        self._working_folders(config.working_folders or WorkingFolderSettings())
        unusable = [
            ConfigProblem(kind="tool", name=entry.key, problem=mistake.text)
            for entry in config.tools
            for mistake in self.reviewer.tool_mistakes(entry)
        ]
        problems += unusable
        usable = {entry.key for entry in config.tools} - {problem.name for problem in unusable}
        for kind in self._tools:
            await kind.configure([entry for entry in config.tools if entry.key in usable])
        if self._skills is not None:
            await self._skills.configure(config.skills)
        self._serve_shipped(config)
        self._event_router.changed(self._workspace)
        self.problems = problems
        if self._inventories is not None:
            self._inventories.config = config
            self._inventories.unusable_models = {
                one.name: one.problem for one in problems if one.kind == "model"
            }

    def _open_vault(self, config: ConfigFile) -> list[ConfigProblem]:
        try:
            self.vault.replace(open_vault(config.pause_key))
        except InvalidArgumentError as error:
            self.vault.replace(Locked(error.message))
            return [ConfigProblem(kind="pause_key", name=POLICY, problem=error.message)]
        return []

    def _serve_plugins(self, plugins: Mapping[str, PluginEntry]) -> None:
        """Have the supervisor serve these plugins, and none of those that earlier entries named."""
        for key in self._plugins - plugins.keys():
            self._supervisor.discard(key)
        for key, entry in plugins.items():
            self._supervisor.put(key, folder_of(entry))
        self._plugins = frozenset(plugins)

    def _serve_shipped(self, config: ConfigFile) -> None:
        """Runners that come with the host need no entry."""
        for spec in config.agents:
            try:
                key, _ = split_runner_id(spec.runner)
            except ValueError:
                continue
            if key not in self._supervisor and (folder := shipped_runner(key)) is not None:
                self._supervisor.put(key, Folder(folder))


def must_be_new(new: NewConfig) -> None:
    """A guard of `apply`. ConflictError for an entry that is there already."""
    named = entries_by_kind(new.config, {entry.path: entry for entry in new.plugins.values()})
    for change in new.changes:
        if change.name not in named[change.kind] or change.change == "added":
            continue
        if change.kind != "plugin" or change.before is None or change.before["path"] == change.name:
            raise ConflictError(f"there is a {change.kind} {change.name!r} already: change that one")
        key = next(key for key, entry in new.plugins.items() if entry.path == change.name)
        raise ConflictError(
            f"plugin {key} is there already, from {change.before['path']}, and {change.name} says that it is "
            f"{key} too: `hostler plugins change {key} path={change.name}` moves it, and "
            f"`hostler plugins remove {key}` removes it"
        )


def must_be_named(kind: EntryKind, name: str) -> Callable[[NewConfig], None]:
    """A guard of `apply`. InvalidArgumentError for an entry that has another name."""

    def guard(new: NewConfig) -> None:
        (found,) = entries_by_kind(new.config, new.plugins)[kind.kind]
        if found != name:
            raise InvalidArgumentError(f"this is the {kind.kind} {found!r}, and not {name!r}")

    return guard


def _model_problems(config: ConfigFile) -> list[ConfigProblem]:
    wrong = usable_catalog(config.models)[1]
    return [ConfigProblem(kind="model", name=name, problem=why) for name, why in wrong.items()]


def _changes(
    stored: StoredConfig,
    known: Mapping[str, PluginEntry],
    config: ConfigFile,
    plugins: Mapping[str, PluginEntry],
    *,
    prune: bool,
) -> list[Change]:
    """What applying `config` changes. `known` and `plugins`: the plugin entries of both by identity."""
    named = {entry.path for entry in plugins.values()}
    known = {key: entry for key, entry in known.items() if key in plugins or entry.path not in named}
    before, after = entries_by_kind(stored.config, known), entries_by_kind(config, plugins)
    changes: list[Change] = []
    for kind in before:
        changes += compare(kind, before[kind], after[kind], prune=prune)
    changes = [_by_path(change, plugins, known) for change in changes]
    for problem in stored.problems:  # they cannot be read, and can be removed
        if problem.name not in after[problem.kind]:
            end: ChangeType = "removed" if prune else "kept"
            changes.append(Change(kind=problem.kind, name=problem.name, change=end))
    return changes


def _by_path(change: Change, plugins: Mapping[str, PluginEntry], known: Mapping[str, PluginEntry]) -> Change:
    """A change of a plugin entry under the path that it is stored by."""
    if change.kind != "plugin":
        return change
    entry = plugins.get(change.name) or known[change.name]
    return msgspec.structs.replace(change, name=entry.path)


def _refuse_too_many(changes: Sequence[Change]) -> None:
    for kind, most in _MOST.items():
        left = sum(change.kind == kind and change.change != "removed" for change in changes)
        if left > most and any(change.kind == kind and change.change == "added" for change in changes):
            raise InvalidArgumentError(f"{kind}s: there would be {left}; at most {most} can be stored")
