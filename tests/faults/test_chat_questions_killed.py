"""kill -9 of the host around an answer in a chat: it is decided once, done once, and the message says so.

And two hosts on one database, of which one has the channel, while people decide at both.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from support.channel_process import LOOK_SECONDS, SECONDS, world
from support.chat_platform import TOKEN, ChatPlatform, platform
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS

KICK = json.dumps({"action": "member.kick", "target": {"person_id": "mallory"}})
POLICY = {"allowed_actions": ["*"]}
STEPS = ("event", "delivering", "delivered", "edit", "edited")
"""Before the press is delivered, while it is, and after; before the message is changed, and after."""
pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("killed-hosts")]


def asked(chat: ChatPlatform) -> int:
    """The number of the message that asks."""
    return next(int(one["number"]) for one in chat.said if one["said"].startswith("echo asks"))


def settled(chat: ChatPlatform, at: int) -> bool:
    """Whether the message says what was decided, and the run has answered."""
    return at in chat.edits and any(said.startswith("done") for said in chat.by_bot())


@pytest.mark.parametrize("step", STEPS)
async def test_a_press_is_one_decision_whenever_the_host_is_killed(tmp_path: Path, step: str) -> None:
    acts = tmp_path / "acts"
    async with world(tmp_path, "rich", acts=acts, policy=POLICY) as here:
        here.chat.say(KICK)
        await here.chat.until(1)
        at = asked(here.chat)
        here.kill_at(step)
        here.chat.press(at, "Approve")
        await here.died()
        await here.host.start()
        await here.chat.holds(lambda: settled(here.chat, at))
        sent = await here.settled(3)
        assert {one["status"] for one in sent} == {"sent"}
        assert here.chat.said[at - 1]["said"].endswith("\n\nApproved by Ann.")
        assert here.chat.buttons(at) == []
        assert set(here.chat.edits[at][1:]) == {here.chat.said[at - 1]["said"]}
        assert len(acts.read_text().splitlines()) == 1
        assert len(here.chat.by_bot()) == 2, "the question, and what came of it"


@pytest.mark.parametrize("step", ["send", "sending", "sent"])
async def test_a_question_is_asked_once_and_can_be_decided(tmp_path: Path, step: str) -> None:
    acts = tmp_path / "acts"
    async with world(tmp_path, "rich", acts=acts, policy=POLICY) as here:
        here.kill_at(step)
        here.chat.say(KICK)
        await here.died()
        await here.host.start()
        await here.chat.until(1)
        at = asked(here.chat)
        here.chat.press(at, "Deny")
        await here.chat.holds(lambda: at in here.chat.edits and len(here.chat.by_bot()) == 2)
        assert here.chat.said[at - 1]["said"].endswith("\n\nDenied by Ann.")
        assert not acts.exists()


@pytest.mark.parametrize("step", ["delivered", "edit", "edited"])
async def test_every_chat_that_asked_says_who_decided(tmp_path: Path, step: str) -> None:
    acts, trap = tmp_path / "acts", tmp_path / "trap-of-ops"
    async with platform() as ops:
        config = {"port": ops.port, "token": f"file:{tmp_path / 'token'}", "trap": str(trap)}
        entry = {"name": "ops", "channel": "plugin:test/wires/rich", "config": config}
        rule = {"platform.member_kick": {"approval": "required", "subjects": ["person:ops/zoe"]}}
        policy = {**POLICY, "tool_approval": rule}
        agent = {"delivery_policy": {"ask_in": ["ops/desk"]}}
        async with world(tmp_path, "rich", acts=acts, policy=policy, agent=agent, channels=[entry]) as first:
            here = dataclasses.replace(first, trap=trap)
            here.chat.say(KICK)
            await here.chat.until(1)
            await ops.until(1, "desk")
            here.kill_at(step)
            ops.press(asked(ops), "Approve", by="zoe")
            await here.died()
            await here.host.start()
            at = asked(here.chat)
            await here.chat.holds(lambda: at in here.chat.edits)
            await ops.holds(lambda: asked(ops) in ops.edits)
            sent = await here.settled(6)
            # while the message of one chat is changed, the answer may be on its way to the other one
            doubted = [one["text"] for one in sent if one["status"] == "in_doubt"]
            assert all(text.startswith("done") for text in doubted), sent
            assert {one["status"] for one in sent} <= {"sent", "in_doubt"}
            for where in (here.chat, ops):
                said = where.said[asked(where) - 1]
                assert said["said"].endswith("\n\nApproved by Zoe.")
                assert said["buttons"] == []
            assert len(acts.read_text().splitlines()) == 1
            assert len(here.chat.by_bot()) in ({1, 2} if doubted else {2})
            assert len(ops.by_bot("desk")) == 1


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_people_at_two_hosts_make_one_decision(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with platform() as chat:
        acts = tmp_path / "acts"
        config = {"port": chat.port, "token": f"file:{tmp_path / 'token'}", "acts": str(acts)}
        entry = {"name": "chat", "channel": "plugin:test/wires/rich", "config": config}
        echo = {"name": "echo", "runner": "plugin:test/wires/echo", "resource_policy": POLICY}
        file = config_file(
            tmp_path / "config.yaml", plugins=[PLUGINS / "wires"], agents=[echo], channels=[entry]
        )
        hosts = [
            HostProcess(tmp_path / name, file, database_url, options=[*LEASE], constants=LOOKS)
            for name in ("first", "second")
        ]
        try:
            async with asyncio.timeout(SECONDS):
                for host in hosts:
                    await host.start()
                for number in range(4):
                    await _decide_at_both(chat, hosts[1], f"room {number}")
        except BaseException:
            print(hosts[0].log, hosts[1].log, sep="\n---\n")
            raise
        finally:
            for host in hosts:
                host.end()


async def _decide_at_both(chat: ChatPlatform, other: HostProcess, room: str) -> None:
    """Approve in the chat and deny over HTTP at the other host, at once."""
    chat.say(KICK, chat=room)
    await chat.until(1, room)
    at = next(int(one["number"]) for one in chat.said if one["chat"] == room and "buttons" in one)
    async with other.client() as client:

        async def pause() -> dict[str, Any]:
            items = (await client.get("/v1/pauses")).json()["items"]
            found: dict[str, Any] = items[0]
            return found

        waiting = await pause()
        call = waiting["calls"][0]
        deny = {"call_id": call["call_id"], "type": "deny", "args_hash": call["args_hash"]}
        chat.press(at, "Approve")
        answer = await client.post(
            f"/v1/pauses/{waiting['id']}/actions", json={"revision": 1, "actions": [deny]}
        )
        await chat.holds(lambda: at in chat.edits and len(chat.by_bot(room)) == 2)
        decided = (await client.get(f"/v1/pauses/{waiting['id']}")).json()["calls"][0]
        while chat.said[at - 1]["buttons"]:
            await asyncio.sleep(LOOK_SECONDS)
    assert answer.status_code in {202, 409}
    assert (decided["decision"] == "denied") == (answer.status_code == 202)
    assert len(decided["votes"]) == 1
    said = chat.said[at - 1]["said"]
    assert said.endswith("Approved by Ann.") == (decided["decision"] == "approved")
