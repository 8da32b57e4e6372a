"""Lark on a whole host: the sandboxed plugin, by long connection and by HTTP, and approvals in the chat.

What becomes of messages and events when a host dies is in `tests/faults/test_shipped_channels_killed.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.certificates import tls_for
from support.channel_process import LOOK_SECONDS, SECONDS, settled
from support.databases import TEST_SECONDS
from support.lark_desk import FOLDER, config_of
from support.lark_desk import serving as lark
from support.lark_events import (
    KEY,
    TOKEN,
    encrypted,
    event,
    message_id_of,
    pressed,
    said,
    signed,
    to_bot,
)
from support.lark_methods import ADA, BEN, DM, GROUP, buttons_of, text_of
from support.lark_server import LarkServer
from support.loopback import NO_CERTIFICATES
from support.server_process import HostProcess
from support.shipped_host import host_with, lend

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 60), pytest.mark.gate("channels")]
KICK = json.dumps({"action": "member.kick", "target": {"person_id": BEN}})


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[tuple[HostProcess, LarkServer]]:
    """A host with a channel to a Lark."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with asyncio.timeout(TEST_SECONDS), lark(tls=tls) as server:
        config = config_of(server) | {name.replace("_", "-"): value for name, value in settings.items()}
        secrets = ["app-secret", "encrypt-key", "verification-token"]
        async with host_with(folder, "lark/lark", config, secrets=secrets, ports=[server.port]) as host:
            yield host, server


async def test_a_question_in_a_group_is_answered_in_whole_parts_and_a_file_comes_back(lent: Path) -> None:
    async with world(lent) as (host, server):
        await server.until_links(1)
        lines = [f"line {number} of the code" for number in range(400)]
        payload = said(server, **to_bot("**it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it."))
        await server.acknowledgement(server.push(payload))
        messages = await settled(host, 3)
        assert [one["status"] for one in messages] == ["sent"] * len(messages)
        written = server.sent(GROUP)
        assert written[0]["parent_id"] == message_id_of(payload)
        assert "parent_id" not in written[1]
        texts = [text_of(one) for one in written]
        assert [one.count("```") for one in texts] == [2] * len(texts)
        assert [line for one in texts for line in one.split("\n") if line.startswith("line ")] == lines
        assert texts[0].startswith("@helper **it**.")
        assert texts[-1].endswith("After it.")
        content = bytes(range(256)) * 64
        server.files["file_1"] = (content, "application/octet-stream")
        server.push(said(server, {"file_key": "file_1", "file_name": "plan.bin"}, kind="file"))
        while not server.uploads:
            await asyncio.sleep(LOOK_SECONDS)
        assert list(server.uploads.values()) == [("stream", content)]
        await settled(host, len(messages) + 1)
        assert [one["msg_type"] for one in server.sent(DM)] == ["interactive", "file"]


async def test_an_approval_is_decided_in_the_chat_after_the_host_was_killed(lent: Path) -> None:
    async with world(lent) as (host, server):
        await server.until_links(1)
        asking = said(server, KICK, GROUP)
        await server.acknowledgement(server.push(asking))
        await server.until_true(lambda: server.sent(GROUP))
        await settled(host, 1)
        (asked,) = server.sent(GROUP)
        yes, no = buttons_of(asked)
        assert (yes[:2], no[:2]) == (("Approve", "primary"), ("Deny", "danger"))
        host.kill()
        await server.until_links(0)
        await host.start()
        await server.until_links(1)
        press = pressed(server, json.loads(yes[2]), asked["message_id"], GROUP, person=BEN)
        told = await server.acknowledgement(server.push(press))
        assert told["data"]["toast"]["content"].startswith("This is not yours to decide")
        assert server.removed == []
        press = pressed(server, json.loads(yes[2]), asked["message_id"], GROUP, person=ADA)
        frame = server.push(press)
        await server.acknowledgement(frame)
        await server.until_true(lambda: server.removed)
        assert server.removed == [BEN]
        await server.acknowledgement(server.push(press))  # once more
        await settled(host, 3)
        shown = server.messages[asked["message_id"]]
        assert "Approved by Ada" in text_of(shown)
        assert buttons_of(shown) == []
        assert server.removed == [BEN]


async def test_an_answer_grows_by_edits_of_its_card_to_its_end(lent: Path) -> None:
    pieces, go = ["**The** beginning", " and the middle", " and the end."], lent / "go"
    async with world(lent) as (host, server):
        await server.until_links(1)
        server.push(said(server, json.dumps({"grow": pieces, "go": str(go)})))
        await server.until_true(lambda: server.texts() == ["**The** beginning"])
        go.write_text("1")
        await server.until_true(lambda: server.texts() == ["**The** beginning and the middle"])
        go.write_text("9")
        await server.until_true(lambda: server.texts() == ["".join(pieces)])
        (only,) = await settled(host, 1)
        assert (only["status"], only["text"]) == ("sent", "".join(pieces))
        assert len(server.called("message.create")) == 1


async def test_it_is_called_at_its_address_and_answers(lent: Path) -> None:
    hook = {"receive": "webhook", "encrypt_key": KEY, "verification_token": TOKEN}
    async with world(lent, **hook) as (host, server):
        url = f"{host.url}/v1/channels/chat/webhook"

        async def call(payload: Any, key: str = KEY) -> httpx.Response:
            body = encrypted(payload)
            async with httpx.AsyncClient(timeout=SECONDS, verify=NO_CERTIFICATES) as client:
                return await client.post(url, content=body, headers=signed(body, key))

        challenge = {"type": "url_verification", "challenge": "abc", "token": TOKEN}
        while (answer := await call(challenge)).status_code == 503:
            await asyncio.sleep(LOOK_SECONDS)
        assert (answer.status_code, answer.json()) == (200, {"challenge": "abc"})
        payload = said(server, "hello")
        assert (await call(payload, "another key")).status_code == 401
        assert (await call(payload)).status_code == 200
        assert (await call(payload)).status_code == 200  # Lark sends it again
        read = event(server, "im.message.message_read_v1", {"message_id_list": []})
        assert (await call(read)).status_code == 200
        await settled(host, 1)
        assert server.texts(DM) == ["hello"]
