"""A bot of Discord on a whole host: the gateway, answers that grow, approvals by buttons, and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile, PluginEntry
from support.certificates import tls_for
from support.channel_host import WIRES
from support.channel_process import settled
from support.databases import TEST_SECONDS
from support.discord_desk import FOLDER, config_of
from support.discord_desk import serving as discord
from support.discord_server import GENERAL, GUILD, ME, PRIVATE, DiscordServer
from support.http_host import Served, serving
from support.shipped_host import lend
from support.trust import trusted

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 60), pytest.mark.gate("channels")]
EVE = {"id": "99", "username": "eve", "discriminator": "0", "global_name": "Eve", "avatar": None}
MUTE = json.dumps({"action": "member.mute", "target": {"person_id": "99"}, "payload": {"seconds": 60}})
SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
CALLBACK = "POST /interactions/*/a-token-of-an-interaction/callback"


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a host that has what the plugin requires, and trusts the server."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "127.0.0.1.pem"))
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def bot(folder: Path) -> AsyncIterator[tuple[Served, DiscordServer]]:
    """A host with a bot whose agent does what it is told."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with (
        asyncio.timeout(TEST_SECONDS),
        discord(tls=tls) as server,
        serving(folder / "host", agent=False) as served,
    ):
        (folder / "token").write_text(server.token)
        config = config_of(server) | {"token": f"file:{folder / 'token'}"}
        entry = ChannelEntry(name="help", channel="plugin:hostler/discord/discord", config=config)
        policy = ResourcePolicy(allowed_actions=["*"])
        echo = AgentSpec(name="echo", runner="plugin:test/wires/echo", resource_policy=policy)
        plugin = PluginEntry(path=str(FOLDER), network=[f"127.0.0.1:{server.port}"])
        file = ConfigFile(plugins=[plugin, trusted(WIRES)], agents=[echo], channels=[entry])
        await served.host.apply(file, actor="test")
        await server.until_true(lambda: server.gateway.connected)
        yield served, server


async def test_a_button_is_for_whom_the_rule_names(lent: Path) -> None:
    async with bot(lent) as (served, server):
        await server.say(MUTE, GENERAL)
        (asked,) = await server.until(SEND)
        buttons = [one for row in asked.body["components"] for one in row["components"]]
        assert [one["label"] for one in buttons] == ["Approve", "Deny"]
        (number,) = [id_ for id_, one in server.messages.items() if one["author"] == ME]
        await server.press(number, buttons[0]["custom_id"], member={"user": EVE, "nick": None})
        (told,) = await server.until(CALLBACK)
        assert told.body["data"]["content"].startswith("This is not yours to decide")
        assert server.called(EDIT) == []
        await server.press(number, buttons[0]["custom_id"])
        await server.until(EDIT)
        shown = server.messages[number]
        assert shown["content"].startswith(asked.body["content"])
        assert "Approved by Countess" in shown["content"]
        assert shown["components"] == []
        muted = await server.until("PATCH /guilds/*/members/*")
        assert [one.path for one in muted] == [f"/guilds/{GUILD}/members/99"]
        await settled(served, 3)


async def test_a_question_in_parts_is_answered_by_a_reply_to_any_of_them(lent: Path) -> None:
    async with bot(lent) as (served, server):
        field = {"name": "n", "type": "number", "label": "How many", "required": True}
        asked = {"title": "How many?", "description": "*" * 980, "fields": [field]}
        await server.say(json.dumps({"ask": asked}), GENERAL)
        await server.until(SEND, 2)
        last = max(server.messages)
        assert server.messages[last]["content"].endswith("Reply to this message with: How many")
        await settled(served, 1)
        reference = {"type": 0, "message_id": last, "channel_id": GENERAL}
        await server.say("7", GENERAL, type=19, message_reference=reference)
        await server.until_true(lambda: server.texts()[-1] == 'answered {"n": 7} None')


async def test_a_long_answer_with_code_goes_out_in_whole_parts(lent: Path) -> None:
    async with bot(lent) as (served, server):
        lines = [f"line {number} of the code" for number in range(400)]
        await server.say("Before **it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it.", GENERAL)
        messages = await settled(served, 5)
        assert [one["status"] for one in messages] == ["sent"] * len(messages)
        texts = server.texts()
        assert len(texts) == len(messages)
        assert [one.count("```") for one in texts] == [2] * len(texts)
        assert [line for one in texts for line in one.split("\n") if line.startswith("line ")] == lines
        assert texts[0].startswith("Before **it**.")
        assert texts[-1].endswith("After it.")


async def test_an_answer_grows_and_is_edited_to_its_end(lent: Path) -> None:
    pieces, go = ["**The** beginning", " and the middle", " and the end."], lent / "go"
    async with bot(lent) as (served, server):
        await server.say(json.dumps({"grow": pieces, "go": str(go)}))
        await server.until("POST /channels/*/typing")
        (first,) = await server.until(SEND)
        assert first.body["content"] == "**The** beginning"
        go.write_text("1")
        (grown,) = (await server.until(EDIT))[:1]
        assert grown.body["content"] == "**The** beginning and the middle"
        go.write_text("9")
        await server.until_true(lambda: server.texts() == ["".join(pieces)])
        (only,) = await settled(served, 1)
        assert (only["status"], only["text"]) == ("sent", "".join(pieces))
        assert len(server.called(SEND)) == 1


async def test_a_file_comes_in_and_goes_out(lent: Path) -> None:
    async with bot(lent) as (served, server):
        content = bytes(range(256)) * 64
        await server.say(attachments=[server.attachment("plan.bin", content)], channel=PRIVATE)
        (sent,) = await server.until(SEND)
        assert sent.body["content"] == "(files)"
        assert sent.files == [("plan.bin", content)]
        await settled(served, 1)
        (event,) = (await served.client.get("/v1/events")).json()["items"]
        assert event["event_type"] == "message.received"
