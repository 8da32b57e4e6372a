"""What is wrong with an agent by itself, whatever the installation has."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.config_mistakes import Mistake, name_mistake
from hostler.domain.filter_fields import unknown_fields
from hostler.domain.filters import MAX_FILTERS_PER_AGENT, check_filter
from hostler.domain.ingest import is_event_type
from hostler.domain.keys import check_depth
from hostler_protocol.errors import InvalidArgumentError

MAX_AGENT_NAME_CHARS = 255
MAX_NAMES = 1_000
"""Names and patterns in one list of a policy, as in one choice of a form; all are looked at for each run."""
NAMES = ("allowed_model_ids", "allowed_tool_names", "allowed_kb_ids", "allowed_skill_names", "tool_approval")
"""The lists of a policy."""
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
"""Types that the sources of every installation use. A source may have others."""
_NEAR = 0.85
"""How much an event type must be like a stable one to be taken for a slip."""


def spec_mistakes(spec: AgentSpec, workspace_id: str) -> list[Mistake]:
    """All of them, in the order of the fields."""
    return [
        *_name_mistakes(spec.name),
        *_json_mistakes("config", spec.config),
        *_length_mistakes(spec.resource_policy),
        *_number_mistakes(spec),
        *_event_type_mistakes(spec.event_types),
        *_filter_mistakes(spec.filters),
        *_scope_mistakes(spec, workspace_id),
        *_json_mistakes("metadata", spec.metadata),
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


def _number_mistakes(spec: AgentSpec) -> Iterator[Mistake]:
    budget = spec.resource_policy.budget
    for name in budget.__struct_fields__:
        value = getattr(budget, name)
        if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
            yield Mistake(f"resource_policy.budget.{name}", f"is {value:g}; expected at least 0")
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
        place = f"event_types[{number}]"
        near = difflib.get_close_matches(name.lower(), STABLE_EVENT_TYPES, n=1, cutoff=_NEAR)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if not is_event_type(name):
            yield Mistake(place, f"{name!r:.80} is no event type: expected dotted lower-case names{hint}")
        elif near and name not in STABLE_EVENT_TYPES:
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
