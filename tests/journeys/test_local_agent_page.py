"""docs/local-agent.md: its configuration is served, and the agent does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from hostler.domain.agents import ResourcePolicy
from hostler.domain.type_fit import convert
from support.command_line import CommandLine
from support.model_answers import Answer
from support.model_server import ModelServer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "local-agent.md"
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE = "http://127.0.0.1:11434/v1"


def test_the_clerk_of_the_page_books_a_room(hostler: CommandLine) -> None:
    whole, *_ = YAML.findall(PAGE.read_text("utf-8"))
    (hostler.cwd / "examples").symlink_to(ROOT / "examples")
    wish = {"id": "c1", "name": "shop_book", "arguments": '{"kind": "double", "nights": 2}'}
    with ModelServer() as server:
        assert whole.count(SERVICE) == 2
        (hostler.cwd / "clerk.yaml").write_text(whole.replace(SERVICE, server.base_url))
        server.fail(404, "model 'qwen3:8b' not found", model="qwen3:8b")
        server.add(Answer(tool_calls=[wish], finish_reason="tool_calls"), model="llama3.2:3b")
        server.say("Booked: 240 euros for two nights.", model="llama3.2:3b")
        hostler.variables["SHOP_FILE"] = str(hostler.cwd / "shop.sqlite3")
        with hostler.serving("--config", "clerk.yaml"):
            said = hostler("chat", "clerk", stdin="a double for two nights, please\n").out
            runs = hostler("runs", "list").out
            (one,) = hostler("runs", "list", "--limit", "1", "--json").json
        assert said.splitlines()[-1] == "Booked: 240 euros for two nights."
        assert "clerk" in runs
        # the run again, without a model, a tool or a network
        replayed = hostler("replay", one["run_id"])
        assert (replayed.status, "identical" in replayed.out) == (0, True), replayed.out + replayed.err
        refused, first, second = server.requests
        assert refused.json["messages"][0] == {
            "role": "system",
            "content": "You are the clerk of a small hotel. Ask before you book.",
        }
        offered = [tool["function"]["name"] for tool in first.json["tools"]]
        assert sorted(offered) == ["shop_book", "shop_prices"]
        assert json.loads(second.json["messages"][-1]["content"])["total"] == 240


def test_the_knowledge_of_the_page_is_a_configuration() -> None:
    *_, knowledge = YAML.findall(PAGE.read_text("utf-8"))
    form = yaml.safe_load((ROOT / "runners" / "local-agent" / "hostler.yaml").read_text("utf-8"))
    fields = {item["name"] for item in form["runners"][0]["config"]}
    assert yaml.safe_load(knowledge)["config"].keys() <= fields


def test_the_policy_of_the_page_is_one() -> None:
    _, policy, _ = YAML.findall(PAGE.read_text("utf-8"))
    found = convert(yaml.safe_load(policy)["resource_policy"], ResourcePolicy, "resource_policy")
    assert found.tool_approval == {"shop.book": "required"}
