"""The email channel at work: one process for all tests of a module, a mail server for each."""

from __future__ import annotations

import email
from email.message import EmailMessage
from email.policy import default
from typing import Any

from support.email_server import PASSWORD, USER, MailServer
from support.platform_desk import CHANNELS, PlatformDesk, desk_of

FOLDER = CHANNELS / "email"

desk = desk_of(FOLDER)


def config_of(server: MailServer, **more: Any) -> dict[str, Any]:
    """The settings of a channel on this server."""
    config = {"address": USER, "password": PASSWORD, "name": "Help"}
    for kind, port in server.ports.items():
        config |= {f"{kind}-server": "127.0.0.1", f"{kind}-port": port, f"{kind}-security": server.security}  # type: ignore[dict-item]
    return config | more


async def _ready(server: MailServer) -> None:
    """Wait until it waits for mails."""
    await server.until(lambda: "SEARCH" in server.commands)
    if "IDLE" in server.capabilities:
        await server.until_idle()


platform = PlatformDesk(lambda server=None: server or MailServer(), config_of, _ready)
serving = platform.serving
connected = platform.connected


def mail(text: str | bytes = "hello", /, **fields: Any) -> bytes:
    """A mail of Ada's; `fields`: others, or None for none. Bytes are the rest as it is."""
    given = {
        "Return_Path": "<ada@example.com>",
        "From": "Ada L. <Ada@example.com>",
        "To": "help@example.org",
        "Subject": "A question",
        "Message_ID": "<1@example.com>",
        "Date": "Mon, 24 Nov 2025 16:00:00 +0000",
        **fields,
    }
    head = "".join(
        f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items() if value is not None
    )
    if isinstance(text, bytes):
        return head.encode() + text
    body = text.replace("\n", "\r\n").encode()
    return head.encode() + b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + body + b"\r\n"


def read(raw: bytes) -> EmailMessage:
    """A mail as a mail program reads it."""
    return email.message_from_bytes(raw, policy=default)


def content_of(part: Any) -> str:
    """The text of a part of a mail."""
    assert isinstance(part, EmailMessage)
    return str(part.get_content()).replace("\r\n", "\n")
