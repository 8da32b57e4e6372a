"""A configuration looked over before it is applied: everything that is wrong with it, at once.

An entry that is stored like this already is never refused, whatever became wrong with it since: that is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec
from hostler.domain.config_changes import ConfigProblem, Kind
from hostler.domain.config_mistakes import ConfigurationError, Mistake, name_mistake
from hostler.domain.inventory import Inventory
from hostler.domain.model_entries import ModelEntry
from hostler.domain.retention import check_retention
from hostler.domain.tool_entries import ToolEntry, ToolKind, entry_mistake
from hostler.domain.webhooks import webhook_mistake
from hostler.egress import EgressPolicy
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_entries import ENTRY_KINDS, POLICY, PauseKeys, entries_by_kind
from hostler.host.config_file import ConfigSource, entry_mistakes
from hostler.host.inventory import DISCOVERY_SECONDS
from hostler.host.plugin_entries import folder_of, identify, identify_stored
from hostler.host.stored_config import StoredConfig
from hostler.models.catalog import model_mistakes
from hostler.pauses.encryption import vault_mistake
from hostler.plugins.source import Folder
from hostler_protocol.errors import InvalidArgumentError

SECTIONS: Mapping[Kind, str] = {kind.kind: kind.field for kind in ENTRY_KINDS.values()}
"""The keys of a configuration file by the kinds of their entries."""
MAX_NAME_CHARS = 4096
"""Of an entry; some are named by a path."""


class Surveyor(Protocol):
    """Takes inventories: `inventories.Inventories` is one."""

    async def after(
        self,
        config: ConfigFile,
        plugins: Mapping[str, Folder],
        agents: Sequence[AgentSpec],
        *,
        dry_run: bool = False,
        seconds: float = DISCOVERY_SECONDS,
    ) -> Inventory:
        """What there would be with this configuration; plugins get so long to say what they offer."""
        ...


class SkillCheck(Protocol):
    """Reads folders of skills: `tools.skills.service.Skills` does."""

    def check(self, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        """The skills that cannot be offered, and why. InvalidArgumentError where a path leads to none."""
        ...


@dataclass(slots=True)
class Review:
    """What was found. `plugins`: the plugin entries by identity; `problems`: what is accepted and does not
    work, or may not.
    """

    source: ConfigSource
    plugins: Mapping[str, PluginEntry] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    problems: list[ConfigProblem] = field(default_factory=list)

    def add(
        self, kind: Kind, number: int | None, name: str, mistake: Mistake, *, known: bool = False
    ) -> None:
        """Take one mistake of an entry. `known`: the entry is stored like this already."""
        section = SECTIONS[kind]
        place = section if number is None else self.source.place(section, number)
        accepted = mistake.as_warning() if known else mistake
        self.mistakes.append(accepted.within(place))
        if accepted.severity == "warning":
            self.problems.append(
                ConfigProblem(
                    kind=kind, name=name, problem=mistake.text, place=mistake.place, severity=mistake.severity
                )
            )

    def refuse(self) -> None:
        """ConfigurationError where anything is wrong, naming all of it."""
        if self.source.mistakes or any(mistake.severity == "error" for mistake in self.mistakes):
            raise self.source.error(self.mistakes)


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Looks over the configurations of one host."""

    tools: Sequence[ToolKind]
    skills: SkillCheck | None
    surveyor: Surveyor | None

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
        """Everything that is wrong with a configuration, as a change of what is stored."""
        review = Review(source or ConfigSource(names=_names(config)))
        if source is None:
            review.mistakes += entry_mistakes(config, review.source)
        plugins, mistakes = await asyncio.to_thread(identify, config, stored)
        review.plugins = plugins
        entries = [entry if isinstance(entry, str) else entry.path for entry in config.plugins]
        told = {mistake.place.removesuffix(".path") for mistake in review.source.mistakes}
        for number, mistake in mistakes:
            if review.source.place("plugins", number) not in told:
                review.add("plugin", number, entries[number], mistake)
        before = entries_by_kind(stored.config, {})
        for kind, at, name, entry, mistake in self._own_mistakes(config):
            known = entry is not None and before[kind].get(name) == entry
            review.add(kind, at, name, mistake, known=known)
        for at, name, mistake in await asyncio.to_thread(self._skill_mistakes, config.skills):
            if at is None or review.source.place("skills", at) not in told:
                review.add("skill", at, name, mistake)
        if config.agents and self.surveyor is not None:
            whole, folders = await asyncio.to_thread(_whole, config, plugins, stored, prune)
            inventory = await self.surveyor.after(
                whole, folders, config.agents, dry_run=dry_run, seconds=seconds
            )
            found = await asyncio.to_thread(_review_all, config.agents, inventory)
            for number, (spec, wrong) in enumerate(zip(config.agents, found, strict=True)):
                known = before["agent"].get(spec.name) == spec
                for mistake in wrong:
                    review.add("agent", number, spec.name, mistake, known=known)
        return review

    def _own_mistakes(
        self, config: ConfigFile
    ) -> Iterator[tuple[Kind, int | None, str, msgspec.Struct | None, Mistake]]:
        """What is wrong with entries by themselves."""
        for kind, names in _named(config).items():
            for number, name in enumerate(names):
                if (misnamed := name_mistake(name, MAX_NAME_CHARS)) is not None:
                    yield kind, number, name, None, Mistake("", misnamed)
        for number, model in enumerate(config.models):
            for wrong in model_mistakes(model):
                yield "model", number, model.id, model, wrong
        for number, entry in enumerate(config.tools):
            for wrong in self.tool_mistakes(entry) if entry_mistake(entry) is None else ():
                yield "tool", number, entry.key, entry, wrong
        for number, webhook in enumerate(config.webhooks):
            told = _told(EgressPolicy.of, webhook.network) if webhook_mistake(webhook) is None else None
            if told is not None:
                yield "webhook", number, webhook.name, webhook, Mistake("network", told)
        told = None if config.retention is None else _told(check_retention, config.retention)
        if told is not None:
            yield "retention", None, POLICY, config.retention, Mistake("", told.removeprefix("retention: "))
        if (mistake := vault_mistake(config.pause_key)) is not None:
            yield "pause_key", None, POLICY, PauseKeys(keys=config.pause_key), mistake

    def tool_mistakes(self, entry: ToolEntry) -> list[Mistake]:
        """What is wrong with an entry of `tools` by itself."""
        found = [_told(kind.check, [entry]) for kind in self.tools]
        return [Mistake("", text.removeprefix("tools: ")) for text in found if text is not None]

    def _skill_mistakes(self, paths: Sequence[str]) -> list[tuple[int | None, str, Mistake]]:
        """Paths that lead to no skill; else, as warnings, the skills that cannot be offered."""
        if self.skills is None or not paths:
            return []
        try:
            broken = self.skills.check(paths)
        except InvalidArgumentError:
            told = [(number, path, _told(self.skills.check, [path])) for number, path in enumerate(paths)]
            return [(number, path, Mistake("", text)) for number, path, text in told if text is not None]
        return [(None, name, Mistake("", f"{name}: {why}", "warning")) for name, why in broken]


def _review_all(specs: Sequence[AgentSpec], inventory: Inventory) -> list[list[Mistake]]:
    """Thousands of agents take a while. Blocks."""
    return [review_agent(spec, inventory) for spec in specs]


def _told(check: Callable[..., object], value: object) -> str | None:
    """What a check that raises says of a value."""
    try:
        check(value)
    except InvalidArgumentError as error:
        return error.message
    return None


def _named(config: ConfigFile) -> dict[Kind, Sequence[str]]:
    """The names of entries, by kind, in their order; those of tools and agents have rules of their own."""
    return {
        "plugin": [entry if isinstance(entry, str) else entry.path for entry in config.plugins],
        "model": [model.id for model in config.models],
        "webhook": [webhook.name for webhook in config.webhooks],
        "skill": config.skills,
    }


def _names(config: ConfigFile) -> dict[str, str]:
    """The names of a configuration that was not read from a file, by their places."""
    named: dict[Kind, Sequence[str]] = {**_named(config), "agent": [spec.name for spec in config.agents]}
    return {
        f"{SECTIONS[kind]}[{number}]": name
        for kind, names in named.items()
        for number, name in enumerate(names)
    }


def _whole(
    config: ConfigFile, plugins: Mapping[str, PluginEntry], stored: StoredConfig, prune: bool
) -> tuple[ConfigFile, dict[str, Folder]]:
    """What would hold afterwards: models, tools and skills, and the plugins by identity. Blocks."""
    folders = {key: folder_of(entry) for key, entry in plugins.items()}
    if prune:
        return config, folders
    before = identify_stored(stored)[0]
    named = {entry.path for entry in plugins.values()}
    kept = {key: folder_of(entry) for key, entry in before.items() if entry.path not in named}
    models: dict[str, ModelEntry] = {model.id: model for model in (*stored.config.models, *config.models)}
    tools = {entry.key: entry for entry in stored.config.tools}
    tools |= {entry.key: entry for entry in config.tools if entry_mistake(entry) is None}
    return (
        msgspec.structs.replace(
            config,
            models=list(models.values()),
            tools=list(tools.values()),
            skills=list(dict.fromkeys([*stored.config.skills, *config.skills])),
        ),
        kept | folders,
    )


__all__ = ["ConfigurationError", "Review", "Reviewer"]
