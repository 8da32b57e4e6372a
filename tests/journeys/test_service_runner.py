"""A runner of a service in its sandbox, under a whole host: asked, streamed, and killed in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.config_mistakes import ConfigurationError
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.config_file import parse_config
from hostler_protocol.errors import InvalidArgumentError
from support.http_host import Event, Served, iter_events, serving
from support.services import dify
from support.services.dify import FakeDify
from support.services.server import Answer, Hold

FOLDER = Path(__file__).parents[2] / "runners" / "dify"
BOUND_SECONDS = 150.0


@contextlib.asynccontextmanager
async def assisted(
    data: Path, fake: FakeDify, monkeypatch: pytest.MonkeyPatch, network: list[str] | None = None
) -> AsyncIterator[Served]:
    """A host with two agents on one app of Dify: one that fails after a crash, one that starts again."""
    monkeypatch.setenv("DIFY_KEY", dify.KEY)
    config = {"base-url": fake.address, "api-key": "env:DIFY_KEY", "timeout": 100}
    specs = [
        {
            "name": name,
            "runner": "plugin:hostler/dify/default",
            "config": config,
            "recovery": {"on_crash": name},
        }
        for name in ("fail", "restart")
    ]
    places = [f"127.0.0.1:{fake.port}"] if network is None else network
    plugin = PluginEntry(path=str(FOLDER), network=places)
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False) as served:
        agents = [convert(spec, AgentSpec, str(spec["name"])) for spec in specs]
        await served.host.apply(ConfigFile(plugins=[plugin], agents=agents), actor="test")
        yield served


@contextlib.asynccontextmanager
async def streamed(served: Served, agent: str, text: str) -> AsyncIterator[AsyncIterator[Event]]:
    body = {
        "event_type": "message.received",
        "agent": agent,
        "input": {"text": text},
        "conversation_id": "c",
    }
    headers = {"accept": "text/event-stream"}
    async with served.client.stream("POST", "/v1/events", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        yield iter_events(answer)


async def ask(served: Served, agent: str, text: str) -> list[Event]:
    async with streamed(served, agent, text) as found:
        return [event async for event in found]


async def killed_in_the_middle(served: Served, agent: str) -> list[Event]:
    """Kill the plugin's process as soon as the first word is there."""
    seen: list[Event] = []
    async with streamed(served, agent, "Tell me") as found:
        async for event in found:
            if event.type == "message.delta" and not any(e.type == "message.delta" for e in seen):
                os.kill((await plugin(served))["pid"], signal.SIGKILL)
            seen.append(event)
    return seen


async def plugin(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = (await served.client.get("/v1/plugins/hostler%2Fdify")).json()
    return found


def data_of(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event.data)["data"]
    return found


def held(fake: FakeDify) -> Answer:
    return Answer([*fake.stream(["So"])[:2], Hold()], content_type="text/event-stream")


async def test_a_message_is_answered_from_the_sandbox_and_sent_once_whatever_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeDify() as fake, assisted(tmp_path, fake, monkeypatch) as served:
        fake.next(fake.good(["你", "好"]))
        first = await ask(served, "fail", "Hello")
        pieces = [data_of(event)["chunk"]["content"] for event in first if event.type == "message.delta"]
        assert (pieces, first[-1].type) == (["你", "好"], "run.completed")
        assert (await plugin(served))["containment"].startswith("sandboxed")

        fake.next(held(fake))
        lost = await killed_in_the_middle(served, "fail")
        assert (lost[-1].type, data_of(lost[-1])["code"]) == ("run.failed", "runner.crashed")
        await fake.until(lambda: fake.disconnects == 1, "the request of the killed process is open")
        assert len(fake.messages) == 2

        fake.next(held(fake))
        again = await killed_in_the_middle(served, "restart")
        assert "attempt.started" in [event.type for event in again]
        assert (again[-1].type, data_of(again[-1])["code"]) == ("run.failed", "dify.already_sent")
        assert len(fake.messages) == 3  # nothing was paid twice

        assert (await ask(served, "fail", "And now?"))[-1].type == "run.completed"
        assert [message["conversation_id"] for message in fake.messages] == [
            "",
            "dify-conversation-1",
            "",  # of another agent
            "dify-conversation-1",
        ]


async def test_what_the_operator_does_not_allow_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeDify() as fake, assisted(tmp_path, fake, monkeypatch, ["127.0.0.1:9"]) as served:
        end = (await ask(served, "fail", "Hello"))[-1]
        assert data_of(end)["code"] == "dify.unreachable"
        allow = f'`plugins: [{{path: hostler/dify, network: ["127.0.0.1:{fake.port}"]}}]`'
        assert data_of(end)["error"].endswith(f"allow it by an entry in the configuration: {allow}")
        assert fake.asked == []
        assert (await served.client.get("/v1/runs", params={"limit": 1})).text.count(dify.KEY) == 0


async def test_a_service_that_is_down_is_no_matter_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeDify() as fake, assisted(tmp_path, fake, monkeypatch) as served:
        await fake.__aexit__(None, None, None)
        end = (await ask(served, "fail", "Hello"))[-1]
        assert (data_of(end)["code"], data_of(end)["retryable"]) == ("dify.unreachable", True)
        assert data_of(end)["error"].endswith("check config `base-url`, and whether it runs")
        assert "allow it" not in data_of(end)["error"]


async def test_an_endpoint_of_an_entry_is_a_name_and_a_port() -> None:
    """`*` is for manifests: an operator says what it may reach."""
    with pytest.raises((ValueError, InvalidArgumentError), match="is not a place on a network"):
        PluginEntry(path="hostler/dify", network=["*"])


async def test_a_shipped_runner_needs_no_entry_for_the_public_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent is all there is; what its manifest names may be reached, and nothing else."""
    monkeypatch.setenv("DIFY_KEY", dify.KEY)
    async with (
        FakeDify() as fake,
        asyncio.timeout(BOUND_SECONDS),
        serving(tmp_path, agent=False) as served,
    ):
        config = {"base-url": fake.address, "api-key": "env:DIFY_KEY"}
        spec = {"name": "fail", "runner": "plugin:hostler/dify/default", "config": config}
        await served.host.apply(ConfigFile(agents=[convert(spec, AgentSpec, "fail")]), actor="test")
        end = (await ask(served, "fail", "Hello"))[-1]
        assert data_of(end)["code"] == "dify.unreachable"
        assert (
            f"127.0.0.1:{fake.port} is not among what it may reach (api.dify.ai:443)" in data_of(end)["error"]
        )
        listed = (await served.client.get("/v1/runners")).json()["items"]
        assert "plugin:hostler/dify/default" in [runner["id"] for runner in listed]


async def test_a_mistyped_shipped_runner_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    for text in ("plugins: [hostler/difi]", "plugins: [{path: hostler/difi}]"):
        with pytest.raises(ConfigurationError, match=r"did you mean 'dify'\?") as caught:
            parse_config(text, name="hostler.yaml", base=tmp_path)
        assert "no runner 'difi' comes with the host, and hostler/difi is no folder here" in str(caught.value)
    with pytest.raises(ConfigurationError, match="known are a2a, acp, coze, "):
        parse_config("plugins: [hostler/zzzz]", name="hostler.yaml", base=tmp_path)
    (tmp_path / "hostler").mkdir()  # who has such a folder may mean a folder in it
    assert parse_config("plugins: [hostler/difi]", name="hostler.yaml", base=tmp_path).plugins


async def test_an_entry_names_a_shipped_runner_without_its_place(tmp_path: Path) -> None:
    text = 'plugins: [{path: hostler/dify, network: ["a.example:443"]}, hostler/n8n]'
    config = parse_config(text, name="hostler.yaml", base=tmp_path)
    paths = [entry.path for entry in config.plugins if isinstance(entry, PluginEntry)]
    assert [Path(path).resolve() for path in paths] == [FOLDER, FOLDER.with_name("n8n")]
    (tmp_path / "hostler" / "dify").mkdir(parents=True)
    config = parse_config(text, name="hostler.yaml", base=tmp_path)
    (entry, _) = config.plugins
    assert isinstance(entry, PluginEntry)
    assert entry.path == str(tmp_path / "hostler" / "dify")  # a folder of one's own goes first
