"""Tools that the sender of an event carries out itself: granted, called, answered, and known ever after."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.pause_actions import UnprocessableError
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.journal.explained_calls import explain_call
from hostler.runs.orchestrator import Accepted
from hostler.storage.stores import debounce as gathering
from hostler.storage.stores import runs
from hostler_protocol.errors import DeniedError, InvalidArgumentError, NotFoundError
from hostler_protocol.events import CallerTool, Input
from support.caller_tools import CALL, PLAIN, SCREEN, given
from support.server_process import PLUGINS
from support.shop import ALLOWED, PLACE, calling, decide, decision, parked, person, shop, waiting
from support.stepping import CALLER, WORKSPACE, Ended, Stage, stage, within

LISTENER = PLUGINS / "listener"


def named(ended: Ended) -> dict[str, dict[str, Any]]:
    """The tools in the context that the runner showed."""
    return {tool["tool_name"]: tool for tool in ended.told["resources"]["tools"]}


async def grant_of(host: Stage, run_id: str) -> dict[str, Any]:
    run = await host.host.db.read(lambda tx: runs.get(tx, WORKSPACE, run_id))
    assert run.grant_json is not None
    grant: dict[str, Any] = json.loads(run.grant_json)
    return grant


async def test_a_run_sees_them_among_its_tools(tmp_path: Path) -> None:
    hidden = {**SCREEN, "description": "The size\u202e of the window"}
    detail = ["call", "tool.detail", {"tool_name": "screen_size"}]
    async with shop(tmp_path) as host:
        await host.agent(resource_policy=ALLOWED)
        seen = await host.run([], input=given([["show_context"]], hidden, PLAIN))
        assert {"screen_size", "pick-file", "shop.book"} <= set(named(seen))
        assert named(seen)["screen_size"] == {
            "tool_name": "screen_size",
            "tool_type": "client",
            "description": "The size  of the window",
            "operations": ["detail", "call"],
            "approval": "never",
        }
        assert seen.told["input"]["tools"] == []
        (answer,) = (await host.run([], input=given([detail, ["tell"]], hidden))).told
        assert answer == {
            "name": "screen_size",
            "description": "The size  of the window",
            "parameters": SCREEN["parameters"],
        }
        # the next message of the conversation brings none, and its run has none
        assert "screen_size" not in named(await host.run([["show_context"]]))


@pytest.mark.parametrize("hold", [60.0, 0.5], ids=["held", "parked"])
async def test_calls_made_together_are_one_pause(tmp_path: Path, database_url: str, hold: float) -> None:
    async with shop(tmp_path, database=database_url, hold_seconds=hold) as host:
        await host.agent(runner="resumable", resource_policy=ALLOWED)
        steps = [["together", [CALL], [calling("pick-file", kind="png")]], ["tell"]]
        run_id = await host.start([], input=given(steps, SCREEN, PLAIN), **PLACE)
        pause = await waiting(host, run_id, calls=2)
        if hold < 1:
            await parked(host, run_id)
        by_tool = {call.tool: call for call in pause.calls}
        assert {call.kind for call in pause.calls} == {"client_tool"}
        screen = by_tool["screen_size"]
        assert (screen.args, screen.args_schema) == ({"unit": "px"}, SCREEN["parameters"])
        with pytest.raises(UnprocessableError):
            await decide(host, pause, decision(screen, "approve"))
        with pytest.raises(NotFoundError):  # who may not see it
            await decide(host, pause, decision(screen, "result", result=1), by=await person(host, "eve"))
        answers = [
            decision(screen, "result", result={"width": 800}),
            decision(by_tool["pick-file"], "error", error="the user closed the dialogue"),
        ]
        assert await decide(host, pause, *answers, by=await person(host, CALLER.subject)) == "ready"
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.record.attempt == (2 if hold < 1 else 1)
        assert {"result": {"width": 800}} in ended.told
        (failed,) = [one["error"] for one in ended.told if "error" in one]
        assert "closed the dialogue" in failed["message"]
        shown = [one["data"] for one in ended.results if one["type"] == "interaction.requested"]
        assert {(one["kind"], one["tool_name"]) for one in shown} == {
            ("client_tool", "screen_size"),
            ("client_tool", "pick-file"),
        }
        assert all(one["args_hash"] and one["expires_at"] for one in shown)


async def test_they_are_what_they_were_after_a_restart(tmp_path: Path, database_url: str) -> None:
    async with shop(tmp_path, database=database_url) as host:
        await host.agent(runner="resumable", resource_policy=ALLOWED)
        steps = [CALL, ["call", "tool.detail", {"tool_name": "screen_size"}], CALL, ["tell"]]
        run_id = await host.start([], input=given(steps, SCREEN), **PLACE)
        first = await waiting(host, run_id)
        await parked(host, run_id)
        await host.agent(runner="resumable", resource_policy={**ALLOWED, "allow_client_tools": False})
    async with shop(tmp_path, database=database_url) as host:
        await decide(host, first, decision(first.calls[0], "result", result=1))
        second = await waiting(host, run_id)
        await decide(host, second, decision(second.calls[0], "result", result=2))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        one, detail, two = ended.told
        assert (one, two) == ({"result": 1}, {"result": 2})
        assert detail["parameters"] == SCREEN["parameters"]


async def test_arguments_are_held_against_their_schema(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(resource_policy=ALLOWED)
        wrong = calling("screen_size", unit="miles")
        ended = await host.run([], input=given([wrong, ["tell"]], SCREEN))
        (answer,) = ended.told
        assert answer["error"]["code"] == "invalid_argument"
        assert "unit" in answer["error"]["message"]
        assert "interaction.requested" not in ended.types
        (unknown,) = (await host.run([], input=given([CALL, ["tell"]], PLAIN))).told
        assert unknown["error"]["code"] == "not_found"


async def test_a_runner_may_pause_its_run_for_one_itself(tmp_path: Path) -> None:
    pending = {"tool_name": "screen_size", "arguments": {"unit": "em"}, "kind": "client_tool", "call_id": "a"}
    steps = {"1": [["result", "run.paused", {"pending": [pending], "state": 1}]], "2": [["show_context"]]}
    async with shop(tmp_path) as host:
        await host.agent(runner="keeper", resource_policy=ALLOWED)
        run_id = await host.start([], input=given(steps, SCREEN), **PLACE)
        pause = await waiting(host, run_id)
        (call,) = pause.calls
        assert (call.kind, call.args_schema) == ("client_tool", SCREEN["parameters"])
        await decide(host, pause, decision(call, "result", result=[1, 2]))
        ended = await host.ended(run_id)
        (told,) = ended.told["continuation"]["decisions"]
        assert (told["call_id"], told["decision"], told["result"]) == ("a", "answered", [1, 2])
        (shown,) = [one["data"] for one in ended.results if one["type"] == "interaction.requested"]
        assert {name: shown[name] for name in ("kind", "tool_name", "arguments", "tool_call_id")} == {
            "kind": "client_tool",
            "tool_name": "screen_size",
            "arguments": {"unit": "em"},
            "tool_call_id": "a",
        }
        assert shown["args_hash"] == call.args_hash
        assert shown["expires_at"] == pause.expires_at
        assert "screen_size" in named(ended)


# -- what is refused ------------------------------------------------------------------------------------


async def test_an_agent_may_take_none(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(resource_policy={"allow_client_tools": False})
        with pytest.raises(DeniedError, match=r"'main' takes no tools .*allow_client_tools is false"):
            await host.send([], input=given([], SCREEN), event_id="e1")
        first = await host.run([["say", "without"]], event_id="e1")
        assert first.said == ["without"]


async def test_a_name_that_the_agent_has_itself_is_refused(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(resource_policy=ALLOWED)
        await host.run([])  # its plugin is ready
        own = {"name": "shop.book"}
        with pytest.raises(InvalidArgumentError, match=r"has a tool 'shop.book' itself"):
            await host.send([], input=given([], SCREEN, own))
        await host.agent(resource_policy={"allowed_tool_names": ["shop.send"]})
        seen = await host.run([], input=given([["show_context"]], own))
        assert named(seen)["shop.book"]["tool_type"] == "client"


async def test_a_runner_that_calls_no_tools_gets_none(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="bare")
        ended = await host.run([], input=given([["show_context"]], SCREEN))
        assert named(ended) == {}
        assert any("tools of the caller are not granted" in one for one in ended.warnings)


# -- with the messages of a conversation ----------------------------------------------------------------


@contextlib.asynccontextmanager
async def listening(tmp_path: Path, database_url: str, **concurrency: Any) -> AsyncIterator[Stage]:
    """A host with a runner that can be steered."""
    url = database_url if database_url.startswith("postgres") else None
    async with within(), stage(tmp_path / "d", database=url, plugin=LISTENER, agent=False) as made:
        spec = {
            "name": "main",
            "runner": "plugin:test/listener/equipped",
            "concurrency": concurrency,
        }
        await made.host.apply(ConfigFile(agents=[convert(spec, AgentSpec, "main")]), actor="test")
        yield made


async def say(made: Stage, text: str, *tools: dict[str, Any]) -> Accepted:
    return await made.send([], input={"text": text, "tools": list(tools)}, **PLACE)


async def at_work(made: Stage, accepted: Accepted) -> str:
    assert accepted.run is not None
    while (await made.host.runs.record(WORKSPACE, accepted.run.run_id)).status != "running":
        await asyncio.sleep(0.02)
    return accepted.run.run_id


async def test_a_message_with_other_tools_is_no_steer(tmp_path: Path, database_url: str) -> None:
    async with listening(tmp_path, database_url) as made:
        latch = tmp_path / "latch"
        run_id = await at_work(made, await say(made, f"wait {latch}", SCREEN, PLAIN))
        outcomes = [
            (await say(made, "none")).outcome,
            (await say(made, "some", PLAIN)).outcome,
            (await say(made, "all", PLAIN, SCREEN)).outcome,
        ]
        assert outcomes == ["steered"] * 3
        changed = {**SCREEN, "description": "something else"}
        other = await say(made, "other", changed)
        assert other.outcome == "queued"
        latch.touch()
        assert json.loads((await made.ended(run_id)).said[0]) == [f"wait {latch}", "none", "some", "all"]
        assert other.run is not None
        own = await made.ended(other.run.run_id)
        assert json.loads(own.said[0]) == ["other"]
        (context,) = own.entries("context")
        (tool,) = [one for one in context["data"]["resources"]["tools"] if one["tool_type"] == "client"]
        assert tool["description"] == "something else"


async def test_messages_that_a_run_leaves_bring_their_tools_to_the_next(
    tmp_path: Path, database_url: str
) -> None:
    async with listening(tmp_path, database_url) as made:
        run_id = await at_work(made, await say(made, "hold on", SCREEN, PLAIN))
        for text, tools in (("one", ()), ("two", (PLAIN,)), ("three", (SCREEN,))):
            assert (await say(made, text, *tools)).outcome == "steered"
        await made.host.orchestrator.cancel(WORKSPACE, run_id, reason="enough", actor="test", grace=0)
        await made.ended(run_id)
        while len(found := await made.host.db.read(lambda tx: runs.page(tx, WORKSPACE))) < 2:
            await asyncio.sleep(0.02)
        following = max(found, key=lambda run: run.created_at).run_id
        ended = await made.ended(following)
        assert set((await grant_of(made, following))["caller_tools"]) == {"screen_size", "pick-file"}
        assert json.loads(ended.said[0])[0] == "one"


async def test_a_turn_has_the_tools_of_all_its_messages(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MAX_GATHERED", 3)  # it begins with the third, however slow they come
    newer = {**SCREEN, "description": "newer"}
    async with listening(tmp_path, database_url, debounce=60.0) as made:
        ids = {
            accepted.run.run_id
            for accepted in [
                await say(made, "one", SCREEN),
                await say(made, "two", newer, PLAIN),
                await say(made, "three"),
            ]
            if accepted.run is not None
        }
        (run_id,) = ids
        await made.ended(run_id)
        brought = (await grant_of(made, run_id))["caller_tools"]
        assert brought == {"screen_size": newer, "pick-file": PLAIN}


# -- done again -----------------------------------------------------------------------------------------


async def test_a_retry_and_a_fork_have_them(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy=ALLOWED)
        run_id = await host.start([], input=given([CALL, CALL, ["tell"]], SCREEN), **PLACE)
        for answer in (1, 2):
            pause = await waiting(host, run_id)
            await decide(host, pause, decision(pause.calls[0], "result", result=answer))
        await host.ended(run_id)

        retried = await host.host.reruns.retry(WORKSPACE, run_id, actor="test")
        pause = await waiting(host, retried)
        assert pause.calls[0].args_schema == SCREEN["parameters"]
        await host.host.orchestrator.cancel(WORKSPACE, retried, reason="seen", actor="test")

        edited = Input(text=json.dumps([CALL, ["show_context"]]))
        forked = await host.host.reruns.fork(WORKSPACE, run_id, actor="test", edited=edited)
        ended = await host.ended(forked)  # the first call is answered from the recording
        assert ended.record.status == "completed", ended.last
        assert "screen_size" in named(ended)
        twice = msgspec.structs.replace(edited, tools=msgspec.convert([PLAIN, PLAIN], list[CallerTool]))
        with pytest.raises(InvalidArgumentError, match="appears twice"):
            await host.host.reruns.fork(WORKSPACE, run_id, actor="test", edited=twice)


async def test_a_child_gets_no_others_than_its_parent(tmp_path: Path) -> None:
    def child(*tools: dict[str, Any]) -> list[Any]:
        body = given([["show_context"]], *tools)
        return ["call", "run.create", {"agent": "below", "input": body, "wait": 20}]

    async with shop(tmp_path) as host:
        await host.agent("below")
        await host.agent(resource_policy={"allowed_agents": ["below"]})
        ended = await host.run([], input=given([child(PLAIN), child(SCREEN), ["tell"]], SCREEN))
        refused, made = ended.told
        assert "only of those that the caller of its parent brought" in refused["error"]["message"]
        assert "screen_size" in made["output"]["text"]


async def test_the_audit_explains_who_brought_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as host:
        await host.agent(resource_policy=ALLOWED)
        run_id = await host.start([], input=given([CALL, ["tell"]], SCREEN), **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0], "result", result=1))
        ended = await host.ended(run_id)
        (call,) = [one for one in ended.entries("call") if one["type"] == "tool.call"]
        found = await explain_call(host.host.db, host.host.blobs, WORKSPACE, run_id, str(call["position"]))
        rules = {(rule.source, rule.field) for check in found.checks for rule in check.rules}
        assert ("event", "input.tools") in rules
        assert ("policy", "resource_policy.allow_client_tools") in rules
