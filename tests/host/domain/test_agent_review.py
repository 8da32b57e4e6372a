"""An agent against what there is: every mistake at its place, with the nearest right word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.inventory import Inventory, PluginFacts
from hostler.domain.type_fit import convert
from hostler_protocol.manifest import AgentRunnerManifest, Capabilities, FormItem, Permissions

FORM = [
    FormItem(name="model", type="model-fallback-selector", required=True),
    FormItem(name="judge", type="rerank-model-selector"),
    FormItem(name="tools", type="tool-multi-selector"),
    FormItem(name="kbs", type="knowledge-base-multi-selector"),
    FormItem(name="key", type="secret"),
    FormItem(name="size", type="integer"),
    FormItem(name="odd name", type="llm-model-selector"),
]
RUNNER = "plugin:acme/support/default"


def manifest(name: str, form: list[FormItem], **capabilities: bool) -> AgentRunnerManifest:
    return AgentRunnerManifest(
        id=f"plugin:acme/support/{name}",
        name=name,
        label={"en": name},
        config_schema=form,
        capabilities=Capabilities(**capabilities),
    )


INVENTORY = Inventory(
    workspace_id="default",
    plugins={
        "acme/support": PluginFacts(
            {
                "default": manifest("default", FORM),
                "pausing": manifest("pausing", [], continuation=True),
                "defaulting": manifest(
                    "defaulting", [FormItem(name="model", type="llm-model-selector", default="gpt")]
                ),
            }
        ),
        "acme/broken": PluginFacts(None, "it does not start: no module"),
    },
    models={"main": "llm", "spare": "llm", "judge": "rerank", "keyless": "llm"},
    unusable_models={"keyless": "api_key: env:KEY: the environment variable KEY is not set"},
    tools={
        "shop.book": "plugin:acme/shop#book",
        "shop.find": "plugin:acme/shop#find",
        "exec": "exec:exec",
        "skill.pdf": "skill:pdf",
    },
    unusable_tools={"web.search": "it waits for `hostler tools approve`"},
    unlisted_tools={"files.": "MCP server 'files' is down"},
    skills=["pdf"],
    unusable_skills={"long": "its description has 1,068 characters"},
    knowledge_bases=["handbook"],
    agents={"a", "helper", "team.one"},
    unreadable={"env:GONE": "the environment variable GONE is not set"}.get,
)


def told(spec: dict[str, Any], inventory: Inventory = INVENTORY) -> list[str]:
    whole = {"name": "a", "runner": RUNNER, **spec}
    if whole["runner"] == RUNNER:
        whole["config"] = {"model": "main", **whole.get("config", {})}
    mistakes = review_agent(convert(whole, AgentSpec, "a"), inventory)
    return [f"{'' if one.severity == 'error' else '~ '}{one.sentence}" for one in mistakes]


def test_what_is_right_is_not_spoken_of() -> None:
    spec = {
        "config": {
            "model": {"primary": "main", "fallbacks": ["spare", "__none__"]},
            "judge": "judge",
            "tools": ["shop.*", "exec"],
            "kbs": ["handbook"],
            "key": "env:KEY",
            "timeout": None,
        },
        "resource_policy": {
            "allowed_model_ids": ["main", "spare", "judge"],
            "allowed_tool_names": ["*", "shop.*", "exec"],
            "allowed_kb_ids": ["handbook"],
            "allowed_skill_names": ["pdf"],
            "allowed_agents": ["a", "helper", "team.*", "*"],
            "tool_approval": {"*": "required", "*.delete": "required", "shop.book": "never"},
            "budget": {"max_calls_per_run": 0},
        },
        "event_types": ["message.received", "acme.ticket-opened"],
        "filters": ["event.actor.actor_id != 'bot' && event.data.anything.at.all == 1", "has(event.subject)"],
        "scope": {"type": "workspace", "id": "default"},
    }
    assert told(spec) == []
    assert told({"scope": {"type": "bot", "id": "b1"}}) == []


TOLD: list[tuple[dict[str, Any], list[str]]] = [
    # the runner
    (
        {"runner": "acme/support/default"},
        [
            "runner: 'acme/support/default' is not a runner id: expected plugin:author/name/runner; "
            "did you mean 'plugin:acme/support/default'?"
        ],
    ),
    (
        {"runner": "plugin:acme/suport/default"},
        ["runner: there is no plugin 'acme/suport'; did you mean 'plugin:acme/support/default'?"],
    ),
    (
        {"runner": "plugin:zzz/q/w"},
        [
            "runner: there is no plugin 'zzz/q'; add it (`hostler plugins add FOLDER`), or make a key for it "
            "if it dials in"
        ],
    ),
    (
        {"runner": "plugin:acme/support/defualt"},
        ["runner: plugin 'acme/support' has no runner 'defualt'; did you mean 'default'?"],
    ),
    (
        {"runner": "plugin:acme/broken/default", "config": {"whatever": 1}},
        [
            "~ runner: whether plugin 'acme/broken' has this runner and takes this config is not known: it "
            "does not start: no module"
        ],
    ),
    # its configuration
    ({"config": {"modle": "x"}}, ["config.modle: unknown option; did you mean 'model'?"]),
    (
        {"config": {"size": "big", "sise": 1, "model": ""}},
        [
            "config.sise: unknown option; did you mean 'size'?",
            "config.model: is required: give it {primary: model id, fallbacks: [model id, ...]}, or the id "
            "of a model",
            "config.size: expected an integer, not 'big'",
        ],
    ),
    (
        {"config": {"model": {"primary": "mian", "fallbacks": ["spare", "judge"]}}},
        [
            "config.model.primary: there is no model 'mian'; did you mean 'main'?",
            "config.model.fallbacks[1]: 'judge' is a rerank model, a model is expected; "
            "known are keyless, main, spare",
        ],
    ),
    (
        {"config": {"odd name": "mian"}},
        ["config[\"odd name\"]: there is no model 'mian'; did you mean 'main'?"],
    ),
    (
        {"config": {"judge": "main"}},
        ["config.judge: 'main' is a model, a rerank model is expected; known are judge"],
    ),
    (
        {"config": {"model": "keyless"}},
        [
            "~ config.model: model 'keyless' cannot be used now: api_key: env:KEY: the environment variable "
            "KEY is not set"
        ],
    ),
    (
        {"runner": "plugin:acme/support/defaulting"},
        [
            "config.model: there is no model 'gpt'; known are keyless, main, spare (the default of the "
            "runner's form)"
        ],
    ),
    (
        {"config": {"tools": ["shop.boko", "shpo.*", "files.read", "web.search", "nothing"]}},
        [
            "config.tools[0]: there is no tool 'shop.boko'; did you mean 'shop.book'?",
            "config.tools[1]: no tool matches 'shpo.*'; did you mean 'shop.*'?",
            "~ config.tools[2]: whether there is a tool 'files.read' is not known: MCP server 'files' is "
            "down",
            "~ config.tools[3]: tool 'web.search' cannot be used now: it waits for `hostler tools approve`",
            "config.tools[4]: there is no tool 'nothing'; known are exec, shop.book, shop.find, skill.pdf, "
            "web.search",
        ],
    ),
    (
        {"config": {"kbs": ["handbok"]}},
        ["config.kbs[0]: there is no knowledge base 'handbok'; did you mean 'handbook'?"],
    ),
    ({"config": {"key": "env:GONE"}}, ["~ config.key: the environment variable GONE is not set"]),
    ({"config": {"key": "env:"}}, ["config.key: this names no environment variable: write env:NAME"]),
    ({"config": {"key": "file: "}}, ["config.key: this names no file: write file:PATH"]),
    (
        {"config": {"key": "secret://x y"}},
        ["config.key: this names no stored secret: write secret://NAME"],
    ),
    *(
        (
            {"config": {"key": text}},
            ["~ config.key: this is taken for the secret itself; a reference is env:NAME or file:PATH"],
        )
        for text in ("${KEY}", "$KEY", "ENV:KEY", "env=KEY", "secret/key")
    ),
    ({"config": {"key": "$ecret-9"}}, []),
    # its policy
    (
        {"resource_policy": {"allowed_agents": ["helpr", "Helper", "team.*", "crew.*"]}},
        [
            "~ resource_policy.allowed_agents[0]: there is no agent 'helpr'; did you mean 'helper'?",
            "~ resource_policy.allowed_agents[1]: there is no agent 'Helper'; did you mean 'helper'?",
            "~ resource_policy.allowed_agents[3]: no agent matches 'crew.*'",
        ],
    ),
    (
        {
            "resource_policy": {
                "allowed_model_ids": ["main", "spar"],
                "allowed_tool_names": ["shop.*", "exce"],
                "allowed_kb_ids": ["handbook", "x"],
                "allowed_skill_names": ["pfd", "long"],
            }
        },
        [
            "resource_policy.allowed_model_ids[1]: there is no model 'spar'; did you mean 'spare'?",
            "resource_policy.allowed_tool_names[1]: there is no tool 'exce'; did you mean 'exec'?",
            "resource_policy.allowed_kb_ids[1]: there is no knowledge base 'x'; known are handbook",
            "resource_policy.allowed_skill_names[0]: there is no skill 'pfd'; did you mean 'pdf'?",
            "~ resource_policy.allowed_skill_names[1]: skill 'long' cannot be used now: its description has "
            "1,068 characters",
        ],
    ),
    (
        {
            "resource_policy": {
                "tool_approval": {"shop.bok": "required", "shpo.*": "required", "files.write": "never"}
            }
        },
        [
            "resource_policy.tool_approval[\"shop.bok\"]: there is no tool 'shop.bok'; did you mean "
            "'shop.book'?",
            "~ resource_policy.tool_approval[\"shpo.*\"]: no tool matches 'shpo.*'; did you mean 'shop.*'?",
            "~ resource_policy.tool_approval[\"files.write\"]: whether there is a tool 'files.write' is not "
            "known: MCP server 'files' is down",
        ],
    ),
    (
        {"runner": "plugin:acme/support/pausing", "resource_policy": {"tool_approval": {"Bash": "required"}}},
        [
            "~ resource_policy.tool_approval.Bash: there is no tool 'Bash'; known are exec, shop.book, "
            "shop.find, skill.pdf, web.search"
        ],
    ),
    (
        {"config": {"model": "main"}, "resource_policy": {"allowed_model_ids": ["spare"]}},
        [
            "~ config.model: 'main' is selected, but resource_policy.allowed_model_ids leaves it out: no run "
            "gets it"
        ],
    ),
    (
        {"config": {"tools": ["exec", "shop.*"]}, "resource_policy": {"allowed_tool_names": ["shop.book"]}},
        [
            "~ config.tools[0]: 'exec' is selected, but resource_policy.allowed_tool_names leaves it out: no "
            "run gets it"
        ],
    ),
    (
        {
            "resource_policy": {"budget": {"max_tokens_per_run": -1}, "rate": {"calls_per_second": 0}},
            "delivery_policy": {"max_message_size": 0},
            "recovery": {"max_attempts": 0},
        },
        [
            "resource_policy.budget.max_tokens_per_run: is -1; expected at least 0",
            "resource_policy.rate.calls_per_second: is 0; expected more than 0, or leave it out for no bound",
            "delivery_policy.max_message_size: is 0; expected at least 1",
            "recovery.max_attempts: is 0; expected at least 1",
        ],
    ),
    # where it listens
    (
        {"event_types": ["Message.Received", "message.recieved", "message received", "tickets.opened"]},
        [
            "event_types[0]: 'Message.Received' is no event type: expected dotted lower-case names; did you "
            "mean 'message.received'?",
            "~ event_types[1]: no source is known to send 'message.recieved'; did you mean "
            "'message.received'?",
            "event_types[2]: 'message received' is no event type: expected dotted lower-case names; did you "
            "mean 'message.received'?",
        ],
    ),
    (
        {"filters": ["event.actr.actor_id == 'x'", "event.actor.id == event.input.txt"]},
        [
            "filters[0]: event has no field 'actr'; did you mean 'actor'?",
            "filters[1]: event.actor has no field 'id'; known are actor_id, actor_name, actor_type, metadata",
            "filters[1]: event.input has no field 'txt'; did you mean 'text'?",
        ],
    ),
    (
        {"scope": {"type": "workspace", "id": "other"}},
        ["scope.id: this is workspace 'default': no event of 'other' comes here; leave it out"],
    ),
    ({"scope": {"type": "bot", "id": ""}}, ["scope.id: is empty: leave it out, or name one"]),
    (
        {"scope": {"type": "global", "id": "x"}},
        ["~ scope.id: has no effect with the type 'global'; leave it out"],
    ),
    ({"name": "  "}, ["name: a name has 1 to 255 characters and no NUL"]),
]


@pytest.mark.parametrize(("spec", "sentences"), TOLD)
def test_every_mistake_is_told(spec: dict[str, Any], sentences: list[str]) -> None:
    assert told(spec) == sentences


def test_filters_that_are_none_are_told_at_their_places() -> None:
    found = told({"filters": ["event.input.text == ''", "1 +", "evnt.x == 1"]})
    assert [line.partition(":")[0] for line in found] == ["filters[1]", "filters[2]"]


def test_an_agent_that_is_switched_off_may_name_what_is_gone() -> None:
    wrong = {"enabled": False, "runner": "plugin:acme/suport/default", "event_types": ["A"]}
    assert [line.partition(":")[0] for line in told(wrong)] == ["event_types[0]", "~ runner"]


def test_an_installation_without_anything_says_so() -> None:
    plugins = {"acme/support": INVENTORY.plugins["acme/support"]}
    found = told({"config": {"tools": ["t"], "kbs": ["k"]}}, Inventory(plugins=plugins))
    assert found == [
        "config.model: there is no model 'main'; this host has no models",
        "config.tools[0]: there is no tool 't'; this host has no tools",
        "config.kbs[0]: there is no knowledge base 'k'; this host has no knowledge bases",
    ]


def test_what_is_no_json_is_no_configuration() -> None:
    ring: list[Any] = []
    ring.append(ring)
    spec = AgentSpec(name="a", runner=RUNNER, config={"model": "main", "size": 1}, metadata={"ring": ring})
    assert [one.sentence for one in review_agent(spec, INVENTORY)] == [
        "metadata is nested more than 128 deep"
    ]
    spec = msgspec.structs.replace(spec, metadata={"x": object()})
    assert [one.place for one in review_agent(spec, INVENTORY)] == ["metadata"]


def test_a_flood_of_mistakes_is_bounded() -> None:
    inventory = Inventory(
        plugins=INVENTORY.plugins,
        models={"main": "llm"},
        tools={f"tool.number-{n}": "mcp:tool" for n in range(2_000)},
    )
    names = [f"tool.nomber-{n}" for n in range(5_000)]
    spec = AgentSpec(
        name="a",
        runner=RUNNER,
        config={"model": "main", **{f"option-{n}": n for n in range(5_000)}, "tools": names[:1_000]},
        resource_policy=ResourcePolicy(allowed_tool_names=names, tool_approval=dict.fromkeys(names, "never")),
    )
    found = [one.sentence for one in review_agent(spec, inventory)]
    assert found[:2] == [
        "resource_policy.allowed_tool_names: has 5,000 names; at most 1,000 are allowed",
        "resource_policy.tool_approval: has 5,000 names; at most 1,000 are allowed",
    ]
    assert len(found) == 102
    several = ResourcePolicy(allowed_agents=names)
    found = [
        one.sentence
        for one in review_agent(AgentSpec(name="a", runner=RUNNER, resource_policy=several), inventory)
    ]
    assert "resource_policy.allowed_agents: has 5,000 names; at most 1,000 are allowed" in found


def test_agents_that_were_not_looked_up_are_taken_as_they_are() -> None:
    policy = {"allowed_agents": ["anybody", "any.*"]}
    assert told({"resource_policy": policy}, msgspec.structs.replace(INVENTORY, agents=None)) == []


def test_a_model_without_a_price_under_a_budget_of_cost_is_warned_of() -> None:
    unpriced = replace(INVENTORY, unpriced_models=frozenset({"main", "judge"}))
    spec = {
        "resource_policy": {
            "allowed_model_ids": ["spare", "judge", "main"],
            "budget": {"max_cost_per_run": 1},
        }
    }
    assert [line.partition(":")[0] for line in told(spec, unpriced)] == [
        "~ config.model",
        "~ resource_policy.allowed_model_ids[1]",
        "~ resource_policy.allowed_model_ids[2]",
    ]
    assert all("has no price" in line for line in told(spec, unpriced))
    assert told(spec) == []
    free = {"resource_policy": {"budget": {"max_tokens_per_run": 1}}}
    assert told(free, unpriced) == []


def test_what_follows_nobody_is_warned_of() -> None:
    def warned(**policies: Any) -> list[str]:
        return [one for one in told(policies) if "has no effect" in one]

    across = {"actor_across_accounts": True}
    assert warned(state_policy=across) == []
    (by_scope,) = warned(state_policy={**across, "state_scopes": ["conversation"]})
    assert by_scope.startswith("~ state_policy.actor_across_accounts")
    (switched_off,) = warned(state_policy={**across, "enable_state": False})
    assert "enable_state" in switched_off
    (history,) = warned(resource_policy={"allow_cross_account_history": True})
    assert history.startswith("~ resource_policy.allow_cross_account_history")
    asks = manifest("asks", [])
    asks = msgspec.structs.replace(asks, permissions=Permissions(history=["page"]))
    plugins = {"acme/support": PluginFacts({"asks": asks})}
    spec = {"runner": "plugin:acme/support/asks", "resource_policy": {"allow_cross_account_history": True}}
    assert told(spec, replace(INVENTORY, plugins=plugins)) == []


def test_mistakes_in_prompts_are_at_their_places() -> None:
    prompts = [{"name": "a", "text": "{b}"}, {"name": "c d", "text": "x", "arguments": [{"name": "e"}]}]
    assert told({"prompts": prompts}) == [
        "prompts[0].text: {b} is no argument: add one of this name, or take the braces away",
        "prompts[1].name: a name has 1 to 64 letters from a to z, digits, _ and -",
        "prompts[1].arguments[0].name: the text has no {e}: put it in, or remove the argument",
    ]
