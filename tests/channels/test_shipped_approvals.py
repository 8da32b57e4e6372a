"""An approval in the chat of a shipped channel: who asked decides it there, nobody else, on a whole host.

The other channels show the same beside what is special to them (test_telegram_host.py and others).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.certificates import tls_for
from support.channel_process import LOOK_SECONDS, items
from support.databases import TEST_SECONDS
from support.email_desk import mail, read
from support.matrix_server import BOB
from support.shipped_channels import Email, Matrix, Slack, platform_of
from support.shipped_host import CHANNELS, host_with, lend
from support.shipped_platform import Platform
from support.slack_methods import ROOMS

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 60), pytest.mark.gate("channels")]
ALLOWED, DENIED = 0, 1
POLICY = {
    "allowed_actions": ["message.send"],
    "tool_approval": {"platform.message_send": {"approval": "required"}},
}


@pytest.fixture
def lent(tmp_path: Path, name: str) -> Path:
    """A folder for a host that has what the plugin of a platform requires."""
    return lend(tmp_path, CHANNELS / name)


def send(text: str) -> str:
    """What makes the agent ask for a message to be sent."""
    return json.dumps({"action": "message.send", "payload": {"text": text}})


def somebody_else_approves(platform: Platform, place: int) -> None:
    """A stranger presses Approve, or answers with its number."""
    if isinstance(platform, Slack):
        asked = platform.server.last(ROOMS[place])
        buttons = [one for block in asked["blocks"] for one in block.get("elements", [])]
        where = {"ts": asked["ts"], "chat": ROOMS[place], "trigger": "13.eve"}
        press = platform.server.press(buttons[0]["value"], **where)
        press["user"] = {"id": "U0EVE", "username": "eve", "name": "eve"}
        platform.server.envelope("interactive", press)
    elif isinstance(platform, Matrix):
        platform.server.say("1", by=BOB, room=platform.rooms[place])
    else:
        assert isinstance(platform, Email)
        asked_in = read(platform.server.sent[-1].raw)["Message-ID"]
        eve = {"From": "Eve <eve@example.com>", "Return_Path": "<eve@example.com>"}
        platform.server.deliver(mail("1", Message_ID="<eve@example.com>", In_Reply_To=asked_in, **eve))


async def until(holds: Callable[[], Any]) -> None:
    while not holds():
        await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("name", ["slack", "matrix", "email"])
async def test_who_asked_approves_or_denies_in_the_chat_and_nobody_else(lent: Path, name: str) -> None:
    tls, _ = tls_for("127.0.0.1", lent)
    async with asyncio.timeout(TEST_SECONDS), platform_of(name, tls) as here:
        given: dict[str, Any] = {"secrets": here.secrets, "ports": here.ports, "policy": POLICY}
        async with host_with(lent, f"{name}/{name}", here.config, **given) as host:
            while (await items(host, "/v1/channels"))[0]["health"] != "connected":
                await asyncio.sleep(LOOK_SECONDS)
            for place, text in ((ALLOWED, "the approved words"), (DENIED, "the denied words")):
                here.say(place, send(text))
                await until(partial(here.seen, place))
            before = len(await items(host, "/v1/events"))
            somebody_else_approves(here, DENIED)
            if isinstance(here, Slack):
                (told,) = await here.server.until_called("chat.postEphemeral")
                assert "not yours to decide" in told.params["text"]
            while not isinstance(here, Slack) and len(await items(host, "/v1/events")) == before:
                await asyncio.sleep(LOOK_SECONDS)
            here.choose(DENIED, 2)
            here.choose(ALLOWED, 1)
            await until(lambda: any(text.startswith("done") for text in here.seen(ALLOWED)))
            await until(lambda: any(text.startswith("denied") for text in here.seen(DENIED)))
            assert "the approved words" in here.seen(ALLOWED)
            assert "the denied words" not in here.seen(DENIED)
