"""The rules of a grant about a call, and where each came from."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hostler.domain.agents import ResourcePolicy, StatePolicy
from hostler.domain.child_runs import ParentBounds
from hostler.domain.config_form import configure
from hostler.domain.grant_rules import Rule, grant_rules
from hostler.domain.grants import Grant, decode_grant
from hostler_protocol.calls import CALLS
from hostler_protocol.manifest import Permissions
from support.grants import FORM, agent_of, catalog_of, grant_of, manifest_of

CONFIG: dict[str, Any] = {"model": {"primary": "gpt", "fallbacks": ["small"]}, "tools": ["shop.*", "search"]}


def granted(config: dict[str, Any] | None = None, *, bounded: Any = None, **policy: Any) -> tuple[Grant, Any]:
    given = CONFIG if config is None else config
    agent = agent_of(resource_policy=ResourcePolicy(**policy), config=given, state_policy=StatePolicy())
    catalog = catalog_of(["gpt", "small"], ["search", "shop.buy"], ["handbook"])
    catalog = replace(catalog, bounded_by=bounded)
    above = ParentBounds([["a*"]])
    return grant_of(agent=agent, config=given, catalog=catalog, above=above), agent.spec


def told(rules: list[Rule]) -> list[str]:
    return [f"{rule.source} {rule.field}: {rule.text}" for rule in rules]


@pytest.mark.parametrize(
    ("policy", "method", "named", "expected"),
    [
        ({}, "host.info", None, "host None: host.info concerns only the run itself"),
        ({}, "run.append", None, "host None: run.append is for remote workers"),
        ({}, "model.invoke", "gpt", "config config.model: the configuration selects 'gpt'"),
        ({}, "model.invoke", "small", "config config.model: the configuration selects 'small'"),
        ({}, "model.invoke", "gpt", "policy resource_policy.allowed_model_ids: the policy has no list"),
        ({}, "tool.call", "shop.buy", "config config.tools: the configuration selects 'shop.buy'"),
        (
            {"allowed_tool_names": ["s*"]},
            "tool.call",
            "shop.buy",
            "policy resource_policy.allowed_tool_names: the policy lists 'shop.buy', as 's*'",
        ),
        (
            {"allowed_tool_names": ["search"]},
            "tool.call",
            "shop.buy",
            "policy resource_policy.allowed_tool_names: the policy does not list 'shop.buy'",
        ),
        (
            {"allowed_kb_ids": ["handbook"]},
            "knowledge.retrieve",
            "handbook",
            "config None: the configuration makes no choice of a knowledge base: the policy decides",
        ),
        ({}, "state.get", "runner", "policy state_policy.state_scopes: state scope 'runner' is closed"),
        ({}, "state.get", "subject", "policy state_policy.state_scopes: state scope 'subject' is closed"),
        ({}, "state.get", "actor", "policy state_policy.state_scopes: state scope 'actor' is open"),
        (
            {},
            "storage.get",
            "workspace",
            "policy resource_policy.allow_workspace_storage: workspace storage is not",
        ),
        ({}, "history.page", "c1", "event conversation_id: it is the conversation of this run"),
        (
            {},
            "history.page",
            "c2",
            "policy resource_policy.allow_cross_conversation_history: this run may not read",
        ),
        (
            {"allowed_agents": ["*"]},
            "run.create",
            "ada",
            "parent resource_policy.allowed_agents: all runs above",
        ),
        (
            {"allowed_agents": ["*"]},
            "run.create",
            "bob",
            "parent resource_policy.allowed_agents: not all runs",
        ),
        (
            {"allowed_agents": ["b"]},
            "run.create",
            "c",
            "policy resource_policy.allowed_agents: the agent's policy",
        ),
    ],
)
def test_each_rule_names_its_source(policy: Any, method: str, named: str | None, expected: str) -> None:
    grant, spec = granted(**policy)
    found = told(grant_rules(grant, spec, method, named))
    assert any(one.startswith(expected) for one in found), found


def test_the_bound_of_a_workspace_is_named_for_what_it_lists() -> None:
    grant, spec = granted(bounded=("tenant", ("tools",)))
    last = told(grant_rules(grant, spec, "tool.call", "search"))[-1]
    assert last == "workspace workspaces[tenant].tools: the operator's entry for this workspace allows it"
    assert "with no list of models" in told(grant_rules(grant, spec, "model.invoke", "gpt"))[-1]
    assert "may not be on" in told(grant_rules(grant, spec, "tool.call", "gone"))[-1]


def test_what_older_grants_and_removed_agents_do_not_say_is_not_recorded() -> None:
    grant, spec = granted()
    text = grant.encoded.replace('"chosen_by":', '"unknown":')
    rules = told(grant_rules(decode_grant(text), spec, "tool.call", "search"))
    assert any(one.startswith("config None: not recorded") for one in rules)
    rules = told(grant_rules(grant, None, "tool.call", "search"))
    assert any("this version of the agent is not kept" in one for one in rules)


@pytest.mark.parametrize("method", sorted(CALLS))
def test_every_call_has_a_rule_granted_or_not(method: str) -> None:
    """A call that is added is explained too: by its permission, or by a rule of its own."""
    full, spec = granted(allowed_agents=["*"])
    bare = grant_of(
        manifest=manifest_of(Permissions()), agent=agent_of(state_policy=StatePolicy(enable_state=False))
    )
    with_it, without = grant_rules(full, spec, method, None), grant_rules(bare, spec, method, None)
    assert with_it
    assert without
    if (method in full.calls) != (method in bare.calls):
        assert with_it != without


def test_a_default_of_the_form_is_a_choice() -> None:
    form = [
        *FORM[:-2],
        FORM[-2].__class__(name="tools", type="tool-multi-selector", default=["search"]),
        FORM[-1],
    ]
    manifest = manifest_of(form=form)
    grant = grant_of(manifest=manifest, config={}, catalog=catalog_of([], ["search"]))
    assert configure(form, {}).selected.chosen_by == {"tools": ["tools"]}
    found = told(grant_rules(grant, agent_of().spec, "tool.call", "search"))
    assert "config config.tools: the configuration, or the default of its form, selects 'search'" in found


def test_who_may_cause_an_action_is_named() -> None:
    actors = {"member.*": ["role:admin", "person:town/7"], "message.pin": [], "message.send": ["*"]}
    manifest = manifest_of(permissions=Permissions(actions=["*"]))
    agent = agent_of(resource_policy=ResourcePolicy(allowed_actions=["*"], action_actors=actors))
    grant = grant_of(agent=agent, manifest=manifest)

    def about(action: str) -> list[str]:
        told_ = told(grant_rules(grant, agent.spec, "action.request", action))
        return [line.removeprefix("policy resource_policy.") for line in told_ if "action_actors" in line]

    no, may = (
        "may not have 'member.ban' done: role:admin, person:town/7 may",
        "may have 'message.send' done: * may",
    )
    assert about("member.ban") == [f"action_actors[member.*]: who caused the event {no}"]
    nobody = "who caused the event may not have 'message.pin' done: nobody may"
    assert about("message.pin") == [f"action_actors[message.pin]: {nobody}"]
    assert about("message.send") == [f"action_actors[message.send]: who caused the event {may}"]
    assert about("message.react") == []
