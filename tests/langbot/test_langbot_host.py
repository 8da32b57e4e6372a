"""Plugins of LangBot under a whole host: in the sandbox, with its grants, killed, and through the shell."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.events import Caller
from hostler.domain.model_entries import ModelEntry
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.events import EventEnvelope
from support.command_line import CommandLine
from support.langbot_plugins import PLUGINS, prepared, steps
from support.model_server import ModelServer
from support.services.n8n import FakeN8n
from support.stepping import CALLER, Ended, Stage, stage, within

pytestmark = [
    pytest.mark.gate("langbot"),
    pytest.mark.timeout(600),  # the SDK is installed
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
ADMIN = Caller("default", "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
TOOLBOX = PLUGINS.parent / "toolbox"
USER = {"role": "user", "content": "hi"}
POLICY = {"allowed_tool_names": ["toolbox.echo"], "allowed_model_ids": ["main"], "allow_plugin_storage": True}


class Puppets:
    """A host with both plugins in their sandboxes, an agent for each, and a model service."""

    def __init__(self, host: Stage, server: ModelServer) -> None:
        self.host = host
        self.server = server

    async def start(self, text: str, agent: str = "current", **fields: Any) -> str:
        event = {
            "event_type": "message.received",
            "agent": agent,
            "conversation_id": "c1",
            "input": {"text": text},
            "actor": {"actor_type": "user", "actor_id": "ada"},
            **fields,
        }
        accepted = await self.host.host.orchestrator.accept(msgspec.convert(event, EventEnvelope), CALLER)
        assert accepted.run is not None, accepted
        return accepted.run.run_id

    async def run(self, *taken: Sequence[Any], **fields: Any) -> Ended:
        return await self.host.ended(await self.start(steps(*taken), **fields))

    async def told(self, *taken: Sequence[Any], **fields: Any) -> list[Any]:
        ended = await self.run(*taken, **fields)
        assert ended.record.status == "completed", ended.last
        found: list[Any] = json.loads(ended.said[-1])
        return found


@contextlib.asynccontextmanager
async def puppets(tmp_path: Path) -> AsyncIterator[Puppets]:
    await prepared(tmp_path / "data")
    async with (
        within(500),
        ModelServer(api_key="k") as server,
        stage(tmp_path / "data", plugin=TOOLBOX, agent=False) as host,
    ):
        specs: list[dict[str, Any]] = [
            {
                "name": "current",
                "runner": "plugin:tests/Puppet/default",
                "config": {"model": {"primary": "main"}},
            },
            {"name": "earlier", "runner": "plugin:tests/OldPuppet/default"},
            {
                "name": "again",
                "runner": "plugin:tests/Puppet/default",
                "recovery": {"on_crash": "restart"},
            },
        ]
        entry = ModelEntry(id="main", base_url=server.base_url, model="main", api_key="k", max_retries=0)
        asking = {**POLICY, "tool_approval": {"toolbox.echo": "required"}}
        specs.append({**specs[0], "name": "asks", "resource_policy": asking})
        agents = [convert({"resource_policy": POLICY, **spec}, AgentSpec, spec["name"]) for spec in specs]
        plugins: list[str | PluginEntry] = [
            PluginEntry(path=str(PLUGINS / name)) for name in ("current", "earlier")
        ]
        plugins.append(PluginEntry(path=str(TOOLBOX), level="trusted"))
        await host.host.apply(ConfigFile(plugins=plugins, models=[entry], agents=agents), actor="test")
        yield Puppets(host, server)


def api(name: str, **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return ("api", name, arguments)


async def test_runs_have_their_grants_and_nothing_else(tmp_path: Path) -> None:
    async with puppets(tmp_path) as at:
        at.server.always("A short answer")
        found = iter(
            await at.told(
                api("state_set", scope="conversation", key="k", value=[1]),
                api("state_get", scope="conversation", key="k"),
                api("state_get", scope="runner", key="k"),
                api("set_plugin_storage", key="k", value="kept", bytes=True),
                api("get_plugin_storage", key="k"),
                api("set_workspace_storage", key="k", value="x", bytes=True),
                api("get_tool_detail", tool_name="toolbox.echo"),
                api("call_tool", tool_name="toolbox.echo", parameters={"value": "said"}),
                api("count_tokens", llm_model_uuid="main", messages=[USER]),
                api("invoke_llm", llm_model_uuid="main", messages=[USER]),
                api("get_prompt"),
                api("run_get"),
                api("run_list"),
                api("run_events_page", limit=2),
                api("event_page"),
                api("history_page"),
                ("raw", "run_get", {"run_id": "another"}),
                ("look", "LANGBOT_PLUGIN_REGISTRATION_CAPABILITY"),
                ("look", "HOSTLER_PLUGIN_MANIFEST"),
            )
        )
        assert next(found)["success"]
        assert next(found) == {"value": [1]}
        assert next(found)["error"]["code"] == "unauthorized"
        assert [next(found), next(found)] == [None, "kept"]
        assert "not authorized" in next(found)["raised"]
        assert next(found)["parameters"]["type"] == "object"
        assert next(found) == {"result": "said"}
        assert next(found) > 0
        assert next(found)["content"] == "A short answer"
        assert next(found)[0]["content"] == "Be brief."
        own, runs, journal, events, history, foreign, *secrets = found
        assert own["status"] == "running"
        assert [run["run_id"] for run in runs["items"]] == [own["run_id"]]
        assert len(journal["items"]) == 2
        assert journal["next_cursor"] == str(journal["items"][-1]["metadata"]["position"])
        assert events["items"] == []
        assert history["items"] == []
        assert foreign["data"]["error"]["code"] == "unauthorized"
        assert secrets == [None, None]

        streamed = await at.run(("stream", {"llm_model_uuid": "main", "messages": [USER]}))
        deltas = [r["data"]["chunk"]["content"] for r in streamed.results if r["type"] == "message.delta"]
        assert "".join(deltas) == "A short answer"
        own_id = streamed.record.run_id
        later = await at.told(
            api("history_page", limit=1),
            api("history_search", query="short"),
            api("run_events_page", run_id=own_id),
            ("raw", "run_append_result", {"run_id": own_id, "result": {}}),
            api("event_page"),
        )
        assert later[0]["items"][0]["role"] == "assistant"
        assert later[0]["has_more"]
        assert later[1]["total_count"] >= 1
        assert later[2]["items"][0]["run_id"] == own_id
        assert later[3]["data"]["error"]["code"] == "unauthorized"  # that run is over
        assert later[4]["items"][0]["event_type"] == "message.received"

        said = await at.host.ended(await at.start("tool toolbox.echo", "earlier"))
        assert said.record.status == "failed"  # the tool's own check of its parameters
        assert "thing" in said.last["error"]
        greeted = await at.host.ended(await at.start("hello", "earlier"))
        assert greeted.said == ["You said hello."]


async def test_the_sandbox_holds_what_the_plugin_starts(tmp_path: Path) -> None:
    async with puppets(tmp_path) as at:
        ended = await at.run(("write", str(PLUGINS / "current" / "trace")))
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.exception")
        assert "Read-only file system" in ended.last["error"] or "Permission denied" in ended.last["error"]
        status = next(one for one in at.host.host.supervisor.status() if one.key == "tests/Puppet")
        assert "sandboxed" in str(status.containment)
        assert any("color-wheel" in text for text in status.warnings)


async def test_http_clients_take_the_way_out_of_the_sandbox(tmp_path: Path) -> None:
    await prepared(tmp_path / "data")
    async with (
        within(300),
        FakeN8n() as allowed,
        FakeN8n() as other,
        stage(tmp_path / "data", plugin=TOOLBOX, agent=False) as host,
    ):
        entry = PluginEntry(path=str(PLUGINS / "current"), network=[f"127.0.0.1:{allowed.port}"])
        agent = convert({"name": "current", "runner": "plugin:tests/Puppet/default"}, AgentSpec, "current")
        await host.host.apply(ConfigFile(plugins=[entry], agents=[agent]), actor="test")

        async def fetch(library: str, port: int) -> Any:
            step = ("fetch", library, f"http://127.0.0.1:{port}/elsewhere")
            ended = await host.run({}, agent="current", input={"text": steps(step)})
            return json.loads(ended.said[-1])[0]

        for library in ("httpx", "httpx-async", "aiohttp"):
            assert "is not registered" in await fetch(library, allowed.port)
            assert "is not registered" not in str(await fetch(library, other.port))
        assert await fetch("transport", allowed.port) == {"raised": "ConnectError"}  # its own choice
        assert len(allowed.asked) == 3
        assert other.asked == []


async def test_a_message_meanwhile_is_pulled_and_a_cancelled_run_ends(tmp_path: Path) -> None:
    async with puppets(tmp_path) as at:
        first = await at.start(steps(("delta", "so far"), ("meet", "m"), api("steering_pull")))
        await at.host.seen(first, "message.delta")
        steer = {"event_type": "message.received", "agent": "current", "conversation_id": "c1"}
        event = msgspec.convert({**steer, "input": {"text": "and in dollars?"}}, EventEnvelope)
        assert (await at.host.host.orchestrator.accept(event, CALLER)).outcome == "steered"
        other = await at.run(("meet", "m"), ("say", "met"), conversation_id="c2")
        assert other.said == ["met"]
        ended = await at.host.ended(first)
        assert json.loads(ended.said[-1])[0]["items"][0]["input"]["text"] == "and in dollars?"

        for step in ("wait", "stubborn"):
            run_id = await at.start(steps(("delta", "so far"), ("meet", step), (step,)))
            await at.host.seen(run_id, "message.delta")
            # Its result is seen before the runner goes on; a meeting shows that it has gone on.
            await at.run(("meet", step), ("say", "met"), conversation_id="c2")
            await at.host.cancel(run_id)
            assert (await at.host.ended(run_id)).record.status == "cancelled"
        assert await at.told(api("get_plugin_storage", key="cancelled")) == ["yes"]  # it could clean up


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_call_that_needs_an_approval_is_held(decision: str, tmp_path: Path) -> None:
    async with puppets(tmp_path) as at:
        call = api("call_tool", tool_name="toolbox.echo", parameters={"value": "said"})
        run_id = await at.start(steps(call), "asks")
        pauses = at.host.host.pauses
        while not (found := (await pauses.page(ADMIN, run_id=run_id)).items):
            await asyncio.sleep(0.01)
        (asked,) = found[0].calls
        assert (asked.tool, asked.args) == ("toolbox.echo", {"value": "said"})
        action = Action(call_id=asked.call_id, type=decision, args_hash=asked.args_hash)  # type: ignore[arg-type]
        await pauses.act(ADMIN, found[0].id, ActRequest(revision=found[0].revision, actions=[action]))
        (met,) = json.loads((await at.host.ended(run_id)).said[-1])
        if decision == "approve":
            assert met == {"result": "said"}
        else:
            assert met["error"]["code"] == "denied"


async def test_one_that_dies_ends_its_runs_and_is_started_again(tmp_path: Path) -> None:
    async with puppets(tmp_path) as at:
        waiting = await at.start(steps(("delta", "so far"), ("wait",)), conversation_id="c2")
        await at.host.seen(waiting, "message.delta")
        ended = await at.run(("die",))
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.crashed")
        assert (await at.host.ended(waiting)).record.status_code == "runner.crashed"
        again = await at.run(("die-first",), ("say", "at last"), agent="again")
        assert (again.record.status, again.record.attempt, again.said) == ("completed", 2, ["at last"])
        assert (await at.host.ended(await at.start("Ada"))).said == ["Hello, Ada"]


def test_it_is_added_shown_changed_and_removed_from_the_shell(tmp_path: Path) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path / "work")
    hostler.cwd.mkdir()
    asyncio.run(prepared(hostler.data))
    ignored = shutil.ignore_patterns("__pycache__")
    plugin = shutil.copytree(PLUGINS / "current", tmp_path / "puppet", ignore=ignored)
    once = hostler("run", plugin, "Ada")
    assert (once.status, once.out) == (0, "Hello, Ada\n"), once.err
    with hostler.serving():
        added = hostler("plugins", "add", plugin)
        assert added.status == 0, added.err
        shown = hostler("plugins", "show", "tests/Puppet", "--json").json
        assert (shown["version"], shown["state"]) == ("1.2.0", "ready")
        assert any("'color' has the type 'color-wheel'" in text for text in shown["warnings"])
        (manifest,) = shown["manifests"]
        assert manifest["label"] == {"en": "Puppet", "zh-Hans": "木偶"}
        runner = "runner=plugin:tests/Puppet/default"
        refused = hostler("agents", "add", "puppet", runner, "config.tone=loud")
        assert refused.status != 0
        assert "its options are 'dry', 'warm'" in refused.err
        assert hostler("agents", "add", "puppet", runner, "config.tone=warm").status == 0
        talk = hostler("chat", "puppet", "--conversation", "c1", stdin="Ada\nBob\n")
        assert "Hello, Ada" in talk.out
        assert "Hello, Bob" in talk.out
        last = hostler("runs", "list", "--json").json[0]["run_id"]
        replayed = hostler("replay", last)
        assert (replayed.status, "identical" in replayed.out) == (0, True), replayed.out
        manifest_file = plugin / "manifest.yaml"
        manifest_file.write_text(
            manifest_file.read_text().replace("1.2.0", "1.3.0").replace("Hello", "Welcome")
        )
        assert hostler("plugins", "restart", "tests/Puppet").status == 0
        assert hostler("plugins", "show", "tests/Puppet", "--json").json["version"] == "1.3.0"
        assert "Welcome, Eve" in hostler("chat", "puppet", stdin="Eve\n").out
        manifest_file.write_text("kind: Plugin\nmetadata: {}\n")
        broken = hostler("plugins", "restart", "tests/Puppet")
        assert broken.status != 0
        assert "manifest.yaml: " in broken.err
        assert hostler("agents", "remove", "puppet").status == 0
        assert hostler("plugins", "remove", "tests/Puppet").status == 0
        assert hostler("plugins", "list", "--json").json == []


@pytest.mark.parametrize("generation", ["current", "earlier"])
def test_it_passes_the_conformance_suite(generation: str, tmp_path: Path) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path)
    asyncio.run(prepared(hostler.data))
    checks = [one for name in ("run_ends", "cancel", "cut_bytes", "eof_exits") for one in ("--only", name)]
    ran = hostler("test", PLUGINS / generation, *checks)
    assert ran.status == 0, ran.out


async def test_a_killed_bridge_leaves_no_plugin_behind(tmp_path: Path) -> None:
    await prepared(tmp_path / "data")
    async with within(300), stage(tmp_path / "data", plugin=TOOLBOX, agent=False) as host:
        plugins: list[str | PluginEntry] = [PluginEntry(path=str(PLUGINS / "current"), level="trusted")]
        agent = convert({"name": "current", "runner": "plugin:tests/Puppet/default"}, AgentSpec, "current")
        await host.host.apply(ConfigFile(plugins=plugins, agents=[agent]), actor="test")
        run_id = await host.start({}, agent="current", input={"text": steps(("delta", "so far"), ("wait",))})
        await host.seen(run_id, "message.delta")
        (pid,) = (one.pid for one in host.host.supervisor.status() if one.key == "tests/Puppet")
        assert pid is not None
        below = psutil.Process(pid).children(recursive=True)
        (bridge,) = [one for one in [psutil.Process(pid), *below] if "hostler_langbot.serve" in one.cmdline()]
        (child,) = [one for one in below if "hostler_langbot.child" in one.cmdline()]
        bridge.kill()
        assert (await host.ended(run_id)).record.status_code == "runner.crashed"
        await asyncio.to_thread(child.wait, 60)
        greeted = await host.run({}, agent="current", input={"text": "Ada"})
        assert greeted.said == ["Hello, Ada"]
