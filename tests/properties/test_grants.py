"""A grant never holds more than manifest, policy, configuration and catalog together allow."""

from __future__ import annotations

import fnmatch
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.calls.gate import check_granted
from hostler.domain.agents import Rate
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.grants import (
    REMOTE_WORKER_CALLS,
    SCHEDULE_CALLS,
    Grant,
    apis_of,
    decode_grant,
    resources_of,
)
from hostler.domain.name_patterns import best_match, matches
from hostler_protocol.calls import CALLS
from hostler_protocol.errors import HostlerError
from hostler_protocol.grants import STATE_SCOPES
from hostler_protocol.manifest import Capabilities, Permissions
from support.call_params import params_of
from support.examples import examples
from support.grants import ResourcePolicy, StatePolicy, agent_of, catalog_of, event_of, grant_of, manifest_of

pytestmark = pytest.mark.gate("grants")

NAMES = ["gpt", "claude", "shop.cart", "shop.pay", "search"]
names = st.lists(st.sampled_from(NAMES), unique=True)
maybe_names = st.none() | names
patterns = st.lists(st.sampled_from([*NAMES, "shop.*", "*", "s*h", "*.pay", "shop.?", "[a-z]*"]), unique=True)


def some(*values: str) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(values), unique=True)


permissions = st.builds(
    Permissions,
    models=some("invoke", "stream", "rerank", "count_tokens"),
    tools=some("detail", "call"),
    knowledge_bases=some("list", "retrieve"),
    history=some("page", "search"),
    events=some("get", "page"),
    artifacts=some("metadata", "read"),
    storage=some("plugin", "workspace"),
    files=some("config", "knowledge"),
    runs=some("get", "list", "events", "cancel", "create", "append", "finalize"),
    actions=some("group.mute", "friend.add"),
    schedules=some("create", "list", "delete"),
)
policies = st.builds(
    ResourcePolicy,
    allowed_model_ids=maybe_names,
    allowed_tool_names=st.none() | patterns,
    allowed_kb_ids=maybe_names,
    allow_plugin_storage=st.booleans(),
    allow_workspace_storage=st.booleans(),
    allow_schedules=st.booleans(),
    allowed_agents=st.none() | patterns,
    allow_cross_conversation_history=st.booleans(),
    rate=st.builds(Rate, calls_per_second=st.none() | st.sampled_from([0.5, 2.0, 8.0])),
    tool_approval=st.dictionaries(
        st.sampled_from(["shop.*", "shop.pay", "*"]),
        st.sampled_from(["never", "required"])
        | st.builds(
            ToolApprovalPolicy,
            approval=st.sampled_from(["never", "required"]),
            min_approvals=st.integers(1, 3),
            editable=st.booleans(),
        ),
    ),
)
state_policies = st.builds(
    StatePolicy, enable_state=st.booleans(), state_scopes=st.lists(st.sampled_from(STATE_SCOPES), unique=True)
)


def check_approval(grant: Grant, policy: ResourcePolicy, name: str, asks: bool) -> None:
    """The stricter of both rules holds, and who decides is as the policy says."""
    pattern = best_match(policy.tool_approval, name)
    stated = "never" if pattern is None else policy.tool_approval[pattern]
    rule = stated if isinstance(stated, ToolApprovalPolicy) else ToolApprovalPolicy(approval=stated)
    needed = asks or rule.approval == "required"
    approval = grant.tools[name].approval
    assert (approval != "never") is needed is (name in grant.tool_approvals)
    assert (approval == "policy") is (stated is rule and rule.approval == "required")
    if needed:
        assert grant.tool_approvals[name] == msgspec.structs.replace(rule, approval="required")


@given(
    permissions, policies, state_policies, names, patterns, names, names, names, st.booleans(), st.booleans()
)
@settings(max_examples=200, deadline=None)
def test_a_grant_is_the_intersection(
    held: Permissions,
    policy: ResourcePolicy,
    states: StatePolicy,
    models: list[str],
    tools: list[str],
    known: list[str],
    bases: list[str],
    asking: list[str],
    steering: bool,
    actor: bool,
) -> None:
    manifest = manifest_of(held, Capabilities(steering=steering))
    event = event_of(actor_id="ada" if actor else None)
    config = {
        "model": {"primary": models[0] if models else None, "fallbacks": models[1:]},
        "tools": tools,
        "knowledge": bases,
    }
    grant = grant_of(
        manifest=manifest,
        agent=agent_of(resource_policy=policy, state_policy=states),
        event=event,
        config=config,
        catalog=catalog_of(known, known, known, asking=asking),
    )
    assert decode_grant(grant.encoded) == grant

    for name, model in grant.models.items():  # the configuration chooses tools and bases, and models or none
        assert not models or name in models
        assert policy.allowed_model_ids is None or name in policy.allowed_model_ids
        assert name in known
        assert set(model.operations) <= set(held.models)
        assert model.operations
    for name, tool in grant.tools.items():
        assert any(matches(pattern, name) for pattern in tools)
        allowed = policy.allowed_tool_names
        assert allowed is None or any(matches(pattern, name) for pattern in allowed)
        assert name in known
        assert set(tool.operations) <= set(held.tools)
        check_approval(grant, policy, name, name in asking)
        assert grant.tool_pins[name].tool_id == f"plugin:acme/any#{name}"
        assert grant.tool_pins[name].client is name.startswith("shop")
    assert set(grant.tool_pins) == set(grant.tools)
    assert set(grant.tool_approvals) <= set(grant.tools)
    for name in grant.knowledge_bases:
        assert name in bases
        assert policy.allowed_kb_ids is None or name in policy.allowed_kb_ids

    assert not grant.calls & (REMOTE_WORKER_CALLS | {"interaction.request"})
    for method in grant.calls:
        if (permission := CALLS[method].permission) is not None:
            assert permission[1] in getattr(held, permission[0])
    assert ("steering.pull" in grant.calls) is steering
    assert grant.storage_areas <= set(held.storage)
    assert ("workspace" in grant.storage_areas) <= policy.allow_workspace_storage
    asked = {f"schedule.{operation}" for operation in held.schedules}
    assert grant.calls & SCHEDULE_CALLS == (asked if policy.allow_schedules else set())
    assert ("plugin" in grant.storage_areas) <= policy.allow_plugin_storage
    assert ("storage.get" in grant.calls) is bool(grant.storage_areas)
    assert grant.actions == frozenset()

    opened, closed = set(grant.state_keys), set(grant.state_closed)
    assert opened | closed == set(STATE_SCOPES)
    assert not opened & closed
    assert opened <= (set(states.state_scopes) if states.enable_state else set())
    assert ("actor" in opened) <= actor
    assert "subject" in closed

    resources, apis = resources_of(grant), apis_of(grant)
    assert {model.model_id for model in resources.models} == set(grant.models)
    assert {tool.tool_name for tool in resources.tools} == set(grant.tools)
    assert apis.state == bool(grant.state_keys)
    assert apis.history_page is ("page" in held.history)
    assert apis.run_events_page is ("events" in held.runs)


@given(st.text("ab.?[*", max_size=8), st.text("ab.?[*", max_size=8))
@settings(max_examples=examples(300, 5_000), deadline=None)
def test_only_the_star_is_a_wildcard(pattern: str, name: str) -> None:
    escaped = "".join(part if part == "*" else f"[{part}]" if part in "?[" else part for part in pattern)
    assert matches(pattern, name) is fnmatch.fnmatchcase(name, escaped)


@given(st.lists(st.sampled_from(["a", "b", "*"]), max_size=200).map("".join))
@settings(max_examples=50, deadline=None)
def test_a_pattern_of_many_stars_is_matched_at_once(pattern: str) -> None:
    name = "ab" * 2000 + "c"
    if not pattern.endswith("*"):
        assert not matches(pattern, name)


def test_the_pattern_that_says_most_decides() -> None:
    rules = ["*", "shop.*", "shop.pay", "s*"]
    assert best_match(rules, "shop.pay") == "shop.pay"
    assert best_match(rules, "shop.cart") == "shop.*"
    assert best_match(rules, "search") == "s*"
    assert best_match(rules, "other") == "*"
    assert best_match(rules[1:], "other") is None
    assert not matches("shop.*", "shopXpay"), "a dot is a dot"


def may_create(grant: Grant, agent: str) -> bool:
    params = params_of("run.create", agent=agent)
    try:
        check_granted(grant, CALLS["run.create"], params)
    except HostlerError:
        return False
    return True


@pytest.mark.gate("child-runs")
@given(st.lists(policies, min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_from_run_to_child_run_nothing_gets_wider(chain: list[ResourcePolicy]) -> None:
    above: Grant | None = None
    for depth, policy in enumerate(chain):
        bounds = None if above is None else above.bounds_below
        built = grant_of(agent=agent_of(resource_policy=policy), above=bounds)
        grant = decode_grant(built.encoded)
        assert grant == built
        for name in [*NAMES, "shop.", "sch", "a.pay", "*", ""]:
            allowed = [one.allowed_agents or [] for one in chain[: depth + 1]]
            expected = all(any(matches(pattern, name) for pattern in names) for names in allowed)
            assert may_create(grant, name) is expected
        history = all(one.allow_cross_conversation_history for one in chain[: depth + 1])
        assert grant.cross_conversation_history is history
        assert any("other conversations" in note for note in grant.notes) is (
            policy.allow_cross_conversation_history and not history
        )
        rates = [one.rate.calls_per_second for one in chain[: depth + 1]]
        assert grant.calls_per_second == min((rate for rate in rates if rate is not None), default=None)
        above = grant
