"""A mailbox on a whole host: the sandboxed plugin, which reaches its servers by the sandbox's proxy alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile, PluginEntry
from support.channel_host import LOOK_SECONDS, WIRES
from support.databases import TEST_SECONDS
from support.email_desk import FOLDER, config_of, content_of, mail, read
from support.email_desk import serving as mail_server
from support.email_server import PASSWORD, MailServer
from support.http_host import Served, serving
from support.shipped_host import lend
from support.trust import trusted

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def by_mail(folder: Path, server: MailServer, **fields: Any) -> AsyncIterator[Served]:
    """A host whose mailbox is connected."""
    (folder / "password").write_text(PASSWORD)
    config = config_of(server) | {"password": f"file:{folder / 'password'}"}
    given = {"name": "help-desk", "channel": "plugin:hostler/email/email", "config": config, "agent": "echo"}
    email = PluginEntry(path=str(FOLDER), network=[f"127.0.0.1:{port}" for port in server.ports.values()])
    echo = AgentSpec(name="echo", runner="plugin:test/wires/echo")
    file = ConfigFile(
        plugins=[email, trusted(WIRES)], agents=[echo], channels=[ChannelEntry(**given | fields)]
    )
    async with serving(folder / "host", agent=False) as served:
        await served.host.apply(file, actor="test")
        await server.until_idle()
        yield served


async def items(served: Served, path: str, count: int) -> list[dict[str, Any]]:
    """Wait for so many of something."""
    while len(found := (await served.client.get(path)).json()["items"]) < count:
        await asyncio.sleep(LOOK_SECONDS)
    return list(found)


async def test_a_mail_is_answered_and_machines_are_not(lent: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS), mail_server() as server, by_mail(lent, server) as served:
        server.deliver(mail("I am away", Auto_Submitted="auto-replied", Message_ID="<0@example.com>"))
        server.deliver(mail("Does it rain?"))
        server.deliver(mail("Does it rain?"))  # a copy, as by a mailing list and by itself
        await server.until(lambda: "TAKEN" in server.smtp_commands)
        (sent,) = server.sent
        got = read(sent.raw)
        assert (sent.to, got["Subject"], got["In-Reply-To"]) == (
            ["ada@example.com"],
            "Re: A question",
            "<1@example.com>",
        )
        assert "Does it rain?" in content_of(got.get_body(("plain",)))
        again = mail("And now?", Message_ID="<2@example.com>", In_Reply_To=got["Message-ID"])
        server.deliver(again)
        await server.until(lambda: server.smtp_commands.count("TAKEN") == 2)
        assert "And now?" in content_of(read(server.sent[1].raw).get_body(("plain",)))
        events = await items(served, "/v1/events", 3)
        kinds = sorted(event["event_type"] for event in events)
        assert kinds == ["message.received", "message.received", "platform.automatic_mail"]
        runs = await items(served, "/v1/runs", 2)
        assert len(runs) == 2
        assert len({run["conversation_id"] for run in runs}) == 1


async def test_what_is_in_doubt_is_settled_by_the_folder_of_sent_mails(lent: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS), mail_server() as server, by_mail(lent, server) as served:
        server.files_sent = True
        server.fault("AFTER", "cut")
        server.deliver(mail("Does it rain?"))
        while (await items(served, "/v1/outbox", 1))[0]["status"] != "sent":
            await asyncio.sleep(LOOK_SECONDS)
        assert len(server.sent) == 1
