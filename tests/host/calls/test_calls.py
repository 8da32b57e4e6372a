"""Host calls on a real database that read or open runs: nothing outside the grant is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.calls.functions import CALL_FUNCTIONS, LEDGER_CALLS, STREAM_FUNCTIONS
from hostler.domain.allowances import Allowance, closed_entry
from hostler.domain.model_entries import ModelEntry, Price
from hostler.models.catalog import build_catalog
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.calls import CALLS, ModelChunk, ModelReply
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError
from support.call_params import params_of
from support.call_world import World, world_of
from support.grants import ResourcePolicy, agent_of, event_of, grant_of
from support.model_server import ModelServer


@pytest.fixture
async def world(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(database, tmp_path) as made:
        yield made


def test_every_call_is_carried_out_in_one_place() -> None:
    places = [*CALL_FUNCTIONS, *STREAM_FUNCTIONS, *LEDGER_CALLS]
    assert sorted(places) == sorted(CALLS)
    assert set(STREAM_FUNCTIONS) == {method for method, call in CALLS.items() if call.chunk is not None}


# -- history and events -----------------------------------------------------------------------------------


async def test_history_ends_before_the_runs_own_event_and_stays_in_its_place(world: World) -> None:
    caller = world.caller()
    for direction in ("backward", "forward"):
        page = await caller.call("history.page", direction=direction)
        assert [item.content for item in page.items] == ["hello from main e-before"]
        assert not page.has_more
    found = await caller.call("history.search", query="hello")
    assert [item.content for item in found.items] == ["hello from main e-before"]
    assert await caller.refused("history.page", conversation_id="c2") == "not_found"
    assert await caller.refused("history.search", query="x", filters={"conversation_id": "c2"}) == "not_found"
    nowhere = world.caller(event=event_of(event_id="e-own", conversation_id=None))
    assert (await nowhere.call("history.page")).items == []
    assert (await nowhere.call("history.search", query="hello")).items == []


async def test_another_conversation_is_read_only_with_an_explicit_grant(world: World) -> None:
    policy = ResourcePolicy(allow_cross_conversation_history=True)
    caller = world.caller(grant=grant_of(agent=agent_of(resource_policy=policy)))
    page = await caller.call("history.page", conversation_id="c2")
    assert [item.content for item in page.items] == ["hello from main e-elsewhere"]
    own = await caller.call("history.page", conversation_id="c1")
    assert [item.content for item in own.items] == ["hello from main e-before"]


async def test_cursors_lead_on_and_are_good_for_nothing_else(world: World) -> None:
    caller = world.caller(grant=None)
    caller.history_before = 1_000
    first = await caller.call("history.page", limit=1)
    second = await caller.call("history.page", limit=1, before_cursor=first.next_cursor)
    third = await caller.call("history.page", limit=1, before_cursor=second.next_cursor)
    texts = [page.items[0].content.split()[-1] for page in (first, second, third)]
    assert texts == ["e-after", "e-own", "e-before"]
    assert third.next_cursor is None
    back = await caller.call("history.page", direction="forward", after_cursor=third.items[0].cursor)
    assert [item.content.split()[-1] for item in back.items] == ["e-own", "e-after"]

    cursor = first.next_cursor
    foreign = world.caller("other")
    elsewhere = world.caller(event=event_of(event_id="e-own", conversation_id="c2"))
    for other in (foreign, elsewhere):
        assert await other.refused("history.page", before_cursor=cursor) == "invalid_argument"
    for method in ("event.page", "run.list"):
        assert await caller.refused(method, before_cursor=cursor) == "invalid_argument"
    for method in ("state.list", "storage.keys"):
        assert await caller.refused(method, cursor=cursor) == "invalid_argument"
    forged = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    assert await caller.refused("history.page", before_cursor=forged) == "invalid_argument"


async def test_events_within_reach(world: World) -> None:
    caller = world.caller()
    page = await caller.call("event.page")
    assert [record.event_id for record in page.items] == ["e-before"]
    assert page.items[0].workspace_id == "main"
    assert (await caller.call("event.page", event_types=["other"])).items == []
    for event_id, code in {
        "e-own": "ok",
        "e-before": "ok",
        "e-after": "not_found",
        "e-elsewhere": "not_found",
        "e-bot": "not_found",
        "e-thread": "not_found",
        "e-nowhere": "not_found",
        "no-such-event": "not_found",
    }.items():
        assert await caller.refused("event.get", event_id=event_id) == code, event_id


async def test_existing_and_absent_things_are_refused_alike(world: World) -> None:
    caller = world.caller()
    elsewhere = world.caller(name="elsewhere", event=event_of(event_id="e-own", conversation_id="c2"))
    hidden_artifact = await elsewhere.call("artifact.upload")
    foreign, absent = world.runs["other", "own"], "0" * 36
    for method, parameter, hidden in (
        ("event.get", "event_id", "e-elsewhere"),
        ("run.get", "target_run_id", foreign),
        ("artifact.read", "artifact_id", hidden_artifact.artifact_id),
    ):
        messages = []
        for name in (hidden, absent):
            with pytest.raises(NotFoundError) as caught:
                await caller.call(method, **{parameter: name})
            messages.append(caught.value.message.replace(name, "<id>"))
            assert caught.value.details == {}
        assert messages[0] == messages[1]


# -- runs -------------------------------------------------------------------------------------------------


async def test_runs_within_reach(world: World) -> None:
    caller = world.caller()
    ids = {
        name: world.runs["main", name]
        for name in ("before", "own", "child", "elsewhere", "thread", "stranger")
    }
    reach = {"before": "ok", "own": "ok", "child": "ok"}
    for name, run_id in [*ids.items(), ("foreign", world.runs["other", "own"])]:
        for method in ("run.get", "run.events", "run.cancel"):
            code = await caller.refused(method, target_run_id=run_id)
            assert code == reach.get(name, "not_found"), (name, method)
    assert (await caller.call("run.get")).run_id == ids["own"]
    page = await caller.call("run.list")
    assert {record.run_id for record in page.items} == {ids["own"], ids["before"]}
    first = await caller.call("run.list", limit=1)
    second = await caller.call("run.list", limit=1, before_cursor=first.next_cursor)
    assert [record.run_id for record in (*first.items, *second.items)] == [r.run_id for r in page.items]
    assert not second.has_more
    assert (await caller.call("run.list", statuses=["completed"])).items == []
    journal = await caller.call("run.events")
    assert journal.items[0].kind == "lifecycle"
    assert (await caller.call("run.events", after=journal.items[-1].position)).items == []


async def test_cancelling_is_asked_for_and_told_by_whom(world: World) -> None:
    caller = world.caller()
    record = await caller.call("run.cancel", target_run_id=world.runs["main", "before"], reason="enough")
    assert record.run_id == world.runs["main", "before"]
    assert record.status == "cancelled", "it was only queued"


async def test_a_child_run_stays_in_the_conversation_or_leaves_it(world: World) -> None:
    caller = world.caller()
    await caller.call("run.create", conversation_id="c1")
    await caller.call("run.create")
    assert await caller.refused("run.create", conversation_id="c2") == "not_found"
    assert [params.conversation_id for params in world.controller.created] == ["c1", None]


async def test_a_child_run_is_not_opened_for_somebody_else(world: World) -> None:
    caller = world.caller()
    assert await caller.refused("run.create", actor={"actor_id": "bob"}) == "unauthorized"
    assert (
        await caller.refused("run.create", actor={"actor_type": "bot", "actor_id": "ada"}) == "unauthorized"
    )
    assert await caller.refused("run.create", actor={"actor_id": "ada"}) == "ok"
    nobody = world.caller(event=event_of(event_id="e-own", actor_id=None))
    assert await nobody.refused("run.create", actor={"actor_id": "ada"}) == "unauthorized"
    assert await nobody.refused("run.create", actor={}) == "unauthorized"
    assert len(world.controller.created) == 1


# -- the rest ---------------------------------------------------------------------------------------------


async def test_calls_without_anything_behind_them(world: World) -> None:
    caller = world.caller()
    assert (await caller.call("host.info")).name == "hostler"
    assert (await caller.call("prompt.get")).prompt == []
    assert await caller.refused("tool.detail") == "not_found"
    assert await caller.refused("knowledge.retrieve") == "not_found"
    assert await caller.refused("file.get") == "not_found"
    assert await caller.refused("steering.pull") == "unauthorized"
    for method in ("run.append", "run.finalize"):
        with pytest.raises(UnauthorizedError, match="remote workers"):
            await caller.call(method)


async def test_models_answer_are_streamed_counted_and_paid_for(database: SqlDatabase, tmp_path: Path) -> None:
    async with ModelServer() as server:
        models = build_catalog(
            [
                ModelEntry(
                    id="gpt", base_url=server.base_url, api_key="k", price=Price(input=1.0, output=2.0)
                ),
                ModelEntry(id="judge", base_url=server.base_url, api_key="k", type="rerank"),
                ModelEntry(
                    id="vectors",
                    base_url=server.base_url,
                    api_key="k",
                    type="embedding",
                    price=Price(input=3.0),
                ),
            ]
        )
        async with world_of(database, tmp_path, models) as world:
            caller = world.caller()
            server.say("whole")
            reply = await caller.call("model.invoke")
            assert reply.message.content == "whole"
            server.say(["in ", "pieces"])
            *chunks, last = await caller.call("model.stream")
            assert all(isinstance(chunk, ModelChunk) for chunk in chunks)
            assert isinstance(last, ModelReply)
            assert last.message.content == "in pieces"
            assert caller.meter.usage is not None
            assert caller.meter.usage.total_tokens == 36
            assert float(caller.meter.cost) == pytest.approx(2 * (11 + 2 * 7) / 1_000_000)
            assert (await caller.call("model.count_tokens")).input_tokens > 0
            server.raw(b'{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}]}')
            ranked = await caller.call("model.rerank")
            assert [item.index for item in ranked.items] == [1, 0]
            before = caller.meter.cost
            server.raw(b'{"data":[{"embedding":[1]},{"embedding":[2]}],"usage":{"prompt_tokens":5}}')
            assert (await caller.call("model.embed")).embeddings == [[1.0], [2.0]]
            assert float(caller.meter.cost - before) == pytest.approx(5 * 3 / 1_000_000)


async def test_errors_of_arguments_name_the_parameter(world: World) -> None:
    with pytest.raises(InvalidArgumentError, match="before_cursor"):
        await world.caller().call("history.page", before_cursor="nonsense")


@pytest.mark.gate("allowances")
async def test_what_the_workspace_may_no_longer_use_is_refused_whatever_the_grant_says(world: World) -> None:
    """The grant is of before; the list of the installation is of now."""
    asked: Any = object()  # a service of knowledge bases that fails if it is asked
    world.services = replace(
        world.services,
        knowledge=asked,
        allowance_of=lambda ws: Allowance(ws, closed_entry(ws), own=True),
    )
    caller = world.caller()
    for method in [name for name, call in CALLS.items() if call.resource == "model_id"]:
        assert await caller.refused(method) == "not_found", method
    for method in [name for name, call in CALLS.items() if call.resource == "kb_id"]:
        with pytest.raises(NotFoundError, match="may not use knowledge base 'handbook'"):
            await CALL_FUNCTIONS[method](caller.scope(), params_of(method, caller.run_id))
