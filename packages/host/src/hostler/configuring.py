"""Applying a configuration to a running host, and reading it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from hostler.bindery import Bindery
from hostler.config import ConfigFile, PluginEntry
from hostler.domain.agents import AgentSpec
from hostler.domain.changes import Change, ChangeType, ConfigDiff, Kind, Problem, compare
from hostler.domain.filters import MAX_FILTERS_PER_AGENT, check_filter
from hostler.domain.retention import check_retention
from hostler.domain.tool_entries import (
    MAX_TOOL_ENTRIES,
    ToolEntry,
    ToolKind,
    WorkingFolderSettings,
    entries_by_key,
)
from hostler.domain.webhooks import MAX_WEBHOOKS, check_webhooks
from hostler.egress import EgressPolicy
from hostler.models.catalog import ModelCatalog, usable_catalog
from hostler.plugin_entries import folder_of, identify, identify_stored, stored_by_name
from hostler.plugins.supervisor import Supervisor
from hostler.ports import Database
from hostler.stored_config import (
    POLICY,
    NewConfig,
    StoredConfig,
    entries_by_kind,
    read_config,
    write_config,
)
from hostler.vault import LiveVault, Locked, open_vault
from hostler_protocol.errors import InvalidArgumentError
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


class SkillShelf(Protocol):
    """Whoever offers skills: `skills.shelf.Skills` is one."""

    def check(self, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        """The skills of these folders that cannot be offered: the name of each, and why. Blocks.

        InvalidArgumentError where a path leads to no skill at all.
        """
        ...

    async def configure(self, paths: Sequence[str]) -> None:
        """Offer the skills of these folders, and no others any more."""
        ...


@dataclass(frozen=True, slots=True)
class _Checked:
    """A configuration that may be applied: its plugins by identity, and what of it does not work."""

    plugins: Mapping[str, PluginEntry]
    problems: Sequence[Problem]


class Configurator:
    """The configuration of one workspace: checked, compared, stored, put into effect."""

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
        self._plugins: frozenset[str] = frozenset()
        """The plugins that the supervisor has because of an entry."""
        self._applying = asyncio.Lock()
        self.problems: Sequence[Problem] = ()
        """The stored entries that are not in effect, as of the last `load` or `apply`."""
        self.vault = LiveVault()
        """What pauses are sealed with, as configured right now."""

    async def load(self) -> None:
        """Put what is stored into effect, at a start. Entries that do not work become `problems`."""
        async with self._applying:
            await self._take_effect()

    async def export(self) -> ConfigFile:
        """What is stored, as a configuration file."""
        return (await self._read()).config

    async def apply(
        self, config: ConfigFile, *, actor: str, dry_run: bool = False, prune: bool = False
    ) -> ConfigDiff:
        """Make the configuration hold. Nothing is changed where any part of it is wrong.

        What the file does not name stays, unless `prune`. InvalidArgumentError says what is wrong where. An
        entry that is stored like this already, and does not work any more, is one of the `problems` instead.
        """
        async with self._applying:
            stored = await self._read()
            checked = await self._check(config, stored)
            known = await asyncio.to_thread(stored_by_name, stored)
            changes = _changes(stored, known, config, checked.plugins, prune=prune)
            _refuse_too_many(changes)
            if dry_run:
                return ConfigDiff(changes=changes, applied=False, problems=list(checked.problems))
            new = NewConfig(config, checked.plugins, changes)
            await self._db.write(lambda tx: write_config(tx, self._workspace, new, actor))
            await self._take_effect()
            return ConfigDiff(changes=changes, applied=True, problems=list(self.problems))

    async def _read(self) -> StoredConfig:
        return await self._db.read(lambda tx: read_config(tx, self._workspace))

    # -- checking ---------------------------------------------------------------------------------

    async def _check(self, config: ConfigFile, stored: StoredConfig) -> _Checked:
        """InvalidArgumentError for what is wrong with an entry that is new or changed."""
        if config.retention is not None:
            check_retention(config.retention)
        check_webhooks(config.webhooks)
        for webhook in config.webhooks:
            EgressPolicy.of(webhook.network)
        open_vault(config.pause_key)
        for spec in config.agents:
            check_agent(spec)
        found = [*self._tool_problems(config.tools), *_model_problems(config)]
        wanted, known = entries_by_kind(config, {}), entries_by_kind(stored.config, {})
        for problem in found:
            if known[problem.kind].get(problem.name) != wanted[problem.kind][problem.name]:
                at = "" if problem.kind == "tool" else f"{problem.kind} {problem.name!r}: "
                raise InvalidArgumentError(f"{at}{problem.problem}")
        skills = await self._skill_problems(config.skills)
        return _Checked(await asyncio.to_thread(identify, config, stored), [*found, *skills])

    def _tool_problems(self, entries: Sequence[ToolEntry]) -> list[Problem]:
        found: list[Problem] = []
        for key, entry in entries_by_key(entries).items():
            try:
                for kind in self._tools:
                    kind.check([entry])
            except InvalidArgumentError as error:
                found.append(Problem(kind="tool", name=key, problem=error.message))
        return found

    async def _skill_problems(self, paths: Sequence[str]) -> list[Problem]:
        if self._skills is None or not paths:
            return []
        try:
            found = await asyncio.to_thread(self._skills.check, paths)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"skills: {error.message}") from None
        return [Problem(kind="skill", name=name, problem=why) for name, why in found]

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
        unusable = self._tool_problems(config.tools)
        problems += unusable
        usable = {entry.key for entry in config.tools} - {problem.name for problem in unusable}
        for kind in self._tools:
            await kind.configure([entry for entry in config.tools if entry.key in usable])
        if self._skills is not None:
            await self._skills.configure(config.skills)
        self._bindery.changed(self._workspace)
        self.problems = problems

    def _open_vault(self, config: ConfigFile) -> list[Problem]:
        try:
            self.vault.replace(open_vault(config.pause_key))
        except InvalidArgumentError as error:
            self.vault.replace(Locked(error.message))
            return [Problem(kind="pause_key", name=POLICY, problem=error.message)]
        return []

    def _serve_plugins(self, plugins: Mapping[str, PluginEntry]) -> None:
        """Have the supervisor serve these plugins, and none of those that earlier entries named."""
        for key in self._plugins - plugins.keys():
            self._supervisor.discard(key)
        for key, entry in plugins.items():
            self._supervisor.put(key, folder_of(entry))
        self._plugins = frozenset(plugins)


def _model_problems(config: ConfigFile) -> list[Problem]:
    wrong = usable_catalog(config.models)[1]
    return [Problem(kind="model", name=name, problem=why) for name, why in wrong.items()]


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
