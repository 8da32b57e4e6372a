"""`hostler import langbot` as a whole: imported, applied, and run against the services."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config_file import load_config
from support.command_line import HOSTLER, CommandLine, environment
from support.http_host import serving
from support.langbot import LangBot, later, legacy
from support.model_server import ModelServer
from support.services import coze, dashscope, deerflow, dify, langflow, n8n, tbox, weknora
from support.shell import run_line, shell_functions
from support.terminal import Terminal

pytestmark = pytest.mark.gate("langbot-import")

BOUND_SECONDS = 200.0
MODEL_KEY = "sk-model-key-0001"
SECRETS = [
    MODEL_KEY,
    dify.KEY,
    n8n.PASSWORD,
    coze.KEY,
    dashscope.KEY,
    langflow.KEY,
    tbox.KEY,
    deerflow.KEY,
    weknora.KEY,
]


def sections(fakes: dict[str, Any], model: str) -> dict[str, dict[str, Any]]:
    """The settings of all seven built-in runners and of two later ones, as LangBot stores them.

    LangBot's DashScope and Tbox have no address; here they need one to reach the fakes.
    """
    return {
        "local-agent": {
            "model": model,
            "max-round": 10,
            "prompt": [{"role": "system", "content": "You are kind."}],
            "knowledge-base": "",
        },
        "dify-service-api": {
            "base-url": fakes["dify"].address,
            "base-prompt": "Look.",
            "app-type": "chat",
            "api-key": dify.KEY,
            "timeout": 30,
        },
        "n8n-service-api": {
            "webhook-url": fakes["n8n"].address,
            "auth-type": "header",
            "basic-username": "",
            "basic-password": "",
            "jwt-secret": "",
            "jwt-algorithm": "HS256",
            "header-name": "X-Key",
            "header-value": n8n.PASSWORD,
            "timeout": 120,
            "output-key": "response",
        },
        "coze-api": {
            "api-key": coze.KEY,
            "bot-id": coze.BOT,
            "api-base": fakes["coze"].address,
            "auto-save-history": True,
            "timeout": 120,
        },
        "dashscope-app-api": {
            "app-type": "agent",
            "api-key": dashscope.KEY,
            "app-id": dashscope.APP,
            "references_quote": "参考资料来自:",
            "base-url": fakes["dashscope"].address,
        },
        "langflow-api": {
            "base-url": fakes["langflow"].address,
            "api-key": langflow.KEY,
            "flow-id": langflow.FLOW,
            "input-type": "chat",
            "output-type": "chat",
            "tweaks": "{}",
        },
        "tbox-app-api": {"api-key": tbox.KEY, "app-id": tbox.APP, "base-url": fakes["tbox"].address},
        "deerflow-api": {"api-base": fakes["deerflow"].address, "api-key": deerflow.KEY, "plan-mode": False},
        "weknora-api": {
            "base-url": fakes["weknora"].address,
            "api-key": weknora.KEY,
            "app-type": "agent",
            "knowledge-base-ids": [],
            "web-search-enabled": False,
        },
    }


async def test_all_runners_of_both_generations_are_imported_and_answer(
    hostler: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(BOUND_SECONDS))
        fakes: dict[str, Any] = {
            "dify": dify.FakeDify(),
            "n8n": n8n.FakeN8n(),
            "coze": coze.FakeCoze(),
            "dashscope": dashscope.FakeDashScope(),
            "langflow": langflow.FakeLangflow(),
            "tbox": tbox.FakeTbox(),
            "deerflow": deerflow.FakeDeerFlow(),
            "weknora": weknora.FakeWeKnora(),
        }
        for fake in fakes.values():
            await stack.enter_async_context(fake)
        models = await stack.enter_async_context(ModelServer(api_key=MODEL_KEY))
        models.always("ok")
        bot = LangBot(tmp_path / "data" / "langbot")
        stack.callback(bot.close)
        model = bot.model("small", bot.provider("Mine", models.base_url, [MODEL_KEY]))
        for runner, section in sections(fakes, model).items():
            bot.pipeline(f"{runner} of old", legacy(runner, section))
            renewed = {"primary": model, "fallbacks": []} if runner == "local-agent" else None
            bot.pipeline(
                f"{runner} of late", later(runner, section | ({"model": renewed} if renewed else {}))
            )
        variables = tmp_path / "langbot.env"
        ran = await asyncio.to_thread(
            hostler, "import", "langbot", bot.data, "--json", "--env-file", variables
        )
        assert ran.status == 0, ran.err + ran.out
        assert {item["outcome"] for item in ran.json["items"]} <= {"imported", "changed"}

        written = (hostler.cwd / "hostler.yaml").read_text()
        assert [secret for secret in SECRETS if secret in written + ran.out + ran.err] == []
        for line in variables.read_text().splitlines():
            name, _, value = line.partition("=")
            monkeypatch.setenv(name, value.strip("'"))
        assert variables.stat().st_mode & 0o777 == 0o600

        served = await stack.enter_async_context(serving(tmp_path / "host", agent=False))
        applied = await served.host.apply(load_config(hostler.cwd / "hostler.yaml"), actor="test")
        assert [problem.sentence for problem in applied.problems] == []
        agents = [
            item["entry"].removeprefix("agents ") for item in ran.json["items"] if item["kind"] == "pipeline"
        ]
        assert len(agents) == 2 * 9
        for agent in agents:
            run = await served.say("Hello", agent=agent, conversation_id=agent, wait=100)
            assert (run["status"], run["output"]["text"]) == ("completed", "ok"), (agent, run)
        assert all(len(fake.messages) == 2 for fake in fakes.values())
        system = models.requests[0].json["messages"][0]
        assert system == {"role": "system", "content": "You are kind."}


# -- every item, and what became of it ------------------------------------------------------------


def mixed(folder: Path) -> LangBot:
    """An installation in which something is wrong with nearly everything."""
    bot = LangBot(folder / "langbot" / "data")
    provider = bot.provider("Deep", "https://api.deepseek.example", ["sk-deep-0001", "sk-deep-0002"])
    model = bot.model("deep-chat", provider, {"temperature": 0.2, "api_key": "sk-hidden-0001"})
    bot.model("lost", "no such provider")
    kb = bot.knowledge_base("Handbook")
    local = {"model": model, "prompt": [{"role": "system", "content": "Hi"}]}
    bot.pipeline("good", legacy("local-agent", local))
    bot.pipeline("with knowledge", legacy("local-agent", local | {"knowledge-base": kb}))
    bot.pipeline("without model", legacy("local-agent", local | {"model": "gone"}))
    bot.pipeline("unknown runner", legacy("who-knows", {}))
    bot.pipeline("truncated", '{"ai": {"runner": ')
    bot.pipeline("no text", b'{"ai": "\xff\xfe"}')
    bot.pipeline("no mapping", [1, 2])
    bot.pipeline("no runner", {"ai": {}})
    bot.pipeline("settings wrong", legacy("coze-api", "nonsense"))
    bot.pipeline("wrong types", legacy("dify-service-api", {"api-key": "app-00001", "timeout": "soon"}))
    bot.pipeline("no key", later("tbox-app-api", {"app-id": "a"}))
    bot.pipeline("own plugin", later("plugin:acme/robot/default", {"api_key": "robot-secret-1", "size": 3}))
    platform = "plugin:langbot/litellm-agent-platform-agent/default"
    settings = {"base-url": "https://lap.example", "api-key": "sk-lap-000001", "harness": "codex"}
    bot.pipeline("platform", later(platform, settings))
    bot.agent("later agent", later("dify-service-api", {"api-key": "app-00002"})["ai"])
    bot.agent("resting", later("dify-service-api", {"api-key": "app-00003"})["ai"], enabled=False)
    bot.server(
        "maps", "stdio", {"command": "npx", "args": ["-y", "maps"], "env": {"MAPS_KEY": "maps-secret"}}
    )
    bot.server("old wire", "sse", {"url": "https://sse.example/sse"})
    bot.plugin("acme", "robot")
    bot.bot("tg", "good")
    bot.db.execute("INSERT INTO webhooks (name, url) VALUES ('notify', 'https://hook.example/hook-secret')")
    bot.db.execute("INSERT INTO api_keys (name, key) VALUES ('ci', 'lbk-secret')")
    (bot.data / "skills" / "brewing").mkdir(parents=True)
    (bot.data / "skills" / "brewing" / "SKILL.md").write_text("---\nname: brewing\ndescription: Tea\n---\n")
    bot.close()
    return bot


EXPECTED = {
    "good": ("imported", True),
    "with knowledge": ("changed", False),
    "without model": ("changed", False),
    "unknown runner": ("skipped", True),
    "truncated": ("skipped", True),
    "no text": ("skipped", True),
    "no mapping": ("skipped", True),
    "no runner": ("skipped", True),
    "settings wrong": ("skipped", True),
    "wrong types": ("changed", True),
    "no key": ("changed", False),
    "own plugin": ("changed", False),
    "later agent": ("imported", True),
    "resting": ("changed", False),
    "deep-chat": ("changed", True),
    "lost": ("skipped", True),
    "Deep": ("imported", True),
    "maps": ("changed", True),
    "old wire": ("skipped", True),
    "robot": ("skipped", True),
    "Handbook": ("skipped", True),
    "tg": ("skipped", True),
    "notify": ("skipped", True),
    "ci": ("skipped", True),
    "brewing": ("skipped", True),
}
"""Name -> outcome, and whether it can run. `platform` depends on whether this host has the runner."""
VALUES = (
    "sk-deep",
    "sk-hidden",
    "app-0000",
    "robot-secret",
    "sk-lap",
    "maps-secret",
    "bot-token",
    "hook-secret",
    "lbk-secret",
    "plugin-key",
)


def test_every_item_is_listed_with_what_became_of_it(hostler: CommandLine, tmp_path: Path) -> None:
    bot = mixed(tmp_path)
    ran = hostler("import", "langbot", bot.data, "--json")
    assert ran.status == 1
    items = {item["name"]: item for item in ran.json["items"]}
    platform = items.pop("platform")
    assert "ended in June 2026" in platform["notes"][0]
    assert platform["entry"] == "agents platform"
    found = {name: (item["outcome"], item["enabled"]) for name, item in items.items()}
    assert found == EXPECTED
    silent = [name for name, item in items.items() if item["outcome"] != "imported" and not item["notes"]]
    assert silent == []
    notes = {name: "; ".join(item["notes"]) for name, item in items.items()}
    assert "'who-knows' is not known" in notes["unknown runner"]
    assert "config is no JSON" in notes["truncated"]
    assert "config is no text in UTF-8" in notes["no text"]
    assert "timeout: left out, expected an integer, not 'soon'; the default holds: 30" in notes["wrong types"]
    assert "api-key is required" in notes["no key"]
    assert "hostler plugins add FOLDER" in notes["own plugin"]
    assert "extra_args.api_key" in notes["deep-chat"]
    assert "it ran 'good'" in notes["tg"]
    added = hostler("skills", "add", notes["brewing"].rpartition(" ")[2].rstrip("`"))
    assert added.status == 0, added.err

    text = (hostler.cwd / "hostler.yaml").read_text()
    assert [value for value in VALUES if value in text + ran.out + ran.err] == []
    agents = {spec.name: spec for spec in load_config(hostler.cwd / "hostler.yaml").agents}
    assert agents["platform"].runner == "plugin:hostler/acp/default"
    assert agents["platform"].config["provider"] == "codex"
    assert agents["own plugin"].config == {"api_key": "env:LANGBOT_OWN_PLUGIN_API_KEY", "size": 3}
    assert agents["with knowledge"].config["knowledge-bases"] == ["Handbook"]
    assert agents["good"].config["model"] == {"primary": "deep-chat", "fallbacks": []}
    assert agents["good"].resource_policy.allowed_tool_names == ["maps.*"]
    checked = hostler("apply", "hostler.yaml", "--dry-run")
    assert checked.status == 0, checked.err


def test_a_second_import_changes_nothing_and_keeps_what_was_edited(
    hostler: CommandLine, tmp_path: Path
) -> None:
    bot = mixed(tmp_path)
    own = hostler.cwd / "hostler.yaml"
    own.write_text("# mine\nmodels:\n- {id: main, provider: demo}   # for tests\nagents: []\n")
    own.chmod(0o640)
    assert hostler("import", "langbot", bot.data).status == 1
    first = own.read_text()
    assert first.startswith("# mine\nmodels:\n- {id: main, provider: demo}   # for tests\n")
    assert own.stat().st_mode & 0o777 == 0o640
    ran = hostler("import", "langbot", bot.data, "--json")
    assert (own.read_text(), ran.json["written"], ran.json["entries"]) == (first, False, {})
    outcomes = {item["outcome"] for item in ran.json["items"]}
    assert outcomes == {"unchanged", "skipped"}

    own.write_text(first.replace("content: Hi", "content: Hello", 1))
    edited = own.read_text()
    ran = hostler("import", "langbot", bot.data, "--json")
    assert own.read_text() == edited
    (kept,) = [item for item in ran.json["items"] if item["outcome"] == "kept"]
    assert kept["name"] == "good"
    assert "which stays" in kept["notes"][-1]
    assert ran.status == 1


def test_a_dry_run_writes_nothing(hostler: CommandLine, tmp_path: Path) -> None:
    bot = mixed(tmp_path)
    before = {path: path.read_bytes() for path in bot.data.rglob("*") if path.is_file()}
    ran = hostler("import", "langbot", bot.data, "--dry-run", "--env-file", "v.env")
    assert (ran.status, list(hostler.cwd.iterdir())) == (1, [])
    assert "nothing was written (--dry-run)" in ran.err
    assert "imported\tpipeline\tgood\tagents good\t" in ran.out
    assert hostler("import", "langbot", bot.data).status == 1
    after = {path: path.read_bytes() for path in bot.data.rglob("*") if path.is_file()}
    assert after == before


def test_secrets_go_into_the_store_and_none_there_is_replaced(hostler: CommandLine, tmp_path: Path) -> None:
    bot = mixed(tmp_path)
    refused = hostler("import", "langbot", bot.data, "--secrets", "store")
    assert (refused.status, "no `master_key` is configured" in refused.error) == (2, True)
    assert list(hostler.cwd.iterdir()) == []  # nothing is half done
    key = tmp_path / "master"
    key.write_text(os.urandom(32).hex())
    assert hostler("config", "set", "master_key", f'keys=["file:{key}"]').status == 0
    assert hostler("secrets", "set", "langbot-later-agent-api-key", stdin="mine").status == 0
    ran = hostler("import", "langbot", bot.data, "--secrets", "store", "--json")
    states = {one["reference"]: (one["state"], one["owner"]) for one in ran.json["secrets"]}
    assert states["secret://langbot-later-agent-api-key"] == ("kept", "workspace")
    assert states["secret://langbot-deep-api-key"] == ("stored", "installation")
    assert states["secret://langbot-maps-maps-key"] == ("stored", "installation")
    text = (hostler.cwd / "hostler.yaml").read_text()
    assert [value for value in VALUES if value in text + ran.out + ran.err] == []
    listed = hostler("secrets", "list", "--json").json
    assert {one["name"]: one["version"] for one in listed}["langbot-later-agent-api-key"] == 1
    applied = hostler("apply", "hostler.yaml")
    assert applied.status == 0, applied.err
    assert "is not set" not in applied.err


def test_a_folder_in_use_and_one_that_is_nothing(hostler: CommandLine, tmp_path: Path) -> None:
    ran = hostler("import", "langbot", tmp_path / "nowhere")
    assert (ran.status, "no such file or folder: name LangBot's folder" in ran.error) == (2, True)
    (tmp_path / "old" / "config").mkdir(parents=True)
    (tmp_path / "old" / "config" / "provider.json").write_text("{}")
    assert "before version 4" in hostler("import", "langbot", tmp_path / "old").error
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    assert "is no database of LangBot" in hostler("import", "langbot", tmp_path / "other.db").error
    bot = LangBot(tmp_path / "live" / "data", wal=True)  # LangBot is running
    bot.pipeline("live", legacy("dify-service-api", {"api-key": "app-live-1"}))
    ran = hostler("import", "langbot", tmp_path / "live", "--json")  # the folder that has `data`
    assert (ran.status, [item["name"] for item in ran.json["items"]]) == (0, ["live"])
    bot.pipeline("next", legacy("dify-service-api", {"api-key": "app-live-2"}))  # it was not locked out
    bot.close()


def test_an_exported_pipeline_and_a_broken_target(hostler: CommandLine, tmp_path: Path) -> None:
    config = legacy("dify-service-api", {"api-key": "app-file-1"})
    (tmp_path / "Sales.json").write_text(json.dumps(config))
    (tmp_path / "more.yaml").write_text(
        "code: 0\ndata:\n  pipelines:\n  - name: FAQ\n    config:\n"
        "      ai: {runner: {runner: tbox-app-api},\n"
        "           tbox-app-api: {api-key: tbox-1, app-id: a}}\n"
    )
    assert hostler("import", "langbot", tmp_path / "Sales.json").status == 0
    assert hostler("import", "langbot", tmp_path / "more.yaml").status == 0
    assert [spec.name for spec in load_config(hostler.cwd / "hostler.yaml").agents] == ["Sales", "FAQ"]
    (hostler.cwd / "wrong.yaml").write_text("agents: [{nam: x}]\n")
    ran = hostler("import", "langbot", tmp_path / "Sales.json", "-o", "wrong.yaml")
    assert (ran.status, "nothing was changed" in ran.err) == (2, True)
    assert (hostler.cwd / "wrong.yaml").read_text() == "agents: [{nam: x}]\n"
    ran = hostler("import", "langbot", tmp_path / "Sales.json", "-o", "sub/hostler.yaml")
    assert "there is no folder" in ran.error
    ran = hostler("import", "langbot", tmp_path / "Sales.json", "-o", "x.toml")
    assert "YAML only" in ran.error
    (hostler.cwd / "v.env").write_text("KEEP=1\n")
    ran = hostler("import", "langbot", tmp_path / "Sales.json", "-o", "y.yaml", "--env-file", "v.env")
    assert "v.env exists, and has other content" in ran.error
    assert not (hostler.cwd / "y.yaml").exists()


def test_the_commands_of_the_guide(hostler: CommandLine) -> None:
    bot = LangBot(hostler.cwd / "langbot" / "data")
    bot.pipeline("Sales", legacy("dify-service-api", {"api-key": "app-it's $HOME"}))
    bot.close()
    page = (Path(__file__).parents[2] / "docs" / "langbot.md").read_text()
    found = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (commands,) = [block for block in found if "hostler import" in block]
    variables = environment(hostler.data)
    with shell_functions(hostler.cwd.parent) as functions:
        for line in commands.splitlines():
            done = run_line(functions, line, hostler.cwd, variables)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        shown = run_line(
            functions, '. ./langbot.env; printf %s "$LANGBOT_SALES_API_KEY"', hostler.cwd, variables
        )
    assert "+ agent Sales" in done.stdout
    assert "is not set" not in done.stderr
    assert shown.stdout == "app-it's $HOME"


def test_the_report_on_a_terminal(tmp_path: Path) -> None:
    bot = mixed(tmp_path)
    command: list[str | Path] = [*HOSTLER, "import", "langbot", bot.data, "--dry-run"]
    with Terminal(command, tmp_path, environment(tmp_path / "host")) as terminal:
        assert terminal.ends() == 1
        text = terminal.text
    assert "Pipelines\n  ✓ good  → agents good  imported\n" in text
    assert (
        "  ! with knowledge  → agents with knowledge  imported, switched off until something is there\n"
        in text
    )
    assert "  ✗ truncated  skipped\n    · is damaged: config is no JSON" in text
    assert "Secrets\n  ○ env:LANGBOT_DEEP_API_KEY  to be set\n    provider Deep: api_keys\n" in text


def test_a_full_disk_leaves_the_file_as_it_was(hostler: CommandLine, tmp_path: Path) -> None:
    bot = mixed(tmp_path)
    own = hostler.cwd / "hostler.yaml"
    own.write_text("models: [{id: main, provider: demo}]\n")
    line = f"ulimit -f 1; {sys.executable} -m hostler import langbot {bot.data}"  # files of 1 KiB at most
    done = run_line("", line, hostler.cwd, environment(hostler.data, PYTHONDONTWRITEBYTECODE="1"))
    assert (done.returncode, "cannot be written: File too large" in done.stderr) == (1, True), done.stderr
    assert {path.name: path.read_text() for path in hostler.cwd.iterdir()} == {
        "hostler.yaml": "models: [{id: main, provider: demo}]\n"
    }


def test_a_file_with_other_line_ends_and_one_behind_a_link(hostler: CommandLine, tmp_path: Path) -> None:
    bot = LangBot(tmp_path / "data")
    bot.pipeline("Sales", legacy("dify-service-api", {"api-key": "app-1"}))
    bot.close()
    real = hostler.cwd / "etc" / "real.yaml"
    real.parent.mkdir()
    real.write_bytes(b"agents:\r\n- {name: a, runner: 'plugin:a/b/c'}\r\n")
    (hostler.cwd / "hostler.yaml").symlink_to(real)
    assert hostler("import", "langbot", bot.path).status == 0
    assert (hostler.cwd / "hostler.yaml").is_symlink()
    assert [agent.name for agent in load_config(real).agents] == ["a", "Sales"]


def test_a_kill_in_the_middle_leaves_the_old_file_or_the_new_one(
    hostler: CommandLine, tmp_path: Path
) -> None:
    bot = LangBot(tmp_path / "data")
    for number in range(100):
        bot.pipeline(f"p{number}", legacy("dify-service-api", {"api-key": f"app-{number}"}))
    bot.close()
    own, old = hostler.cwd / "hostler.yaml", "models: [{id: main, provider: demo}]\n"
    assert hostler("import", "langbot", bot.path, "-o", "whole.yaml").status == 0
    whole = len(load_config(hostler.cwd / "whole.yaml").agents)
    own.write_text(old)
    with hostler.start("import", "langbot", bot.path, "--env-file", "v.env") as process:
        deadline = time.monotonic() + BOUND_SECONDS
        while process.poll() is None and not list(hostler.cwd.glob("hostler.yaml.*")):
            assert time.monotonic() < deadline
            if own.read_text() != old:  # it was too quick to be caught
                break
        process.kill()
        process.communicate()
    assert own.read_text() == old or len(load_config(own).agents) == whole
    assert hostler("import", "langbot", bot.path, "--env-file", "v.env").status == 0
    assert len(load_config(own).agents) == whole
    assert len((hostler.cwd / "v.env").read_text().splitlines()) == whole
