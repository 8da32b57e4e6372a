"""/v1/channels and /v1/outbox: how channels stand, what became of messages, and who may change it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.channel_host import chatting
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


async def test_channels_are_listed_shown_and_connected_anew(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        client = host.served.client
        (listed,) = (await client.get("/v1/channels")).json()["items"]
        assert (listed["name"], listed["channel"], listed["health"]) == (
            "chat",
            "plugin:test/wires/keyed",
            "connected",
        )
        assert (listed["account"], listed["account_name"]) == ("bot-1", "Bot")
        assert (await client.get("/v1/channels/chat")).json() == listed
        missing = await client.get("/v1/channels/none")
        assert (missing.status_code, "there is no channel 'none'" in missing.text) == (404, True)
        assert (await client.post("/v1/channels/chat/restart")).status_code == 200
        await host.until(lambda: host.logins(2))
        audit = (await client.get("/v1/audit", params={"action": "channel.restarted"})).json()["items"]
        assert [(one["target"], one["actor"]) for one in audit] == [("chat", "admin")]
        key = await host.served.key(WORKSPACE, "plugins:read")
        async with host.served.as_key(key) as reader:
            assert (await reader.get("/v1/channels")).status_code == 200
            assert (await reader.post("/v1/channels/chat/restart")).status_code == 403
            assert (await reader.get("/v1/outbox")).status_code == 403
        metrics = (await client.get("/metrics")).text
        assert 'hostler_channel_connected{channel="chat"}' in metrics


async def test_dead_letters_are_seen_sent_again_and_dropped(tmp_path: Path, chat: ChatPlatform) -> None:
    chat.fates = ["refused", "refused"]
    async with chatting(tmp_path, chat) as host:
        client = host.served.client
        chat.say("twice")
        await host.settled(2)
        chat.say("fine")
        await chat.until(1)
        await host.settled(3)
        failed = (await client.get("/v1/outbox", params={"status": "failed"})).json()["items"]
        assert sorted(one["text"] for one in failed) == ["once", "twice"]
        assert {(one["error"], one["chat_id"], one["attempts"]) for one in failed} == {
            ("the bot may not speak here", "room", 1)
        }
        page = (await client.get("/v1/outbox", params={"limit": 2})).json()
        assert page["has_more"]
        rest = (await client.get("/v1/outbox", params={"limit": 2, "cursor": page["next_cursor"]})).json()
        assert len({one["id"] for one in (*page["items"], *rest["items"])}) == 3
        once, twice = sorted(failed, key=lambda one: str(one["text"]))
        answer = await client.post(f"/v1/outbox/{once['id']}/resend")
        assert (answer.status_code, answer.json()["status"]) == (200, "pending")
        assert await chat.until(2) == ["fine", "once"]
        assert (await client.delete(f"/v1/outbox/{twice['id']}")).status_code == 204
        assert (await client.get(f"/v1/outbox/{twice['id']}")).status_code == 404
        assert (await client.post(f"/v1/outbox/{twice['id']}/resend")).status_code == 404
        actions = [one["action"] for one in (await client.get("/v1/audit")).json()["items"]]
        assert {"outbox.resent", "outbox.dropped"} <= set(actions)
        findings = (await client.get("/v1/doctor")).text
        assert "chat is connected" in findings


async def test_a_deleted_conversation_leaves_no_message(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        client = host.served.client
        chat.say("hello")
        await chat.until(1)
        (sent,) = await host.settled(1)
        await host.until(lambda: host.ended(1))
        deleted = await client.delete(f"/v1/conversations/{sent.conversation_id}")
        assert deleted.status_code == 200, deleted.text
        assert await host.outbox() == []


async def test_entries_are_checked_against_their_plugin(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        client = host.served.client
        config = {"port": chat.port, "token": "written out"}
        entry = {"name": "other", "channel": "plugin:test/wires/keyd", "config": config}
        answer = await client.post("/v1/config/channels", json=entry)
        assert (answer.status_code, "did you mean 'keyed'" in answer.text) == (400, True), answer.text
        answer = await client.post(
            "/v1/config/channels", json={**entry, "channel": "plugin:test/wires/keyed"}
        )
        assert (answer.status_code, "is named by env:NAME" in answer.text) == (400, True), answer.text
        entry |= {"channel": "plugin:test/wires/keyed", "config": {"token": "env:T", "prot": 1}}
        answer = await client.post("/v1/config/channels", json=entry)
        assert "unknown option" in answer.text, answer.text
        assert "port: is required" in answer.text.replace("config.", ""), answer.text
        assert [one["name"] for one in (await client.get("/v1/channels")).json()["items"]] == ["chat"]
