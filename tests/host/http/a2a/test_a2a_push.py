"""Push notifications with A2A's official client, to a receiver on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageRequest,
    StreamResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict

from hostler.host.config import ConfigFile
from hostler.storage.port import Query
from hostler.storage.stores import push_receivers
from hostler.storage.stores.push_receivers import StoredReceiver
from support.databases import TEST_SECONDS
from support.dialects.a2a import a2a_client, got, message, told
from support.dialects.players import playing, script
from support.http_host import OTHER, Served
from support.receiver import Receiver

_DUE = Query(
    "due", *["UPDATE push_receivers SET next_at = 0, lease_until = 0 WHERE workspace_id = 'default'"] * 2
)
ORDER = script(["tool", "player.order", {"thing": "灯"}, "m1"], ["say", "Bye."])


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as made:
        yield made


async def let_in(host: Served, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let notifications go to this machine, as the network of a webhook does."""
    monkeypatch.setenv("HOOK_SECRET", "x" * 32)
    hook: Any = {
        "name": "hook",
        "url": "http://127.0.0.1:1/",
        "secret": "env:HOOK_SECRET",
        "network": [f"127.0.0.1:{receiver.port}"],
    }
    await host.host.apply(msgspec.convert({"webhooks": [hook]}, ConfigFile), actor="test")


def config(url: str, task_id: str = "", **fields: Any) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(task_id=task_id, url=url, **fields)


async def test_a_receiver_is_told_that_a_task_waits_and_that_it_is_over(
    host: Served, binding: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await let_in(host, receiver, monkeypatch)
    receiver.answers = ["500"]
    host.host.push_sender.pace = 0.001
    wanted = config(
        receiver.url, token="my-token", authentication=AuthenticationInfo(scheme="Bearer", credentials="abc")
    )
    request = SendMessageRequest(message=message(ORDER))
    request.configuration.task_push_notification_config.CopyFrom(wanted)
    request.configuration.return_immediately = True
    async with a2a_client(host.url, binding=binding, streaming=False) as client:
        (sent,) = [one async for one in client.send_message(request)]
        task_id = sent.task.id
        states = []
        for _ in range(2):  # the first try is answered 500
            asked = await receiver.request()
            assert asked.headers["x-a2a-notification-token"] == "my-token"
            assert asked.headers["authorization"] == "Bearer abc"
            update = ParseDict(json.loads(asked.body), StreamResponse()).status_update
            assert (update.task_id, update.context_id) == (task_id, sent.task.context_id)
            states.append(update.status.state)
        assert states == [6, 6]  # TASK_STATE_INPUT_REQUIRED
        task = await got(client, task_id)
        wanted_of = task["status"]["message"]["parts"][1]["data"]
        done = await told(client, message({"id": wanted_of["id"], "approved": True}, task_id=task_id))
        assert done.state == "COMPLETED"
        last = json.loads((await receiver.request()).body)["statusUpdate"]["status"]
        assert last["state"] == "TASK_STATE_COMPLETED"
        assert last["timestamp"].endswith("Z")
    text = (await host.client.get("/v1/audit")).text
    assert "my-token" not in text


async def test_configurations_are_made_changed_listed_and_removed(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        task_id = (await told(client, message("hello"))).task_id
        made = await client.create_task_push_notification_config(config("https://a.example/1", task_id))
        assert (made.id, made.task_id, made.url) == (task_id, task_id, "https://a.example/1")
        for name in ("one", "two"):
            await client.create_task_push_notification_config(
                config("https://a.example/1", task_id, id=name, token="t")
            )
        changed = config(
            "https://a.example/2",
            task_id,
            id="two",
            authentication=AuthenticationInfo(scheme="Basic", credentials="s3cret"),
        )
        found = await client.create_task_push_notification_config(changed)
        assert (found.url, found.authentication.scheme, found.authentication.credentials) == (
            "https://a.example/2",
            "Basic",
            "",
        )
        named = GetTaskPushNotificationConfigRequest(task_id=task_id, id="one")
        assert (await client.get_task_push_notification_config(named)).token == "t"
        ids, token = [], ""
        while True:
            page = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=2, page_token=token)
            )
            ids += [one.id for one in page.configs]
            if not (token := page.next_page_token):
                break
        assert sorted(ids) == sorted([task_id, "one", "two"])
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="one")
        for _ in range(2):
            await client.delete_task_push_notification_config(gone)
        with pytest.raises(TaskNotFoundError, match="one"):
            await client.get_task_push_notification_config(named)
        for url in ("file:///etc/passwd", "ftp://x", "https://user:pass@a.example", "nonsense"):
            with pytest.raises(InvalidParamsError, match="url"):
                await client.create_task_push_notification_config(config(url, task_id))
        with pytest.raises(InvalidParamsError, match="token"):
            await client.create_task_push_notification_config(
                config("https://a.example", task_id, token="a\r\nx: y")
            )
        for number in range(push_receivers.MAX_RECEIVERS_OF_RUN - 2):
            await client.create_task_push_notification_config(
                config("https://a.example", task_id, id=f"{number}")
            )
        with pytest.raises(UnsupportedOperationError, match="at most"):
            await client.create_task_push_notification_config(config("https://a.example", task_id, id="more"))
        with pytest.raises(TaskNotFoundError):
            await client.create_task_push_notification_config(config("https://a.example", "nothing"))
    async with a2a_client(host.url, await host.key(OTHER), binding=binding) as stranger:
        with pytest.raises(Exception, match=r"no (task|agent)"):
            await stranger.get_task_push_notification_config(named)
    stored = await host.host.db.read(lambda tx: push_receivers.page(tx, "default", task_id))
    assert len(stored) == push_receivers.MAX_RECEIVERS_OF_RUN


@pytest.mark.gate("egress")
async def test_an_address_of_this_network_is_never_asked(host: Served, receiver: Receiver) -> None:
    async with a2a_client(host.url) as client:
        task_id = (await told(client, message("hello"))).task_id
        await client.create_task_push_notification_config(config(receiver.url, task_id))
        async with asyncio.timeout(TEST_SECONDS):
            while (error := (await _stored(host, task_id)).error) is None:
                await asyncio.sleep(0.02)
        assert "not public" in error
    assert receiver.requests == []


async def _stored(host: Served, task_id: str) -> StoredReceiver:
    return await host.host.db.read(lambda tx: push_receivers.get(tx, "default", task_id, task_id))


async def test_it_is_sent_after_a_restart_and_goes_with_its_conversation(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(tmp_path) as host:
        await let_in(host, receiver, monkeypatch)
        receiver.answers = ["503", "503", "503"]
        async with a2a_client(host.url) as client:
            task = await told(client, message("hello"))
            await client.create_task_push_notification_config(config(receiver.url, task.task_id))
            await receiver.request()
    receiver.answers = []
    async with playing(tmp_path) as host:
        await host.host.db.write(lambda tx: tx.run(_DUE))
        asked = await receiver.request()
        assert json.loads(asked.body)["statusUpdate"]["taskId"] == task.task_id
        assert (await host.client.delete(f"/v1/conversations/{task.context_id}")).is_success
        assert await host.host.db.read(lambda tx: push_receivers.page(tx, "default", task.task_id)) == []
