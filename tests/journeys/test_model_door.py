"""The door of runs in a real sandbox, without anyone's client: abuse, crashes, replay."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_sdk.model_door.door import KEY_PREFIX
from support.command_line import CommandLine
from support.door_clients import in_sandbox
from support.model_answers import Answer
from support.model_server import ModelServer
from support.stepping import Ended, Stage, stage, within

pytestmark = [
    pytest.mark.gate("model-door"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
PLUGIN = Path(__file__).parents[1] / "support" / "plugins" / "door_user"
ASK: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = "/v1/messages?beta=true"
PLACE: dict[str, Any] = {"actor": {"actor_id": "ada"}}


async def prepare(host: Stage, server: ModelServer, *plugins: Path, level: Any = None, **policy: Any) -> None:
    models = [
        ModelEntry(id=name, base_url=server.base_url, model=name, api_key="k") for name in ("m", "other")
    ]
    entries: list[Any] = [PluginEntry(path=str(path), level=level) for path in plugins or (PLUGIN,)]
    agents = []
    for path in plugins or (PLUGIN,):
        spec = {
            "name": path.name,
            "runner": f"plugin:test/{path.name.replace('_', '-')}/default",
            "config": {"model": {"primary": "m", "fallbacks": []}},
            "resource_policy": {"allowed_model_ids": ["m"], **policy},
        }
        agents.append(convert(spec, AgentSpec, "agent"))
    await host.host.apply(ConfigFile(plugins=entries, models=models, agents=agents), actor="test")


async def use(host: Stage, *steps: dict[str, Any], agent: str = "door_user") -> Ended:
    ended = await host.run([], input={"text": json.dumps(steps)}, agent=agent, **PLACE)
    assert ended.record.status == "completed", (ended.last, ended.journal[-3:])
    return ended


def made(ended: Ended) -> list[str]:
    """The calls of a run, as its journal has them; refused ones with their code."""
    return [
        entry["type"] + (f" {entry['data']['error']['code']}" if entry["data"].get("error") else "")
        for kind in ("call", "refusal")
        for entry in ended.entries(kind)
    ]


ABUSE: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a guessed key": ({"key": "hostler_door_guess", "body": ASK}, {"status": 401}, []),
    "no key": ({"key": "", "body": ASK}, {"status": 401}, []),
    "a model that is not granted": (
        {"body": ASK | {"model": "other"}},
        {"status": 404, "code": "model_not_found"},
        ["model.invoke not_found"],
    ),
    "another service": (
        {"body": ASK | {"api_base": "http://evil", "api_key": "x"}},
        {"status": 400},
        ["model.invoke invalid_argument"],
    ),
    "another service by headers": (
        {"body": ASK | {"extra_headers": {"authorization": "x"}}},
        {"status": 400},
        ["model.invoke invalid_argument"],
    ),
    "another run by name": (
        {"body": ASK, "headers": {"x-run-id": "other", "host": "evil", "openai-organization": "x"}},
        {"status": 200, "said": "yes"},
        ["model.invoke"],
    ),
    "another run in the body": (
        {"body": ASK | {"run_id": "other", "alone": True}},
        {"status": 200, "said": "yes"},
        ["model.invoke"],
    ),
    "an operation that is not granted": (
        {"path": "/v1/embeddings", "body": {"model": "m", "input": "x"}},
        {"status": 403, "code": "permission_denied"},
        ["model.embed unauthorized"],
    ),
    "a body that is too large": ({"raw": "x", "long": 9_000_000}, {"status": 413}, []),
    "a body that is too deep": ({"raw": '{"a":' * 10_000 + "1" + "}" * 10_000}, {"status": 400}, []),
    "no JSON": ({"raw": "\u0000{"}, {"status": 400}, []),
    "half of a pair": (
        {"raw": json.dumps(ASK).replace("hi", "\\ud800")},
        {"status": 400},
        [],
    ),
    "a proxy to the network": (
        {"method": "GET", "path": "http://192.0.2.1/", "raw": ""},
        {"status": 400},
        [],
    ),
    "a tunnel": ({"method": "CONNECT", "path": "192.0.2.1:443", "raw": ""}, {"status": 400}, []),
    "files of the plugin": (
        {"method": "GET", "path": "/v1/../../etc/passwd", "raw": ""},
        {"status": 404},
        [],
    ),
    "Anthropic's way with a guessed key": (
        {"path": MESSAGES, "body": ASK, "headers": {"authorization": "x", "x-api-key": "hostler_door_guess"}},
        {"status": 401, "code": "invalid_api_key"},
        [],
    ),
    "a model that is not granted, Anthropic's way": (
        {"path": MESSAGES, "body": ASK | {"model": "other"}},
        {"status": 404, "code": "model_not_found"},
        ["model.invoke not_found"],
    ),
    "a server with tools elsewhere": (
        {"path": MESSAGES, "body": ASK | {"mcp_servers": [{"type": "url", "url": "http://evil"}]}},
        {"status": 400, "code": "unsupported_parameter"},
        [],
    ),
    "blocks that are too deep": (
        {"path": MESSAGES, "raw": '{"messages":[' + '{"content":[' * 5_000 + "]}" * 5_000 + "]}"},
        {"status": 400},
        [],
    ),
    "the service's own paths": ({"method": "GET", "path": "/v1/files", "raw": ""}, {"status": 404}, []),
}


async def test_abuse_of_the_door_comes_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        within(),
        in_sandbox("bubblewrap", monkeypatch),
        ModelServer(api_key="k") as server,
        stage(tmp_path, agent=False) as host,
    ):
        await prepare(host, server)
        server.always("yes")
        for name, (step, expected, calls) in ABUSE.items():
            before = len(server.requests)
            ended = await use(host, step)
            (found,) = ended.told
            assert found.items() >= expected.items(), (name, found)
            assert made(ended) == calls, name
            sent = server.requests[before:]
            assert len(sent) == (found["status"] == 200), name
            for request in sent:
                assert request.json["model"] == "m"
                assert request.headers["authorization"] == "Bearer k"
                assert not {"x-run-id", "openai-organization"} & request.headers.keys()
        assert (await use(host, {"body": ASK})).told[0]["said"] == "yes"


async def test_more_than_a_run_may_is_refused_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        within(),
        in_sandbox("bubblewrap", monkeypatch),
        ModelServer(api_key="k") as server,
        stage(tmp_path, agent=False) as host,
    ):
        await prepare(host, server, rate={"calls_per_second": 5})
        server.always("yes")
        rushed = await use(host, {"body": ASK, "times": 20, "together": True})
        codes = {(one["status"], one["code"]) for one in rushed.told}
        assert codes == {(200, None), (429, "rate_limit_exceeded")}
        assert {one["retry"] for one in rushed.told if one["status"] == 429} == {"1"}
        assert len(server.requests) < 20
        await prepare(host, server, budget={"max_calls_per_run": 2})
        spent = await use(host, {"body": ASK, "times": 4})
        assert [(one["status"], one["code"]) for one in spent.told] == [
            (200, None),
            (200, None),
            (403, "budget_exceeded"),
            (403, "budget_exceeded"),
        ]


async def test_the_door_of_another_plugin_and_of_a_run_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.copytree(PLUGIN, tmp_path / "door_other")
    manifest = (other / "hostler.yaml").read_text().replace("door-user", "door-other")
    (other / "hostler.yaml").write_text(manifest)
    async with (
        within(),
        in_sandbox("bubblewrap", monkeypatch),
        ModelServer(api_key="k") as server,
        stage(tmp_path / "data", agent=False) as host,
    ):
        await prepare(host, server, PLUGIN, other)
        server.always("yes")
        (first,) = (await use(host, {"tell": True})).told
        (found,) = (await use(host, {"body": ASK, **first}, agent="door_other")).told
        assert found in ({"error": "ConnectionRefusedError"}, found | {"status": 401})
        (found,) = (await use(host, {"body": ASK, **first})).told
        assert (found["status"], found["code"]) == (401, "invalid_api_key")
        (second,) = (await use(host, {"tell": True})).told
        assert first["port"] == second["port"]
        assert first["key"] != second["key"]
        assert server.requests == []


async def test_requests_at_once_are_resumed_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        within(),
        in_sandbox("bubblewrap", monkeypatch),
        ModelServer(api_key="k") as server,
        stage(tmp_path, agent=False) as host,
    ):
        await prepare(host, server)
        number = iter(range(100))
        server.always(lambda _: Answer(pieces=[f"answer {next(number)}"]))
        ended = await use(host, {"body": ASK, "times": 12, "together": True}, {"crash": 2}, {"body": ASK})
        assert ended.record.attempt == 3
        assert sorted(one["said"] for one in ended.told[:12]) == sorted(f"answer {n}" for n in range(12))
        assert ended.told[12]["said"] == "answer 12"
        assert len(server.requests) == 13
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY_PREFIX.encode() in path.read_bytes()]


def test_a_trusted_plugin_is_replayed_without_network_and_service(tmp_path: Path) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path / "work")
    hostler.cwd.mkdir()
    with ModelServer(api_key="k") as server:
        server.always("yes")
        config = {
            "plugins": [{"path": str(PLUGIN), "level": "trusted"}],
            "models": [{"id": "m", "base_url": server.base_url, "model": "x", "api_key": "k"}],
            "agents": [
                {
                    "name": "user",
                    "runner": "plugin:test/door-user/default",
                    "config": {"model": {"primary": "m"}},
                }
            ],
        }
        (hostler.cwd / "hostler.yaml").write_text(json.dumps(config))
        assert hostler("apply", "hostler.yaml").status == 0
        steps = json.dumps([{"body": ASK, "times": 2}])
        ran = hostler("run", "user", steps, "--json")
        assert ran.status == 0, ran.err
        run_id = ran.results[0]["run_id"]
    replayed = hostler("replay", run_id, "--json")
    (found,) = replayed.results
    assert (replayed.status, found["status"], found["network"]) == (0, "identical", "blocked"), replayed.out
