"""An agent held against what there is: its runner and form, and every resource that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from hostler.domain.agent_checks import MAX_NAMES, spec_mistakes
from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.config_checks import chosen_places, config_mistakes, with_defaults
from hostler.domain.config_mistakes import Mistake, key_place
from hostler.domain.inventory import Inventory
from hostler.domain.name_patterns import matches
from hostler.domain.secret_refs import is_reference, looks_like_reference, reference_mistake
from hostler_protocol.manifest import AgentRunnerManifest, FormItem

MAX_PER_AGENT = 100
"""Mistakes of one agent that are looked for: the nearest right word of each takes time."""


def review_agent(spec: AgentSpec, inventory: Inventory) -> list[Mistake]:
    """All that is wrong with an agent, each with its place in it.

    What an agent that is switched off names may be absent: that is told, and no error.
    """
    own = spec_mistakes(spec, inventory.workspace_id)
    against = list(islice(_against(spec, inventory), MAX_PER_AGENT))
    return own + (against if spec.enabled else [one.as_warning() for one in against])


def _against(spec: AgentSpec, inventory: Inventory) -> Iterator[Mistake]:
    """What is wrong with an agent as seen from the inventory."""
    manifest, mistake = inventory.runner(spec.runner)
    if mistake is not None:
        yield mistake.within("runner")
    if manifest is not None:
        yield from (one.within("config") for one in _config_mistakes(manifest, spec.config))
        yield from (one.within("config") for one in _selected(manifest.config_schema, spec, inventory))
    for one in _policy(spec.resource_policy, manifest, inventory):
        yield one.within("resource_policy")


def _config_mistakes(manifest: AgentRunnerManifest, stored: Mapping[str, Any]) -> Iterator[Mistake]:
    yield from config_mistakes(manifest.config_schema, stored)
    for item in manifest.config_schema:
        value = stored.get(item.name)
        if item.kind == "secret" and isinstance(value, str):
            place = key_place("", item.name)
            if is_reference(value) and (wrong := reference_mistake(value)) is not None:
                yield Mistake(place, wrong)
            elif looks_like_reference(value):
                text = "this is taken for the secret itself; a reference is env:NAME or file:PATH"
                yield Mistake(place, text, "warning")


def _selected(form: Sequence[FormItem], spec: AgentSpec, inventory: Inventory) -> Iterator[Mistake]:
    """What is wrong with the resources that the configuration selects, and with its references to secrets."""
    values = with_defaults(form, spec.config)
    for item in form:
        value, place = values.get(item.name), key_place("", item.name)
        if item.kind == "secret" and (why := _unreadable(spec.config.get(item.name), inventory)) is not None:
            yield Mistake(place, why, "warning")
        for below, name in chosen_places(item, value):
            mistake = _one_selected(item, name, spec.resource_policy, inventory)
            if mistake is None:
                continue
            if item.name not in spec.config:
                mistake = mistake._replace(text=f"{mistake.text} (the default of the runner's form)")
            yield mistake.within(below).within(place)


def _unreadable(value: Any, inventory: Inventory) -> str | None:
    if not isinstance(value, str) or not is_reference(value) or reference_mistake(value) is not None:
        return None
    return inventory.unreadable(value)


def _one_selected(item: FormItem, name: str, policy: ResourcePolicy, inventory: Inventory) -> Mistake | None:
    match item.kind:
        case "llm-model-selector" | "model-fallback-selector":
            wrong, allowed, where = (
                inventory.model(name, "llm"),
                policy.allowed_model_ids,
                "allowed_model_ids",
            )
        case "rerank-model-selector":
            wrong, allowed, where = (
                inventory.model(name, "rerank"),
                policy.allowed_model_ids,
                "allowed_model_ids",
            )
        case "knowledge-base-multi-selector":
            wrong, allowed, where = inventory.knowledge_base(name), policy.allowed_kb_ids, "allowed_kb_ids"
        case "tool-multi-selector":
            wrong, allowed, where = inventory.tool(name), policy.allowed_tool_names, "allowed_tool_names"
            if allowed is not None and any(
                matches(pattern, name) or matches(name, pattern) for pattern in allowed
            ):
                allowed = None
        case _:
            return None
    if wrong is None and allowed is not None and name not in allowed:
        text = f"{name!r} is selected, but resource_policy.{where} leaves it out: no run gets it"
        return Mistake("", text, "warning")
    return wrong


def _policy(
    policy: ResourcePolicy, manifest: AgentRunnerManifest | None, inventory: Inventory
) -> Iterator[Mistake]:
    for field, names, check in (
        ("allowed_model_ids", policy.allowed_model_ids, inventory.model),
        ("allowed_tool_names", policy.allowed_tool_names, inventory.tool),
        ("allowed_kb_ids", policy.allowed_kb_ids, inventory.knowledge_base),
        ("allowed_skill_names", policy.allowed_skill_names, inventory.skill),
    ):
        for number, name in enumerate(_bounded(names or ())):
            if (mistake := check(name)) is not None:
                yield mistake.within(f"{field}[{number}]")
    for name in _bounded(policy.tool_approval):
        if (mistake := inventory.tool(name)) is not None:
            # a rule may be there before its tools are; and a runner that pauses itself may name its own tools
            own = "*" in name or manifest is None or manifest.capabilities.continuation
            yield (mistake.as_warning() if own else mistake).within(key_place("tool_approval", name))


def _bounded(names: Iterable[str]) -> Iterable[str]:
    """As many as are allowed: more are a mistake by themselves."""
    return islice(names, MAX_NAMES)


__all__ = ["review_agent"]
