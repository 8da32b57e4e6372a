"""LINE on a whole host: the sandboxed plugin, called over HTTP, and approvals in the chat.

What becomes of messages and events when a host dies is in `tests/faults/test_shipped_channels_killed.py`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.certificates import tls_for
from support.channel_process import LOOK_SECONDS, SECONDS, items, settled
from support.databases import TEST_SECONDS
from support.line_desk import FOLDER, config_of
from support.line_desk import serving as line
from support.line_server import ADA, EVE, GROUP, LineServer, signed
from support.loopback import NO_CERTIFICATES
from support.server_process import HostProcess
from support.shipped_host import host_with, lend

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)
LEAVE = json.dumps({"action": "group.leave"})


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[HostProcess, LineServer]]:
    """A host with a channel to a LINE."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with asyncio.timeout(TEST_SECONDS), line(tls=tls) as server:
        config, secrets = config_of(server), ["token", "channel-secret"]
        async with host_with(folder, "line/line", config, secrets=secrets, ports=[server.port]) as host:
            yield host, server


async def call(host: HostProcess, request: dict[str, Any]) -> int:
    """Call the channel's address as LINE does; return the status."""
    body = base64.b64decode(request["body_base64"])
    async with httpx.AsyncClient(timeout=SECONDS, verify=NO_CERTIFICATES) as client:
        url = f"{host.url}/v1/channels/chat/webhook"
        return (await client.post(url, content=body, headers=request["headers"])).status_code


async def delivered(host: HostProcess, server: LineServer, *events: Any) -> None:
    """Have LINE call until the events are acknowledged, as it does where webhooks are sent again."""
    while (status := await call(host, server.webhook(*events))) != 200:
        assert status == 503
        await asyncio.sleep(LOOK_SECONDS)


async def test_it_is_called_and_answers_in_whole_parts_once(lent: Path) -> None:
    async with world(lent) as (host, server):
        lines = [f"line {number} of the code" for number in range(400)]
        said = server.message(text="Before **it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it.")
        await delivered(host, server)  # LINE verifies the address
        assert await call(host, signed({"events": [said]}, "another secret")) == 401
        await delivered(host, server, said)
        await delivered(host, server, said | {"deliveryContext": {"isRedelivery": True}})
        messages = await settled(host, 2)
        assert [one["status"] for one in messages] == ["sent"] * len(messages)
        texts = server.texts()
        assert texts[0].startswith("Before it.")
        assert texts[-1].endswith("After it.")
        assert [one for text in texts for one in text.split("\n") if one.startswith("line ")] == lines
        assert len(await items(host, "/v1/runs")) == 1


async def test_an_approval_is_decided_in_the_chat_after_the_host_was_killed(lent: Path) -> None:
    async with world(lent) as (host, server):
        in_group = {"type": "group", "groupId": GROUP, "userId": ADA}
        await delivered(host, server, server.message(source=in_group, text=LEAVE))
        await server.until_true(lambda: [one for one in server.sent if one["message"]["type"] == "flex"])
        bubble = server.sent[-1]["message"]["contents"]
        approve, deny = [one["action"] for one in bubble["body"]["contents"]]
        assert (approve["label"], deny["label"]) == ("Approve", "Deny")
        await settled(host, 1)
        host.kill()
        await host.start()

        def press(by: str) -> dict[str, Any]:
            source = in_group | {"userId": by}
            token = server.reply_token(GROUP)
            return server.event("postback", source, replyToken=token, postback={"data": approve["data"]})

        await delivered(host, server, press(EVE))
        await server.until_true(lambda: server.texts(EVE))
        assert server.texts(EVE)[0].startswith("This is not yours to decide")
        assert server.called("/leave") == []
        pressed = press(ADA)
        await delivered(host, server, pressed)
        await delivered(host, server, pressed)
        await server.until_true(lambda: any("Approved by Ada" in text for text in server.texts(GROUP)))
        await server.until_called("/leave")
        await settled(host, 3)
        assert len(server.called("/leave")) == 1
