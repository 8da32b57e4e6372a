"""DingTalk on a whole host: the sandboxed plugin, approvals by buttons and numbers.

What becomes of messages and events when a host dies is in `tests/faults/test_shipped_channels_killed.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.certificates import tls_for
from support.channel_process import settled
from support.databases import TEST_SECONDS
from support.dingtalk_calls import ADA, GROUP, SECRET
from support.dingtalk_desk import FOLDER, config_of
from support.dingtalk_desk import serving as dingtalk
from support.dingtalk_server import DingTalkServer
from support.server_process import HostProcess
from support.shipped_host import host_with, lend

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)
PRIVATE = f"user:{ADA}"
QUERY = "/v1.0/robot/groups/robots/query"
CALL = json.dumps({"action": "platform.call", "payload": {"method": f"POST {QUERY}", "params": {"n": 1}}})


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def world(folder: Path, channel: str = "dingtalk") -> AsyncIterator[tuple[HostProcess, DingTalkServer]]:
    """A host with a robot of DingTalk that is connected."""
    tls, _ = tls_for("127.0.0.1", folder)
    policy = {"allowed_actions": ["*"], "actions_anywhere": True}
    async with asyncio.timeout(TEST_SECONDS), dingtalk(tls=tls) as server:
        config = config_of(server) | {"client-secret": SECRET}
        given: dict[str, Any] = {"secrets": ["client-secret"], "ports": [server.port], "policy": policy}
        async with host_with(folder, f"dingtalk/{channel}", config, **given) as host:
            await server.until_links(1)
            yield host, server


async def test_answers_are_cards_that_grow_with_whole_code_and_a_button_decides(lent: Path) -> None:
    async with world(lent) as (host, server):
        lines = [f"line {number} of the code" for number in range(400)]
        text = "Before **it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it."
        frame_id = server.say(text, group=True)
        await server.until_acknowledged(frame_id)
        await settled(host, 2)
        texts = server.texts(GROUP)
        assert [one.count("```") for one in texts] == [2] * len(texts)
        assert [line for one in texts for line in one.split("\n") if line.startswith("line ")] == lines
        assert texts[0].startswith("Before **it**.")
        assert texts[-1].endswith("After it.")

        go = lent / "go"
        server.say(
            json.dumps({"grow": ["**The** beginning", ", the middle", " and the end."], "go": str(go)})
        )
        await server.until_true(lambda: server.texts(PRIVATE) == ["**The** beginning"])
        go.write_text("1")
        await server.until_true(lambda: server.texts(PRIVATE) == ["**The** beginning, the middle"])
        go.write_text("9")
        whole = "**The** beginning, the middle and the end."
        await server.until_true(lambda: server.texts(PRIVATE) == [whole])
        await server.until_true(lambda: server.written[PRIVATE][0]["history"][-1][1] == "3")
        await settled(host, 3)
        (grown,) = server.written[PRIVATE]
        assert [status for _, status in grown["history"]] == ["3", *["2"] * (len(grown["history"]) - 2), "3"]

        server.say(CALL)
        card = await server.until_true(
            lambda: next((one for one in server.written[PRIVATE] if one.get("buttons")), None)
        )
        yes, no = card["buttons"]
        assert (yes["text"], no["text"]) == ("Approve", "Deny")
        asked = card["text"]
        server.press(card["track"], yes["id"], by="eve")
        await server.until_true(lambda: any("not yours to decide" in one for one in server.texts("user:eve")))
        host.kill()  # the question is in the chat, and nobody has decided
        await server.until_links(0)
        pressed = server.press(card["track"], yes["id"])
        await host.start()
        await server.until_acknowledged(pressed)
        await server.until_called(QUERY)
        await server.until_true(lambda: not card["buttons"])
        assert card["text"].startswith(asked)
        assert "Approved by" in card["text"]
        assert [call.body for call in server.called(QUERY)] == [{"n": 1}]


async def test_without_cards_a_number_decides(lent: Path) -> None:
    async with world(lent, "markdown") as (_, server):
        server.say(CALL)
        asked = (await server.until_true(lambda: server.texts(PRIVATE)))[0]
        assert "1" in asked
        assert "Approve" in asked
        server.say("1")
        await server.until_called(QUERY)
        await server.until_true(lambda: any("Approved by" in one for one in server.texts(PRIVATE)[1:]))
