"""Check an agent: its fields, its runner's form, and every resource that it names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.budget_limits import bounds_cost, budget_mistakes
from hostler.domain.channels import CHANNEL_EVENT_TYPES, MAX_ASK_IN, ChatPlace, chat_of
from hostler.domain.config_checks import chosen_places, config_mistakes, with_defaults
from hostler.domain.config_mistakes import Mistake, key_place, name_mistake
from hostler.domain.filters import MAX_FILTERS_PER_AGENT, check_filter, unknown_fields
from hostler.domain.grants import SCHEDULE_CALLS
from hostler.domain.ingest import is_event_type
from hostler.domain.inventory import Inventory
from hostler.domain.keys import check_depth
from hostler.domain.name_patterns import matches
from hostler.domain.prompts import prompt_mistakes
from hostler.domain.secret_refs import is_reference, is_sealed, looks_like_reference, reference_mistake
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.manifest import AgentRunnerManifest, FormItem

_ASK_IN = "delivery_policy.ask_in"
WRITTEN_OUT = "this is taken for the secret itself; a reference is env:NAME or file:PATH"
"""Said of what is written out where it may have been meant as a reference. It is stored sealed."""
MAX_PER_AGENT = 100
"""Mistakes reported for one agent; finding the nearest correct name for each takes time."""


def review_agent(spec: AgentSpec, inventory: Inventory) -> list[Mistake]:
    """Return every mistake in an agent's configuration, each with its path.

    A disabled agent may name resources that do not exist: these are warnings, not errors.
    """
    own = spec_mistakes(spec, inventory.workspace_id)
    against = list(islice(_against(spec, inventory), MAX_PER_AGENT))
    return own + (against if spec.enabled else [one.as_warning() for one in against])


def _against(spec: AgentSpec, inventory: Inventory) -> Iterator[Mistake]:
    """Yield the mistakes that depend on what the installation has."""
    manifest, mistake = inventory.runner(spec.runner)
    if mistake is not None:
        yield mistake.within("runner")
    if manifest is not None:
        yield from (one.within("config") for one in _config_mistakes(manifest, spec.config))
        yield from (one.within("config") for one in _selected(manifest.config_schema, spec, inventory))
    for one in _policy(spec.resource_policy, manifest, inventory):
        yield one.within("resource_policy")
    yield from _unknown_channels(spec.delivery_policy.ask_in, inventory)
    yield from _follows_nowhere(spec, manifest)


def _follows_nowhere(spec: AgentSpec, manifest: AgentRunnerManifest | None) -> Iterator[Mistake]:
    """Yield a warning for each field by which something would follow a person that no run has."""
    policy = spec.state_policy
    if policy.actor_across_accounts and not (policy.enable_state and "actor" in policy.state_scopes):
        text = "has no effect: `state_scopes` does not open the scope `actor`"
        if not policy.enable_state:
            text = "has no effect: `enable_state` is false"
        yield Mistake("state_policy.actor_across_accounts", text, "warning")
    if (
        spec.resource_policy.allow_cross_account_history
        and manifest is not None
        and not manifest.permissions.history
    ):
        text = f"has no effect: {spec.runner} does not ask for history"
        yield Mistake("resource_policy.allow_cross_account_history", text, "warning")


def _config_mistakes(manifest: AgentRunnerManifest, stored: Mapping[str, Any]) -> Iterator[Mistake]:
    yield from config_mistakes(manifest.config_schema, stored)
    for item in manifest.config_schema:
        value = stored.get(item.name)
        if item.kind == "secret" and isinstance(value, str):
            place = key_place("", item.name)
            if is_reference(value) and (wrong := reference_mistake(value)) is not None:
                yield Mistake(place, wrong)
            elif looks_like_reference(value):
                yield Mistake(place, WRITTEN_OUT, "warning")


def _selected(form: Sequence[FormItem], spec: AgentSpec, inventory: Inventory) -> Iterator[Mistake]:
    """Yield mistakes in the selected resources and in references to secrets."""
    values = with_defaults(form, spec.config)
    for item in form:
        value, place = values.get(item.name), key_place("", item.name)
        if item.kind == "secret" and (why := _unreadable(spec.config.get(item.name), inventory)) is not None:
            yield Mistake(place, why, "warning")
        for below, name in chosen_places(item, value):
            mistake = _one_selected(item, name, spec.resource_policy, inventory)
            if mistake is None and item.kind in _MODEL_SELECTORS:
                mistake = _unpriced(name, spec.resource_policy, inventory)
            if mistake is None:
                continue
            if item.name not in spec.config:
                mistake = mistake._replace(text=f"{mistake.text} (the default of the runner's form)")
            yield mistake.within(below).within(place)


_MODEL_SELECTORS = frozenset({"llm-model-selector", "model-fallback-selector", "rerank-model-selector"})


def _unpriced(name: str, policy: ResourcePolicy, inventory: Inventory) -> Mistake | None:
    """Return the warning for a model whose calls a budget of cost refuses."""
    if name not in inventory.unpriced_models or not bounds_cost(policy.budget):
        return None
    text = (
        f"{name!r} has no price, and the budget bounds cost: its calls are refused. Give the model a `price`"
    )
    return Mistake("", text, "warning")


def _unreadable(value: Any, inventory: Inventory) -> str | None:
    if is_sealed(value):
        return inventory.unreadable(value)
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
        ("allowed_agents", policy.allowed_agents, inventory.agent),
    ):
        for number, name in enumerate(_bounded(names or ())):
            mistake = check(name)
            if mistake is None and field == "allowed_model_ids":
                mistake = _unpriced(name, policy, inventory)
            if mistake is None and field == "allowed_tool_names":
                mistake = _closed(name, policy)
            if mistake is not None:
                yield mistake.within(f"{field}[{number}]")
    for name in _bounded(policy.tool_approval):
        if (mistake := inventory.tool(name)) is not None:
            # a rule may precede its tools, and a runner that pauses itself may name its own tools
            own = "*" in name or manifest is None or manifest.capabilities.continuation
            yield (mistake.as_warning() if own else mistake).within(key_place("tool_approval", name))


def _closed(name: str, policy: ResourcePolicy) -> Mistake | None:
    """Return the warning for a tool of schedules that no run gets."""
    if name not in SCHEDULE_CALLS or policy.allow_schedules:
        return None
    text = f"{name!r} also takes `allow_schedules: true` in the policy: no run gets it"
    return Mistake("", text, "warning")


def _bounded(names: Iterable[str]) -> Iterable[str]:
    """Limit to the allowed number; a longer list is a mistake that `spec_mistakes` reports."""
    return islice(names, MAX_NAMES)


# -- the agent by itself --------------------------------------------------------------------------

MAX_AGENT_NAME_CHARS = 255
MAX_NAMES = 1_000
"""Names and patterns in one list of a policy, as in one selector of a form; each run checks all of them."""
NAMES = (
    "allowed_model_ids",
    "allowed_tool_names",
    "allowed_kb_ids",
    "allowed_skill_names",
    "allowed_agents",
    "tool_approval",
)
"""The fields of a policy that are lists of names or patterns."""
STABLE_EVENT_TYPES = (
    "api.invoked",
    "friend.request_received",
    "group.member_joined",
    "interaction.submitted",
    "message.received",
    "message.recalled",
    "schedule.triggered",
    "webhook.received",
)
"""Event types used by the sources of every installation. A source may send others."""
_NEAR = 0.85
"""Similarity (0 to 1) from which an unknown event type is reported as a probable typing error."""


def spec_mistakes(spec: AgentSpec, workspace_id: str) -> list[Mistake]:
    """Return the mistakes that can be found without the inventory, in the order of the fields."""
    return [
        *_name_mistakes(spec.name),
        *_json_mistakes("config", spec.config),
        *_length_mistakes(spec.resource_policy),
        *_number_mistakes(spec),
        *_ask_in_mistakes(spec.delivery_policy.ask_in),
        *_event_type_mistakes(spec.event_types),
        *_filter_mistakes(spec.filters),
        *_scope_mistakes(spec, workspace_id),
        *_json_mistakes("metadata", spec.metadata),
        *prompt_mistakes(spec.prompts),
    ]


def _name_mistakes(name: str) -> Iterator[Mistake]:
    if (wrong := name_mistake(name, MAX_AGENT_NAME_CHARS)) is not None:
        yield Mistake("name", wrong)


def _json_mistakes(place: str, value: dict[str, Any]) -> Iterator[Mistake]:
    try:
        check_depth(place, value)
        msgspec.json.encode(value)
    except InvalidArgumentError as error:
        yield Mistake("", error.message)
    except (TypeError, ValueError, RecursionError) as error:
        yield Mistake(place, f"this is not JSON: {error}")


def _length_mistakes(policy: ResourcePolicy) -> Iterator[Mistake]:
    for name in NAMES:
        value = getattr(policy, name)
        if value is not None and len(value) > MAX_NAMES:
            yield Mistake(
                f"resource_policy.{name}", f"has {len(value):,} names; at most {MAX_NAMES:,} are allowed"
            )


def _ask_in_mistakes(names: Sequence[str | ChatPlace]) -> Iterator[Mistake]:
    place = _ASK_IN
    if len(names) > MAX_ASK_IN:
        yield Mistake(place, f"names {len(names):,} chats; at most {MAX_ASK_IN} are possible")
    chats = [chat_of(name) for name in names[:MAX_ASK_IN]]
    for number, (name, chat) in enumerate(zip(names, chats, strict=False)):
        shown = name if isinstance(name, str) else f"{name.channel}/{name.chat_id}"
        if chat is None:
            text = (
                f"{shown!r:.200} is no chat: write CHANNEL/CHAT, or channel, chat_id and thread_id, with the "
                "platform's own ids"
            )
            yield Mistake(f"{place}[{number}]", text)
        elif chat in chats[:number]:
            yield Mistake(f"{place}[{number}]", f"{shown!r:.200} is named twice")


def _unknown_channels(names: Sequence[str | ChatPlace], inventory: Inventory) -> Iterator[Mistake]:
    for number, name in enumerate(names[:MAX_ASK_IN]):
        chat = chat_of(name)
        if chat is not None and (mistake := inventory.channel(chat.channel)) is not None:
            yield mistake.within(f"{_ASK_IN}[{number}]")


def _number_mistakes(spec: AgentSpec) -> Iterator[Mistake]:
    yield from budget_mistakes(spec.resource_policy.budget, "resource_policy.budget")
    rate = spec.resource_policy.rate.calls_per_second
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        place = "resource_policy.rate.calls_per_second"
        yield Mistake(place, f"is {rate:g}; expected more than 0, or leave it out for no bound")
    size = spec.delivery_policy.max_message_size
    if size is not None and size < 1:
        yield Mistake("delivery_policy.max_message_size", f"is {size}; expected at least 1")
    if spec.recovery.max_attempts < 1:
        yield Mistake("recovery.max_attempts", f"is {spec.recovery.max_attempts}; expected at least 1")


def _event_type_mistakes(event_types: list[str]) -> Iterator[Mistake]:
    for number, name in enumerate(event_types):
        if name in STABLE_EVENT_TYPES or name in CHANNEL_EVENT_TYPES:
            continue
        place = f"event_types[{number}]"
        near = difflib.get_close_matches(name.lower(), STABLE_EVENT_TYPES, n=1, cutoff=_NEAR)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if "*" in name and is_event_type(name.replace("*", "x")):
            continue
        if not is_event_type(name):
            yield Mistake(place, f"{name!r:.80} is no event type: expected dotted lower-case names{hint}")
        elif near:
            yield Mistake(place, f"no source is known to send {name!r:.80}{hint}", "warning")


def _filter_mistakes(filters: list[str]) -> Iterator[Mistake]:
    if len(filters) > MAX_FILTERS_PER_AGENT:
        yield Mistake("filters", f"{len(filters)} filters; at most {MAX_FILTERS_PER_AGENT}")
    for number, text in enumerate(filters[:MAX_FILTERS_PER_AGENT]):
        try:
            check_filter(text)
        except InvalidArgumentError as error:
            yield Mistake(f"filters[{number}]", error.message)
        else:
            yield from (Mistake(f"filters[{number}]", wrong) for wrong in unknown_fields(text))


def _scope_mistakes(spec: AgentSpec, workspace_id: str) -> Iterator[Mistake]:
    scope = spec.scope
    if scope.id == "":
        yield Mistake("scope.id", "is empty: leave it out, or name one")
    elif scope.id is None:
        return
    elif scope.type == "workspace" and scope.id != workspace_id:
        text = f"this is workspace {workspace_id!r}: no event of {scope.id!r:.80} comes here; leave it out"
        yield Mistake("scope.id", text)
    elif scope.type in ("agent", "global"):
        yield Mistake("scope.id", f"has no effect with the type {scope.type!r}; leave it out", "warning")
