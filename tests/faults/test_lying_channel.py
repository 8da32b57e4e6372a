"""The plugin of a channel that lies: about its channel, who speaks, and whose files and buttons they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile
from support.channel_host import LOOK_SECONDS, WIRES, Chatting, entry_for
from support.chat_platform import platform
from support.databases import TEST_SECONDS
from support.http_host import serving
from support.trust import trusted

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 30), pytest.mark.gate("channels")]
LIAR = '''
import asyncio
import json
from pathlib import Path

import msgspec

from hostler_sdk.channels import Channel, Person
from hostler_protocol.channels import ChannelEvent, IngestEventParams, IngestReadParams, IngestStateParams
from hostler_protocol.errors import HostlerError
from hostler_sdk import HostError

KINDS = {"event": IngestEventParams, "state": IngestStateParams, "read": IngestReadParams}


class Liar(Channel):
    """Says to the host what it is told to say."""

    abilities = {"buttons": True, "edit": True}
    config = [{"name": "desk", "type": "string", "required": True}]

    async def open(self):
        return Person(person_id="bot-1")  # the account of the other channel

    async def run(self):
        desk = Path(self.settings["desk"])
        while True:
            for asked in sorted(desk.glob("*.ask")):
                kind, params = json.loads(asked.read_text())
                if kind == "state" and params.get("state") == "large":
                    params["state"] = "x" * 100_000
                params.setdefault("channel_id", self.channel_id)
                try:
                    answer = await self._wire.ask(f"ingest/{kind}", msgspec.convert(params, KINDS[kind]))
                    told = {"reply": msgspec.to_builtins(answer)}
                except HostError as error:
                    told = {"error": str(error)}
                asked.unlink()
                new = asked.with_suffix(".new")
                new.write_text(json.dumps(told))
                new.rename(asked.with_suffix(".told"))
            await asyncio.sleep(0.02)

    async def send(self, target, message, *, key, attempt):
        return "1"

    async def edit(self, target, message_id, message, *, last):
        pass
'''
KICK = json.dumps({"action": "member.kick", "target": {"person_id": "mallory"}})


class Desk:
    """What the plugin is told to say, and what it was answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers: Iterator[int] = iter(range(1_000))

    async def say(self, kind: str, **params: Any) -> dict[str, Any]:
        """Let the plugin ask; return `reply` or `error`."""
        asked = self.folder / f"{next(self._numbers):03}.ask"
        asked.with_suffix(".new").write_text(json.dumps([kind, params]))
        asked.with_suffix(".new").rename(asked)
        told = asked.with_suffix(".told")
        while not told.exists():
            await asyncio.sleep(LOOK_SECONDS)
        found: dict[str, Any] = json.loads(told.read_text())
        return found

    async def event(self, text: str = "hi", **fields: Any) -> dict[str, Any]:
        """Let it deliver an event of ann in the chat `room`, as those of the other channel are."""
        event: dict[str, Any] = {
            "event_type": "message.received",
            "text": text,
            "person": {"person_id": "ann"},
        }
        event |= {"chat": {"chat_id": "room", "kind": "group"}, **fields}
        return await self.say("event", event=event)


async def test_it_speaks_for_its_own_channel_alone(tmp_path: Path) -> None:
    plugin, desk = tmp_path / "liar", Desk(tmp_path / "desk")
    plugin.mkdir()
    desk.folder.mkdir()
    (plugin / "liar.py").write_text(LIAR)
    (plugin / "hostler.yaml").write_text(
        "plugin: {author: test, name: liar, version: 1.0.0}\nchannels: [{name: liar, entry: 'liar:Liar'}]\n"
    )
    rule = ToolApprovalPolicy(subjects=["person:chat/ann"])
    policy = ResourcePolicy(allowed_actions=["*"], tool_approval={"platform.member_kick": rule})
    echo = AgentSpec(name="echo", runner="plugin:test/wires/echo", resource_policy=policy)
    async with (
        asyncio.timeout(TEST_SECONDS),
        platform() as chat,
        serving(tmp_path / "host", agent=False) as served,
    ):
        entry = entry_for(chat.port, tmp_path / "token", "rich", agent="echo")
        entry.config["acts"] = str(tmp_path / "acts")
        liar = ChannelEntry(
            name="liar", channel="plugin:test/liar/liar", config={"desk": str(desk.folder)}, agent="echo"
        )
        await served.host.apply(ConfigFile(plugins=[trusted(WIRES), trusted(plugin)]), actor="test")
        await served.host.apply(ConfigFile(agents=[echo], channels=[entry, liar]), actor="test")
        host = Chatting(served, chat)
        await host.connected()

        # of another channel
        for channel_id in ("chat", "nothing", ""):
            refused = await desk.say("state", channel_id=channel_id, state=1)
            assert "is not open on this connection" in refused["error"]
        # the same ids as those of the other channel are other ids
        chat.say(KICK, by="ann", chat="room")
        await chat.until(1)
        (mine,) = (await served.client.get("/v1/runs")).json()["items"]
        same = await desk.event("hello", event_id="1")
        assert same["reply"]["outcome"] == "started", "no duplicate of an event of another channel"
        theirs = (await served.client.get(f"/v1/events/{same['reply']['event_id']}")).json()
        assert theirs["conversation_id"] != mine["conversation_id"]
        assert theirs["requester"] == "channel:liar"
        # a button of the other channel's question, pressed by a person of that name
        number = next(int(one["number"]) for one in chat.said if one["by"] == "bot-1")
        (approve,) = (
            one["value"]
            for row in chat.said[number - 1]["buttons"]
            for one in row
            if one["label"] == "Approve"
        )
        for person in ("ann", "../chat/ann", "chat/ann"):
            pressed = {"event_type": "interaction.submitted", "message_id": str(number)}
            await desk.event("", **pressed, data={"value": approve}, person={"person_id": person})
        (pause,) = (await served.client.get("/v1/pauses")).json()["items"]
        assert pause["calls"][0]["decision"] == "undecided"
        assert not (tmp_path / "acts").exists()
        # files that are not its own
        stored = (await served.client.post("/v1/artifacts", content=b"private")).json()["artifact_id"]
        taken = await desk.event(attachments=[{"artifact_id": stored}])
        assert "is no file of this channel" in taken["error"]
        read = await desk.say("read", artifact_id=stored, offset=0, limit=10)
        assert "is no file of a message that is being sent" in read["error"]
        # what no channel says
        for kind in ("schedule.triggered", "webhook.received", "Message.Received", "platform."):
            wrong = await desk.event(event_type=kind)
            assert "error" in wrong or wrong["reply"]["outcome"] == "unrouted", kind
        large = await desk.say("state", state="large")
        assert "at most 65,536 are kept" in large["error"]
        # after all that it is a channel like others
        assert (await desk.event("still here"))["reply"]["outcome"] == "started"
        chat.press(number, "Approve", by="ann")
        await chat.until(2)
        assert len((tmp_path / "acts").read_text().splitlines()) == 1
