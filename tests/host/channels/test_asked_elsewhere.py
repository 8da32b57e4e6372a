"""One question in several chats: those of the agent's operators besides the one of the conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec, DeliveryPolicy, ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.host.config import ConfigFile
from support.channel_host import WIRES, Chatting, entry_for
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import serving
from support.trust import trusted

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
KICK = json.dumps({"action": "member.kick", "target": {"person_id": "mallory"}})
CHATS = ["ops/desk", "calls/night"]


@asynccontextmanager
async def asking(folder: Path, **rule: Any) -> AsyncIterator[tuple[Chatting, list[ChatPlatform]]]:
    """A host whose agent serves `chat`, and asks in `ops` (buttons) and `calls` (numbers), too."""
    async with (
        asyncio.timeout(TEST_SECONDS),
        platform() as chat,
        platform() as ops,
        platform() as calls,
        serving(folder / "host", agent=False) as served,
    ):
        served.host.channels.hurry(0.05)
        platforms = {"chat": (chat, "rich"), "ops": (ops, "rich"), "calls": (calls, "wide")}
        entries = []
        for name, (where, kind) in platforms.items():
            entry = entry_for(where.port, folder / "token", kind, name=name)
            entry.config["acts"] = str(folder / "acts")
            entries.append(entry)
        approval: dict[str, Any] = {"platform.member_kick": ToolApprovalPolicy(**rule)}
        echo = AgentSpec(
            name="echo",
            runner="plugin:test/wires/echo",
            resource_policy=ResourcePolicy(
                allowed_actions=["*"], actions_anywhere=True, tool_approval=approval
            ),
            delivery_policy=DeliveryPolicy(ask_in=[*CHATS]),
        )
        await served.host.apply(ConfigFile(plugins=[trusted(WIRES)]), actor="test")
        await served.host.apply(ConfigFile(agents=[echo], channels=entries), actor="test")
        host = Chatting(served, chat)

        async def all_connected() -> bool:
            found = (await served.client.get("/v1/channels")).json()["items"]
            return [one["health"] for one in found] == ["connected"] * 3

        await host.until(all_connected)
        yield host, [chat, ops, calls]


async def asked_everywhere(platforms: list[ChatPlatform], *, room: str = "room") -> list[int]:
    """Wait until a question is in all three chats; return the numbers of its messages."""
    found = []
    for where, place in zip(platforms, (room, "desk", "night"), strict=True):
        await where.until(1, place)
        found.append(next(int(one["number"]) for one in where.said if one["by"] == "bot-1"))
    return found


def shown(where: ChatPlatform, number: int) -> str:
    """What a message says at last."""
    return str(where.said[number - 1]["said"])


async def test_what_is_decided_in_one_chat_is_seen_in_all(tmp_path: Path) -> None:
    async with asking(tmp_path, subjects=["person:ops/zoe"]) as (_, (chat, ops, calls)):
        chat.say(KICK)
        at = await asked_everywhere([chat, ops, calls])
        assert "Asked for" not in shown(chat, at[0])
        assert "Asked for person:chat/ann, in run " in shown(ops, at[1])
        assert (ops.buttons(at[1]), calls.buttons(at[2])) == (["Approve", "Deny"], [])
        assert "1. Approve\n2. Deny" in shown(calls, at[2])
        chat.press(at[0], "Approve")
        await chat.holds(lambda: chat.notices)
        assert chat.notices[0][1].startswith("This is not yours to decide")
        ops.press(at[1], "Approve", by="zoe")
        await chat.holds(lambda: at[0] in chat.edits and len(chat.by_bot()) == 2)
        await ops.holds(lambda: at[1] in ops.edits)
        assert shown(chat, at[0]).endswith("\n\nApproved by Zoe.")
        assert shown(ops, at[1]).endswith("\n\nApproved by Zoe.")
        assert (chat.buttons(at[0]), ops.buttons(at[1])) == ([], [])
        said = await calls.until(2, "night")
        assert said[1].endswith("Approved by Zoe.")
        assert len(ops.by_bot("desk")) == 1, "the answer goes to the conversation alone"
        assert len((tmp_path / "acts").read_text().splitlines()) == 1


async def test_it_is_decided_once_though_people_decide_in_two_chats_and_by_the_api_at_once(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path, subjects=["*", "role:admin"]) as (host, (chat, ops, calls)):
        chat.say(KICK)
        at = await asked_everywhere([chat, ops, calls])
        (pause,) = (await host.served.client.get("/v1/pauses")).json()["items"]
        call = pause["calls"][0]
        deny = {"call_id": call["call_id"], "type": "deny", "args_hash": call["args_hash"]}
        ops.press(at[1], "Approve", by="zoe")
        calls.say("2", chat="night", by="yan")
        chat.press(at[0], "Deny", by="ann")
        answer = await host.served.client.post(
            f"/v1/pauses/{pause['id']}/actions", json={"revision": pause["revision"], "actions": [deny]}
        )
        assert answer.status_code in {202, 409}
        await chat.holds(lambda: at[0] in chat.edits)
        await ops.holds(lambda: at[1] in ops.edits)
        await chat.until(2)
        decided = (await host.served.client.get(f"/v1/pauses/{pause['id']}")).json()["calls"][0]
        assert len(decided["votes"]) == 1
        last = shown(chat, at[0]).rsplit("\n\n", 1)[1]
        assert last.startswith("Approved by" if decided["decision"] == "approved" else "Denied by")
        assert shown(ops, at[1]).endswith(f"\n\n{last}")
        await calls.holds(lambda: any(one.endswith(last) for one in calls.by_bot("night")[1:]))
        done = tmp_path / "acts"
        assert done.exists() == (decided["decision"] == "approved")


async def test_a_question_of_a_run_that_no_channel_began_is_asked_there_and_answered(tmp_path: Path) -> None:
    async with asking(tmp_path) as (host, (chat, ops, calls)):
        ask = {"title": "Which size?", "actions": [{"name": "s", "label": "Small"}]}
        event = {"event_type": "message.received", "input": {"text": json.dumps({"ask": ask})}}
        sent = await host.served.client.post("/v1/events", json=event)
        assert sent.status_code == 202, sent.text
        await ops.until(1, "desk")
        await calls.until(1, "night")
        assert chat.by_bot() == []
        assert ops.by_bot("desk")[0].startswith("echo asks: Which size?\n\nAsked for ")
        who = ops.by_bot("desk")[0].split("Asked for ")[1].split(", in run")[0]
        bound = await host.served.client.put("/v1/people/calls/yan", json={"subject": who, "name": "Yan"})
        assert bound.status_code == 200, bound.text
        calls.say("small", chat="night", by="yan")
        told = await calls.until(2, "night")
        assert told[1].endswith("Answered by Yan: Small")
        await ops.holds(lambda: ops.by_bot("desk")[0].endswith("Answered by Yan: Small"))
        wrong = {"name": "echo", "runner": "plugin:test/wires/echo", "delivery_policy": {"ask_in": ["ops"]}}
        answer = await host.served.client.post("/v1/config/agents", json=wrong)
        assert answer.status_code == 400
        assert "'ops' is no chat: write CHANNEL/CHAT" in answer.json()["detail"]
        chats = ["opps/desk", {"channel": "ops", "chat_id": "desk", "thread_id": "7"}, "ops/desk"]
        policy = {"delivery_policy": {"ask_in": chats}}
        (warned,) = (await host.served.client.put("/v1/config/agents/echo", json=wrong | policy)).json()[
            "problems"
        ]
        assert (warned["name"], warned["place"], warned["severity"]) == (
            "echo",
            "delivery_policy.ask_in[0]",
            "warning",
        )
        assert warned["problem"] == "nothing is shown there: there is no channel 'opps'; did you mean 'ops'?"
        found = (await host.served.client.get("/v1/doctor")).json()["items"]
        assert [one["what"] for one in found if "'opps'" in one["text"]] == ["agent"]
        twice = {"delivery_policy": {"ask_in": [chats[2], {"channel": "ops", "chat_id": "desk"}]}}
        refused = await host.served.client.put("/v1/config/agents/echo", json=wrong | twice)
        assert "'ops/desk' is named twice" in refused.json()["detail"]
