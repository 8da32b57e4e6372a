"""Reminders of a real host: they fire into the chat that asked for them, and only while they may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.members import subject_of
from hostler.domain.reminders import MAKER_REMOVED, PREFIX
from hostler.domain.sign_in import Person
from hostler.storage.port import Query, Tx
from hostler.storage.stores import events, members, schedules
from hostler.storage.stores.schedules import StoredFiring, StoredSchedule
from support.channel_host import Chatting, chatting, config_for, entry_for
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("schedules")]
TOOLS = ["schedule.create", "schedule.list", "schedule.delete"]
POLICY: dict[str, Any] = {"allow_schedules": True, "allowed_tool_names": TOOLS}


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


@asynccontextmanager
async def reminding(folder: Path, chat: ChatPlatform, **policy: Any) -> AsyncIterator[Chatting]:
    agent = {"resource_policy": ResourcePolicy(**(POLICY | policy))}
    async with chatting(folder, chat, agent=agent) as host:
        await host.connected()
        yield host


async def say(chat: ChatPlatform, asked: dict[str, Any], room: str = "room") -> str:
    """Say something to the bot, and return its answer."""
    before = len(chat.by_bot(room))
    chat.say(json.dumps(asked), chat=room)
    return (await chat.until(before + 1, room))[-1]


async def answered(host: Chatting, asked: dict[str, Any]) -> Any:
    """Have the bot call a tool, and return the result as its run said it: chats cut long messages."""
    before = len((await host.served.client.get("/v1/runs")).json()["items"])
    host.platform.say(json.dumps(asked))
    await host.until(lambda: host.ended(before + 1))
    newest = (await host.served.client.get("/v1/runs")).json()["items"][0]
    whole = (await host.served.client.get(f"/v1/runs/{newest['run_id']}")).json()
    return json.loads(whole["output"]["text"])


async def stored(host: Chatting) -> list[StoredSchedule]:
    return await host.host.db.read(lambda tx: schedules.page(tx, WORKSPACE, after="", limit=100))


async def make_due(host: Chatting, one: StoredSchedule) -> None:
    """Let a reminder of a later time be due."""
    set_ = "UPDATE schedules SET next_at = created_at, next_planned = created_at"
    text = f"{set_} WHERE workspace_id = 'default' AND schedule_id = '{one.schedule_id}'"
    await host.host.db.write(lambda tx: tx.run(Query("test", text, text)))
    host.host.scheduler.wake()


async def fired(host: Chatting, one: StoredSchedule, count: int = 1) -> list[StoredFiring]:
    async def look() -> list[StoredFiring]:
        found = await host.host.db.read(lambda tx: schedules.firings(tx, one))
        return found if len(found) >= count else []

    found: list[StoredFiring] = await host.until(look)
    return found


async def test_it_fires_into_its_chat_as_a_run_of_its_own_once(tmp_path: Path, chat: ChatPlatform) -> None:
    async with reminding(tmp_path, chat) as host:
        assert await say(chat, {"remind": "the tea", "delay": 1, "name": "tea"}) == "made tea"
        assert await say(chat, {"remind": "theirs", "delay": 9_000, "name": "tea"}, "other") == "made tea"
        assert await chat.until(2) == ["made tea", "the tea"]
        mine = next(one for one in await stored(host) if one.spec.text == "the tea")
        (firing,) = await fired(host, mine)
        assert (firing.outcome, mine.firings) == ("started", 1)
        event = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, firing.event_id or ""))
        asked = await host.host.db.read(
            lambda tx: events.page(tx, WORKSPACE, event_types=["message.received"])
        )
        asking = next(one for one in asked if one.conversation_id == mine.conversation_id)
        assert event is not None
        for field in ("bot_id", "conversation_id", "thread_id", "actor_id", "actor_type", "requester"):
            assert getattr(event, field) == getattr(asking, field), field
        assert (event.event_type, event.requester) == ("schedule.triggered", "channel:chat")
        whole = event.event()
        assert whole is not None
        assert whole.envelope.data["schedule"]["name"] == "tea"
        assert chat.by_bot("other") == ["made tea"]
        (sent,) = [one for one in chat.said if one["said"] == "the tea"]
        assert not sent.get("answers"), "it replies to no message of then"
        shown = (await host.served.client.get("/v1/schedules")).json()["items"]
        assert {one["name"].startswith(PREFIX) for one in shown} == {True}
        assert {one["run_id"] for one in shown} == {one.run_id for one in asked}
        answer = await host.served.client.put(
            f"/v1/schedules/{shown[0]['name']}", json={**shown[0]["spec"], "name": shown[0]["name"]}
        )
        assert answer.status_code == 400
        for one in shown:
            gone = await host.served.client.delete(f"/v1/schedules/{one['name']}")
            assert gone.status_code == 204
        assert await stored(host) == []


async def test_models_get_it_as_tools_if_the_policy_says_so(tmp_path: Path, chat: ChatPlatform) -> None:
    async with reminding(tmp_path, chat) as host:
        made = await answered(
            host, {"tool": "schedule.create", "name": "tea", "text": "tea!", "delay": 5_000}
        )
        assert made.keys() == {"name", "text", "next_at"}
        assert made["next_at"].endswith("+00:00")
        assert await answered(host, {"tool": "schedule.list"}) == {"items": [made]}
        assert await answered(host, {"tool": "schedule.delete", "name": "tea"}) == {"deleted": True}
        assert await answered(host, {"tool": "schedule.list"}) == {"items": []}
        assert await answered(host, {"tool": "schedule.delete", "name": "tea"}) == {"deleted": False}
        closed = ResourcePolicy(**POLICY | {"allow_schedules": False})
        entry = entry_for(chat.port, tmp_path / "token")
        await host.host.apply(config_for(entry, resource_policy=closed), actor="test")
        chat.say(json.dumps({"tool": "schedule.list"}))
        await host.until(lambda: host.ended(6))
        newest = (await host.served.client.get("/v1/runs")).json()["items"][0]
        assert newest["status"] == "failed", "a tool that is not granted is not found"
        problems = [one.problem for one in await host.host.problems()]
        assert len(problems) == len(TOOLS)
        assert all("also takes `allow_schedules: true`" in one for one in problems), problems


async def test_what_may_not_be_made_any_more_does_not_fire(tmp_path: Path, chat: ChatPlatform) -> None:
    async with reminding(tmp_path, chat) as host:
        await say(chat, {"remind": "tea", "every": 900, "name": "tea"})
        (one,) = await stored(host)
        closed = config_for(entry_for(chat.port, tmp_path / "token"))
        await host.host.apply(closed, actor="test")
        await make_due(host, one)
        (refused,) = await fired(host, one)
        assert refused.outcome == "refused"
        assert "allow_schedules" in (refused.reason or "")
        assert (await say(chat, {"remind": "tea", "delay": 9})).startswith(
            "unauthorized this run may not use"
        )
        allowed = config_for(
            entry_for(chat.port, tmp_path / "token"), resource_policy=ResourcePolicy(**POLICY)
        )
        await host.host.apply(allowed, actor="test")
        (one,) = await stored(host)
        await make_due(host, one)
        assert (await chat.until(3))[-1] == "tea"


async def test_one_made_for_a_removed_person_does_not_fire_and_goes_with_its_agent(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with reminding(tmp_path, chat) as host:
        await say(chat, {"remind": "tea", "every": 900, "name": "tea"})
        (one,) = await stored(host)
        ada = subject_of("https://id.example", "ada")
        person = Person("https://id.example", ada, email=None, name="Ada", groups=frozenset())

        def leave(tx: Tx) -> None:
            (member,) = members.admit(tx, person, {WORKSPACE: "operator"}).members
            text = f"UPDATE schedules SET made_by = '{ada}' WHERE workspace_id = 'default'"
            tx.run(Query("test", text, text))
            members.remove(tx, member, by="bob")

        await host.host.db.write(leave)
        await make_due(host, one)
        (refused,) = await fired(host, one)
        assert MAKER_REMOVED in (refused.reason or "")
        shown = (await host.served.client.get(f"/v1/schedules/{one.name}")).json()
        assert shown["error"] == MAKER_REMOVED
        assert (await host.served.client.delete("/v1/agents/echo")).status_code == 204
        assert await stored(host) == []
        facts = (await host.served.client.get("/v1/audit")).json()["items"]
        (fact,) = [fact for fact in facts if fact["action"] == "schedule.removed"]
        assert fact["target"] == one.name
