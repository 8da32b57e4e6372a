"""Apply a configuration to a running host, and read it back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import Allowances
from hostler.domain.audit_anchors import AuditAnchors
from hostler.domain.channels import ChannelEntry
from hostler.domain.config_changes import ConfigDiff, ConfigProblem
from hostler.domain.config_mistakes import Mistake
from hostler.domain.cors import CorsEntry
from hostler.domain.hooks import Hook
from hostler.domain.inventory import Inventory
from hostler.domain.model_entries import ModelEntry
from hostler.domain.stored_secrets import reference_to
from hostler.domain.tool_entries import ToolKind
from hostler.domain.widgets import Widget
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.domain.written_secrets import complete_agent, complete_model, without_secrets
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_diff import Entries, changes_of, must_be_named, must_be_new, refuse_too_many
from hostler.host.config_entries import POLICY, EntryKind, entries_by_kind, read_entry, with_entry
from hostler.host.config_file import ConfigSource
from hostler.host.config_review import Review, Reviewer, names_in
from hostler.host.entry_sealing import EntrySealing
from hostler.host.identity_providers import IdentityProviders
from hostler.host.inventory import DISCOVERY_SECONDS, Inventories
from hostler.host.master_key import MasterKey
from hostler.host.planned_config import PlannedConfig, lasting, merged
from hostler.host.plugin_entries import add_shipped_runner, folder_of, identify_stored, stored_by_name
from hostler.host.secret_store import SecretStore
from hostler.host.secret_users import secret_users
from hostler.host.stored_config import NewConfig, StoredConfig, read_config, write_config
from hostler.models.catalog import Build, Model, ModelCatalog, usable_catalog
from hostler.pauses.encryption import LiveCipher, Locked, open_vault
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.secrets.stored import StoredSecrets
from hostler.storage.port import Database
from hostler.storage.stores import installation
from hostler.tools.skills.service import Skills
from hostler_protocol.errors import InvalidArgumentError, PluginError

S = TypeVar("S", bound=msgspec.Struct)
Forecast = Callable[[PlannedConfig], Awaitable[Sequence[ConfigProblem]]]
"""Returns the problems that a host would have with a configuration."""
log = logging.getLogger(__name__)


class LiveModels:
    """The configured models. A run sees a change at its next call; that uses the secret of the model."""

    def __init__(self, secrets: StoredSecrets | None = None) -> None:
        self._catalog = ModelCatalog([])
        self._secrets = secrets or StoredSecrets()

    def get(self, model_id: str) -> Model:
        """Return a model for a call. NotFoundError."""
        model = self._catalog.get(model_id)
        self._secrets.note_use(model.entry.api_key, f"model {model_id}")
        return model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    async def replace(self, catalog: ModelCatalog) -> None:
        """Use another catalog; connections of the old one end with its calls."""
        self._catalog = catalog


def _by_name(problems: Sequence[ConfigProblem]) -> dict[str, str]:
    return {problem.name: problem.problem for problem in problems}


def _entries(stored: StoredConfig) -> Entries:
    return Entries(entries_by_kind(stored.config, stored_by_name(stored)), stored.problems)


class Configurator:
    """Checks, compares, stores and activates the configuration of one workspace."""

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
        skills: Skills | None = None,
        inventories: Inventories | None = None,
        model_providers: Mapping[str, Build] | None = None,
        allowances: Allowances | None = None,
        master_key: MasterKey | None = None,
        secrets: SecretStore | None = None,
        entry_sealing: EntrySealing | None = None,
        on_secrets: Callable[[Collection[str]], None] = lambda _: None,
        providers: IdentityProviders | None = None,
        data_dir: Path | None = None,
        config_file: Path | None = None,
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
        self._model_providers = model_providers
        self._allowances = allowances or Allowances(workspace_id)
        self._master_key = master_key or MasterKey(db)
        self._secrets = secrets or SecretStore(db, workspace_id, self._master_key.key_ring, secret_users)
        self.entry_sealing = entry_sealing or EntrySealing(
            db, workspace_id, self._master_key.key_ring, supervisor.catalog.form_of
        )
        self._secrets.on_changed = self._secrets_changed
        self._on_secrets = on_secrets
        self._config = ConfigFile()
        """The configuration that is active."""
        self._providers = providers or IdentityProviders()
        self.reviewer = Reviewer(
            tools,
            skills,
            inventories,
            self._secrets.own,
            partial(self.entry_sealing.opened, workspace_id),
            data_dir,
            config_file,
        )
        self._plugins: frozenset[str] = frozenset()
        """The plugins that entries gave to the supervisor."""
        self._applying = asyncio.Lock()
        self._revision: bytes | None = None
        """That of the configuration that is active."""
        self.problems: Sequence[ConfigProblem] = ()
        """The stored entries that are not in effect, as of the last `load` or `apply`."""
        self.on_anchors: Callable[[AuditAnchors | None], None] = lambda _: None
        """Called with the settings of anchors that are in effect from now on."""
        self.on_hooks: Callable[[Sequence[Hook]], None] = lambda _: None
        """Called with the hooks that are in effect from now on."""
        self.on_schedules: Callable[[], None] = lambda: None
        """Called after schedules may have changed."""
        self.on_channels: Callable[[Sequence[ChannelEntry]], None] = lambda _: None
        """Called with the channels that are in effect from now on."""
        self.on_secrets_changed: Callable[[Collection[str]], None] = lambda _: None
        """Called with the references to secrets whose values have changed."""
        self.on_widgets: Callable[[Sequence[Widget]], None] = lambda _: None
        """Called with the widgets that are in effect from now on."""
        self.vault = LiveCipher()
        """The configured encryption of pauses."""

    async def load(self) -> None:
        """Activate the stored configuration at a start. Entries that do not work become `problems`."""
        async with self._applying:
            await self._activate()

    async def catch_up(self) -> bool:
        """Activate the stored configuration if another host has changed it; return whether it has."""
        if await self._is_current():
            return False
        async with self._applying:
            await self._activate()
        return True

    async def _is_current(self) -> bool:
        return await self._db.read(installation.revision, brief=True) == self._revision

    async def _follow(self) -> None:
        """Activate what another host has changed: it may have given this one a master key."""
        if self._db.shared and not await self._is_current():
            await self._activate()

    async def export(self) -> ConfigFile:
        """Return the stored configuration as a file."""
        return (await self._read()).config

    def shown(self, entry: S) -> S:
        """Return an entry, or a whole configuration, as it may be read: without secrets written out in it."""
        if isinstance(entry, ConfigFile):
            return msgspec.structs.replace(
                entry,
                models=[self.shown(model) for model in entry.models],
                agents=[self.shown(spec) for spec in entry.agents],
            )
        return without_secrets(entry, self._supervisor.catalog.form_of)

    def complete_agent(
        self, spec: AgentSpec, stored: AgentSpec | None, workspace_id: str, *, same_config: bool
    ) -> tuple[AgentSpec, list[Mistake]]:
        """Return an agent with its stored secrets, and the mistakes. See `written_secrets.complete_agent`."""
        forms = self._supervisor.catalog.form_of
        return complete_agent(
            spec,
            stored,
            forms,
            kept=partial(self.entry_sealing.kept, workspace_id),
            same_config=same_config,
        )

    async def entries(self) -> Entries:
        """Return the stored entries, and those that cannot be read."""
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
        forecast: Forecast | None = None,
        discovery_seconds: float = DISCOVERY_SECONDS,
    ) -> ConfigDiff:
        """Store and activate a configuration. Nothing changes if any part of it is wrong.

        Entries that it does not name stay, unless `prune`. `source`: the file that it was read from.
        `discovery_seconds`: how long new plugins get to report what they offer. `guard` gets what would be
        stored and may raise. `forecast` returns the problems that a host would have with what a dry run
        would store. ConfigurationError names all mistakes; those of an entry that is stored unchanged become
        `problems` instead.
        """
        async with self._applying:
            try:
                await self._follow()
                stored = await self._read()
                await self.entry_sealing.know([*stored.config.models, *stored.config.agents])
                config, source = self._with_stored_secrets(config, stored.config, source)
                review = await self.reviewer.review(
                    config, stored, source, dry_run=dry_run, prune=prune, seconds=discovery_seconds
                )
                review.refuse()
                if not dry_run:
                    sealing = await self._sealing_after(config, stored.config, review, prune=prune)
                    config = await self._with_sealed(config, stored.config, sealing)
                before = await asyncio.to_thread(stored_by_name, stored)
                changes = changes_of(stored, before, config, review.plugins, prune=prune, shown=self.shown)
                refuse_too_many(changes)
                if dry_run:
                    planned = PlannedConfig(review.result or config, review.inventory, changes)
                    known = () if forecast is None else await forecast(planned)
                    return ConfigDiff(changes=changes, applied=False, problems=merged(known, review.problems))
                new = NewConfig(config, review.plugins, changes)
                guard(new)
                await self._db.write(lambda tx: write_config(tx, self._workspace, new, actor))
                self.entry_sealing.note_stored([*config.models, *config.agents])
                await self._activate()
                await self._record_pins(new)
                problems = merged(self.problems, lasting(review.problems))
                return ConfigDiff(changes=changes, applied=True, problems=problems)
            finally:
                await self._supervisor.discovery.close()

    async def put(
        self, kind: EntryKind, data: dict[str, Any], *, actor: str, name: str | None = None
    ) -> ConfigDiff:
        """Store one entry, given as in a file. `name`: the name that it must have; None: it must be new.

        ConfigurationError with all mistakes; InvalidArgumentError for another name; ConflictError if not new.
        """
        guard = must_be_named(kind, name) if name is not None else must_be_new
        entry, source = read_entry(kind, data)
        if entry is None:
            raise source.error()
        return await self.apply(with_entry(kind, entry), actor=actor, guard=guard, source=source)

    async def review_agent(self, spec: AgentSpec, workspace_id: str) -> list[Mistake]:
        """Return the mistakes of an agent before it is saved or run. Starts its plugin if that is unknown."""
        inventory = await self.inventory([spec], workspace_id)
        return await asyncio.to_thread(review_agent, spec, inventory)

    async def inventory(self, agents: Sequence[AgentSpec], workspace_id: str | None = None) -> Inventory:
        """Return the inventory of a workspace, by default the own. Starts unknown plugins of these agents."""
        if self._inventories is None:
            return Inventory(workspace_id or self._workspace)
        async with self._applying:
            try:
                return await self._inventories.with_discovery(agents, workspace_id)
            finally:
                await self._supervisor.discovery.close()

    async def remove(self, kind: EntryKind, name: str, *, actor: str) -> ConfigDiff:
        """Remove one entry; a plugin may also be named by its path. NotFoundError."""
        async with self._applying:
            change = (await self.entries()).removal(kind, name, self.shown)
            new = NewConfig(ConfigFile(), {}, [change])
            await self._db.write(lambda tx: write_config(tx, self._workspace, new, actor))
            await self._activate()
            return ConfigDiff(changes=[change], applied=True, problems=list(self.problems))

    def _with_stored_secrets(
        self, config: ConfigFile, stored: ConfigFile, source: ConfigSource | None
    ) -> tuple[ConfigFile, ConfigSource | None]:
        """Fill in the stored secrets of entries that were read without them, and add the mistakes."""
        models, specs = {model.id: model for model in stored.models}, {one.name: one for one in stored.agents}
        kept = partial(self.entry_sealing.kept, self._workspace)
        new_models = [complete_model(model, models.get(model.id), kept) for model in config.models]
        new_agents = [
            self.complete_agent(spec, specs.get(spec.name), self._workspace, same_config=False)
            for spec in config.agents
        ]
        whole = source or ConfigSource(names=names_in(config))
        mistakes = [
            mistake.within(whole.place(section, number))
            for section, done in (("models", new_models), ("agents", new_agents))
            for number, (_, own) in enumerate(done)
            for mistake in own
        ]
        config = msgspec.structs.replace(
            config, models=[model for model, _ in new_models], agents=[spec for spec, _ in new_agents]
        )
        if not mistakes:
            return config, source
        return config, msgspec.structs.replace(whole, mistakes=(*whole.mistakes, *mistakes))

    async def _sealing_after(
        self, config: ConfigFile, stored: ConfigFile, review: Review, *, prune: bool
    ) -> EntrySealing:
        """Return the sealing under the master key, and with the forms, that there will be."""
        key_ring = None
        if prune or (config.master_key and config.master_key != stored.master_key):
            key_ring = await self._master_key.opened(config.master_key)
        return self.entry_sealing.under(key_ring, review.form_of)

    async def _with_sealed(self, config: ConfigFile, stored: ConfigFile, sealing: EntrySealing) -> ConfigFile:
        """Seal the secrets that are written out. KeyRingError if the master key cannot be read."""
        models, specs = {model.id: model for model in stored.models}, {one.name: one for one in stored.agents}
        sealed, ws = sealing.sealed, self._workspace
        return msgspec.structs.replace(
            config,
            models=[await sealed(ws, model, models.get(model.id)) for model in config.models],
            agents=[await sealed(ws, spec, specs.get(spec.name)) for spec in config.agents],
        )

    async def _read(self) -> StoredConfig:
        return await self._db.read(lambda tx: read_config(tx, self._workspace))

    @property
    def cors(self) -> CorsEntry:
        """The active entry `cors`; without one no origin is listed."""
        return self._config.cors or CorsEntry()

    # -- activation -----------------------------------------------------------------------------

    async def _activate(self) -> None:
        """Activate the stored configuration. An entry that does not work becomes one of the `problems`."""
        self._revision = await self._db.read(installation.revision)
        stored = await self._read()
        config = stored.config
        # first: what is new is offered only to those who may use it
        self._allowances.replace(stored.workspaces)
        problems = [*stored.problems, *await self._master_key.configure(stored)]
        self._config = config
        await self.entry_sealing.load()
        changed = await self._secrets.load()  # by other hosts, or the master key has
        model_problems = await self._serve_models()
        problems += model_problems
        problems += self._open_vault(stored)
        plugins, unidentified = await asyncio.to_thread(identify_stored, stored)
        problems += unidentified
        self._serve_plugins(plugins)
        self._working_folders(config.working_folders or WorkingFolderSettings())
        self.on_anchors(config.audit_anchors)
        self.on_hooks(config.hooks)
        self.on_schedules()
        self.on_widgets(config.widgets)
        await self._providers.configure(config.sign_in)
        unusable = [
            ConfigProblem(kind="tool", name=entry.key, problem=mistake.text, place=mistake.place)
            for entry in config.tools
            for mistake in self.reviewer.tool_mistakes(entry)
        ]
        unusable += [
            ConfigProblem(kind="tool", name=entry.key, problem=mistake.text, place=mistake.place)
            for entry, mistake in await self.reviewer.misused(config, plugins)
        ]
        problems += unusable
        usable = {entry.key for entry in config.tools} - {problem.name for problem in unusable}
        for kind in self._tools:
            await kind.configure([entry for entry in config.tools if entry.key in usable])
        self._on_secrets([reference_to(name) for name in changed])
        if self._skills is not None:
            await self._skills.configure(config.skills)
        self._serve_shipped(config)
        self.on_channels(config.channels)
        self.on_secrets_changed([reference_to(name) for name in changed])
        self._event_router.changed(self._workspace)
        self.problems = problems
        if self._inventories is not None:
            self._inventories.config = config
            self._inventories.unusable_models = _by_name(model_problems)

    async def _serve_models(self) -> list[ConfigProblem]:
        models, problems = self._usable(self._config.models)
        await self._models.replace(models)
        return problems

    def _usable(self, entries: Sequence[ModelEntry]) -> tuple[ModelCatalog, list[ConfigProblem]]:
        opened, closed = self.entry_sealing.usable_models(entries)
        models, wrong = usable_catalog(opened, self._model_providers, resolve=self._secrets.own.read)
        wrong |= closed
        return models, [ConfigProblem(kind="model", name=name, problem=why) for name, why in wrong.items()]

    def planned_problems(self, planned: PlannedConfig) -> list[ConfigProblem]:
        """Return the problems that there would be with entries: those of models, and of what stays."""
        touched = [model for model in planned.config.models if not planned.leaves("model", model.id)]
        kept = [problem for problem in self.problems if planned.leaves(problem.kind, problem.name)]
        return kept + self._usable(touched)[1]

    async def _secrets_changed(self, names: Collection[str]) -> None:
        """Use other values of the installation's secrets from the next use of them on."""
        references = {reference_to(name) for name in names}
        self._on_secrets(references)
        self.on_secrets_changed(references)
        if references.isdisjoint(model.api_key for model in self._config.models):
            return
        model_problems = await self._serve_models()
        others = [problem for problem in self.problems if problem.kind != "model"]
        unread = [one for one in self.problems if one.kind == "model" and one.name not in self._model_ids]
        self.problems = [*others, *unread, *model_problems]
        if self._inventories is not None:
            self._inventories.unusable_models = _by_name(model_problems)

    @property
    def _model_ids(self) -> set[str]:
        return {model.id for model in self._config.models}

    def _open_vault(self, stored: StoredConfig) -> list[ConfigProblem]:
        if (unreadable := stored.unreadable("pause_key")) is not None:
            self.vault.replace(Locked(unreadable))
            return []
        try:
            self.vault.replace(open_vault(stored.config.pause_key))
        except InvalidArgumentError as error:
            self.vault.replace(Locked(error.message))
            return [ConfigProblem(kind="pause_key", name=POLICY, problem=error.message)]
        return []

    def _serve_plugins(self, plugins: Mapping[str, PluginEntry]) -> None:
        """Give these plugins to the supervisor, and take back those of earlier entries."""
        for key in self._plugins - plugins.keys():
            self._supervisor.discard(key)
        for key, entry in plugins.items():
            self._supervisor.put(key, folder_of(entry))
        self._plugins = frozenset(plugins)

    async def _record_pins(self, new: NewConfig) -> None:
        """Record the plugins that were added or changed, if they run already."""
        named = {
            one.name for one in new.changes if one.kind == "plugin" and one.change in {"added", "changed"}
        }
        for key, entry in new.plugins.items():
            if not named.isdisjoint({key, entry.path}):
                try:
                    await self._supervisor.record_pin(key)
                except PluginError as error:  # its next start says so
                    log.warning("plugin %s is not as it was confirmed: %s", key, error.message)

    def _serve_shipped(self, config: ConfigFile) -> None:
        for spec in config.agents:
            add_shipped_runner(self._supervisor, spec.runner)
