"""One agent, written in each framework: what a run of it does for the people who talk to it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.events import EventEnvelope
from support.adapter_agents import (
    FRAMEWORKS,
    JOINS_MESSAGES,
    KEEPS_TOOL_MESSAGES,
    agent_of,
    answer_by_what_is_said,
    as_event,
    asked,
    configuration,
    model_entry,
    prepared,
    text_of,
)
from support.command_line import CommandLine, until
from support.gates import Gate
from support.model_server import ModelServer
from support.stepping import CALLER, Ended, Stage, stage, within

pytestmark = [
    pytest.mark.timeout(600),  # frameworks are installed
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
    pytest.mark.parametrize("framework", FRAMEWORKS),
]
SPOKEN = {"completed", "failed", "cancelled", "timeout"}


class Suite:
    """A host with the agent; the model service and the conversation of a part of the test."""

    def __init__(self, host: Stage, server: ModelServer, conversation: str) -> None:
        self.host = host
        self.server = server
        self.conversation = conversation

    async def start(self, text: str, conversation: str | None = "") -> str:
        chosen = self.conversation if conversation == "" else conversation
        envelope = msgspec.convert(as_event(text, chosen), EventEnvelope)
        accepted = await self.host.host.orchestrator.accept(envelope, CALLER)
        assert accepted.run is not None, accepted
        return accepted.run.run_id

    async def say(self, text: str, conversation: str | None = "") -> Ended:
        ended = await self.host.ended(await self.start(text, conversation))
        assert ended.record.status == "completed", (ended.last, ended.journal[-3:])
        return ended


async def test_what_a_run_does_for_the_people_who_talk_to_it(framework: str, tmp_path: Path) -> None:
    """Each part has a conversation and a model service of its own; they share the host and its process.

    To start a framework takes longer than all that is asked of it.
    """
    data = tmp_path / "data"
    plugin = await prepared(framework, tmp_path, data)
    entries: list[Any] = [PluginEntry(path=str(plugin))]
    agents = [convert(agent_of(), AgentSpec, "suite")]
    # on a busy machine a framework takes long to start
    async with within(500), stage(data, agent=False, plugin_start_seconds=100.0) as host:
        for part in (
            it_streams_calls_a_host_tool_and_remembers,
            calls_of_one_tool_at_once_are_told_apart,
            after_a_failed_turn_it_still_knows_what_was_said,
            a_message_that_arrives_meanwhile_is_read_after_the_tools,
            a_cancelled_run_gives_its_model_up,
        ):
            async with ModelServer(api_key="k") as server:
                config = ConfigFile(plugins=entries, models=[model_entry(server)], agents=agents)
                await host.host.apply(config, actor="test")
                await part(Suite(host, server, part.__name__), framework)


async def it_streams_calls_a_host_tool_and_remembers(at: Suite, framework: str) -> None:
    answer_by_what_is_said(at.server)
    first = await at.say("price")
    assert first.said == ["Result: lamp: 12 euros"]
    deltas = [r["data"]["chunk"]["content"] for r in first.results if r["type"] == "message.delta"]
    assert "".join(deltas) == first.said[0]
    assert len(deltas) >= 2
    called = [e["data"] for e in first.entries("call") if e["type"] == "tool.call"]
    assert [call["params"]["parameters"] for call in called if "params" in call] in (
        [],
        [{"thing": "lamp"}],
    )
    assert first.types.count("tool.call.started") == first.types.count("tool.call.completed") == 1
    second = await at.say("hello")
    tools = ["assistant", "tool"] if framework in KEEPS_TOOL_MESSAGES else []
    assert second.said == [" ".join(["I saw", "user", *tools, "assistant", "user"])]
    elsewhere = await at.say("hello", conversation="elsewhere")
    assert elsewhere.said == ["I saw user"]
    alone = await at.say("hello", conversation=None)
    assert alone.said == ["I saw user"]


async def calls_of_one_tool_at_once_are_told_apart(at: Suite, framework: str) -> None:
    answer_by_what_is_said(at.server)
    ended = await at.say("prices")
    for kind in ("started", "completed"):
        shown = [r["data"] for r in ended.results if r["type"] == f"tool.call.{kind}"]
        assert sorted(one["tool_call_id"] for one in shown) == ["call_desk", "call_lamp"]
    told = [one for one in at.server.requests[-1].json["messages"] if one["role"] == "tool"]
    assert {one["tool_call_id"]: text_of(one) for one in told} == {
        "call_lamp": "lamp: 12 euros",
        "call_desk": "desk: 12 euros",
    }


async def after_a_failed_turn_it_still_knows_what_was_said(at: Suite, framework: str) -> None:
    answer_by_what_is_said(at.server)
    await at.say("hello")
    at.server.fail(400, "this model is not in the mood")
    failed = await at.host.ended(await at.start("are you there?"))
    assert failed.record.status == "failed"
    assert "not in the mood" in failed.last["error"]
    joined = framework in JOINS_MESSAGES
    seen = "user assistant user" if joined else "user assistant user user"
    assert (await at.say("hello")).said == [f"I saw {seen}"]
    texts = [text_of(one) for one in at.server.requests[-1].json["messages"] if one["role"] == "user"]
    assert texts == (["hello", "are you there?\nhello"] if joined else ["hello", "are you there?", "hello"])


async def a_message_that_arrives_meanwhile_is_read_after_the_tools(at: Suite, framework: str) -> None:
    gate = Gate()
    answer_by_what_is_said(at.server, first=gate)
    run_id = await at.start("price")
    await at.server.asked(1)
    steer = msgspec.convert(as_event("and in dollars?", at.conversation), EventEnvelope)
    assert (await at.host.host.orchestrator.accept(steer, CALLER)).outcome == "steered"
    gate.open()
    ended = await at.host.ended(run_id)
    sent = at.server.requests[1].json["messages"]
    if framework in JOINS_MESSAGES:
        assert "Result: lamp: 12 euros (" in ended.said[0], ended.last
        assert [one["role"] for one in sent[-2:]] == ["tool", "system"]
        assert "and in dollars?" in text_of(sent[-1])
    else:
        assert ended.said == ["Result: lamp: 12 euros (and in dollars?)"], ended.last
        assert asked(at.server)[1] == ["user", "assistant", "tool", "user"]
    after = await at.say("hello")
    texts = [text_of(one) for one in at.server.requests[-1].json["messages"] if one["role"] == "user"]
    assert texts == ["price", "and in dollars?", "hello"], after.said


async def a_cancelled_run_gives_its_model_up(at: Suite, framework: str) -> None:
    gate = Gate()
    answer_by_what_is_said(at.server, middle=gate)
    run_id = await at.start("hello")
    await at.host.seen(run_id, "message.delta")
    await at.host.cancel(run_id)
    ended = await at.host.ended(run_id)
    assert (ended.record.status, ended.said) == ("cancelled", [])
    await at.server.disconnected(1)
    gate.open()
    seen = "user" if framework in JOINS_MESSAGES else "user user"
    assert (await at.say("hello")).said == [f"I saw {seen}"]  # its process is well


def test_a_killed_host_goes_on_without_a_second_payment_and_replays(framework: str, tmp_path: Path) -> None:
    hostler = CommandLine(tmp_path / "data", tmp_path / "work")
    hostler.cwd.mkdir()
    plugin = asyncio.run(prepared(framework, tmp_path, hostler.data))
    gate = Gate()
    with ModelServer(api_key="k") as server:
        answer_by_what_is_said(server, middle=gate)
        (hostler.cwd / "hostler.yaml").write_text(configuration(plugin, server))
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            first = http.post("/v1/events", json=as_event("price")).json()["run"]["run_id"]
            server.wait_asked(2)  # the first answer is given, the second has begun
            host.stop(signal.SIGKILL)
        gate.open()
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            record = _ended(http, first)
            assert (record["status"], record["attempt"]) == ("completed", 2), record
            assert record["output"]["text"] == "Result: lamp: 12 euros"
            assert [len(roles) for roles in asked(server)] == [1, 3, 3]  # the first only once
            second = http.post("/v1/events", json=as_event("pay")).json()["run"]["run_id"]
            until(lambda: _pauses(http), "nobody is asked")
            before = len(server.requests)
            host.stop(signal.SIGKILL)
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            _approve(http)
            record = _ended(http, second)
            assert record["status"] == "completed", (record, host.log[-2000:])
            assert record["output"]["text"] == "Result: paid 3"
            assert len(server.requests) == before + 1  # the wish to pay is not paid for again
            third = http.post("/v1/events", json=as_event("pay")).json()["run"]["run_id"]
            until(lambda: _pauses(http), "nobody is asked")
            _approve(http, "deny")
            denied = _ended(http, third)["output"]["text"]
            assert denied.startswith("Result: ")
            assert "paid" not in denied
    for run_id in (first, second, third):  # the service is gone
        replayed = hostler("replay", run_id)
        assert replayed.status == 0, replayed.out
        assert "identical" in replayed.out


def _ended(http: httpx.Client, run_id: str) -> dict[str, Any]:
    until(lambda: http.get(f"/v1/runs/{run_id}").json()["status"] in SPOKEN, "the run did not end")
    record: dict[str, Any] = http.get(f"/v1/runs/{run_id}").json()
    return record


def _pauses(http: httpx.Client) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = http.get("/v1/pauses", params={"status": "open"}).json()["items"]
    return items


def _approve(http: httpx.Client, action: str = "approve") -> None:
    (pause,) = _pauses(http)
    whole = http.get(f"/v1/pauses/{pause['id']}").json()
    (call,) = whole["calls"]
    assert "ay" in call["args"].get("title", str(call)), call
    decided = {"call_id": call["call_id"], "type": "answer", "action": action, "values": {}}
    body = {"revision": whole["revision"], "actions": [decided]}
    answer = http.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert answer.status_code == 202, answer.text
