"""Agents are held against what is there before their first run: by apply, serve, doctor and HTTP alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.command_line import ECHO, CommandLine

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other

LOCAL_AGENT = "plugin:hostler/local-agent/default"
ECHO_RUNNER = "plugin:acme/echo/default"
RIGHT: dict[str, Any] = {
    "models": [{"id": "main", "base_url": "http://127.0.0.1:9/v1"}],
    "tools": [{"exec": {}}, {"files": {}}],
    "agents": [
        {"name": "echo", "runner": ECHO_RUNNER, "config": {"suffix": "?"}, "event_types": []},
        {
            "name": "support",
            "runner": LOCAL_AGENT,
            "config": {"model": "main"},
            "resource_policy": {
                "allowed_tool_names": ["files.*", "exec"],
                "tool_approval": {"files.write": "required"},
            },
        },
    ],
}
WRONG: dict[str, Any] = {
    "models": RIGHT["models"],
    "tools": RIGHT["tools"],
    "agents": [
        {"name": "echo", "runner": "plugin:acme/ehco/default", "event_types": []},
        {"name": "other", "runner": "plugin:acme/echo/defualt", "event_types": []},
        {
            "name": "support",
            "runner": LOCAL_AGENT,
            "config": {"modle": "main", "tool-execution-mode": "paralel", "timeout": "soon"},
            "resource_policy": {
                "allowed_model_ids": ["mian"],
                "allowed_tool_names": ["fils.*", "exce"],
                "tool_approval": {"files.wirte": "required"},
            },
            "filters": ["event.actr.actor_id == 'x'"],
        },
    ],
}
TOLD = """
agents[0] "echo": runner: there is no plugin 'acme/ehco'; did you mean 'plugin:acme/echo/default'?
agents[1] "other": runner: plugin 'acme/echo' has no runner 'defualt'; did you mean 'default'?
agents[2] "support": config.model: is required: give it {primary: model id, fallbacks: [model id, ...]}, or \
the id of a model
agents[2] "support": config.modle: unknown option; did you mean 'model'?
agents[2] "support": config.tool-execution-mode: 'paralel' is no option; did you mean 'parallel'?
agents[2] "support": config.timeout: expected an integer, not 'soon'
agents[2] "support": resource_policy.allowed_model_ids[0]: there is no model 'mian'; did you mean 'main'?
agents[2] "support": resource_policy.allowed_tool_names[0]: no tool matches 'fils.*'; did you mean 'files.*'?
agents[2] "support": resource_policy.allowed_tool_names[1]: there is no tool 'exce'; did you mean 'exec'?
agents[2] "support": resource_policy.tool_approval["files.wirte"]: there is no tool 'files.wirte'; did you \
mean 'files.write'?
agents[2] "support": filters[0]: event has no field 'actr'; did you mean 'actor'?
""".strip().splitlines()


@pytest.fixture
def echo(hostler: CommandLine) -> Path:
    """A copy of the echo plugin, to be changed."""
    folder = hostler.cwd / "echo"
    shutil.copytree(ECHO, folder)
    return folder


def written(hostler: CommandLine, folders: list[Path], config: dict[str, Any]) -> Path:
    """A configuration whose plugins need no sandbox, which would be most of what these commands take."""
    plugins = [{"path": str(folder), "level": "trusted"} for folder in folders]
    path = hostler.cwd / "hostler.yaml"
    path.write_text(json.dumps({"plugins": plugins, **config}, indent=1))
    return path


def sentences(err: str) -> list[str]:
    """The mistakes of a listing, without their lines."""
    return [line.strip().partition(": ")[2] for line in err.splitlines() if line.startswith("  line ")]


# -- apply ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True])
def test_every_mistake_is_told_at_once_and_nothing_is_changed(
    hostler: CommandLine, echo: Path, running: bool
) -> None:
    def journey() -> None:
        path = written(hostler, [echo], WRONG)
        for arguments in (["--dry-run"], []):
            refused = hostler("apply", path, *arguments)
            assert (refused.status, refused.out) == (2, "")
            assert refused.error.startswith(f"{path}: 11 mistakes, nothing was changed")
            assert sentences(refused.err) == TOLD
            assert hostler("agents", "list", "--json").json == []
            assert hostler("plugins", "list", "--json").json == []
        assert hostler("apply", written(hostler, [echo], RIGHT), "--dry-run").status == 0
        applied = hostler("apply", path.name)
        assert (applied.status, applied.err.splitlines()[0]) == (0, "applied; 0 unchanged")
        assert "error" not in applied.err
        assert hostler("apply", written(hostler, [echo], WRONG)).status == 2
        found = {one["name"]: one["version"] for one in hostler("agents", "list", "--json").json}
        assert found == {"echo": 1, "support": 1}

    if running:
        with hostler.serving():
            journey()
    else:
        journey()


def test_mistakes_of_the_file_and_of_its_agents_are_told_together(hostler: CommandLine, echo: Path) -> None:
    agents = [
        {"runner": ECHO_RUNNER},
        {"name": "echo", "runner": ECHO_RUNNER, "config": {"sufix": "?"}, "concurency": {}},
    ]
    path = written(hostler, [echo], {"agents": agents, "webhook": []})
    for command in ("apply --dry-run", "apply", "serve --port 0 --config"):
        refused = hostler(*command.split(), path)
        assert refused.status == 2
        assert sentences(refused.err) == [
            "agents[0]: the key 'name' is missing",
            "agents[1] \"echo\": config.sufix: unknown option; did you mean 'suffix'?",
            "agents[1] \"echo\": concurency: unknown key; did you mean 'concurrency'?",
            "webhook: unknown key; did you mean 'webhooks'?",
        ]
    as_json = hostler("apply", path, "--dry-run", "--json")
    assert as_json.status == 2
    assert [one["field"] for one in as_json.json["errors"]] == [
        "agents[0]",
        "agents[1].config.sufix",
        "agents[1].concurency",
        "webhook",
    ]
    assert all(one["line"] > 1 for one in as_json.json["errors"])


def test_a_dry_run_trusts_nobody(hostler: CommandLine, echo: Path) -> None:
    marker = hostler.cwd / "marker"
    with (echo / "echo.py").open("a") as file:
        file.write(f"\ntry:\n    open({str(marker)!r}, 'w').close()\nexcept OSError:\n    pass\n")
    agents = [{"name": "echo", "runner": ECHO_RUNNER, "config": {"sufix": "?"}}]
    path = written(hostler, [echo], {"agents": agents})
    refused = hostler("apply", path, "--dry-run")
    assert "config.sufix: unknown option; did you mean 'suffix'?" in refused.error
    assert not marker.exists()


# -- serve ----------------------------------------------------------------------------------------


def test_a_server_does_not_begin_with_an_agent_that_cannot_work(hostler: CommandLine, echo: Path) -> None:
    path = written(hostler, [echo], WRONG)
    refused = hostler("serve", "--port", "0", "--config", path)
    assert refused.status == 2
    assert sentences(refused.err) == TOLD
    assert hostler("agents", "list", "--json").json == []
    path = written(hostler, [echo], RIGHT)
    with hostler.serving("--config", path) as server:
        assert "error" not in server.log


def test_a_host_whose_agents_became_wrong_starts_and_says_so(hostler: CommandLine, echo: Path) -> None:
    agents = [{"name": "echo", "runner": ECHO_RUNNER, "config": {"suffix": "?"}}]
    path = written(hostler, [echo], {"agents": agents})
    assert hostler("apply", path).status == 0
    code = (echo / "echo.py").read_text()
    (echo / "echo.py").write_text(code.replace('"suffix"', '"an_ending"'))
    said = "config.suffix: unknown option"
    looked = hostler("doctor")
    assert looked.status == 1
    assert f"echo: {said}" in looked.out
    for options in ((), ("--config", path)):
        with hostler.serving(*map(str, options)) as server:
            server.wait_log(f"agent echo: {said}")
            (found,) = hostler("agents", "list", "--json").json
            assert [(one["place"], one["severity"]) for one in found["problems"]] == [
                ("config.suffix", "error")
            ]
            assert said in hostler("agents", "show", "echo").out
            assert said in hostler("doctor").out
            refused = hostler("apply", path)  # it is as it was: told, and not refused
            assert refused.status == 0
            assert said in refused.err
            changed = written(hostler, [echo], {"agents": [{**agents[0], "priority": 1}]})
            assert said in hostler("apply", changed).error
            written(hostler, [echo], {"agents": agents})
            # once the plugin is as before, nothing is wrong any more
            (echo / "echo.py").write_text(code)
            assert hostler("plugins", "restart", "acme/echo").status == 0
            assert hostler("agents", "show", "echo", "--json").json["problems"] == []
            server.wait_log("agent echo: nothing is wrong with it any more")
            (echo / "echo.py").write_text(code.replace('"suffix"', '"an_ending"'))
            assert hostler("plugins", "restart", "acme/echo").status == 0


def test_what_cannot_be_known_now_is_told_and_stops_nothing(hostler: CommandLine, echo: Path) -> None:
    (echo / "echo.py").write_text("import nowhere_to_be_found\n")
    agents = [
        {"name": "echo", "runner": ECHO_RUNNER, "config": {"anything": 1}, "event_types": []},
        {
            "name": "support",
            "runner": LOCAL_AGENT,
            "config": {"model": "keyless"},
            "resource_policy": {"allowed_tool_names": ["down.search"]},
        },
    ]
    models = [{"id": "keyless", "base_url": "http://127.0.0.1:9/v1", "api_key": "env:HOSTLER_NO_SUCH_KEY"}]
    tools = [{"mcp": {"name": "down", "command": ["/nowhere/at/all"]}}]
    path = written(hostler, [echo], {"agents": agents, "models": models, "tools": tools})
    told = (
        "agent echo: runner: whether plugin 'acme/echo' has this runner and takes this config is not known",
        "agent support: config.model: model 'keyless' cannot be used now",
        "the environment variable HOSTLER_NO_SUCH_KEY is not set",
        "agent support: resource_policy.allowed_tool_names[0]: whether there is a tool 'down.search' is not "
        "known",
    )
    dry = hostler("apply", path, "--dry-run")
    assert dry.status == 0, dry.err
    assert all(text in dry.err for text in told), dry.err
    with hostler.serving("--config", path) as server:
        for text in told:
            server.wait_log(text)
        looked = hostler("doctor")
        assert all(text.replace("agent ", "", 1) in looked.out for text in told if text.startswith("agent"))
        again = hostler("apply", path)
        assert again.status == 0
        assert all(text in again.err for text in told)


# -- one agent over HTTP ----------------------------------------------------------------------------------


def test_an_agent_that_is_saved_over_http_is_checked(hostler: CommandLine, echo: Path) -> None:
    path = written(hostler, [echo], RIGHT)
    with hostler.serving("--config", path) as server, server.client() as client:
        wrong = {**WRONG["agents"][2], "name": "new"}
        for method, url in (("POST", "/v1/agents"), ("PUT", "/v1/agents/new")):
            answer = client.request(method, url, json=wrong)
            assert answer.status_code == 400
            problem = answer.json()
            assert problem["code"] == "invalid_argument"
            told = {f"{one['field']}: {one['expected']}" for one in problem["details"]["errors"]}
            assert told == {line.partition(": ")[2] for line in TOLD[2:]}
            assert client.get("/v1/agents/new").status_code == 404
        answer = client.put("/v1/agents/echo", json={**RIGHT["agents"][0], "config": {"sufix": "?"}})
        assert answer.status_code == 400
        assert client.get("/v1/agents/echo").json()["version"] == 1
        key = client.post("/v1/keys", json={"name": "far", "plugin": "far/away"})
        assert key.status_code == 201
        far = {"name": "far", "runner": "plugin:far/away/default", "event_types": []}
        saved = client.put("/v1/agents/far", json=far)
        assert saved.status_code == 200
        (warning,) = saved.json()["problems"]
        assert (warning["kind"], warning["name"], warning["place"]) == ("agent", "far", "runner")
        assert warning["severity"] == "warning"
        assert "has not connected" in warning["problem"]
        assert client.get("/v1/agents/far").json()["problems"] == [warning]
        assert warning in client.get("/v1/problems").json()["items"]


def test_agents_that_runs_may_create_runs_of_are_shown_and_looked_up(
    hostler: CommandLine, echo: Path
) -> None:
    def agents(*allowed: str, helper: bool = True) -> dict[str, Any]:
        desk: dict[str, Any] = {
            "name": "desk",
            "runner": ECHO_RUNNER,
            "resource_policy": {"allowed_agents": list(allowed)},
        }
        others = [{"name": "shop.help", "runner": ECHO_RUNNER}] if helper else []
        return {"agents": [{**one, "event_types": []} for one in (desk, *others)]}

    place = "resource_policy.allowed_agents"
    for dry in (True, False):
        looked = hostler("apply", written(hostler, [echo], agents("desk", "shop.*")), *["--dry-run"] * dry)
        assert (looked.status, place in looked.err) == (0, False), looked.err
    changed = hostler("apply", written(hostler, [echo], agents("shop.hlep", "desk", "shpo.*", helper=False)))
    told = [
        f"{place}[0]: there is no agent 'shop.hlep'; did you mean 'shop.help'?",
        f"{place}[2]: no agent matches 'shpo.*'",
    ]
    assert changed.status == 0
    assert all(one in changed.err for one in told), changed.err
    with hostler.serving() as server, server.client() as client:
        shown = hostler("agents", "show", "desk")
        assert all(one in shown.out for one in told), shown.out
        assert "shpo.*" in hostler("agents", "show", "desk", "--json").out
        stored = client.get("/v1/agents/desk").json()
        assert stored["spec"]["resource_policy"]["allowed_agents"] == ["shop.hlep", "desk", "shpo.*"]
        assert [(one["place"], one["severity"]) for one in stored["problems"]] == [
            (f"{place}[0]", "warning"),
            (f"{place}[2]", "warning"),
        ]
        body = {**stored["spec"], "resource_policy": {"allowed_agents": ["shop.help"]}}
        assert client.put("/v1/agents/desk", json=body).json()["problems"] == []
        # without the agent that it names there is something to say again
        assert hostler("agents", "remove", "shop.help").status == 0
        server.wait_log(f"agent desk: {place}[0]: there is no agent 'shop.help'")
        cleared = client.put("/v1/agents/desk", json={**body, "resource_policy": {}}).json()
        assert cleared["spec"]["resource_policy"]["allowed_agents"] is None
        assert cleared["problems"] == []


def test_settings_of_a_run_are_checked_before_it(hostler: CommandLine, echo: Path) -> None:
    for serving in (False, True):
        if serving:
            with hostler.serving():
                refused = hostler("run", "./echo", "hi", "--set", "sufix=1", "--set", "timeout=soon")
        else:
            refused = hostler("run", "./echo", "hi", "--set", "sufix=1", "--set", "timeout=soon")
        assert refused.status == 2
        assert "config.sufix: unknown option; did you mean 'suffix'?" in refused.err
        assert "config.timeout: expected a number of seconds or null, not 'soon'" in refused.err


def test_a_run_with_a_configuration_tells_all_that_is_wrong_with_it_and_does_not_run(
    hostler: CommandLine, echo: Path
) -> None:
    agents = [{"name": "echo", "runner": ECHO_RUNNER, "config": {"sufix": "?"}, "priority": "high"}]
    wrong = written(hostler, [echo], {"agents": agents, "webhook": []})

    def journey() -> None:
        refused = hostler("run", "echo", "hi", "--config", wrong)
        assert (refused.status, refused.out) == (2, "")
        assert sentences(refused.err) == [
            "agents[0] \"echo\": config.sufix: unknown option; did you mean 'suffix'?",
            'agents[0] "echo": priority: expected a whole number, not a text',
            "webhook: unknown key; did you mean 'webhooks'?",
        ]
        assert hostler("agents", "list", "--json").json == []

    journey()
    with hostler.serving():
        journey()
    written(hostler, [echo], {"agents": [{**agents[0], "config": {"suffix": "?"}, "priority": 1}]})
    ran = hostler("run", "echo", "hi", "--config", wrong)
    assert (ran.status, ran.out.strip()) == (0, "hi?")
