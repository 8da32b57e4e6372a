"""Whatever LangBot has stored: every item is listed, and what is written is read and imported again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.host.config import ConfigFile
from hostler.host.config_file import read_config
from hostler.host.config_merge import with_entries
from hostler.host.langbot.items import Kind, Row, Source
from hostler.host.langbot.plan import Plan, plan_import
from hostler.host.langbot.runners import LEGACY
from hostler.host.langbot.secrets import Secrets
from support.langbot import later, legacy

pytestmark = pytest.mark.gate("langbot-import")

MARK = "hunter2hunter2"
"""What stands in the place of every secret."""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(
        ["__none__", "env:HOME", "m1", "true", "12", "{}", "http://[", "https://a.example", "chat"]
    )
)
FIELDS = st.sampled_from(
    ["ai", "runner", "id", "runner_config", "local-agent", "model", "primary", "fallbacks", "prompt", "tools",
     "knowledge-base", "knowledge-bases", "base-url", "timeout", "app-type", "tweaks", "webhook-url",
     "api-base", "auth-type", "env-json", "location", "harness", "trigger", "output", "misc", "remove-think",
     "command", "args", "env", "url", "headers", "base_url", "enabled", "delay", "message-aggregation",
     "mcp_servers"]
)  # fmt: skip
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS | TEXT, inner, max_size=5),
    max_leaves=15,
)
SECTION = st.dictionaries(FIELDS | TEXT, JSON, max_size=6).map(lambda given: {**given, "api-key": MARK})
RUNNERS = st.sampled_from(
    [*LEGACY, "plugin:langbot-team/ACPRunner/default", "plugin:a/b/c", "plugin:langbot/codex-agent/default",
     "plugin:langbot/litellm-agent-platform-agent/default"]
)  # fmt: skip
CONFIGS = (
    st.builds(legacy, RUNNERS, SECTION)
    | st.builds(later, RUNNERS, SECTION, trigger=JSON, output=JSON)
    | st.builds(lambda runner, section: {"ai": {"runner": runner, **section}}, JSON, SECTION)
    | JSON
)
NAMES = TEXT | st.sampled_from(["a", "a", "..", "\x1b[2J", "x" * 300]) | PLAIN
IDS = st.sampled_from(["m1", "p1", "s1", "k1", "", "u"]) | PLAIN
TYPES = st.sampled_from(["llm", "rerank", "embedding"])
AI = CONFIGS.map(lambda config: config.get("ai") if isinstance(config, dict) else config)


def row(kind: Kind, **values: Any) -> st.SearchStrategy[tuple[Kind, dict[str, Any]]]:
    fields = st.fixed_dictionaries({"name": NAMES, "uuid": IDS, **values})
    return st.tuples(st.just(kind), fields)


@st.composite
def server_settings(draw: st.DrawFn) -> Any:
    pairs = draw(st.dictionaries(TEXT, JSON, max_size=3))
    target = draw(st.sampled_from(["npx", "https://s.example/mcp"]) | JSON)
    return {
        "command": target,
        "args": draw(st.lists(TEXT) | JSON),
        "url": target,
        "env": {**pairs, "KEY": MARK},
        "headers": {**pairs, "Authorization": MARK},
    }


ROWS = st.one_of(
    row("pipeline", config=CONFIGS, extensions_preferences=JSON),
    row("agent", config=AI, enabled=PLAIN),
    row("model", provider_uuid=IDS, type=TYPES, extra_args=JSON),
    row("model", requester=PLAIN, requester_config=JSON, api_keys=JSON, extra_args=JSON),
    row(
        "provider",
        requester=st.just("x-chat-completions") | PLAIN,
        base_url=st.just("https://m.example/v1") | PLAIN,
        api_keys=st.just([MARK]) | JSON,
    ),
    row(
        "mcp server",
        mode=st.sampled_from(["stdio", "http", "sse"]) | PLAIN,
        enable=PLAIN,
        extra_args=JSON | server_settings(),
    ),
    row("plugin", plugin_author=NAMES, plugin_name=NAMES),
    row("knowledge base"),
    row("bot", adapter=JSON, use_pipeline_name=NAMES),
    row("skill", folder=JSON),
    row("webhook"),
    row("api key"),
    row("table"),
)


def planned(rows: list[Row], existing: ConfigFile) -> Plan:
    return plan_import(Source("x", rows, "/srv/plugins"), existing, Secrets())


@settings(max_examples=300)
@given(found=st.lists(ROWS, max_size=6), damage=st.sampled_from(["", "", "", "config is no JSON"]))
def test_anything_that_langbot_may_have_stored(found: list[tuple[Kind, dict[str, Any]]], damage: str) -> None:
    rows = [Row(kind, values, damage if number == 0 else "") for number, (kind, values) in enumerate(found)]
    plan = planned(rows, ConfigFile())
    assert sorted(item.kind for item in plan.items) == sorted(row.kind for row in rows)
    assert all(item.notes for item in plan.items if item.outcome != "imported" or not item.enabled)
    assert {item.entry for item in plan.items if item.entry} == {
        f"{entry.section} {entry.name}" for entry in plan.entries if entry.section != "plugins"
    }

    text = with_entries("", plan.added(), name="hostler.yaml")
    config, source = read_config(text, name="hostler.yaml")
    assert source.mistakes == ()
    assert MARK not in text
    assert MARK not in str([(item.name, item.notes, item.entry) for item in plan.items])
    off = {agent.name for agent in config.agents if not agent.enabled}
    assert off == {
        item.entry.removeprefix("agents ") for item in plan.items if item.entry and not item.enabled
    }

    again = planned(rows, config)
    assert again.added() == {}
    assert {item.outcome for item in again.items if item.entry} <= {"unchanged"}
