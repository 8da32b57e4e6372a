"""Plan an import: the entries to add to a configuration, and what becomes of each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.domain.endpoints import HostPort
from hostler.domain.model_entries import ModelEntry
from hostler.domain.record import Record
from hostler.domain.tool_entries import MAX_TOOL_ENTRIES, ToolEntry
from hostler.domain.type_fit import fit
from hostler.host.bundled import shipped_plugin, shipped_runners
from hostler.host.config import ConfigFile
from hostler.host.langbot.agents import World, agent_of, plugin_folder
from hostler.host.langbot.database import names_of
from hostler.host.langbot.items import Entry, Item, Row, Source
from hostler.host.langbot.models import model_of
from hostler.host.langbot.naming import knowledge_base_id, plain_name
from hostler.host.langbot.runners import form_of
from hostler.host.langbot.secrets import Secrets, WantedSecret
from hostler.host.langbot.servers import server_of
from hostler.host.plugin_entries import plugin_entries

SECTIONS = ("plugins", "models", "tools", "agents")
_TYPES: Mapping[str, Any] = {"models": ModelEntry, "tools": ToolEntry, "agents": AgentSpec}


class Plan(Record):
    """`entries` are to be added; `secrets` are those that they, and unchanged entries, refer to."""

    items: Sequence[Item]
    entries: Sequence[Entry]
    secrets: Sequence[WantedSecret]

    @property
    def is_whole(self) -> bool:
        """Whether every item is in the configuration and can be used."""
        return all(item.is_whole for item in self.items)

    def added(self) -> dict[str, list[dict[str, Any]]]:
        """Return the entries to add by section, in the order of a configuration file."""
        found = {
            section: [one.value for one in self.entries if one.section == section] for section in SECTIONS
        }
        return {section: values for section, values in found.items() if values}


def plan_import(source: Source, existing: ConfigFile, secrets: Secrets) -> Plan:
    """Plan the import of everything in `source` into a configuration, whose entries stay as they are.

    `existing`: the configuration as written, with paths as in its file.
    """
    planner = _Planner(source, existing, secrets)
    planner.run()
    return Plan(planner.items, planner.entries, planner.secrets())


class _Planner:
    def __init__(self, source: Source, existing: ConfigFile, secrets: Secrets) -> None:
        self.items: list[Item] = []
        self.entries: list[Entry] = []
        self._source = source
        self._secrets = secrets
        self._used: list[WantedSecret] = []
        shipped = {str(shipped_plugin(key)): key for key in shipped_runners()}
        self._existing: dict[str, dict[str, Any]] = {
            "models": {one.id: one for one in existing.models},
            "tools": {one.mcp.name: one for one in existing.tools if one.mcp is not None},
            "agents": {one.name: one for one in existing.agents},
            "plugins": {shipped.get(one.path, one.path): one for one in plugin_entries(existing)},
        }
        self._tools_left = MAX_TOOL_ENTRIES - len(existing.tools)

    def secrets(self) -> list[WantedSecret]:
        return self._used

    def run(self) -> None:
        """Models and servers first, since agents name them."""
        models = self._models()
        servers = self._servers()
        kbs = names_of(self._of("knowledge base"))
        known = {*self._existing["models"], *(one.name for one in self.entries if one.section == "models")}
        world = World(self._secrets, models, kbs, servers, frozenset(known), self._source.plugins)
        self._agents(world)
        self._others()
        order = {kind: number for number, kind in enumerate(_ORDER)}
        self.items.sort(key=lambda item: order[item.kind])

    def _of(self, kind: str) -> list[Row]:
        return [row for row in self._source.rows if row.kind == kind]

    def _item(self, row: Row) -> Item:
        item = Item(row.kind, plain_name(row.name) or row.kind, row.uuid)
        self.items.append(item)
        if row.damage:
            item.skip(f"is damaged: {row.damage}")
        return item

    def _models(self) -> dict[str, str]:
        providers = {row.uuid: row for row in self._of("provider")}
        found: dict[str, str] = {}
        taken: set[str] = set()
        outcomes: dict[str, set[str]] = {}
        for row in self._of("model"):
            item = self._item(row)
            if item.outcome != "skipped":
                entry = model_of(row, providers, item, self._secrets, taken)
                if entry is not None:
                    found[row.uuid] = entry["id"]
                    self._add("models", entry["id"], entry, item)
            outcomes.setdefault(str(row.values.get("provider_uuid")), set()).add(item.outcome)
        for row in self._of("provider"):
            self._provider(row, outcomes.get(row.uuid, set()) if providers[row.uuid] is row else set())
        return found

    def _provider(self, row: Row, outcomes: set[str]) -> None:
        """Add the item of a provider, which is no entry of its own, by what became of its models."""
        item = self._item(row)
        if item.outcome == "skipped":
            return
        if not outcomes - {"skipped"}:
            item.skip("none of its models is imported" if outcomes else "has no models")
            return
        item.note("its address and key are in the entries of its models")
        if not outcomes & {"imported", "changed"}:
            item.outcome = "unchanged"

    def _servers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        taken: set[str] = set()
        for row in self._of("mcp server"):
            item = self._item(row)
            if item.outcome == "skipped":
                continue
            entry = server_of(row, item, self._secrets, taken)
            if entry is None:
                continue
            if self._tools_left <= 0 and entry["name"] not in self._existing["tools"]:
                item.skip(f"a configuration has at most {MAX_TOOL_ENTRIES} entries of tools")
                continue
            self._tools_left -= 1
            self._add("tools", entry["name"], {"mcp": entry}, item)
            if item.outcome != "kept" or self._is_server(entry):
                found[row.uuid] = entry["name"]
            else:
                item.note("no agent is allowed the tools of that other one")
        return found

    def _is_server(self, entry: Mapping[str, Any]) -> bool:
        """Whether the configuration's server of this name is this one, with other settings."""
        present = self._existing["tools"][entry["name"]].mcp
        return bool(present.command == entry.get("command") and present.url == entry.get("url"))

    def _agents(self, world: World) -> None:
        """Add the agents, and the entries that their runners need to reach their services."""
        reached: dict[str, dict[HostPort, Item]] = {}
        for row in [*self._of("pipeline"), *self._of("agent")]:
            item = self._item(row)
            if item.outcome == "skipped":
                continue
            if row.values.get("kind") == "pipeline":
                item.skip("is a pipeline, which is listed by itself")
                continue
            made = agent_of(row, item, world)
            if made is None:
                continue
            self._add("agents", made.spec["name"], made.spec, item)
            if made.endpoints and item.outcome != "kept":
                reached.setdefault(made.plugin, {}).update(dict.fromkeys(made.endpoints, item))
        for plugin, endpoints in sorted(reached.items()):
            self._plugin(plugin, endpoints)

    def _plugin(self, plugin: str, endpoints: Mapping[HostPort, Item]) -> None:
        """Add an entry for a shipped runner whose service is not among those that it reaches anyway."""
        form = form_of(plugin)
        network = sorted(map(str, endpoints))
        if form is None or set(network) <= form.network:
            return
        present = self._existing["plugins"].get(plugin)
        if present is None:
            item = next(iter(endpoints.values()))
            self.entries.append(Entry("plugins", plugin, {"path": plugin, "network": network}, item))
            return
        for endpoint, item in endpoints.items():
            if str(endpoint) not in present.network:
                item.change(f"add {endpoint} to `network` in the entry for {plugin}, which stays as it is")

    def _add(self, section: str, name: str, value: dict[str, Any], item: Item) -> None:
        """Add an entry, unless the configuration has one of this name."""
        item.entry = f"{section} {name}"
        present = self._existing[section].get(name)
        if present is None:
            self.entries.append(Entry(section, name, value, item))  # type: ignore[arg-type]
        elif fit(value, _TYPES[section])[0] == present:
            item.outcome = "unchanged"
        else:
            item.outcome = "kept"
            item.note(
                "the configuration has another entry of this name, which stays; without it, this is imported"
            )
            return
        self._used += [one for one in self._secrets.used_in(value) if one not in self._used]

    def _others(self) -> None:
        for row in self._source.rows:
            if row.kind in _OTHERS:
                item = self._item(row)
                if item.outcome != "skipped":
                    item.skip(self._why_not(row))

    def _why_not(self, row: Row) -> str:
        if row.kind in _REASONS:
            return _REASONS[row.kind]
        if row.kind == "skill":
            folder = plain_name(str(row.values.get("folder")))
            return f"its files stay where they are: `hostler skills add {folder}`"
        if row.kind == "knowledge base":
            made = f"hostler knowledge add {knowledge_base_id(row.name, row.uuid)}"
            return f"documents are not imported: `{made}` makes it here, `hostler knowledge upload` fills it"
        if row.kind == "bot":
            adapter, pipeline = row.values.get("adapter"), row.values.get("use_pipeline_name")
            ran = f" (it ran {plain_name(pipeline)!r:.80})" if isinstance(pipeline, str) and pipeline else ""
            sends = f"{plain_name(str(adapter))!r:.60} has to send its messages over HTTP"
            return f"chat platforms are not imported: {sends}{ran}"
        author = row.values.get("plugin_author")
        if row.values.get("enabled") in (0, False):
            return "is switched off in LangBot"
        folder = plugin_folder(self._source.plugins, f"{author}/{row.name}")
        return f"is code, which is not copied: `hostler plugins add {folder}` runs it where it is"


_REASONS = {
    "webhook": "webhooks here tell of pauses and ends of runs, in another form: docs/webhooks.md",
    "api key": "keys of LangBot's HTTP API are not valid here: `hostler keys create` makes one",
    "table": "has no part that could be imported",
}
_OTHERS = ("plugin", "skill", "knowledge base", "bot", "webhook", "api key", "table")
"""Kinds that no entry is made of."""
_ORDER = ("pipeline", "agent", "model", "provider", "mcp server", *_OTHERS)
