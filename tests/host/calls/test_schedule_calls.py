"""`schedule.*` on both databases: places that never meet, bounds, and the same call made twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.child_runs import ParentBounds
from hostler.domain.reminders import AT_ONCE, MAX_ENDED_PER_AGENT, MAX_PER_CONVERSATION, PREFIX
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, audit, reminders, schedule_removal, schedules
from hostler.tools.schedules import RunSchedules
from hostler_protocol.calls import RunSchedule
from hostler_protocol.errors import ConflictError, NotFoundError, RateLimitedError, UnauthorizedError
from support.call_world import Caller, World, world_of
from support.grants import agent_of, event_of, grant_of

pytestmark = pytest.mark.gate("schedules")


@pytest.fixture
async def world(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(database, tmp_path) as made:
        yield made


async def names(caller: Caller) -> list[str]:
    return [one.name for one in (await caller.call("schedule.list")).items]


async def refusal(caller: Caller, **fields: Any) -> Any:
    with pytest.raises((ConflictError, RateLimitedError)) as caught:
        await caller.call("schedule.create", **fields)
    return caught.value


def unrated(world: World) -> None:
    """Let conversations make as many as they like in a short time."""
    msgspec.structs.force_setattr(
        world.services, "schedules", RunSchedules(world.db, clock=iter(range(0, 10**9, 10**6)).__next__)
    )


async def test_one_is_made_listed_and_removed(world: World) -> None:
    own = world.caller()
    made: RunSchedule = await own.call("schedule.create", name="tea", delay=3_600, data={"cups": 2})
    assert made.next_at is not None
    assert 3_600 <= made.next_at - made.created_at < 3_602
    assert (made.text, made.data, made.paused) == ("tea", {"cups": 2}, False)
    assert (await own.call("schedule.list")).items == [made]
    assert (await own.call("schedule.delete", name="tea")).deleted
    assert not (await own.call("schedule.delete", name="tea")).deleted
    assert await names(own) == []
    facts = await world.db.read(lambda tx: audit.page(tx, "main", limit=10))
    assert [(one.action, one.actor) for one in facts] == [
        ("schedule.removed", f"run:{own.run_id}"),
        ("schedule.added", f"run:{own.run_id}"),
    ]
    assert all(one.target.startswith(PREFIX) for one in facts)


async def test_the_same_call_of_a_run_is_one_and_another_of_the_name_a_conflict(world: World) -> None:
    own, before = world.caller(), world.caller(name="before")
    first = await own.call("schedule.create", name="tea", every=900, delay=None)
    assert await own.call("schedule.create", name="tea", every=900, delay=None) == first
    assert "delete it first" in (await refusal(own, name="tea", every=901, delay=None)).message
    assert "delete it first" in (await refusal(before, name="tea", every=900, delay=None)).message
    unnamed = await own.call("schedule.create")
    assert await own.call("schedule.create") == unnamed
    assert (await before.call("schedule.create")).name != unnamed.name
    assert len(await names(own)) == 3


async def test_another_conversation_thread_agent_or_workspace_neither_sees_nor_meets_it(world: World) -> None:
    own = world.caller()
    others = [
        world.caller(name="elsewhere", event=event_of(conversation_id="c2")),
        world.caller(name="thread", event=event_of(thread_id="t2")),
        world.caller(name="stranger", agent="stranger"),
        world.caller("other"),
    ]
    await own.call("schedule.create", name="tea")
    for other in others:
        assert await names(other) == []
        assert not (await other.call("schedule.delete", name="tea")).deleted
        await other.call("schedule.create", name="tea", text="theirs")
        assert await names(other) == ["tea"]
    (mine,) = (await own.call("schedule.list")).items
    assert mine.text == "tea"
    assert await names(world.caller(name="before")) == ["tea"], "a later run of the conversation sees it"


async def test_a_conversation_is_full_until_one_is_gone(world: World) -> None:
    unrated(world)
    own, elsewhere = world.caller(), world.caller(name="elsewhere", event=event_of(conversation_id="c2"))
    for number in range(MAX_PER_CONVERSATION):
        await own.call("schedule.create", name=f"n{number}")
    refused = await refusal(own, name="more")
    assert refused.details == {"reason": "limit", "limit": MAX_PER_CONVERSATION, "of": "conversation"}
    await elsewhere.call("schedule.create", name="more")
    await own.call("schedule.delete", name="n0")
    await own.call("schedule.create", name="more")


async def test_an_agent_is_full_whatever_the_conversation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.domain.reminders.MAX_PER_AGENT", 2)
    await world.caller().call("schedule.create", name="a")
    await world.caller().call("schedule.create", name="b")
    elsewhere = world.caller(name="elsewhere", event=event_of(conversation_id="c2"))
    assert (await refusal(elsewhere, name="c")).details["of"] == "agent"
    await world.caller(name="stranger", agent="stranger").call("schedule.create", name="c")


async def test_too_many_in_a_short_time_are_told_when_to_try_again(world: World) -> None:
    own = world.caller()
    for number in range(AT_ONCE):
        await own.call("schedule.create", name=f"n{number}")
        await own.call("schedule.delete", name=f"n{number}")
    refused = await refusal(own, name="more")
    assert isinstance(refused, RateLimitedError)
    assert 0 < refused.retry_after <= 300
    await world.caller(name="elsewhere", event=event_of(conversation_id="c2")).call("schedule.create")


async def test_one_that_has_ended_makes_room_for_its_name_and_the_oldest_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, before = world.caller(), world.caller(name="before")
    ended = Query("test", *["UPDATE schedules SET next_planned = NULL, next_at = NULL"] * 2)
    first = await own.call("schedule.create", name="tea")
    await world.db.write(lambda tx: tx.run(ended))
    assert await names(own) == []
    again = await own.call("schedule.create", name="tea")
    assert again.created_at == first.created_at, "a run that is begun again does not make it once more"
    assert again.next_at is None
    assert (await before.call("schedule.create", name="tea")).next_at is not None
    assert MAX_ENDED_PER_AGENT == 100
    monkeypatch.setattr(reminders, "MAX_ENDED_PER_AGENT", 1)
    for number in range(3):
        await world.db.write(lambda tx: tx.run(ended))
        await own.call("schedule.create", name=f"n{number}")
    stored = await world.db.read(lambda tx: schedules.page(tx, "main", after="", limit=100))
    assert sorted(one.spec.name for one in stored) == ["n1", "n2"]


async def test_who_may_make_none_is_told_why(world: World) -> None:
    def closed(**policy: Any) -> Caller:
        agent = agent_of("helper", resource_policy=ResourcePolicy(**policy))
        return world.caller(grant=grant_of(agent=agent))

    for method in ("schedule.create", "schedule.list", "schedule.delete"):
        with pytest.raises(UnauthorizedError, match="allow_schedules"):
            await closed().call(method)
    nowhere = event_of(conversation_id=None)
    agent = agent_of("helper", resource_policy=ResourcePolicy(allow_schedules=True))
    for grant, why in (
        (grant_of(agent=agent, event=nowhere), "has no conversation"),
        (grant_of(agent=agent, above=ParentBounds([["*"]])), "another run created"),
    ):
        with pytest.raises(UnauthorizedError, match=why):
            await world.caller(grant=grant).call("schedule.create")


async def test_what_is_deleted_takes_them_with_it(world: World) -> None:
    async def left() -> int:
        return len(await world.db.read(lambda tx: schedules.page(tx, "main", after="", limit=100)))

    own = world.caller()
    stranger = world.caller(name="stranger", agent="stranger")
    elsewhere = world.caller(name="elsewhere", event=event_of(conversation_id="c2"))
    for caller in (own, stranger, elsewhere):
        await caller.call("schedule.create", name="tea")
    dropped = await world.db.write(lambda tx: schedule_removal.drop_of_conversation(tx, "main", "c1", "bob"))
    assert (dropped, await left()) == (2, 1)
    dropped = await world.db.write(lambda tx: schedule_removal.drop_of_actor(tx, "main", "ada", None, "bob"))
    assert (dropped, await left()) == (1, 0)
    await own.call("schedule.create", name="tea")
    await stranger.call("schedule.create", name="tea")

    def remove(tx: Tx) -> None:
        agents.delete(tx, "main", "helper")
        schedule_removal.drop_of_agent(tx, "main", own.grant.agent_id, "helper", "bob")

    await world.db.write(remove)
    assert await left() == 1
    with pytest.raises(NotFoundError, match="the agent or the event of this run was removed"):
        await own.call("schedule.create", name="tea")
