"""Tools from the shell: a plugin of tools is tested, served, looked at, and used by a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.command_line import EXAMPLES, CommandLine
from support.model_server import ModelServer

pytestmark = pytest.mark.timeout(600)  # several processes, one after the other


@pytest.fixture
def shop(hostler: CommandLine) -> Path:
    """A copy of the shop, since it keeps its books beside itself."""
    folder = hostler.cwd / "shop"
    shutil.copytree(EXAMPLES / "shop", folder, ignore=shutil.ignore_patterns("*.sqlite3*"))
    return folder


def test_the_shop_runs_and_passes_checks_of_tools(hostler: CommandLine, shop: Path) -> None:
    said = hostler("run", "./shop", 'shop.prices {"kind": "suite"}')
    assert said.out.strip() == 'shop.prices: {"suite": 300}'
    suite = hostler("test", "./shop", "--only", "tool_calls", "--only", "tool_lookup")
    assert (suite.status, suite.out.splitlines()[-1]) == (0, "2 checks passed")


def test_tools_of_a_running_host_are_listed_and_shown(hostler: CommandLine, shop: Path) -> None:
    agent = {
        "name": "clerk",
        "runner": "plugin:acme/shop/default",
        "resource_policy": {"allowed_tool_names": ["shop.*"]},
    }
    conf = hostler.cwd / "conf.yaml"
    conf.write_text(json.dumps({"plugins": [{"path": str(shop), "level": "trusted"}], "agents": [agent]}))
    with hostler.serving("--config", conf) as server:
        listed = hostler("tools", "list", "--json").json
        assert [one["name"] for one in listed] == [
            *(f"schedule.{name}" for name in ("create", "delete", "list")),
            *(f"shop.{name}" for name in ("book", "choose_seat", "pay", "prices", "refund", "send")),
        ]
        table = hostler("tools", "list").out
        assert "reconcilable" in table
        assert "client" in table
        shown = hostler("tools", "show", "shop.book").out
        assert "idempotent" in shown
        assert "nights" in shown
        assert hostler("tools", "show", "shop.book", "--json").json == listed[3]
        gone = hostler("tools", "show", "shop.sell")
        there_are = "`hostler tools list` lists what exists"
        assert gone.status == 1
        assert gone.error == f"there is no tool 'shop.sell': nothing offers it now; {there_are}"
        booked = hostler("run", "clerk", 'shop.book {"kind": "single"}\nshop.book {"kind": "single"}')
        assert '"booking": "B1"' in booked.out
        assert '"booking": "B2"' in booked.out
        tested = hostler("tools", "test", "shop.prices", "kind=suite")
        assert (tested.status, json.loads(tested.out)) == (0, {"suite": 300})
        wrong = hostler("tools", "test", "shop.prices", "kind=7")
        assert (wrong.status, wrong.out) == (1, "")
        assert hostler("tools", "test", "shop.sell").status == 1
        unread = hostler("tools", "test", "shop.prices", '{"kind": "suite"}')
        assert (unread.status, "is not FIELD=VALUE, like kind=double" in unread.error) == (2, True)
        assert hostler("tools", "reconnect", "none").status == 1
        assert server.stop() == 0
    assert hostler("tools", "list").status == 2
    assert hostler("tools", "test", "shop.prices").status == 2


def test_a_model_is_tested_from_the_shell(hostler: CommandLine) -> None:
    conf = hostler.cwd / "conf.yaml"
    with ModelServer() as models:
        models.say("Lamp.")
        conf.write_text(json.dumps({"models": [{"id": "main", "base_url": models.base_url}]}))
        with hostler.serving("--config", conf):
            said = hostler("models", "test", "main", "a word?")
            assert (said.status, said.out) == (0, "Lamp.\n")
            assert hostler("models", "test", "none", "a word?").status == 1
            assert [run["agent"] for run in hostler("runs", "list", "--json").json] == ["test: main"]
