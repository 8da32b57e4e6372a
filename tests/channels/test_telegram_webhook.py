"""A bot of Telegram by webhook, on a whole host: the sandboxed plugin, calls of Telegram over HTTP, and what
it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile, PluginEntry
from support.cached_installs import lend_environments
from support.channel_host import LOOK_SECONDS, WIRES
from support.databases import TEST_SECONDS
from support.http_host import Served, serving
from support.telegram_desk import FOLDER
from support.telegram_desk import serving as bot_api
from support.telegram_server import PRIVATE, TelegramServer
from support.trust import trusted

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 60), pytest.mark.gate("channel-calls")]
PUBLIC = "https://bots.example.org"
SECRET = "a-secret-of-the-webhook"
MESSAGE: dict[str, Any] = {"from": {"id": 7, "is_bot": False, "first_name": "A"}, "chat": PRIVATE, "date": 1}


def entry_for(folder: Path, server: TelegramServer, **fields: Any) -> ChannelEntry:
    """The entry of a bot that is called."""
    (folder / "token").write_text(server.token)
    (folder / "secret").write_text(SECRET)
    config = {
        "token": f"file:{folder / 'token'}",
        "receive": "webhook",
        "webhook-url": f"{PUBLIC}/v1/channels/help-bot/webhook",
        "webhook-secret": f"file:{folder / 'secret'}",
        "base-url": server.url,
    }
    given = {"name": "help-bot", "channel": "plugin:hostler/telegram/telegram", "config": config, **fields}
    return ChannelEntry(**given)


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    lend_environments("channels", FOLDER, tmp_path / "host")
    return tmp_path


@asynccontextmanager
async def by_webhook(folder: Path) -> AsyncIterator[tuple[Served, TelegramServer]]:
    """A host whose bot is called by Telegram, once its webhook is set."""
    async with (
        asyncio.timeout(TEST_SECONDS),
        bot_api() as server,
        serving(folder / "host", agent=False, public_url=PUBLIC) as served,
    ):
        entry = entry_for(folder, server)
        telegram = PluginEntry(path=str(FOLDER), network=[f"127.0.0.1:{server.port}"])
        echo = AgentSpec(name="echo", runner="plugin:test/wires/echo")
        file = ConfigFile(plugins=[telegram, trusted(WIRES)], agents=[echo], channels=[entry])
        await served.host.apply(file, actor="test")
        await server.until("setWebhook")
        while served.host.channels.find_open("help-bot") is None:
            await asyncio.sleep(LOOK_SECONDS)
        yield served, server


async def call(
    served: Served, server: TelegramServer, update: Any, secret: str | None = None
) -> httpx.Response:
    """Call the webhook as Telegram does: at the address and with the secret that it was given."""
    assert server.webhook is not None
    address = server.webhook["url"].replace(PUBLIC, served.url)
    given = server.webhook["secret_token"] if secret is None else secret
    async with served.as_key(None) as outside:
        return await outside.post(address, json=update, headers={"X-Telegram-Bot-Api-Secret-Token": given})


async def test_a_bot_is_called_and_answers(lent: Path) -> None:
    async with by_webhook(lent) as (served, server):
        shown = (await served.client.get("/v1/channels/help-bot")).json()
        assert server.webhook is not None
        assert shown["webhook"] == server.webhook["url"]
        update = {"update_id": 9, "message": {**MESSAGE, "message_id": 5, "text": "hello"}}
        stranger = await call(served, server, update, secret="not the one that Telegram has")
        assert stranger.status_code == 401
        assert (await call(served, server, update)).status_code == 200
        assert (await call(served, server, update)).status_code == 200  # Telegram asks again
        await server.until("sendMessage")
        assert (await call(served, server, {**update, "update_id": "?"})).status_code == 400
        again = {"update_id": 10, "message": {**MESSAGE, "message_id": 6, "text": "and again"}}
        assert (await call(served, server, again)).status_code == 200
        await server.until("sendMessage", 2)
        assert server.texts() == ["hello", "and again"]
        assert len((await served.client.get("/v1/events")).json()["items"]) == 2
        assert server.waits == [], "it does not poll"
        async with served.as_key(None) as outside:
            known = {"x-telegram-bot-api-secret-token": SECRET}
            asked = await outside.get("/v1/channels/help-bot/webhook", headers=known)
        assert (asked.status_code, asked.headers["allow"]) == (405, "POST")


async def test_what_is_said_while_the_channel_is_down_comes_when_telegram_asks_again(lent: Path) -> None:
    async with by_webhook(lent) as (served, server):
        update = {"update_id": 9, "message": {**MESSAGE, "message_id": 5, "text": "kept by Telegram"}}
        off = entry_for(lent, server, enabled=False)
        await served.host.apply(ConfigFile(channels=[off]), actor="test")
        while served.host.channels.find_open("help-bot") is not None:
            await asyncio.sleep(LOOK_SECONDS)
        refused = await call(served, server, update)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        await served.host.apply(ConfigFile(channels=[entry_for(lent, server)]), actor="test")
        while (await call(served, server, update)).status_code != 200:
            await asyncio.sleep(LOOK_SECONDS)
        await server.until("sendMessage")
        assert server.texts() == ["kept by Telegram"]
