"""Review of a configuration before it is applied, which reports all mistakes at once.

An entry that is stored unchanged is never refused: its mistakes become warnings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec
from hostler.domain.channel_review import review_channel
from hostler.domain.config_changes import ConfigProblem, Kind
from hostler.domain.config_mistakes import Mistake, name_mistake
from hostler.domain.hooks import hook_warnings
from hostler.domain.inventory import Inventory
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.retention import check_retention
from hostler.domain.tool_entries import ToolEntry, ToolKind, entry_mistake
from hostler.domain.webhooks import webhook_mistake
from hostler.domain.widgets import widget_warnings
from hostler.egress import EgressPolicy
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_entries import ENTRY_KINDS, POLICY, KeyReferences, entries_by_kind
from hostler.host.config_file import ConfigSource, entry_mistakes
from hostler.host.config_relations import across_entries
from hostler.host.inventory import DISCOVERY_SECONDS, Inventories, is_needed
from hostler.host.planned_config import resulting_config
from hostler.host.plugin_entries import identify, identify_stored
from hostler.host.server_folders import find_misused
from hostler.host.stored_config import StoredConfig
from hostler.models.catalog import model_mistakes
from hostler.pauses.encryption import vault_mistake
from hostler.secrets.key_ring import key_ring_mistake
from hostler.secrets.resolver import SecretUnreadableError
from hostler.secrets.stored import StoredSecrets
from hostler.tools.skills.service import Skills
from hostler_protocol.errors import InvalidArgumentError

SECTIONS: Mapping[Kind, str] = {kind.kind: kind.field for kind in ENTRY_KINDS.values()}
"""Kind of entry -> its key in a configuration file."""
MAX_NAME_CHARS = 4096
"""The name of an entry, which may be a path."""


@dataclass(slots=True)
class Review:
    """The result of a review. `plugins`: the plugin entries by identity; `problems`: mistakes of entries that
    are accepted.
    """

    source: ConfigSource
    plugins: Mapping[str, PluginEntry] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    problems: list[ConfigProblem] = field(default_factory=list)
    inventory: Inventory | None = None
    """What there will be; None if nothing is reviewed against it."""
    result: ConfigFile | None = None
    """All entries as they would be stored, with an inventory."""

    def add(
        self, kind: Kind, number: int | None, name: str, mistake: Mistake, *, known: bool = False
    ) -> None:
        """Add a mistake of an entry. `known`: the entry is stored unchanged, so the mistake is a warning."""
        section = SECTIONS[kind]
        place = section if number is None else self.source.place(section, number)
        accepted = mistake.as_warning() if known else mistake
        self.mistakes.append(accepted.within(place))
        if accepted.severity == "warning":
            text = mistake.text.removeprefix(f"{name}: ")  # of a skill, which no place in the file names
            self.problems.append(
                ConfigProblem(
                    kind=kind, name=name, problem=text, place=mistake.place, severity=mistake.severity
                )
            )

    def form_of(self, runner_id: str) -> Mapping[str, str] | None:
        """Return the form of a runner as it will be: see `written_secrets.Forms`."""
        manifest, _ = (None, None) if self.inventory is None else self.inventory.runner(runner_id)
        return None if manifest is None else {item.name: item.kind for item in manifest.config_schema}

    def refuse(self) -> None:
        """Raise ConfigurationError with all mistakes if any is an error."""
        if self.source.mistakes or any(mistake.severity == "error" for mistake in self.mistakes):
            raise self.source.error(self.mistakes)


class Reviewer(Record):
    """Reviews the configurations of one host."""

    tools: Sequence[ToolKind]
    skills: Skills | None
    inventories: Inventories | None
    secrets: StoredSecrets = msgspec.field(default_factory=StoredSecrets)
    opened: Callable[[ModelEntry], ModelEntry] | None = None
    """Returns a model with its key in the clear. SecretUnreadableError."""
    data_dir: Path | None = None
    config_file: Path | None = None
    """The file that the host reads at its start."""

    async def review(
        self,
        config: ConfigFile,
        stored: StoredConfig,
        source: ConfigSource | None,
        *,
        dry_run: bool,
        prune: bool,
        seconds: float = DISCOVERY_SECONDS,
    ) -> Review:
        """Review a configuration as a change of the stored one.

        `seconds`: how long new plugins get to report what they offer.
        """
        review = Review(source or ConfigSource(names=names_in(config)))
        if source is None:
            review.mistakes += entry_mistakes(config, review.source)
        plugins, mistakes = await asyncio.to_thread(identify, config, stored)
        review.plugins = plugins
        entries = [entry if isinstance(entry, str) else entry.path for entry in config.plugins]
        reported = {mistake.place.removesuffix(".path") for mistake in review.source.mistakes}
        for number, mistake in mistakes:
            if review.source.place("plugins", number) not in reported:
                review.add("plugin", number, entries[number], mistake)
        before = entries_by_kind(stored.config, {})
        for kind, at, name, entry, mistake in self._entry_mistakes(config):
            known = entry is not None and before[kind].get(name) == entry
            review.add(kind, at, name, mistake, known=known)
        for at, key, entry, mistake in await self._misused(config, plugins, stored, prune=prune):
            review.add("tool", at, key, mistake, known=before["tool"].get(key) == entry)
        for kind, at, name, mistake in across_entries(config, stored, prune=prune):
            known = kind == "schedule" and before[kind].get(name) == config.schedules[at or 0]
            review.add(kind, at, name, mistake, known=known)
        for at, name, mistake in await asyncio.to_thread(self._skill_mistakes, config.skills):
            if at is None or review.source.place("skills", at) not in reported:
                review.add("skill", at, name, mistake)
        if (config.agents or config.channels or dry_run) and self.inventories is not None:
            result, folders = await asyncio.to_thread(resulting_config, config, plugins, stored, prune=prune)
            agents = config.agents
            if dry_run:  # what others will lack is reported, too
                agents = [*agents, *self._led_elsewhere(result, config, plugins)]
            inventory = await self.inventories.after_change(
                result, folders, agents, channels=config.channels, dry_run=dry_run, seconds=seconds
            )
            review.inventory, review.result = inventory, result
            found = await asyncio.to_thread(self._against, config, inventory)
            for kind, number, name, entry, mistake in found:
                review.add(kind, number, name, mistake, known=before[kind].get(name) == entry)
        return review

    def _led_elsewhere(
        self, result: ConfigFile, config: ConfigFile, plugins: Mapping[str, PluginEntry]
    ) -> list[AgentSpec]:
        """Return the agents that a configuration keeps and that need its plugins, to be started for a look.

        A passive host looks at the plugins of all agents.
        """
        named = {spec.name for spec in config.agents}
        passive = self.inventories is not None and not self.inventories.running
        return [
            spec
            for spec in result.agents
            if spec.name not in named and (passive or any(is_needed(key, [spec]) for key in plugins))
        ]

    def _against(
        self, config: ConfigFile, inventory: Inventory
    ) -> list[tuple[Kind, int, str, msgspec.Struct, Mistake]]:
        """Return the mistakes of agents and channels against what there is. Blocks: many take a while."""
        agents: list[tuple[Kind, int, str, msgspec.Struct, Mistake]] = [
            ("agent", number, spec.name, spec, mistake)
            for number, spec in enumerate(config.agents)
            for mistake in review_agent(spec, inventory)
        ]
        return agents + [
            ("channel", number, entry.name, entry, mistake)
            for number, entry in enumerate(config.channels)
            for mistake in review_channel(entry, inventory, self.secrets.unreadable)
        ]

    async def _misused(
        self, config: ConfigFile, plugins: Mapping[str, PluginEntry], stored: StoredConfig, *, prune: bool
    ) -> list[tuple[int | None, str, ToolEntry, Mistake]]:
        """Return the servers whose folders they must not have, or others may replace, as they would be
        stored."""
        usable = {entry.key: at for at, entry in enumerate(config.tools) if entry_mistake(entry) is None}
        kept = [] if prune else [entry for entry in stored.config.tools if entry.key not in usable]
        if not usable and not (kept and (plugins or config.skills)):
            return []
        before = {} if prune else (await asyncio.to_thread(identify_stored, stored))[0]
        together = msgspec.structs.replace(
            config,
            tools=[*kept, *config.tools],
            skills=[*([] if prune else stored.config.skills), *config.skills],
        )
        found = await self.misused(together, {**before, **plugins})
        return [(usable.get(entry.key), entry.key, entry, mistake) for entry, mistake in found]

    async def misused(
        self, config: ConfigFile, plugins: Mapping[str, PluginEntry]
    ) -> list[tuple[ToolEntry, Mistake]]:
        """Return the servers of a configuration with folders that they must not have, and why."""
        return await find_misused(
            config.tools,
            plugins,
            self.data_dir,
            skills=config.skills,
            config_file=self.config_file,
        )

    def _entry_mistakes(
        self, config: ConfigFile
    ) -> Iterator[tuple[Kind, int | None, str, msgspec.Struct | None, Mistake]]:
        """Yield the mistakes of single entries: kind, number, name, entry and mistake."""
        for kind, names in _named(config).items():
            for number, name in enumerate(names):
                if (misnamed := name_mistake(name, MAX_NAME_CHARS)) is not None:
                    yield kind, number, name, None, Mistake("", misnamed)
        for number, model in enumerate(config.models):
            for mistake in self._model_mistakes(model):
                yield "model", number, model.id, model, mistake
        for number, entry in enumerate(config.tools):
            for mistake in self.tool_mistakes(entry) if entry_mistake(entry) is None else ():
                yield "tool", number, entry.key, entry, mistake
        yield from _network_mistakes(config)
        yield from _way_in_warnings(config)
        error = None if config.retention is None else _error_of(check_retention, config.retention)
        if error is not None:
            yield "retention", None, POLICY, config.retention, Mistake("", error.removeprefix("retention: "))
        yield from _key_mistakes(config)

    def _model_mistakes(self, model: ModelEntry) -> list[Mistake]:
        try:
            return model_mistakes(model if self.opened is None else self.opened(model), self.secrets.read)
        except SecretUnreadableError as error:
            return [Mistake("", error.message, "warning")]

    def tool_mistakes(self, entry: ToolEntry) -> list[Mistake]:
        """Return the mistakes of an entry of `tools`."""
        found = [_tool_mistake(kind, entry) for kind in self.tools]
        return [mistake for mistake in found if mistake is not None]

    def _skill_mistakes(self, paths: Sequence[str]) -> list[tuple[int | None, str, Mistake]]:
        """Return the paths without a skill; if there are none, the unusable skills as warnings."""
        if self.skills is None or not paths:
            return []
        try:
            broken = self.skills.check(paths)
        except InvalidArgumentError:
            errors = [
                (number, path, _error_of(self.skills.check, [path])) for number, path in enumerate(paths)
            ]
            return [(number, path, Mistake("", error)) for number, path, error in errors if error is not None]
        return [(None, name, Mistake("", f"{name}: {why}", "warning")) for name, why in broken]


def _tool_mistake(kind: ToolKind, entry: ToolEntry) -> Mistake | None:
    try:
        kind.check([entry])
    except InvalidArgumentError as error:
        text, field = error.message.removeprefix("tools: "), error.details.get("field")
        if field is None:
            return Mistake("", text)
        return Mistake(f"{entry.kind}.{field}", text.removeprefix(f"{entry.kind} {entry.name!r}: "))
    return None


def _network_mistakes(config: ConfigFile) -> Iterator[tuple[Kind, int, str, msgspec.Struct, Mistake]]:
    for number, webhook in enumerate(config.webhooks):
        error = _error_of(EgressPolicy.of, webhook.network) if webhook_mistake(webhook) is None else None
        if error is not None:
            yield "webhook", number, webhook.name, webhook, Mistake("network", error)
    for number, provider in enumerate(config.sign_in):
        if (error := _error_of(EgressPolicy.of, provider.network)) is not None:
            yield "sign_in", number, provider.name, provider, Mistake("network", error)


def _key_mistakes(config: ConfigFile) -> Iterator[tuple[Kind, None, str, msgspec.Struct, Mistake]]:
    if (mistake := vault_mistake(config.pause_key)) is not None:
        yield "pause_key", None, POLICY, KeyReferences(keys=config.pause_key), mistake
    if (mistake := key_ring_mistake(config.master_key)) is not None:
        yield "master_key", None, POLICY, KeyReferences(keys=config.master_key), mistake


def _error_of(check: Callable[..., object], value: object) -> str | None:
    """Return the message of a check that raises InvalidArgumentError, or None."""
    try:
        check(value)
    except InvalidArgumentError as error:
        return error.message
    return None


def _way_in_warnings(
    config: ConfigFile,
) -> Iterator[tuple[Kind, int | None, str, msgspec.Struct | None, Mistake]]:
    """Yield what is open to strangers by hooks and widgets."""
    for number, hook in enumerate(config.hooks):
        for mistake in hook_warnings(hook):
            yield "hook", number, hook.name, hook, mistake
    for number, widget in enumerate(config.widgets):
        for mistake in widget_warnings(widget):
            yield "widget", number, widget.name, widget, mistake


def _named(config: ConfigFile) -> dict[Kind, Sequence[str]]:
    """Return the names of entries by kind, in order. Names of tools and agents are checked elsewhere."""
    return {
        "plugin": [entry if isinstance(entry, str) else entry.path for entry in config.plugins],
        "model": [model.id for model in config.models],
        "webhook": [webhook.name for webhook in config.webhooks],
        "hook": [hook.name for hook in config.hooks],
        "schedule": [schedule.name for schedule in config.schedules],
        "widget": [widget.name for widget in config.widgets],
        "sign_in": [entry.name for entry in config.sign_in],
        "channel": [entry.name for entry in config.channels],
        "skill": config.skills,
        "workspace": [entry.name for entry in config.workspaces],
    }


def names_in(config: ConfigFile) -> dict[str, str]:
    """Return the names of entries by place, for a configuration that was not read from a file."""
    named: dict[Kind, Sequence[str]] = {**_named(config), "agent": [spec.name for spec in config.agents]}
    return {
        f"{SECTIONS[kind]}[{number}]": name
        for kind, names in named.items()
        for number, name in enumerate(names)
    }
