"""Actions by a channel's plugin in a process of its own: done, refused, unsupported and in doubt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.host.config_entries import ENTRY_KINDS
from hostler.storage.stores import audit
from support.channel_host import Chatting, chatting
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
ALLOWED: dict[str, Any] = {"allowed_actions": ["*"], "actions_without_approval": ["member.mute"]}


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


class Acting:
    """A host whose agent does on the platform what it is told."""

    def __init__(self, host: Chatting, chat: ChatPlatform, done: Path) -> None:
        self.host, self.chat, self.done = host, chat, done

    async def ask(
        self, name: str, target: Any = None, room: str = "room", *, by: str = "ann", **payload: Any
    ) -> str:
        """Have an action asked for, and return what the runner says of it."""
        return await self.say({"action": name, "target": target, "payload": payload}, room, by=by)

    async def say(self, asked: dict[str, Any], room: str = "room", *, by: str = "ann") -> str:
        before = len(self.chat.by_bot(room))
        self.chat.say(json.dumps(asked), chat=room, by=by)
        return (await self.chat.until(before + 1, room))[-1]

    @property
    def acts(self) -> list[dict[str, Any]]:
        """What the platform did, in order."""
        if not self.done.exists():
            return []
        return [json.loads(line) for line in self.done.read_text().splitlines()]

    async def facts(self) -> list[tuple[str, str]]:
        """The audit facts of actions, oldest first: outcome and name."""
        found = await self.host.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=100))
        return [
            (one.action.removeprefix("action."), one.body["action"])
            for one in sorted(found, key=lambda one: one.seq)
            if one.action.startswith("action.") and one.body
        ]

    async def explained(self) -> list[dict[str, Any]]:
        """The explanation of the one action of each run, oldest run first."""
        client, found = self.host.served.client, []
        for run in reversed((await client.get("/v1/runs")).json()["items"]):
            path = f"/v1/runs/{run['run_id']}"
            entries = (await client.get(f"{path}/journal")).json()["items"]
            (asked,) = [one for one in entries if one["kind"] == "call" and one["type"] == "action.request"]
            found.append((await client.get(f"{path}/calls/{asked['position']}/explanation")).json())
        return found

    async def review(self) -> dict[str, Any]:
        """Wait for the pause that asks what became of an action."""
        client = self.host.served.client

        async def look() -> dict[str, Any] | None:
            items = (await client.get("/v1/pauses")).json()["items"]
            return next((one for one in items if one["status"] in {"needs_review", "open"}), None)

        found = await self.host.until(look)
        answer: dict[str, Any] = (await client.get(f"/v1/pauses/{found['id']}")).json()
        return answer


def approval_of(told: dict[str, Any]) -> tuple[str, list[str]]:
    """What an explanation says of approval: the result, and each rule with its field."""
    (view,) = [one for one in told["checks"] if one["check"] == "approval"]
    return view["result"], [f"{rule['field']}: {rule['text']}" for rule in view["rules"]]


@asynccontextmanager
async def acting(
    folder: Path, chat: ChatPlatform, policy: dict[str, Any] | None = None, **fields: Any
) -> AsyncIterator[Acting]:
    done = folder / "acts"
    agent = {"resource_policy": ResourcePolicy(**(ALLOWED if policy is None else policy))}
    more = {"acts": str(done)}
    async with chatting(folder, chat, agent=agent, config_more=more, **fields) as host:
        await host.connected()
        yield Acting(host, chat, done)


async def test_done_refused_unsupported_and_failed_are_told_apart(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat) as host:
        assert await host.ask("message.react", emoji="+") == 'done {"did": "message.react"}'
        assert (await host.ask("message.edit", "1", text="x")).startswith("unsupported null channel")
        refused = await host.ask("group.info", {"chat_id": "other"})
        assert refused.startswith("unauthorized group.info was not carried out: the target is not")
        failed = await host.ask("member.mute", "bob", reason="refuse")
        assert failed == "runtime_error the bot is no admin here"
        (act,) = host.acts
        asked = next(one for one in chat.said if one["by"] != "bot-1")
        assert act.pop("key")
        assert act == {
            "action": "message.react",
            "chat_id": "room",
            "message_id": str(asked["number"]),
            "emoji": "+",
        }
        assert await host.facts() == [
            ("done", "message.react"),
            ("unsupported", "message.edit"),
            ("refused", "group.info"),
            ("failed", "member.mute"),
        ]
        told = await host.explained()
        assert [(one["outcome"], one["decided_by"]) for one in told] == [
            ("allowed", "grant"),
            ("unsupported", "grant"),
            ("refused", "grant"),
            ("failed", "grant"),
        ]
        assert told[1]["text"].endswith("nobody can carry it out: channel 'chat' cannot do message.edit")
        assert "the target is not the chat of this run" in told[2]["text"]
        waived = "member.mute is dangerous, and needs no approval, as 'member.mute'"
        assert approval_of(told[3]) == (
            "not needed",
            [f"resource_policy.actions_without_approval: {waived}"],
        )


async def test_a_channel_that_can_edit_carries_edits_out(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat, channel="rich") as host:
        first = await host.ask("group.info")
        (number,) = [one["number"] for one in chat.said if one["said"] == first]
        assert await host.ask("message.edit", str(number), text="another") == "done {}"
        assert chat.by_bot() == ["another", "done {}"]
        assert [one["action"] for one in host.acts] == ["group.info"]
        assert await host.facts() == [("done", "group.info"), ("done", "message.edit")]


async def test_an_action_that_only_reads_may_be_the_first_call(
    tmp_path: Path, chat: ChatPlatform, database_url: str
) -> None:
    """Whether this host has the run is looked up before it, perhaps before the run is stored as running."""
    url = database_url if database_url.startswith("postgresql:") else None
    async with acting(tmp_path, chat, channel="rich", database=url) as host:
        for _ in range(5):
            assert (await host.ask("group.info")).startswith("done ")


async def test_an_action_of_which_nobody_knows_is_for_a_person_to_settle(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    policy = {**ALLOWED, "actions_without_approval": ["member.*"]}
    async with acting(tmp_path, chat, policy) as host:
        asking = asyncio.create_task(host.ask("member.kick", "bob", reason="lose"))
        pause = await host.review()
        (call,) = pause["calls"]
        assert (call["kind"], call["tool"]) == ("in_doubt", "platform.member_kick")
        path = f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve"
        done = await host.host.served.client.post(path, json={"outcome": "happened", "result": {"by": "me"}})
        assert done.status_code < 300, done.text
        assert await asking == 'done {"by": "me"}'
        assert len(host.acts) == 1
        assert await host.facts() == [("in_doubt", "member.kick")]


async def test_what_may_be_done_twice_is_done_again_under_the_same_key(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with acting(tmp_path, chat) as host:
        assert await host.ask("message.react", emoji="lose once") == 'done {"did": "message.react"}'
        first, second = host.acts
        assert first == second
        assert await host.facts() == [("done", "message.react")]


async def test_a_dangerous_action_waits_for_approval(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat) as host:
        asking = asyncio.create_task(host.ask("member.kick", "bob"))
        pause = await host.review()
        (call,) = pause["calls"]
        assert call["args"] == {"channel": "chat", "chat_id": "room", "person_id": "bob"}
        assert host.acts == []
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        path = f"/v1/pauses/{pause['id']}/actions"
        body = {"revision": pause["revision"], "actions": [action]}
        assert (await host.host.served.client.post(path, json=body)).status_code < 300
        assert await asking == 'done {"did": "member.kick"}'
        assert [one["action"] for one in host.acts] == ["member.kick"]
        (told,) = await host.explained()
        assert (told["outcome"], told["decided_by"]) == ("allowed", "approval")
        result, rules = approval_of(told)
        risk = "member.kick is dangerous, and actions_without_approval does not name it"
        assert (result, rules[:2]) == (
            "passed",
            [
                f"resource_policy.actions_without_approval: {risk}",
                "None: approvals by requester, role:admin: 1 needed",
            ],
        )


async def test_roles_and_bindings_say_who_may_cause_an_action(tmp_path: Path, chat: ChatPlatform) -> None:
    actors = {"member.mute": ["role:moderator"], "group.info": ["user:bea@example.org"]}
    policy = {**ALLOWED, "action_actors": actors, "actions_anywhere": True}
    async with acting(tmp_path, chat, policy, roles={"moderator": ["ann"], "owner": ["bob"]}) as host:
        no = "unauthorized {0} was not carried out: who caused the event may not have"
        assert (await host.ask("member.mute", "eve", by="bob")).startswith(no.format("member.mute"))
        assert await host.ask("member.mute", "eve", by="ann") == 'done {"did": "member.mute"}'
        assert (await host.ask("group.info", by="bob")).startswith(no.format("group.info"))
        served = host.host.served
        bound = await served.client.put("/v1/people/chat/bob", json={"subject": "bea@example.org"})
        assert bound.status_code == 200, bound.text
        assert await host.ask("group.info", by="bob") == 'done {"did": "group.info"}'
        target = {"channel": "chat", "chat_id": "room", "person_id": "eve"}
        text = json.dumps({"action": "member.mute", "target": target, "payload": {}})
        event = {"event_type": "message.received", "agent": "echo", "input": {"text": text}}
        said = []
        for roles in (["moderator"], ["owner"]):
            async with served.as_key(await served.key(subject="desk", roles=roles)) as desk:
                answer = await desk.post("/v1/events", json=event, params={"wait": 30})
                said.append(answer.json()["output"]["text"])
        assert said[0].strip() == 'done {"did": "member.mute"}'
        assert said[1].startswith(no.format("member.mute"))


async def test_an_action_without_an_answer_is_done_in_order_with_what_is_said(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with acting(tmp_path, chat) as host:
        later = {"action": "message.pin", "later": True}
        assert await host.say(later) == "asked"
        rows = await host.host.settled(2)
        assert [one.outbound.action is None for one in rows] == [False, True]
        assert [one["action"] for one in host.acts] == ["message.pin"]
        assert await host.facts() == [("done", "message.pin")]
        assert await host.say({**later, "action": "member.kick", "target": "bob"}) == "asked"
        assert (await host.facts())[-1] == ("refused", "member.kick")


async def test_a_message_to_another_chat_needs_a_conversation_there(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with acting(tmp_path, chat, {**ALLOWED, "actions_anywhere": True}) as host:
        answer = await host.ask("message.send", "den", text="psst")
        assert answer.startswith("unauthorized message.send was not carried out: the bot has had no")
        assert await host.ask("group.info", room="den") == 'done {"did": "group.info"}'
        answer = await host.ask("message.send", "den", text="psst")
        assert answer.startswith('done {"message_id": "')
        assert chat.by_bot("den")[-1] == "psst"
        long = await host.ask("message.send", "den", text="x" * 101)
        assert long.startswith("invalid_argument text is too long for channel chat: it takes 100")


async def test_the_entry_of_the_channel_bounds_what_is_done(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat, actions=["group.*"]) as host:
        assert await host.ask("group.info") == 'done {"did": "group.info"}'
        assert "the entry of channel 'chat' does not allow" in await host.ask("message.pin")


async def test_actions_are_tools_only_where_the_policy_says_both(tmp_path: Path, chat: ChatPlatform) -> None:
    policy = {"allowed_actions": ["message.react"], "allowed_tool_names": ["platform.*"]}
    async with acting(tmp_path, chat, policy) as host:
        said = await host.say({"tool": "platform.message_react", "emoji": "+"})
        assert json.loads(said) == {"outcome": "done", "result": {"did": "message.react"}}
        runs = (await host.host.served.client.get("/v1/runs")).json()["items"]
        record = await host.host.served.client.get(f"/v1/runs/{runs[0]['run_id']}")
        assert record.json()["status"] == "completed"
        assert len(host.acts) == 1


async def test_an_action_through_a_channel_that_is_not_connected_is_not_done_later(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.channels.actions.WAIT_SECONDS", 0.1)
    async with acting(tmp_path, chat, {**ALLOWED, "actions_anywhere": True}) as host:
        await chat.stop()
        await host.host.until(lambda: host.host.health("failed", "connecting"))
        event = {"event_type": "message.received", "conversation_id": "c"}
        target = {"channel": "chat", "chat_id": "room"}
        text = json.dumps({"action": "group.info", "target": target})
        client = host.host.served.client
        answer = await client.post("/v1/events", json={**event, "input": {"text": text}, "agent": "echo"})
        run = answer.json()["run"]["run_id"]

        async def ended() -> str | None:
            record = (await client.get(f"/v1/runs/{run}")).json()
            return record["output"]["text"] if record["status"] == "completed" else None

        said = await host.host.until(ended)
        assert said == "runtime_error nothing was done: channel chat is not connected"
        assert await host.facts() == [("failed", "group.info")]
        assert await host.host.outbox() == []
        assert host.acts == []


async def test_an_action_of_a_run_that_was_cancelled_is_not_done_later(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with acting(tmp_path, chat, {**ALLOWED, "actions_anywhere": True}) as host:
        await chat.stop()
        await host.host.until(lambda: host.host.health("failed", "connecting"))
        text = json.dumps({"action": "group.info", "target": {"channel": "chat", "chat_id": "room"}})
        event = {"event_type": "message.received", "conversation_id": "c", "agent": "echo"}
        client = host.host.served.client
        answer = await client.post("/v1/events", json={**event, "input": {"text": text}})
        run = answer.json()["run"]["run_id"]
        await host.host.until(host.host.outbox)
        await client.post(f"/v1/runs/{run}/cancel", json={})

        async def ended() -> bool:
            return bool((await client.get(f"/v1/runs/{run}")).json()["status"] == "cancelled")

        await host.host.until(ended)
        assert await host.host.outbox() == []
        assert await host.facts() == [("failed", "group.info")]


async def test_an_action_of_a_channel_that_is_removed_is_settled_and_recorded(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with acting(tmp_path, chat, {**ALLOWED, "actions_anywhere": True}) as host:
        await chat.stop()
        await host.host.until(lambda: host.host.health("failed", "connecting"))
        asked = {"later": True, "action": "message.react", "payload": {"emoji": "+"}}
        asked["target"] = {"channel": "chat", "chat_id": "room", "message_id": "1"}
        event = {"event_type": "message.received", "conversation_id": "c", "agent": "echo"}
        await host.host.served.client.post("/v1/events", json={**event, "input": {"text": json.dumps(asked)}})
        await host.host.until(host.host.outbox)
        await host.host.host.remove_entry(ENTRY_KINDS["channels"], "chat", actor="test")
        (only,) = await host.host.settled(1)
        assert (only.status, only.error) == ("failed", "the channel was removed")
        assert await host.facts() == [("failed", "message.react")]


async def test_what_an_action_says_is_not_in_the_audit_log(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat) as host:
        assert (await host.ask("message.react", emoji="sesame")).startswith("done")
        refused = await host.ask("message.edit", "1", text="sesame")
        assert refused.startswith("unsupported")
        found = await host.host.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=100))
        facts = [one for one in found if one.action.startswith("action.")]
        assert {one.action for one in facts} == {"action.done", "action.unsupported"}
        assert {str(one.body and one.body["payload_fields"]) for one in facts} == {"['emoji']", "['text']"}
        assert "sesame" not in str(facts)


async def test_a_huge_answer_of_a_platform_is_not_kept(tmp_path: Path, chat: ChatPlatform) -> None:
    async with acting(tmp_path, chat) as host:
        said = await host.ask("message.react", emoji="much")
        assert said.startswith('done {"left_out": "the platform\'s answer has 1,100,0'), said
        (row,) = [one for one in await host.host.outbox() if one.outbound.action is not None]
        assert row.status == "sent"
        assert len(str(row.result)) < 200
