"""Slack on a whole host: the sandboxed plugin, by socket and by HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from slack_sdk.signature import SignatureVerifier

from support.certificates import tls_for
from support.channel_process import LOOK_SECONDS, SECONDS, settled
from support.databases import TEST_SECONDS
from support.loopback import NO_CERTIFICATES
from support.server_process import HostProcess
from support.shipped_host import host_with, lend
from support.slack_desk import FOLDER, config_of
from support.slack_desk import serving as slack
from support.slack_methods import DM, GENERAL
from support.slack_server import SlackServer

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)
SIGNING = "8f742231b10e8888abcd99yyyzzz85a5"


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[tuple[HostProcess, SlackServer]]:
    """A host with a channel to a Slack."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with asyncio.timeout(TEST_SECONDS), slack(tls=tls) as server:
        config = config_of(server) | {name.replace("_", "-"): value for name, value in settings.items()}
        secrets = ["token", "app-token", "signing-secret"]
        async with host_with(folder, "slack/slack", config, secrets=secrets, ports=[server.port]) as host:
            yield host, server


async def test_a_question_in_a_channel_is_answered_in_its_thread_in_whole_parts(lent: Path) -> None:
    async with world(lent) as (host, server):
        await server.until_links(1)
        lines = [f"line {number} of the code" for number in range(400)]
        text = "Before **it**.\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter it."
        said = server.write(text, GENERAL)
        envelope = server.envelope("events_api", server.said(said, GENERAL))
        await server.until_acknowledged(envelope)
        messages = await settled(host, 3)
        assert [one["status"] for one in messages] == ["sent"] * len(messages)
        written = [one for one in server.history[GENERAL] if one.get("bot_id")]
        assert {one["thread_ts"] for one in written} == {said["ts"]}
        texts = [one["text"] for one in written]
        assert [one.count("```") for one in texts] == [2] * len(texts)
        assert [line for one in texts for line in one.split("\n") if line.startswith("line ")] == lines
        assert texts[0].startswith("Before *it*.")
        assert texts[-1].endswith("After it.")


async def test_it_is_called_at_its_address_and_answers(lent: Path) -> None:
    async with world(lent, receive="webhook", signing_secret=SIGNING) as (host, server):
        url = f"{host.url}/v1/channels/chat/webhook"

        async def call(payload: Any, secret: str = SIGNING) -> httpx.Response:
            body, stamp = json.dumps(payload), str(int(time.time()))
            signature = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body)
            headers = {"content-type": "application/json", "x-slack-request-timestamp": stamp}
            headers |= {"x-slack-signature": signature or ""}
            async with httpx.AsyncClient(timeout=SECONDS, verify=NO_CERTIFICATES) as client:
                return await client.post(url, content=body, headers=headers)

        challenge = {"type": "url_verification", "challenge": "abc"}
        while (answer := await call(challenge)).status_code == 503:
            await asyncio.sleep(LOOK_SECONDS)
        assert (answer.status_code, answer.text) == (200, "abc")
        said = server.said(server.write("hello"))
        assert (await call(said, "another secret")).status_code == 401
        assert (await call(said)).status_code == 200
        assert (await call(said)).status_code == 200  # Slack asks again
        await settled(host, 1)
        assert server.texts(DM) == ["hello"]
