"""What pipelines, models and servers of LangBot become, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.host.config import ConfigFile
from hostler.host.config_file import parse_config
from hostler.host.langbot.acp import acp_section
from hostler.host.langbot.items import MAX_NOTE_CHARS, Item, Row, Source
from hostler.host.langbot.plan import Plan, plan_import
from hostler.host.langbot.runners import LEGACY, Form, Target, target_of
from hostler.host.langbot.secrets import Secrets
from hostler_protocol.manifest import FormItem
from support.langbot import LATER, later, legacy

BASE = {"prompt": [{"role": "system", "content": "Hi"}]}
MODELS = (
    Row("provider", {"uuid": "p1", "name": "Deep", "requester": "deepseek-chat-completions",
                     "base_url": "https://api.deepseek.example", "api_keys": ["k1"]}),
    Row("model", {"uuid": "m1", "name": "chat", "provider_uuid": "p1", "type": "llm"}),
    Row("model", {"uuid": "m2", "name": "spare", "provider_uuid": "p1", "type": "llm"}),
    Row("model", {"uuid": "m3", "name": "order", "provider_uuid": "p1", "type": "rerank"}),
)  # fmt: skip


def pipeline(config: Any, name: str = "a", uuid: str = "u1", **values: Any) -> Row:
    return Row("pipeline", {"uuid": uuid, "name": name, "config": config, **values})


def planned(*rows: Row, existing: str = "") -> Plan:
    config = parse_config(existing, name="hostler.yaml") if existing else ConfigFile()
    return plan_import(Source("x", rows), config, Secrets())


def agent_of(*rows: Row, existing: str = "") -> tuple[dict[str, Any], Item]:
    plan = planned(*rows, existing=existing)
    (item,) = [one for one in plan.items if one.kind in ("pipeline", "agent")]
    (spec,) = plan.added()["agents"]
    return spec, item


# -- runners --------------------------------------------------------------------------------------


@pytest.mark.parametrize("runner", LEGACY)
def test_both_generations_name_the_same_runner(runner: str) -> None:
    target = target_of(runner)
    assert target is not None
    assert target.runner == f"plugin:hostler/{LEGACY[runner]}/default"
    by_plugin = target_of(LATER.get(runner, f"plugin:langbot-team/{LEGACY[runner]}-agent/default"))
    assert by_plugin == target


@pytest.mark.parametrize(
    ("runner", "name", "provider"),
    [
        ("plugin:langbot-team/ACPRunner/default", "acp", None),
        ("plugin:langbot/acp-agent-runner/default", "acp", None),
        ("plugin:langbot-team/ClaudeCodeAgent/default", "acp", "claude-code"),
        ("plugin:langbot/codex-agent/default", "acp", "codex"),
        ("plugin:langbot/litellm-agent-platform-agent/default", "acp", None),
        ("plugin:langbot-team/DeerFlowAgent/default", "deerflow", None),
        ("plugin:langbot-team/WeKnoraAgent/default", "weknora", None),
        ("plugin:langbot-team/DifyAgent/other", "", None),
        ("plugin:somebody/DifyAgent/default", "", None),
    ],
)
def test_plugins_of_langbots_makers_are_known_and_others_stay_themselves(
    runner: str, name: str, provider: str | None
) -> None:
    target = target_of(runner)
    assert target is not None
    assert (target.name, target.provider) == (name, provider)
    assert name or target.runner == runner


@pytest.mark.parametrize(
    "runner", ["", "dify", "plugin:a/b", "plugin:a/b/c/d", "plugin:a /b/c", "Local-Agent"]
)
def test_what_is_no_runner(runner: str) -> None:
    assert target_of(runner) is None


# -- local-agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("m1", {"primary": "chat", "fallbacks": []}),
        ({"primary": "m1", "fallbacks": ["m2"]}, {"primary": "chat", "fallbacks": ["spare"]}),
        ({"primary": "m1", "fallbacks": ["__none__"], "reasoning": {}}, {"primary": "chat", "fallbacks": []}),
    ],
)
def test_a_model_becomes_a_model_with_fallbacks(model: Any, wanted: Any) -> None:
    spec, item = agent_of(*MODELS, pipeline(legacy("local-agent", BASE | {"model": model})))
    assert spec["config"] == {"prompt": BASE["prompt"], "model": wanted}
    assert (item.outcome, item.enabled, spec["event_types"]) == ("imported", True, [])
    assert spec["metadata"] == {"langbot": {"pipeline": "u1"}}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"knowledge-base": "kb1"}, ["Handbook"]),
        ({"knowledge-bases": ["kb1", "other"]}, ["Handbook", "other"]),
        ({"knowledge-base": "kb1", "knowledge-bases": []}, ["Handbook"]),
        ({"knowledge-base": "kb2"}, ["kb2"]),
        ({"knowledge-base": "?!"}, ["langbot"]),
        ({"knowledge-base": ""}, None),
        ({"knowledge-base": "__none__"}, None),
        ({"knowledge-bases": []}, None),
    ],
)
def test_a_knowledge_base_becomes_a_list_and_waits_for_it(given: Any, wanted: Any) -> None:
    kb = Row("knowledge base", {"uuid": "kb1", "name": "Handbook"})
    other = Row("knowledge base", {"uuid": "kb2", "name": "\u624b\u518c, 2nd"})  # no id here: its own is
    spec, item = agent_of(*MODELS, kb, other, pipeline(legacy("local-agent", BASE | {"model": "m1"} | given)))
    assert spec["config"].get("knowledge-bases") == wanted
    assert item.enabled is (wanted is None)
    assert spec.get("enabled", True) is (wanted is None)


def test_settings_of_the_later_local_agent() -> None:
    section = BASE | {
        "model": {"primary": "m1", "fallbacks": [], "reasoning": {"m1": "high"}},
        "rerank-model": "m3",
        "rerank-top-k": 3.0,
        "max-tool-iterations": "20",
        "tool-execution-mode": "serial",
        "date-grounding": True,
        "advanced-settings": True,
        "enable-all-tools": False,
        "tools": ["acme/search"],
    }
    spec, item = agent_of(*MODELS, pipeline(later("local-agent", section)))
    assert spec["config"] == {
        "prompt": BASE["prompt"],
        "model": {"primary": "chat", "fallbacks": []},
        "rerank-model": "order",
        "rerank-top-k": 3,
        "max-tool-iterations": 20,
        "tool-execution-mode": "serial",
    }
    assert "resource_policy" not in spec
    said = "; ".join(item.notes)
    assert "model: reasoning is left out" in said
    assert "no such setting: date-grounding" in said
    assert "LangBot allowed single ones (acme/search)" in said


def test_a_model_that_the_configuration_has_already_is_used() -> None:
    spec, item = agent_of(
        pipeline(legacy("local-agent", BASE | {"model": "main"})),
        existing="models: [{id: main, provider: demo}]",
    )
    assert (spec["config"]["model"]["primary"], item.enabled) == ("main", True)


def test_tools_of_servers_are_granted_as_langbot_bound_them() -> None:
    def server(uuid: str) -> Row:
        url = {"url": "https://mcp.example/mcp"}
        return Row("mcp server", {"uuid": uuid, "name": uuid, "mode": "http", "enable": 1, "extra_args": url})

    config = legacy("local-agent", BASE | {"model": "m1"})
    spec, _ = agent_of(*MODELS, server("s1"), server("s2"), pipeline(config))
    assert spec["resource_policy"] == {"allowed_tool_names": ["s1.*", "s2.*"]}
    some = {"enable_all_mcp_servers": False, "mcp_servers": ["s2", "gone"]}
    spec, _ = agent_of(*MODELS, server("s1"), server("s2"), pipeline(config, extensions_preferences=some))
    assert spec["resource_policy"] == {"allowed_tool_names": ["s2.*"]}
    none = {"enable_all_mcp_servers": False, "mcp_servers": []}
    spec, _ = agent_of(*MODELS, server("s1"), pipeline(config, extensions_preferences=none))
    assert "resource_policy" not in spec
    spec, _ = agent_of(server("s1"), pipeline(legacy("dify-service-api", {"api-key": "k"})))
    assert "resource_policy" not in spec


@pytest.mark.parametrize(
    ("own", "is_granted"),
    [
        ("{name: my-s1, url: 'https://mcp.example/mcp', seconds: 5}", True),
        ("{name: my-s1, url: 'https://payroll.example/mcp'}", False),
    ],
)
def test_another_server_of_the_same_name_is_granted_to_nobody(own: str, is_granted: bool) -> None:
    url = {"url": "https://mcp.example/mcp"}
    server = Row("mcp server", {"uuid": "s1", "name": "my s1", "mode": "http", "extra_args": url})
    config = legacy("local-agent", BASE | {"model": "m1"})
    plan = planned(*MODELS, server, pipeline(config), existing=f"tools: [{{mcp: {own}}}]")
    (spec,) = plan.added()["agents"]
    assert ("resource_policy" in spec) is is_granted
    (item,) = [item for item in plan.items if item.kind == "mcp server"]
    assert item.outcome == "kept"
    assert ("no agent is allowed the tools of that other one" in item.notes) is not is_granted


# -- services -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runner", "section", "wanted"),
    [
        ("coze-api", {"api-key": "k", "bot-id": "b", "auto_save_history": False},
         {"auto-save-history": False}),
        ("langflow-api", {"api-key": "k", "flow-id": "f", "input_type": "text", "tweaks": '{"a": 1}'},
         {"input-type": "text", "tweaks": {"a": 1}}),
        ("dashscope-app-api", {"api-key": "k", "app-id": "a", "references-quote": "see:"},
         {"references_quote": "see:"}),
        ("dify-service-api", {"api-key": "k", "app-type": "chatflow"}, {"app-type": "chat"}),
        ("dify-service-api", {"api-key": "k", "langbot-assets-enabled": True}, {"assets-enabled": True}),
        ("n8n-service-api",
         {"webhook-url": "https://n8n.example/w", "auth-type": "basic", "basic-username": "u"},
         {"auth-type": "basic", "basic-username": "u"}),
    ],
)  # fmt: skip
def test_other_names_and_forms_that_langbot_has_used(
    runner: str, section: dict[str, Any], wanted: dict[str, Any]
) -> None:
    for config in (legacy(runner, section), later(runner, section)):
        spec, _ = agent_of(pipeline(config))
        assert wanted.items() <= spec["config"].items()


def test_wrong_values_are_left_out_and_the_default_is_told() -> None:
    section = {"api-key": "k", "timeout": "soon", "app-type": "novel", "base-prompt": ["x"], "app_typ": 1}
    spec, item = agent_of(pipeline(legacy("dify-service-api", section)))
    assert spec["config"] == {"api-key": "env:LANGBOT_A_API_KEY"}
    said = "; ".join(item.notes)
    assert "timeout: left out, expected an integer, not 'soon'; the default holds: 30" in said
    assert "app-type: left out, 'novel' is no option" in said
    assert "base-prompt: left out, expected a text" in said
    assert "no such setting: app_typ" in said
    assert item.enabled


def test_an_endpoint_of_ones_own_gets_an_entry_with_all_endpoints_of_that_runner() -> None:
    def dify(uuid: str, url: str | None) -> Row:
        return pipeline(legacy("dify-service-api", {"api-key": "k", "base-url": url}), uuid, uuid)

    assert "plugins" not in planned(dify("u1", None), dify("u2", "https://api.dify.ai/v1")).added()
    rows = (dify("u1", None), dify("u2", "http://[::1]:8080/v1"), dify("u3", "https://Dify.Corp.example/v1"))
    plan = planned(*rows)
    assert plan.added()["plugins"] == [
        {"path": "hostler/dify", "network": ["[::1]:8080", "api.dify.ai:443", "dify.corp.example:443"]}
    ]
    said = {item.name: item.notes for item in plan.items}
    assert said["u2"] == ["hostler/dify may reach [::1]:8080, by its entry in `plugins`"]
    own = 'plugins: [{path: hostler/dify, network: ["dify.corp.example:443"]}]'
    plan = planned(*rows, existing=own)
    assert "plugins" not in plan.added()
    last = {item.name: item.notes[-1] for item in plan.items}
    assert (
        last["u1"] == "add api.dify.ai:443 to `network` in the entry for hostler/dify, which stays as it is"
    )
    assert last["u2"] == "add [::1]:8080 to `network` in the entry for hostler/dify, which stays as it is"
    assert last["u3"] == "hostler/dify may reach dify.corp.example:443, by its entry in `plugins`"


@pytest.mark.parametrize("url", ["nonsense", "ftp://x.example", "http://", "https://x:99999", "http://[::1"])
def test_an_address_that_is_none_switches_the_agent_off(url: str) -> None:
    spec, item = agent_of(pipeline(legacy("coze-api", {"api-key": "k", "bot-id": "b", "api-base": url})))
    assert (spec["enabled"], item.enabled) == (False, False)
    assert "is no address like https://example.com" in item.notes[-1]


# -- rules of the pipeline ------------------------------------------------------------------------


def test_rules_of_the_chat_are_mapped_or_named() -> None:
    stages: dict[str, Any] = {
        "trigger": {
            "message-aggregation": {"enabled": True, "delay": 2.5},
            "access-control": {"mode": "whitelist", "whitelist": ["g1"], "blacklist": []},
            "misc": {"combine-quote-message": True},
        },
        "safety": {"rate-limit": {"window-length": 60, "limitation": 5, "strategy": "drop"}},
        "output": {"misc": {"remove-think": True, "at-sender": True}, "force-delay": {"min": 0, "max": 0}},
    }
    spec, item = agent_of(pipeline(legacy("dify-service-api", {"api-key": "k"}, **stages)))
    assert spec["concurrency"] == {"debounce": 2.5}
    assert spec["config"]["remove-think"] is True
    assert item.notes == [
        "rules of the chat that have no counterpart in an agent: trigger.access-control.mode, "
        "trigger.access-control.whitelist, safety.rate-limit.limitation"
    ]


def test_a_fresh_pipeline_has_no_runner_and_conversations_do_not_expire() -> None:
    fresh = {"ai": {"runner": {"id": "", "expire-time": 0}, "runner_config": {}}}
    (item,) = planned(pipeline(fresh)).items
    assert (item.outcome, item.notes[0][:19]) == ("skipped", "it names no runner:")
    config = later("dify-service-api", {"api-key": "k"})
    config["ai"]["runner"]["expire-time"] = 3600
    _, item = agent_of(pipeline(config))
    assert item.notes == ["ai.runner.expire-time: left out; conversations do not expire by themselves"]


# -- names ----------------------------------------------------------------------------------------


def test_names_are_unique_and_plain() -> None:
    config = legacy("dify-service-api", {"api-key": "k"})
    names = ["Help", "Help", "\x1b[31mred\u202e", "客服", " ", "..", "x" * 400]
    rows = [pipeline(config, name, f"uuid-{number}") for number, name in enumerate(names)]
    plan = planned(*rows)
    found = [spec["name"] for spec in plan.added()["agents"]]
    assert found == [
        "Help",
        "Help (uuid-1)",
        "[31mred",
        "客服",
        "uuid-4",
        "langbot uuid-5",
        "x" * 215,
    ]
    assert [one.name for one in plan.secrets][3] == "LANGBOT_UUID_3_API_KEY"
    assert [spec["config"]["api-key"] for spec in plan.added()["agents"]].count(
        "env:LANGBOT_HELP_API_KEY"
    ) == 1


# -- models and servers ---------------------------------------------------------------------------


def test_models_of_both_generations() -> None:
    old = {"requester": "openai-chat-completions", "api_keys": ["k"], "extra_args": {"temperature": 0.5},
           "requester_config": {"base-url": "https://api.example/v1", "timeout": 90}}  # fmt: skip
    new = {"api_keys": ["k"], "base_url": "https://api.anthropic.com"}
    rows = (
        Row("model", {"uuid": "1", "name": "gpt", "type": "llm", **old}),
        Row("model", {"uuid": "2", "name": "gpt", "type": "embedding", **old}),
        Row("provider", {"uuid": "p", "name": "Local", "requester": "ollama-chat",
                         "base_url": "http://127.0.0.1:11434", "api_keys": []}),
        Row("model", {"uuid": "3", "name": "llama", "provider_uuid": "p"}),
        Row("provider", {"uuid": "q", "name": "Claude", "requester": "anthropic-messages", **new}),
        Row("model", {"uuid": "4", "name": "sonnet", "provider_uuid": "q"}),
        Row("model", {"uuid": "5", "name": "x", "requester": "strange",
                      "requester_config": {"base_url": "https://x.example"}}),
        Row("model", {"uuid": "6", "name": "y", "requester": "strange", "requester_config": {}}),
        Row("model", {"uuid": "7", "name": "z", "provider_uuid": ["p"]}),
        Row("provider", {"uuid": "r", "name": "Unused", "requester": "a-chat-completions"}),
    )  # fmt: skip
    plan = planned(*rows)
    assert plan.added()["models"] == [
        {"id": "gpt", "provider": "openai", "model": "gpt", "base_url": "https://api.example/v1",
         "api_key": "env:LANGBOT_OPENAI_CHAT_COMPLETIONS_API_KEY",
         "extra_args": {"temperature": 0.5}, "timeout": 90.0},
        {"id": "gpt@openai-chat-completions", "provider": "openai", "model": "gpt",
         "base_url": "https://api.example/v1", "type": "embedding",
         "api_key": "env:LANGBOT_OPENAI_CHAT_COMPLETIONS_API_KEY",
         "extra_args": {"temperature": 0.5}, "timeout": 90.0},
        {"id": "llama", "provider": "openai", "model": "llama", "base_url": "http://127.0.0.1:11434/v1"},
        {"id": "sonnet", "provider": "litellm", "model": "anthropic/sonnet", "base_url": "https://api.anthropic.com",
         "api_key": "env:LANGBOT_CLAUDE_API_KEY"},
        {"id": "x", "provider": "openai", "model": "x", "base_url": "https://x.example"},
    ]  # fmt: skip
    outcomes = {item.name: item.outcome for item in plan.items}
    assert outcomes.pop("gpt") == "changed"
    assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == {"y", "z", "Unused"}
    assert {name for name, outcome in outcomes.items() if outcome == "changed"} == {"sonnet", "x"}
    assert {name for name, outcome in outcomes.items() if outcome == "imported"} == {
        "llama",
        "Local",
        "Claude",
    }


def test_models_of_the_latest_generation() -> None:
    codex = {"requester": "openai-codex", "base_url": "https://chatgpt.example/codex", "api_keys": []}
    rows = (
        MODELS[0],
        Row("model", {"uuid": "1", "name": "a", "provider_uuid": "p1", "context_length": 128_000,
                      "reasoning_config": {"level": "high"}}),
        Row("model", {"uuid": "2", "name": "b", "provider_uuid": "p1", "context_length": None,
                      "reasoning_config": {"level": "provider_default"}}),
        Row("provider", {"uuid": "p2", "name": "Codex", **codex}),
        Row("model", {"uuid": "3", "name": "c", "provider_uuid": "p2"}),
    )  # fmt: skip
    plan = planned(*rows)
    assert [model.get("context_window") for model in plan.added()["models"]] == [128_000, None]
    said = {item.name: (item.outcome, item.notes) for item in plan.items}
    assert said["a"][0] == "changed"
    assert "`extra_args: {reasoning_effort: high}` asks for it" in said["a"][1][0]
    assert said["b"] == ("imported", [])
    assert said["c"] == ("skipped", ["signs in to ChatGPT by OAuth, which is not imported"])
    assert said["Codex"] == ("skipped", ["none of its models is imported"])


def test_servers() -> None:
    def server(uuid: str, mode: Any, settings: Any, **more: Any) -> Row:
        values = {"uuid": uuid, "name": f"My {uuid}", "mode": mode, "enable": 1, "extra_args": settings}
        return Row("mcp server", values | more)

    rows = (
        server(
            "a", "stdio", {"command": "uvx", "args": ["x"], "env": {"N": 1, "S_TOKEN": "t", "MAX_TOKENS": 9}}
        ),
        server("b", "http", {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "k"}, "timeout": 20}),
        server("c", "stdio", {"command": "uvx", "env": {"HOSTLER_X": "1"}}),
        server("d", "stdio", {}),
        server("e", "http", {"url": "nonsense"}),
        server("f", 7, {}),
        server("g", "stdio", "text"),
        server("h", "http", {"url": "https://x.example"}, enable=0),
        server("i", "stdio", {"command": "uvx", "args": "x y"}),
        server("a", "stdio", {"command": "uvx"}, name="My a"),
    )
    plan = planned(*rows)
    assert plan.added()["tools"] == [
        {"mcp": {"name": "my-a", "command": ["uvx", "x"],
                 "environment": {"N": "1", "S_TOKEN": "env:LANGBOT_MY_A_S_TOKEN",
                                 "MAX_TOKENS": "env:LANGBOT_MY_A_MAX_TOKENS"}}},
        {"mcp": {"name": "my-b", "url": "http://127.0.0.1:9/mcp", "network": ["127.0.0.1:9"],
                 "headers": {"X-Key": "env:LANGBOT_MY_B_X_KEY"}, "connect_seconds": 20.0}},
        {"mcp": {"name": "my-a-2", "command": ["uvx"]}},
    ]  # fmt: skip
    assert [item.outcome for item in plan.items] == ["changed", "changed", *["skipped"] * 7, "changed"]
    assert all(item.notes for item in plan.items)


def test_secrets_of_a_way_to_sign_in_that_is_not_used_are_not_asked_for() -> None:
    section = {
        "webhook-url": "https://n8n.example/w",
        "auth-type": "jwt",
        "basic-password": "old",
        "jwt-secret": "s",
        "header-value": "older",
    }
    plan = planned(pipeline(legacy("n8n-service-api", section)))
    (spec,) = plan.added()["agents"]
    assert spec["config"].keys() == {"webhook-url", "auth-type", "jwt-secret"}
    assert [one.value for one in plan.secrets] == ["s"]
    assert "basic-password: left out, since it is not used with the other settings" in plan.items[0].notes


def test_coding_agents() -> None:
    section = {"provider": "qwen-code", "location": "remote-ssh", "env-json": '{"A": "1", "B_TOKEN": "x"}',
               "timeout": 300}  # fmt: skip
    spec, item = agent_of(pipeline(later("plugin:langbot-team/ACPRunner/default", section)))
    assert spec["runner"] == "plugin:hostler/acp/default"
    assert spec["config"]["env"] == {"A": "1"}
    assert (spec["enabled"], spec["config"]["timeout"]) == (False, 300)
    said = "; ".join(item.notes)
    assert "ran on another machine (remote-ssh)" in said
    assert "env.B_TOKEN" in said
    spec, item = agent_of(pipeline(later("plugin:langbot/codex-agent/default", {"workspace": "/srv/w"})))
    assert spec["config"] == {"workspace": "/srv/w", "provider": "codex"}
    lap = {
        "harness": "claude-code",
        "base-url": "https://lap.example",
        "api-key": "k",
        "session-ready-timeout": 60,
    }
    spec, item = agent_of(pipeline(later("plugin:langbot/litellm-agent-platform-agent/default", lap)))
    assert spec["config"] == {"provider": "claude-code", "startup-timeout": 60}
    assert "which its makers ended in June 2026" in item.notes[0]
    assert "left out: base-url, api-key" in item.notes[0]


def test_bounds_are_reached_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.host.langbot.plan.MAX_TOOL_ENTRIES", 2)
    monkeypatch.setattr("hostler.host.langbot.items.MAX_NOTES", 3)
    url = {"url": "https://mcp.example/mcp"}
    servers = [
        Row("mcp server", {"uuid": f"s{n}", "name": f"s{n}", "mode": "http", "extra_args": url})
        for n in range(4)
    ]
    plan = planned(*servers, existing="tools: [{mcp: {name: own, command: [x]}}]")
    assert [item.outcome for item in plan.items] == ["imported", "skipped", "skipped", "skipped"]
    assert plan.items[1].notes == ["a configuration has at most 2 entries of tools"]
    long = {
        "api-key": "k",
        **{f"f{n}": "x" * 200 for n in range(50)},
        "timeout": "x",
        "app-type": "y",
        "inputs": 7,
    }
    _, item = agent_of(pipeline(legacy("dify-service-api", long | {"base-prompt": [], "remove-think": "z"})))
    assert len(item.notes) == 3
    assert all(len(note) <= MAX_NOTE_CHARS for note in item.notes)


def test_a_coding_agent_that_the_runner_does_not_start_by_itself_needs_its_command() -> None:
    options = FormItem(name="provider", type="select", options=["claude-code", "custom"])
    target = Target(
        "hostler/acp", "plugin:hostler/acp/default", Form([options], frozenset(), any_network=True)
    )
    item = Item("pipeline", "a")
    assert acp_section({"provider": "claude-code"}, target, item) == {"provider": "claude-code"}
    given = {"provider": "qwen-code", "acp-command": "qwen --acp"}
    assert acp_section(given, target, item) == {"provider": "custom", "acp-command": "qwen --acp"}
    was_enabled = item.enabled
    assert acp_section({"provider": "qwen-code"}, target, item) == {"provider": "custom"}
    assert (was_enabled, item.enabled) == (True, False)
    assert "provider: 'qwen-code' is `custom` here: set `command`" in item.notes[-1]
