"""Make an agent of a pipeline of LangBot, or of one of its later agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.agent_review import spec_mistakes
from hostler.domain.agents import AgentSpec
from hostler.domain.endpoints import HostPort
from hostler.domain.json_data import json_mistakes
from hostler.domain.record import Record
from hostler.domain.type_fit import fit
from hostler.host.langbot.acp import acp_section
from hostler.host.langbot.items import Item, Row
from hostler.host.langbot.naming import agent_name, knowledge_base_id, plain_name, slug
from hostler.host.langbot.pipeline_rules import debounce_of, left_out, removes_think
from hostler.host.langbot.runners import Form, Target, target_of
from hostler.host.langbot.secrets import Secrets
from hostler.host.langbot.values import ADDRESSES, About, endpoint_of, fitted
from hostler_protocol.manifest import NOT_CHOSEN

_NO_PLACE = (
    "mcp-resources",
    "tools",
    "enable-all-tools",
    "mcp-resource-agent-read-enabled",
)
"""Fields of what the host grants, which an agent has in its `resource_policy`."""


def plugin_folder(plugins: str | None, plugin: str) -> str:
    """Return where LangBot keeps a plugin `author/name` within its folder of plugins, or a placeholder."""
    folder = None if plugins is None else Path(plugins) / plugin.replace("/", "__", 1)
    if folder is None or ".." in folder.parts or "\x00" in plugin or not folder.is_dir():
        return "FOLDER"
    return plain_name(str(folder))


@dataclass(slots=True)
class World:
    """What agents refer to: ids of LangBot -> names here. `plugins`: LangBot's folder of plugins."""

    secrets: Secrets
    models: Mapping[str, str]
    knowledge_bases: Mapping[str, str]
    servers: Mapping[str, str]
    known_models: frozenset[str] = frozenset()
    """Ids of models that the configuration has."""
    plugins: str | None = None
    names: set[str] = field(default_factory=set)
    """Names of agents that are taken."""

    def plugin_folder(self, plugin: str) -> str:
        """Return where LangBot keeps a plugin `author/name`, or a placeholder for it."""
        return plugin_folder(self.plugins, plugin)


class Made(Record):
    """An agent. `endpoints`: what the runner has to reach, if it is a shipped runner of a service."""

    spec: dict[str, Any]
    plugin: str
    endpoints: frozenset[HostPort]


class _Chosen(Record):
    """What a pipeline chose: LangBot's runner, the runner here, and its settings."""

    runner: str
    target: Target
    section: Mapping[str, Any]
    expires: bool


def agent_of(row: Row, item: Item, world: World) -> Made | None:
    """Return an agent, or None if nothing can be made of it; the item says why."""
    config = row.values.get("config")
    if not isinstance(config, Mapping):
        item.skip("it has no configuration" if config is None else "its configuration is no mapping")
        return None
    chosen = _chosen(config, row, item)
    if chosen is None:
        return None
    name = agent_name(row.name, row.uuid, world.names)
    if name != row.name:
        why = "another one has that name" if plain_name(row.name) in world.names else "names are plain text"
        item.change(f"is called {name!r} here, since {why}")
    made = _made(name, row, chosen, config, item=item, world=world)
    if not _fits(made.spec, item):
        return None
    world.names.add(name)
    return made


def _chosen(config: Mapping[str, Any], row: Row, item: Item) -> _Chosen | None:
    """Return what the pipeline chose; None, and the item is skipped, if that is nothing known."""
    ai = config.get("ai", config if row.kind == "agent" or "runner" in config else None)
    if not isinstance(ai, Mapping):
        item.skip("its configuration has no part `ai`, which names the runner")
        return None
    runner = _runner_of(ai, item)
    if runner is None:
        return None
    target = target_of(runner)
    if target is None:
        unknown = f"its runner {plain_name(runner)!r:.120} is not known"
        item.skip(f"{unknown}; it may be misspelt, or newer than this importer")
        return None
    section = _section_of(ai, runner, item)
    if section is None:
        return None
    named = ai.get("runner")
    return _Chosen(runner, target, section, isinstance(named, Mapping) and bool(named.get("expire-time")))


def _runner_of(ai: Mapping[str, Any], item: Item) -> str | None:
    """Return the runner that is named, by the later `ai.runner.id` or the older `ai.runner.runner`."""
    chosen = ai.get("runner")
    if isinstance(chosen, str):
        chosen = {"runner": chosen}
    if not isinstance(chosen, Mapping):
        item.skip("it names no runner: `ai.runner` is missing or no mapping")
        return None
    for key in ("id", "runner"):
        value = chosen.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    item.skip("it names no runner: neither `ai.runner.id` nor `ai.runner.runner` is a text")
    return None


def _section_of(ai: Mapping[str, Any], runner: str, item: Item) -> Mapping[str, Any] | None:
    """Return the settings of the runner; None, and the item is skipped, if they are no mapping."""
    later = ai.get("runner_config")
    if isinstance(later, Mapping) and runner in later:
        place, section = f"ai.runner_config[{runner}]", later[runner]
    else:
        place, section = f"ai.{runner}", ai.get(runner)
    if section is None:
        item.change(f"{place} is missing: the runner has its defaults")
        return {}
    if not isinstance(section, Mapping):
        item.skip(f"the settings of its runner, {place}, are no mapping")
        return None
    return section


def _made(
    name: str, row: Row, chosen: _Chosen, config: Mapping[str, Any], *, item: Item, world: World
) -> Made:
    target, given = chosen.target, dict(chosen.section)
    about = About(name if slug(name) else row.uuid[:8], f"{row.kind} {plain_name(row.name)}: {chosen.runner}")
    given = _given(given, target, config, item=item, world=world)
    spec: dict[str, Any] = {"name": name, "runner": target.runner}
    spec["config"] = fitted(given, target.form, about, world.secrets, item)
    _needs(chosen, item, world)
    if target.uses_tools and (tools := _tools(chosen.section, row, item, world)):
        spec["resource_policy"] = {"allowed_tool_names": tools}
    endpoints: frozenset[HostPort] = frozenset()
    if target.form is not None and not target.uses_tools:
        endpoints = _endpoints(spec["config"], chosen, target.form, item)
    if (delay := debounce_of(config, item)) is not None:
        spec["concurrency"] = {"debounce": delay}
    if chosen.expires:
        item.change("ai.runner.expire-time: left out; conversations do not expire by themselves")
    if rules := left_out(config):
        item.change(f"rules of the chat that have no counterpart in an agent: {', '.join(rules)}")
    spec["event_types"] = []
    if row.values.get("enabled") in (0, False):
        item.disable("is switched off in LangBot, too")
    if not item.enabled:
        spec["enabled"] = False
    if row.uuid:
        spec["metadata"] = {"langbot": {row.kind: plain_name(row.uuid)[:80]}}
    return Made(spec, target.plugin, endpoints)


def _given(
    given: dict[str, Any], target: Target, config: Mapping[str, Any], *, item: Item, world: World
) -> dict[str, Any]:
    """Return the settings as the runner here calls them."""
    if target.name == "local-agent":
        _local(given, item, world)
    if not target.foreign:
        given = {name: value for name, value in given.items() if name not in _NO_PLACE}
    if target.name == "acp":
        given = acp_section(given, target, item)
    if removes_think(config) and "remove-think" not in given and _has(target.form, "remove-think"):
        given["remove-think"] = True
    return given


def _needs(chosen: _Chosen, item: Item, world: World) -> None:
    """Note what has to be there before the agent can run."""
    target = chosen.target
    if target.foreign is not None:
        item.disable(
            f"needs LangBot's plugin {plain_name(target.foreign)}, which is not part of this host: add its "
            f"folder (`hostler plugins add {world.plugin_folder(target.foreign)}`), then set `enabled: true`"
        )
    elif target.form is None:
        item.disable(
            f"needs the runner {target.plugin} ({plain_name(chosen.runner)} in LangBot), which this version "
            "of the host does not have"
        )


def _has(form: Form | None, name: str) -> bool:
    return form is not None and form.item(name) is not None


# -- local-agent ----------------------------------------------------------------------------------


def _local(given: dict[str, Any], item: Item, world: World) -> None:
    """Bring model, rerank model and knowledge bases into the form of local-agent."""
    model = given.pop("model", None)
    if isinstance(model, str) and model not in NOT_CHOSEN:
        model = {"primary": model, "fallbacks": []}
    if isinstance(model, Mapping):
        given["model"] = _models(model, item, world)
    elif model not in (None, *NOT_CHOSEN):
        item.change("model: is neither the id of a model nor {primary, fallbacks}, and is left out")
    if (rerank := given.pop("rerank-model", None)) not in (None, *NOT_CHOSEN):
        given["rerank-model"] = _model(rerank, "rerank-model", item, world)
    if given.pop("max-round", None) is not None:
        item.change("max-round: left out; local-agent keeps as many messages as fit into the model's window")
    single, several = given.pop("knowledge-base", None), given.pop("knowledge-bases", None)
    chosen = several or single
    if isinstance(chosen, str):
        chosen = [] if chosen in NOT_CHOSEN else [chosen]
    if isinstance(chosen, list) and chosen:
        names = [one for one in chosen if isinstance(one, str) and one not in NOT_CHOSEN]
        given["knowledge-bases"] = [
            knowledge_base_id(world.knowledge_bases.get(one, one), one) for one in names
        ]
        if names:
            listed = ", ".join(map(repr, given["knowledge-bases"]))
            item.disable(
                f"needs the knowledge bases {listed:.200}, whose documents are not imported: make them "
                "under these names with `hostler knowledge add` and `upload`; then set `enabled: true`"
            )
    elif chosen not in (None, [], "", {}):
        item.change("knowledge-bases: is no list of ids, and is left out")


def _models(model: Mapping[str, Any], item: Item, world: World) -> dict[str, Any]:
    found: dict[str, Any] = {}
    primary = model.get("primary")
    if primary not in (None, *NOT_CHOSEN):
        found["primary"] = _model(primary, "model", item, world)
    fallbacks = model.get("fallbacks")
    found["fallbacks"] = [
        _model(one, "model", item, world)
        for one in (fallbacks if isinstance(fallbacks, list) else [])
        if one not in (None, *NOT_CHOSEN)
    ]
    if lost := [name for name in model if name not in ("primary", "fallbacks") and model[name]]:
        item.change(
            f"model: {', '.join(plain_name(str(one)) for one in lost):.200} is left out; a model's entry "
            "has `extra_args`"
        )
    return found


def _model(found: Any, field_name: str, item: Item, world: World) -> Any:
    """Return the id of a model here. One that there is not disables the agent."""
    if not isinstance(found, str):
        return found  # the form refuses it
    name = world.models.get(found, found)
    if name not in world.known_models:
        item.disable(
            f"{field_name}: there is no model {plain_name(name)!r:.120} here; add one with this id, then set "
            "`enabled: true`"
        )
    return name


def _tools(section: Mapping[str, Any], row: Row, item: Item, world: World) -> list[str]:
    """Return patterns of the tools of the MCP servers that LangBot offered to the pipeline."""
    if section.get("enable-all-tools") is False:
        listed = section.get("tools")
        texts = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
        names = f" ({plain_name(', '.join(texts)):.300})" if texts else ""
        item.change(
            f"no tools are allowed, since LangBot allowed single ones{names}: name them in "
            "`resource_policy.allowed_tool_names`"
        )
        return []
    preferences = row.values.get("extensions_preferences")
    chosen = list(world.servers.values())
    if isinstance(preferences, Mapping) and preferences.get("enable_all_mcp_servers") is False:
        ids = preferences.get("mcp_servers")
        ids = ids if isinstance(ids, list) else []
        chosen = [world.servers[one] for one in ids if isinstance(one, str) and one in world.servers]
    return [f"{name}.*" for name in sorted(set(chosen))]


def _endpoints(config: Mapping[str, Any], chosen: _Chosen, form: Form, item: Item) -> frozenset[HostPort]:
    """Return the endpoints that the runner has to reach. An address that was left out gives none."""
    found: set[HostPort] = set()
    for name in ADDRESSES:
        field_ = form.item(name)
        url = config.get(name, None if field_ is None else field_.default)
        was_left_out = name not in config and chosen.section.get(name)
        if not isinstance(url, str) or not url or was_left_out:
            continue
        endpoint = endpoint_of(url)
        if endpoint is None:
            item.disable(f"{name}: is no address like https://example.com")
            continue
        found.add(endpoint)
        if str(endpoint) not in form.network:
            item.note(f"{chosen.target.plugin} may reach {endpoint}, by its entry in `plugins`")
    return frozenset(found)


def _fits(spec: dict[str, Any], item: Item) -> bool:
    """Whether an agent has the form of one; else the item is skipped, and says why."""
    for mistake in json_mistakes(spec):
        item.skip(f"{mistake.place}: {mistake.text}")
        return False
    found, mistakes = fit(spec, AgentSpec)
    if found is not None and not mistakes:
        mistakes = spec_mistakes(found, "default")
    for mistake in mistakes:
        if mistake.severity == "error":
            item.skip(f"{mistake.place}: {mistake.text}")
            return False
    try:
        msgspec.json.encode(spec)
    except (TypeError, ValueError, RecursionError) as error:
        item.skip(f"is no JSON: {error}")
        return False
    return True
