"""A bot of Telegram on a whole host: approvals by buttons, answers that grow, and the sign that it writes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec, DeliveryPolicy, ResourcePolicy
from hostler.domain.channels import ChannelEntry, ChatPlace
from hostler.host.config import ConfigFile, PluginEntry
from support.channel_host import LOOK_SECONDS, WIRES
from support.channel_process import settled
from support.databases import TEST_SECONDS
from support.http_host import Served, serving
from support.shipped_host import lend
from support.telegram_desk import FOLDER
from support.telegram_desk import serving as bot_api
from support.telegram_server import GROUP, PRIVATE, TelegramServer
from support.trust import trusted

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 60), pytest.mark.gate("channels")]
EVE = {"id": 99, "is_bot": False, "first_name": "Eve"}
KICK = json.dumps({"action": "member.kick", "target": {"person_id": "4711"}})


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def bot(folder: Path, **delivery: Any) -> AsyncIterator[tuple[Served, TelegramServer]]:
    """A host with a bot whose agent does what it is told."""
    async with (
        asyncio.timeout(TEST_SECONDS),
        bot_api() as server,
        serving(folder / "host", agent=False) as served,
    ):
        (folder / "token").write_text(server.token)
        config = {"token": f"file:{folder / 'token'}", "base-url": server.url}
        entry = ChannelEntry(name="help", channel="plugin:hostler/telegram/telegram", config=config)
        policy = ResourcePolicy(allowed_actions=["*"])
        echo = AgentSpec(
            name="echo",
            runner="plugin:test/wires/echo",
            resource_policy=policy,
            delivery_policy=DeliveryPolicy(**delivery),
        )
        telegram = PluginEntry(path=str(FOLDER), network=[f"127.0.0.1:{server.port}"])
        file = ConfigFile(plugins=[telegram, trusted(WIRES)], agents=[echo], channels=[entry])
        diff = await served.host.apply(file, actor="test")
        assert diff.problems == []
        yield served, server


async def test_a_button_is_for_whom_the_rule_names(lent: Path) -> None:
    async with bot(lent) as (served, server):
        server.say(KICK, chat=GROUP)
        (asked,) = await server.until("sendMessage")
        buttons = [one for row in json.loads(asked.params["reply_markup"])["inline_keyboard"] for one in row]
        assert [one["text"] for one in buttons] == ["Approve", "Deny"]
        assert all(len(one["callback_data"].encode()) <= 64 for one in buttons)
        (number,) = server.messages
        server.press(number, buttons[0]["callback_data"], chat=GROUP, by=EVE)
        (told,) = await server.until("answerCallbackQuery")
        assert told.params["text"].startswith("This is not yours to decide")
        assert server.called("editMessageText") == []
        server.press(number, buttons[0]["callback_data"], chat=GROUP)
        assert (await server.until("answerCallbackQuery", 2))[1].params["text"].startswith("Approved by Ada")
        (edited,) = await server.until("editMessageText")
        assert edited.params["text"].startswith(asked.params["text"])
        assert "Approved by Ada" in edited.params["text"]
        assert not json.loads(edited.params.get("reply_markup") or "{}").get("inline_keyboard")
        assert len(await server.until("unbanChatMember")) == 1
        await settled(served, 3)


async def test_a_question_is_shown_and_answered_in_a_topic_too(lent: Path) -> None:
    topic = ChatPlace(channel="help", chat_id=str(GROUP["id"]), thread_id="9")
    async with bot(lent, ask_in=[topic]) as (served, server):
        ask = {"title": "Which size?", "actions": [{"name": "s", "label": "Small"}]}
        server.say(json.dumps({"ask": ask}))
        asked = {one.params["chat_id"]: one.params for one in await server.until("sendMessage", 2)}
        assert {chat: one.get("message_thread_id") for chat, one in asked.items()} == {
            str(PRIVATE["id"]): None,
            topic.chat_id: "9",
        }
        assert "Asked for " in asked[topic.chat_id]["text"]
        (number,) = [id_ for id_, one in server.messages.items() if one["chat"] == GROUP]
        (button,) = json.loads(asked[topic.chat_id]["reply_markup"])["inline_keyboard"][0]
        server.press(number, button["callback_data"], chat=GROUP)
        edited = {
            one.params["chat_id"]: one.params["text"] for one in await server.until("editMessageText", 2)
        }
        assert edited.keys() == asked.keys()
        assert all(text.endswith("Answered by Ada L.: Small") for text in edited.values()), edited
        await settled(served, 5)
        sent = server.called("sendMessage")
        assert [one.params["chat_id"] for one in sent].count(topic.chat_id) == 1, "the answer is not for it"


async def test_a_long_answer_with_code_goes_out_in_whole_parts(lent: Path) -> None:
    async with bot(lent) as (served, server):
        lines = [f"line {number} of the code" for number in range(400)]
        server.say("Before **it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it.")
        messages = await settled(served, 3)
        assert [one["status"] for one in messages] == ["sent"] * len(messages)
        texts = server.texts()
        assert len(texts) == len(messages)
        assert [(one.count("<pre>"), one.count("</pre>")) for one in texts] == [(1, 1)] * len(texts)
        assert re.findall(r"line \d+ of the code", "\n".join(texts)) == lines
        assert texts[0].startswith("Before <b>it</b>.")
        assert texts[-1].endswith("After it.")


async def test_an_answer_grows_and_the_chat_shows_that_the_bot_writes(lent: Path) -> None:
    pieces, go = ["**The** beginning", " and the middle", " and the end."], lent / "go"
    async with bot(lent) as (served, server):
        server.say(json.dumps({"grow": pieces, "go": str(go)}))
        (action,) = (await server.until("sendChatAction"))[:1]
        assert action.params["action"] == "typing"
        (first,) = await server.until("sendMessage")
        assert first.params["text"] == "<b>The</b> beginning"
        go.write_text("1")
        (grown,) = (await server.until("editMessageText"))[:1]
        assert grown.params["text"] == "<b>The</b> beginning and the middle"
        go.write_text("9")
        while server.texts() != ["<b>The</b> beginning and the middle and the end."]:
            await asyncio.sleep(LOOK_SECONDS)
        (only,) = await settled(served, 1)
        assert (only["status"], only["text"]) == ("sent", "".join(pieces))
        assert len(server.called("sendMessage")) == 1
