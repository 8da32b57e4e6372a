"""Events: taken once, routed to exactly one agent, bounded; and what their runs may not reach."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.config_mistakes import ConfigurationError
from hostler.domain.events import Caller
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.storage.stores import events
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    UnauthorizedError,
)
from hostler_protocol.events import EventEnvelope
from support.http_host import serving
from support.stepping import CALLER, RUNNER, WORKSPACE, Stage, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}
MIB = 1024 * 1024


async def accept(host: Stage, **fields: Any) -> Any:
    given = {"event_type": "message.received", "input": {"text": "[]"}, **fields}
    return await host.host.orchestrator.accept(msgspec.convert(given, EventEnvelope), CALLER)


async def test_the_same_event_is_taken_once(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        given = {"agent": "main", "event_id": "once", "input": {"text": '[["say", "x"]]'}, **PLACE}
        answers = await asyncio.gather(*(accept(host, **given) for _ in range(50)))
        assert {answer.event_id for answer in answers} == {"once"}
        assert len({answer.run.run_id for answer in answers}) == 1
        assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 49
        assert {answer.outcome for answer in answers} == {"started"}
        ended = await host.ended(answers[0].run.run_id)
        assert ended.said == ["x"]
        later = await accept(host, **given)
        assert (later.duplicate, later.run.run_id, later.run.status) == (
            True,
            ended.record.run_id,
            "completed",
        )
        with pytest.raises(ConflictError, match="once"):
            await accept(host, **(given | {"input": {"text": "other"}}))
        # the agent is gone: what it took is still answered, and nothing new
        spec = AgentSpec(name="main", runner=RUNNER + "default", enabled=False)
        await host.host.apply(ConfigFile(agents=[spec]), actor="test")
        assert (await accept(host, **given)).duplicate is True
        with pytest.raises(ConflictError):
            await accept(host, **(given | {"event_id": "new"}))


async def test_a_delivery_without_an_id_gets_one_from_what_identifies_it(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        given = {"agent": "main", "source": "chat", "source_event_id": "77", "event_time": 5.0}
        first = await accept(host, **given)
        assert (await accept(host, **given)).event_id == first.event_id
        others: list[dict[str, Any]] = [{"bot_id": "b"}, {"launcher_id": "l"}, {"sender_id": "s"}]
        for other in [*others, {"event_time": 6.0}]:
            assert (await accept(host, **(given | other))).event_id != first.event_id
        anonymous = {"agent": "main"}
        assert (await accept(host, **anonymous)).event_id != (await accept(host, **anonymous)).event_id


async def test_routing(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as host:

        def spec(name: str, **more: Any) -> AgentSpec:
            return convert({"name": name, "runner": RUNNER + "default", **more}, AgentSpec, name)

        none = await accept(host, event_id="nobody")
        assert (none.outcome, none.run) == ("unrouted", None)
        assert (await accept(host, event_id="nobody")).duplicate is True
        await host.host.apply(
            ConfigFile(
                agents=[
                    spec("wide"),
                    spec("bot", scope={"type": "bot", "id": "b"}),
                    spec("talk", scope={"type": "conversation", "id": "c"}),
                    spec(
                        "loud",
                        scope={"type": "bot", "id": "b"},
                        priority=5,
                        filters=["event.actor.actor_id == 'x'"],
                    ),
                    spec("odd", priority=9, filters=["event.data.number > 3"]),
                    spec("joins", event_types=["group.member_joined"]),
                ]
            ),
            actor="test",
        )

        async def agent_of(**fields: Any) -> str | None:
            answer = await accept(host, **fields)
            if answer.run is None:
                return None
            record = await host.host.runs.record(WORKSPACE, answer.run.run_id)
            return record.agent

        assert await agent_of() == "wide"
        assert await agent_of(bot_id="b") == "bot"
        assert await agent_of(bot_id="b", conversation_id="c") == "talk"
        assert await agent_of(bot_id="b", actor={"actor_id": "x"}) == "loud"
        assert await agent_of(data={"number": 4}) == "odd"
        assert await agent_of(data={"number": "four"}) == "wide"  # an error is no match
        assert await agent_of(event_type="group.member_joined") == "joins"
        assert await agent_of(event_type="webhook.received") is None
        assert await agent_of(agent="joins", event_type="webhook.received") == "joins"
        with pytest.raises(NotFoundError, match="nobody"):
            await accept(host, agent="nobody")
        await host.host.apply(ConfigFile(agents=[spec("wide2")]), actor="test")
        with pytest.raises(ConflictError, match=r"wide.*wide2"):
            await accept(host, event_id="two")
        stored = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, "two"))
        assert stored is not None
        assert stored.outcome == "conflict"
        with pytest.raises(ConflictError, match=r"wide.*wide2"):
            await accept(host, event_id="two")


async def test_a_busy_lane(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        for on_busy in ("steer", "queue", "reject", "interrupt", "parallel"):
            await host.agent(on_busy, concurrency={"on_busy": on_busy})
            place = {"conversation_id": on_busy, "agent": on_busy}
            first = await host.start([["deltas", 1], ["until_cancelled"], ["say", "first"]], **place)
            await host.seen(first, "message.delta")
            second = await host.send([["say", "second"]], **place)
            outcome = {"steer": "queued", "queue": "queued", "reject": "rejected"}.get(on_busy, "started")
            assert second.outcome == outcome
            elsewhere = await host.run([["say", "x"]], conversation_id="elsewhere", agent=on_busy)
            assert elsewhere.record.status == "completed"
            if second.run is None:
                assert on_busy == "reject"
            elif on_busy == "parallel":
                assert (await host.ended(second.run.run_id)).said == ["second"]
            if on_busy != "interrupt":
                await host.cancel(first)
            assert (await host.ended(first)).record.status == "cancelled"
            if second.run is not None:
                assert (await host.ended(second.run.run_id)).said == ["second"]


REFUSED: list[tuple[dict[str, Any], type[HostlerError], str]] = [
    ({"input": {"text": "x" * (MIB + 1)}}, PayloadTooLargeError, "text"),
    ({"input": {"contents": [{"type": "text", "text": "ü" * (MIB // 2 + 1)}]}}, PayloadTooLargeError, "text"),
    (
        {"input": {"contents": [{"type": "image_base64", "image_base64": "A" * (MIB + 4)}]}},
        PayloadTooLargeError,
        "base64",
    ),
    (
        {"input": {"contents": [{"type": "image_base64", "image_base64": "?"}]}},
        InvalidArgumentError,
        "image_base64",
    ),
    ({"input": {}}, InvalidArgumentError, "empty"),
    ({"data": {"x": "y" * 300_000}}, PayloadTooLargeError, "data"),
    ({"event_id": "a\0b"}, InvalidArgumentError, "event_id"),
    ({"event_id": ""}, InvalidArgumentError, "event_id"),
    ({"event_id": "x" * 513}, InvalidArgumentError, "event_id"),
    ({"conversation_id": "a\0b"}, InvalidArgumentError, "conversation_id"),
    ({"thread_id": "\0"}, InvalidArgumentError, "thread_id"),
    ({"actor": {"actor_id": "a\0"}}, InvalidArgumentError, "actor"),
    ({"subject": {"subject_type": "a", "subject_id": "a\0"}}, InvalidArgumentError, "subject"),
    ({"raw_ref": "\0"}, InvalidArgumentError, "raw_ref"),
    ({"agent": "\0"}, InvalidArgumentError, "agent"),
    ({"event_type": "message..received"}, InvalidArgumentError, "event_type"),
    ({"event_type": "Message.Received"}, InvalidArgumentError, "event_type"),
    ({"event_type": "message received"}, InvalidArgumentError, "event_type"),
    ({"workspace_id": "another"}, UnauthorizedError, "another"),
]


async def test_what_no_event_may_be(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        for fields, kind, named in REFUSED:
            with pytest.raises(HostlerError, match=named) as refused:
                await accept(host, **({"agent": "main"} | fields))
            assert type(refused.value) is kind, fields
        page = await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=10))
        assert page == []


async def test_events_of_the_largest_size_come_over_http_and_larger_ones_do_not(tmp_path: Path) -> None:
    async with within(), serving(tmp_path) as served:
        text, image = "say 1" + " " * (MIB - 5), "A" * MIB

        async def send(text: str, image: str) -> httpx.Response:
            contents = [{"type": "text", "text": text}, {"type": "image_base64", "image_base64": image}]
            body = {"event_type": "message.received", "agent": "puppet", "input": {"contents": contents}}
            return await served.client.post("/v1/events", json=body, params={"wait": 30})

        whole = await send(text, image)
        # it was taken and run; the runner says it all back, which is more than one result may hold
        assert (whole.status_code, whole.json()["status_code"]) == (200, "payload_too_large")
        for answer in (await send(text + "x", image), await send(text, image + "AAAA")):
            assert answer.status_code == 413
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "payload_too_large"


async def test_nul_characters_are_kept_where_they_may_be(tmp_path: Path, database_url: str) -> None:
    async with within(), stage(tmp_path, database=database_url) as host:
        nul = "a\0b"
        steps: list[list[Any]] = [
            ["say", nul],
            ["result", "log", {"level": "info", "text": nul}],
            [
                "result",
                "artifact.created",
                {"artifact_type": "file", "name": "n", "metadata": {nul: nul}, "content_base64": "AA=="},
            ],
            ["result", "state.updated", {"scope": "actor", "key": "k", "value": nul}],
            ["result", "acme.odd", {nul: nul}],
            ["call", "state.set", {"scope": "actor", "key": "l", "value": {nul: nul}}],
            ["call", "history.search", {"query": nul}],
            ["call", "run.cancel", {"reason": nul}],
            ["tell"],
            ["result", "run.failed", {"code": "x", "error": nul}],
        ]
        actor = {"actor_id": "u", "actor_name": nul, "metadata": {nul: nul}}
        fields: dict[str, Any] = {"data": {nul: nul}, "metadata": {nul: nul}, "actor": actor}
        first = await host.run(steps, conversation_id="c", **fields)
        assert first.said[0] == nul
        assert first.record.status == "cancelled"
        second = await host.run(
            [["show_context"], ["call", "history.page", {}], ["call", "event.page", {}], ["tell"]],
            conversation_id="c",
            input={
                "text": json.dumps([["show_context"], ["call", "history.page", {}], ["tell"]]) + " ",
                "contents": [{"type": "text", "text": nul}],
            },
            **fields,
        )
        items = second.told[0]["items"]
        assert "ab" in [item["content"] for item in items]
        assert not any(nul in item["content"] for item in items)
        assert json.loads(second.said[0])["state"]["actor"] == {"k": nul, "l": {nul: nul}}
        third = await host.run([["say", "x"]], conversation_id="c")
        run_id = await host.start([["deltas", 1], ["until_cancelled"]])
        await host.seen(run_id, "message.delta")
        await host.cancel(run_id, nul)
        assert (await host.ended(run_id)).record.status == "cancelled"
        assert third.record.status == "completed"


CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"color": "blue"}, "colour"),
    ({"colour": "green"}, "red"),
    ({"timeout": "soon"}, "timeout"),
    ({"model": 7}, "model"),
]


async def test_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        for config, named in CONFIGS:
            with pytest.raises(ConfigurationError, match=named):
                await host.agent(config=config)
            await host.unchecked_agent(config=config)
            ended = await host.run([["say", "x"]])
            assert (ended.record.status, ended.record.status_code) == ("failed", "runner.config_invalid")
            assert named in ended.last["error"]
        await host.agent(config={"token": "env:NOT_SET_ANYWHERE"})  # it may be set until then
        ended = await host.run([["say", "x"]])
        assert ended.record.status_code == "runner.config_invalid"
        assert "NOT_SET_ANYWHERE" in ended.last["error"]
        with pytest.raises(ConfigurationError, match="has no runner 'nowhere'"):
            await host.agent(runner="nowhere")
        await host.unchecked_agent(runner="nowhere")
        ended = await host.run([["say", "x"]])
        assert ended.record.status == "failed"
        assert "resumable" in ended.last["error"]


async def test_a_runner_without_permissions_may_call_nothing_that_needs_one(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent("bare", runner="bare")
        calls: list[list[Any]] = [
            ["call", "model.invoke", {"model_id": "m", "messages": [{"role": "user", "content": "x"}]}],
            [
                "call",
                "model.count_tokens",
                {"model_id": "m", "messages": [{"role": "user", "content": "x"}]},
            ],
            ["call", "model.rerank", {"model_id": "m", "query": "q", "documents": ["d"]}],
            ["call", "tool.detail", {"tool_name": "t"}],
            ["call", "tool.call", {"tool_name": "t", "parameters": {}}],
            ["call", "knowledge.retrieve", {"kb_id": "k", "query_text": "q"}],
            ["call", "history.page", {}],
            ["call", "history.search", {"query": "q"}],
            ["call", "event.get", {"event_id": "e"}],
            ["call", "event.page", {}],
            ["call", "steering.pull", {}],
            ["call", "artifact.metadata", {"artifact_id": "a"}],
            ["call", "artifact.read", {"artifact_id": "a"}],
            ["call", "storage.get", {"area": "plugin", "key": "k"}],
            ["call", "file.get", {"file_id": "f"}],
            ["call", "run.get", {}],
            ["call", "run.list", {}],
            ["call", "run.events", {}],
            ["call", "run.cancel", {}],
            ["call", "run.create", {"agent": "bare", "input": {"text": "x"}}],
            [
                "call",
                "run.append",
                {"target_run_id": "r", "result": {"run_id": "r", "type": "log", "sequence": 1}},
            ],
            ["call", "run.finalize", {"target_run_id": "r", "status": "completed"}],
        ]
        ended = await host.run([*calls, ["tell"]], agent="bare", **PLACE)
        assert [answer.get("error", {}).get("code") for answer in ended.told] == ["unauthorized"] * len(calls)
        assert [entry["type"] for entry in ended.entries("refusal")] == [call[1] for call in calls]
        opened = [
            ["call", "state.get", {"scope": "actor", "key": "k"}],
            ["call", "host.info", {}],
            ["call", "prompt.get", {}],
            [
                "call",
                "artifact.upload",
                {"artifact_type": "file", "part": 0, "last": True, "content_base64": "eA=="},
            ],
        ]
        ended = await host.run([*opened, ["tell"]], agent="bare", **PLACE)
        assert not any("error" in answer for answer in ended.told)
        apis = (await host.run([["show_context"]], agent="bare", **PLACE)).told["context"]["available_apis"]
        assert [name for name, held in apis.items() if held] == ["state"]


async def test_ids_outside_the_grant_do_not_exist(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        other = await host.run([["say", "x"]], conversation_id="d")
        foreign, nowhere = other.record.run_id, "00000000-0000-0000-0000-000000000000"
        calls: list[list[Any]] = []
        for name in (foreign, nowhere):
            calls += [
                ["call", "run.get", {"target_run_id": name}],
                ["call", "run.events", {"target_run_id": name}],
                ["call", "run.cancel", {"target_run_id": name}],
                [
                    "call",
                    "model.invoke",
                    {"model_id": name, "messages": [{"role": "user", "content": "x"}]},
                ],
                ["call", "artifact.read", {"artifact_id": name}],
            ]
        ended = await host.run([*calls, ["tell"]], **PLACE)
        errors = [answer["error"] for answer in ended.told]
        assert {error["code"] for error in errors} == {"not_found"}
        for one, two in zip(errors[:5], errors[5:], strict=True):
            assert one["message"].replace(foreign, "") == two["message"].replace(nowhere, "")


async def test_a_key_reaches_its_own_workspace_only(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        ended = await host.run([["say", "x"]], **PLACE)
        with pytest.raises(NotFoundError):
            await host.host.runs.record("another", ended.record.run_id)
        with pytest.raises(NotFoundError):
            await host.host.cancel("another", ended.record.run_id, reason="x", actor="y")
        stranger = Caller(workspace_id="another", subject="s", key_id="k")
        given = {"event_type": "message.received", "input": {"text": "x"}, "agent": "main"}
        with pytest.raises(NotFoundError):
            await host.host.orchestrator.accept(msgspec.convert(given, EventEnvelope), stranger)
