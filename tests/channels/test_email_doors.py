"""Email: settings that cannot work, encryption, and the proxy of the sandbox."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.errors import (
    RemoteFaultError,
)
from support.certificates import tls_for
from support.channel_desk import ChannelDesk, refusal
from support.child_plugins import environment, within
from support.email_desk import FOLDER, config_of, desk, mail, serving
from support.email_server import PASSWORD, MailServer
from support.ready_candidates import check_folder

__all__ = ["desk"]


ADA = "ada@example.com"


def test_a_wrong_password_is_told_and_a_right_one_taken_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.alone(config_of(server)) as channel:
            await channel.until_health("connected")
            await server.until_idle()
            server.password = "another"
            server.cut()
            note = await channel.until_health("failed")
            assert "`password`" in note.reason
            error = await refusal(channel.send("hi", ADA))
            assert isinstance(error, RemoteFaultError)
            server.password = PASSWORD
            await channel.until_health("connected")
            said = json.dumps([str(note) for note in channel.ingest.health])
            assert PASSWORD not in said + channel.plugin._stderr_tail.decode()

    desk.run(whole)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("address", "help desk", "`address` must be"),
        ("password", "", "`password` is missing"),
        ("imap-server", "https://x", "`imap-server` must be"),
        ("smtp-security", "ssl", "one of tls, starttls, none"),
        ("smtp-port", 99_999, "`smtp-port` must be"),
        ("per-hour", 0, "`per-hour` must be"),
        ("max-mail-mib", True, "`max-mail-mib` must be"),
        ("certificates", "no PEM", "certificates in PEM"),
        ("folder", "Nowhere", "no such folder"),
    ],
)
def test_a_setting_that_cannot_work_is_named(desk: ChannelDesk, setting: str, value: Any, told: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | {setting: value}) as channel:
            await channel.until(lambda: any(told in note.reason for note in channel.ingest.health))

    desk.run(whole)


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_both_connections_are_encrypted_and_others_certificates_refused(
    desk: ChannelDesk, security: str, tmp_path: Path
) -> None:
    async def whole() -> None:
        context, _ = tls_for("localhost", tmp_path)
        async with serving(MailServer(context, security)) as server:
            if security == "starttls":
                server.capabilities += " STARTTLS"
            trusted = (tmp_path / "localhost.pem").read_text()
            config = config_of(server) | {"imap-server": "localhost", "smtp-server": "localhost"}
            async with desk.opened(config) as channel:
                note = await channel.until_health("failed")
                assert "certificate" in note.reason.lower()
                assert "AUTH" not in server.smtp_commands
                assert "AUTHENTICATE" not in server.commands
            async with desk.opened(config | {"certificates": trusted}) as channel:
                await channel.until_health("connected")
                await server.until_idle()
                server.deliver(mail())
                await channel.event()
                await channel.send("x" * 90_000, ADA)
                await server.stop()
                await channel.until_health("connecting")
            other = config | {"certificates": trusted, "smtp-server": "127.0.0.1"}
            await server.start()
            async with desk.opened(other) as channel:
                assert "certificate" in (await channel.until_health("failed")).reason.lower()

    assert ssl.HAS_TLSv1_2
    desk.run(whole)


def test_a_server_without_starttls_gets_no_password(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server)
            async with desk.opened(config | {"smtp-security": "starttls"}) as channel:
                await channel.until_health("failed")
            async with desk.opened(config | {"imap-security": "starttls"}) as channel:
                await channel.until_health("connecting")
                await channel.until(lambda: any(note.reason for note in channel.ingest.health))
            assert "AUTHENTICATE" not in server.commands
            assert server.smtp_commands.count("AUTH") == 1  # of the second, whose SMTP is as it should be

    desk.run(whole)


def test_it_goes_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        asked = []

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            asked.append(head.split()[1])
            if "refused" in head:
                writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                writer.close()
                return
            there = await asyncio.open_connection("127.0.0.1", int(asked[-1].split(":")[1]))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while piece := await reader.read(65_536):
                writer.write(piece)
            writer.close()

        listening = await asyncio.start_server(proxy, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        through = {"HOSTLER_SANDBOX_PROXY": f"http://127.0.0.1:{port}", "NO_PROXY": "127.0.0.2"}
        async with serving() as server:
            config = config_of(server) | {"imap-server": "imap.invalid", "smtp-server": "smtp.invalid"}
            async with desk.alone(config, **through) as channel:
                await channel.until_health("connected")
                await server.until_idle()
                server.deliver(mail())
                await channel.event()
                await channel.send("hello", ADA)
                assert set(asked) == {f"{kind}.invalid:{port}" for kind, port in server.ports.items()}
                await channel.close()
            async with desk.alone(config | {"smtp-server": "refused.invalid"}, **through) as channel:
                assert "403 Forbidden" in (await channel.until_health("failed")).reason
        listening.close()

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
