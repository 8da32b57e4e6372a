"""WeCom on a whole host: its calls over HTTP, answers, and an approval on a card.

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
from support.loopback import NO_CERTIFICATES
from support.server_process import HostProcess
from support.shipped_host import host_with, lend
from support.wecom_desk import FOLDER, config_of
from support.wecom_desk import serving as wecom
from support.wecom_envelopes import call_of, message, press
from support.wecom_server import WecomServer

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[HostProcess, WecomServer]]:
    """A host with an application of WeCom."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with asyncio.timeout(TEST_SECONDS), wecom(tls=tls) as server:
        config, secrets = config_of(server), ["secret", "callback-token", "callback-aes-key"]
        async with host_with(folder, "wecom/wecom", config, secrets=secrets, ports=[server.port]) as host:
            yield host, server


async def call(host: HostProcess, content: str, **sealed: Any) -> httpx.Response:
    """Call the address of the channel, as WeCom does, once the channel is open."""
    made = call_of(content, **sealed)
    url, body = f"{host.url}/v1/channels/chat/webhook", base64.b64decode(made.get("body_base64", ""))
    async with httpx.AsyncClient(timeout=SECONDS, verify=NO_CERTIFICATES) as client:
        while True:
            headers = {"content-type": "text/xml"}
            answer = await client.request(
                made["method"], url, params=made["query"], content=body, headers=headers
            )
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(LOOK_SECONDS)


async def test_it_is_called_at_its_address_and_answers_in_whole_parts(lent: Path) -> None:
    async with world(lent) as (host, server):
        checked = await call(host, "1616140317555161061", method="GET")
        assert (checked.status_code, checked.text) == (200, "1616140317555161061")
        code = "\n".join(f"    line {number} of the code" for number in range(150))
        said = message(Content=f"Before **it**.\n\n```\n{code}\n```\n\nAfter it.")
        assert (await call(host, said, token="another")).status_code == 401
        for _ in range(2):  # WeCom asks again
            answer = await call(host, said)
            assert (answer.status_code, answer.content) == (200, b"")
        sent = await settled(host, 3)
        assert [one["status"] for one in sent] == ["sent"] * len(sent)
        texts = server.texts()
        lines = [line for text in texts for line in text.split("\n") if "of the code" in line]
        assert lines == code.split("\n")
        assert texts[0].startswith("Before **it**.") or texts[0].startswith("Before it.")
        assert texts[-1].endswith("After it.")
        assert len(await items(host, "/v1/runs")) == 1


async def test_an_approval_is_decided_on_its_card_after_the_host_died(lent: Path) -> None:
    delete = json.dumps({"action": "message.delete", "target": {"message_id": "msg-of-before"}})
    async with world(lent) as (host, server):
        assert (await call(host, message(Content=delete))).status_code == 200
        await settled(host, 1)
        (card,) = [one["template_card"] for one in server.delivered if one["msgtype"] == "template_card"]
        approve, deny = card["button_list"]
        assert (approve["text"], deny["text"]) == ("Approve", "Deny")
        host.kill()
        await host.start()
        pressed = press(approve["key"], "bob", task=card["task_id"], code="code-of-the-card")
        assert (await call(host, pressed)).status_code == 200
        assert server.recalled == [], "the card is of somebody else's chat"
        pressed = press(approve["key"], task=card["task_id"], code="code-1")
        for _ in range(2):
            assert (await call(host, pressed)).status_code == 200
        (update,) = await server.until_called("message/update_template_card")
        assert update.body["button"]["replace_name"].startswith("Approved")
        await server.until_true(lambda: server.recalled)
        assert server.recalled == ["msg-of-before"]
        sent = await settled(host, 4)
        assert {one["status"] for one in sent} == {"sent"}
        assert any("Approved by Ada" in text for text in server.texts())
        assert any(text.startswith("done") for text in server.texts())
