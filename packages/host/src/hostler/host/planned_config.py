"""A configuration as it would be stored, and the problems that it is known to have before it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hostler.domain.agent_review import WRITTEN_OUT
from hostler.domain.config_changes import Change, ConfigProblem, Kind
from hostler.domain.inventory import Inventory
from hostler.domain.record import Record
from hostler.domain.tool_entries import entry_mistake
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.plugin_entries import folder_of, identify_stored
from hostler.host.stored_config import StoredConfig
from hostler.plugins.source import Folder

_REVIEWED_AGAIN = frozenset({"agent", "channel"})
"""Kinds whose entries are reviewed again once they are active, when more is known of what they name."""
S = TypeVar("S", bound=msgspec.Struct)


class PlannedConfig(Record):
    """What a dry run would store. `config`: all entries; `inventory`: what there will be."""

    config: ConfigFile
    inventory: Inventory | None
    changes: Sequence[Change]

    def leaves(self, kind: Kind, *names: str) -> bool:
        """Whether the entry with one of these names stays as it is: what is known of it still holds."""
        touched = {"added", "changed", "removed"}
        return not any(
            one.kind == kind and one.name in names and one.change in touched for one in self.changes
        )

    def leaves_skill(self, source: str) -> bool:
        """Whether the folder of a skill stays listed. `source`: where its file is."""
        real = [(path, os.path.realpath(path)) for path in self.config.skills]
        return any(source in {*one} or os.path.dirname(source) == one[1] for one in real)  # noqa: PTH120


def merged(known: Iterable[ConfigProblem], reviewed: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    """Return the problems that are known, and those of a review at places of which nothing is known.

    Both find the same mistake of an entry, in words of their own; a plugin that is known by its identity is
    named by its folder in a review. What is known now goes before.
    """
    found = list(dict.fromkeys(known))
    places = {(one.kind, one.name, one.place) for one in found}
    of_plugins = {one.problem for one in found if one.kind == "plugin"}
    return found + [
        one
        for one in dict.fromkeys(reviewed)
        if (one.kind, one.name, one.place) not in places
        and not (one.kind == "plugin" and one.problem in of_plugins)
    ]


def lasting(reviewed: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    """Return the problems of a review that stay such once the configuration is active.

    Those of agents and channels are found again, unless the text that was wrong is stored sealed.
    """
    return [one for one in reviewed if one.kind not in _REVIEWED_AGAIN or one.problem == WRITTEN_OUT]


def resulting_config(
    config: ConfigFile, plugins: Mapping[str, PluginEntry], stored: StoredConfig, *, prune: bool
) -> tuple[ConfigFile, dict[str, Folder]]:
    """Return the entries that plans and inventories need as they would be, and the plugins by identity.

    Blocks.
    """
    folders = {key: folder_of(entry) for key, entry in plugins.items()}
    if prune:
        return config, folders
    before, old = identify_stored(stored)[0], stored.config
    paths = {entry.path for entry in plugins.values()}
    kept = {key: folder_of(entry) for key, entry in before.items() if entry.path not in paths}
    tools = {entry.key: entry for entry in old.tools}
    tools |= {entry.key: entry for entry in config.tools if entry_mistake(entry) is None}
    return (
        msgspec.structs.replace(
            config,
            models=_last_of(old.models, config.models, "id"),
            tools=list(tools.values()),
            skills=list(dict.fromkeys([*old.skills, *config.skills])),
            workspaces=_last_of(stored.workspaces, config.workspaces),
            agents=_last_of(old.agents, config.agents),
            channels=_last_of(old.channels, config.channels),
            hooks=_last_of(old.hooks, config.hooks),
            widgets=_last_of(old.widgets, config.widgets),
            schedules=_last_of(old.schedules, config.schedules),
        ),
        kept | folders,
    )


def _last_of(before: Iterable[S], after: Iterable[S], key: str = "name") -> list[S]:
    return list({getattr(entry, key): entry for entry in (*before, *after)}.values())
