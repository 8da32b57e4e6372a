"""Clients of OpenAI, Anthropic, LangChain, LiteLLM and Node.js, at the door of a run without network."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from hostler.domain.agents import AgentSpec
from hostler.domain.model_bounds import DEFAULT_OUTPUT_TOKENS
from hostler.domain.reservations import LEAST_OUTPUT_TOKENS
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from support.command_line import CommandLine, until
from support.door_clients import (
    ARGUMENTS,
    COST,
    agent_of,
    answer_as_asked,
    in_sandbox,
    lend_clients,
    models_of,
    need_clients,
    plugin_in,
)
from support.gates import Gate
from support.model_server import ModelServer
from support.stepping import Ended, Stage, stage, within

pytestmark = [
    pytest.mark.gate("model-door"),
    pytest.mark.timeout(600),  # clients are installed, and LiteLLM is imported for 10 s
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
TEXT = "A lamp costs 12 euros: 十二欧元."
ASK = {"actor": {"actor_type": "user", "actor_id": "ada"}, "agent": "clients"}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(api_key="k") as scripted:
        yield scripted


async def prepare(host: Stage, server: ModelServer, plugin: Path, **policy: Any) -> None:
    agents = [convert(agent_of(**policy), AgentSpec, "clients")]
    entries: list[Any] = [PluginEntry(path=str(plugin))]
    await host.host.apply(ConfigFile(plugins=entries, models=models_of(server), agents=agents), actor="test")


async def ask(host: Stage, client: str, **more: Any) -> Ended:
    return await host.run([], input={"text": json.dumps({"client": client, **more})}, **ASK)


def answers(server: ModelServer) -> list[str]:
    """What the service was asked, in order."""
    return [request.json.get("model", "") for request in server.requests]


@pytest.mark.parametrize(
    ("client", "crashes_at"),
    [
        ("openai", [1, 2, 3]),
        ("anthropic", [1, 2, 3]),
        ("langchain", [1, 2]),
        ("litellm", [1, 2]),
        ("node", [1, 2]),
    ],
)
async def test_in_namespaces_it_is_streamed_and_resumed_without_a_second_payment(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, client: str, crashes_at: list[int]
) -> None:
    await need_clients(node=client == "node")
    lend_clients(tmp_path / "data")
    async with (
        within(500),
        in_sandbox("bubblewrap", monkeypatch),
        stage(tmp_path / "data", agent=False) as host,
    ):
        await prepare(host, server, plugin_in(tmp_path))
        answer_as_asked(server)
        whole = await ask(host, client)
        assert whole.record.status == "completed", (whole.last, whole.journal[-3:])
        told = whole.told
        assert "".join(told["pieces"]) == TEXT
        assert len(told["pieces"]) == 3
        sent = server.requests[1].json["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
        assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "call_lamp"
        assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS
        assert sent[2]["content"] == "lamp: 12 euros"
        asked = answers(server)
        assert whole.record.cost == pytest.approx(cost_of(asked))
        if client == "openai":
            assert told["vectors"] == [[0.5, 0.0], [0.5, 1.0]]
            assert told["models"] == ["main", "spare", "vectors", "default"]
            assert (told["tokens"], told["response"]) == (18, "You are welcome.")
        if client == "anthropic":
            assert (told["tokens"], told["reasons"]) == (18, ["tool_use", "end_turn"])
            assert (told["counted"], told["models"]) == (True, ["main", "spare", "vectors", "default"])
        if client == "node":
            assert (told["tokens"], told["response"], told["refused"]) == (18, "You are welcome.", 401)
            assert (told["first"], told["last"]) == ("response.created", "response.completed")
        for place in crashes_at:
            before = len(server.requests)
            again = await ask(host, client, crashes=1, at=place)
            assert (again.record.status, again.record.attempt) == ("completed", 2), again.last
            assert again.told == told
            made = answers(server)[before:]
            # an answer that the host had not read to its end is asked for again; all others are not
            assert made == asked or (place == 2 and made == [*asked[:2], *asked[1:]])


def cost_of(asked: list[str]) -> float:
    return sum(5 * 2.0 if model == "vectors" else COST for model in asked)


@pytest.mark.parametrize("client", ["openai", "anthropic", "langchain", "litellm"])
async def test_without_namespaces_clients_of_the_same_process_need_no_socket(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    await need_clients()
    lend_clients(tmp_path / "data")
    async with (
        within(500),
        in_sandbox("landlock", monkeypatch),
        stage(tmp_path / "data", agent=False) as host,
    ):
        await prepare(host, server, plugin_in(tmp_path))
        answer_as_asked(server)
        whole = await ask(host, client, memory=True)
        assert whole.record.status == "completed", (whole.last, whole.journal[-3:])
        assert "".join(whole.told["pieces"]) == TEXT
        assert len(whole.told["pieces"]) == 3
        asked = answers(server)
        again = await ask(host, client, memory=True, crashes=1, at=1)
        assert (again.record.status, again.record.attempt) == ("completed", 2), again.last
        assert (again.told, answers(server)) == (whole.told, asked * 2)
        refused = await ask(host, client)
        assert refused.record.status == "failed"
        assert "may not listen on its loopback" in refused.last["error"]
        assert "use ctx.models.openai_client()" in refused.last["error"]
        assert answers(server) == asked * 2


async def test_a_blocking_program_finds_the_door_by_its_environment(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await need_clients()
    lend_clients(tmp_path / "data")
    async with (
        within(500),
        in_sandbox("bubblewrap", monkeypatch),
        stage(tmp_path / "data", agent=False) as host,
    ):
        await prepare(host, server, plugin_in(tmp_path))
        server.always(lambda request: f"{len(request.json['messages'])} message")
        ended = await asyncio.gather(*(ask(host, "environment", number=n) for n in range(4)))
        assert [one.told["pieces"] for one in ended] == [["1 message"]] * 4
        assert [one.record.cost for one in ended] == [COST] * 4  # each by its own run's key


@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_over_budget_and_with_another_run_s_key_it_is_refused(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    await need_clients()
    lend_clients(tmp_path / "data")
    async with (
        within(500),
        in_sandbox("bubblewrap", monkeypatch),
        stage(tmp_path / "data", agent=False) as host,
    ):
        plugin = plugin_in(tmp_path)
        await prepare(host, server, plugin, budget={"max_cost_per_run": 1_000_000})
        answer_as_asked(server)
        whole = await ask(host, client)
        reserved = whole.entries("call")[0]["data"]["reserved"]["cost"]
        least = float(reserved) - (DEFAULT_OUTPUT_TOKENS - LEAST_OUTPUT_TOKENS) * 3.0
        server.requests.clear()
        await prepare(host, server, plugin, budget={"max_cost_per_run": least})
        spent = await ask(host, client)
        # enough for the first answer alone; the second is refused, by a status that no client tries again
        assert "PermissionDeniedError" in spent.last["error"]
        assert f"budget of {least:g} in cost of this run" in spent.last["error"]
        assert answers(server) == ["main"]
        wrong = await ask(host, client, key="hostler_door_of-another-run")
        assert (wrong.told["error"], wrong.told["status"]) == ("AuthenticationError", 401)
        assert wrong.told["code"] == "invalid_api_key"
        assert answers(server) == ["main"]
        assert wrong.entries("call") == []


@pytest.mark.parametrize("client", ["openai", "anthropic", "langchain", "litellm", "node"])
def test_a_host_that_is_killed_asks_no_one_twice_and_replays_offline(tmp_path: Path, client: str) -> None:
    asyncio.run(need_clients(node=client == "node"))
    hostler = CommandLine(tmp_path / "data", tmp_path / "work")
    hostler.cwd.mkdir()
    lend_clients(hostler.data)
    gate = Gate()
    with ModelServer(api_key="k") as server:
        answer_as_asked(server, gate)
        config = {
            "plugins": [{"path": str(plugin_in(tmp_path))}],
            "models": msgspec.to_builtins(models_of(server)),
            "agents": [agent_of()],
        }
        (hostler.cwd / "hostler.yaml").write_text(yaml.safe_dump(config))
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            event: dict[str, Any] = {"event_type": "message.received", "agent": "clients"}
            event["input"] = {"text": json.dumps({"client": client})}
            run_id = http.post("/v1/events", json=event).json()["run"]["run_id"]
            server.wait_asked(2)  # the first answer is given, the second has begun
            host.stop(signal.SIGKILL)
        gate.open()
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            until(lambda: _has_ended(http, run_id), "the run did not end")
            record = http.get(f"/v1/runs/{run_id}").json()
        assert (record["status"], record["attempt"]) == ("completed", 2), record
        asked = [request.json.get("messages", []) for request in server.requests]
        assert [len(messages) for messages in asked[:3]] == [1, 3, 3]  # the first one only once
    replayed = hostler("replay", run_id)  # the service is gone
    assert replayed.status == 0, replayed.out
    assert "identical" in replayed.out


def _has_ended(http: httpx.Client, run_id: str) -> bool:
    return http.get(f"/v1/runs/{run_id}").json()["status"] in ("completed", "failed")
