"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from typing import Any

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 100_000
SECURITY_HINT = (
    "tls: from the first byte; starttls: after a command; none: in the clear, on one machine only."
)


def _server(kind: str, what: str) -> tuple[dict[str, Any], ...]:
    return (
        {
            "name": f"{kind}-server",
            "type": "string",
            "required": True,
            "label": {"en": f"{what} server"},
            "description": {"en": f"Its name, like {kind}.example.org."},
        },
        {
            "name": f"{kind}-security",
            "type": "select",
            "options": ["tls", "starttls", "none"],
            "default": "tls",
            "label": {"en": f"Encryption of the {what} connection"},
            "description": {"en": SECURITY_HINT},
        },
        {
            "name": f"{kind}-port",
            "type": "integer",
            "default": 0,
            "label": {"en": f"Port of the {what} server"},
            "description": {"en": "0: the usual one."},
        },
    )


class Email(ConnectedChannel):
    """Email.

    A mailbox: mails are received by IMAP, and sent by SMTP.
    """

    connection = "hostler_email.connection:Connection"
    abilities = {
        "threads": True,
        "files": True,
        "repeat": "look_up",  # in the folder of sent mails, where that proves something
        "max_message": MAX_MESSAGE,
    }
    actions = ("history.fetch", "message.delete", "message.forward", "message.pin", "platform.call")
    config = (
        {
            "name": "address",
            "type": "string",
            "required": True,
            "label": {"en": "Address of the mailbox"},
            "description": {"en": "Answers come from it, like help@example.org."},
        },
        {
            "name": "password",
            "type": "secret",
            "required": True,
            "label": {"en": "Password of the mailbox"},
            "description": {"en": "For IMAP and SMTP; where there are such, an app password."},
        },
        {
            "name": "user",
            "type": "string",
            "default": "",
            "label": {"en": "User name"},
            "description": {"en": "Where it is not the address."},
        },
        {
            "name": "name",
            "type": "string",
            "default": "",
            "label": {"en": "Name beside the address"},
        },
        *_server("imap", "IMAP"),
        *_server("smtp", "SMTP"),
        {
            "name": "certificates",
            "type": "text",
            "default": "",
            "label": {"en": "Certificates of an authority of your own"},
            "description": {"en": "In PEM, if your servers have theirs from it."},
        },
        {
            "name": "authentication-server",
            "type": "string",
            "default": "",
            "label": {"en": "Server that vouches for senders"},
            "description": {
                "en": "The name with which your mail server begins its Authentication-Results. If it is set, "
                "only mails with its dmarc=pass are messages. Without it anybody can write as anybody."
            },
        },
        {
            "name": "sent-mails",
            "type": "select",
            "options": ["append", "server", "none"],
            "default": "append",
            "label": {"en": "Who files sent mails"},
            "description": {
                "en": "server: as Gmail does, which files what it is given; append: the channel."
            },
        },
        {
            "name": "folder",
            "type": "string",
            "default": "INBOX",
            "label": {"en": "Folder whose mails are received"},
        },
        {
            "name": "subject",
            "type": "string",
            "default": "A message for you",
            "label": {"en": "Subject of mails that answer none"},
            "description": {"en": "Where the message does not begin with a heading."},
        },
        {
            "name": "per-hour",
            "type": "integer",
            "default": 30,
            "label": {"en": "Mails to one address within an hour"},
            "description": {"en": "Further ones wait: two machines that answer each other never stop."},
        },
        {
            "name": "max-mail-mib",
            "type": "integer",
            "default": 25,
            "label": {"en": "Largest mail that is fetched whole, in MiB"},
            "description": {"en": "1 to 100. Of larger ones the beginning is read."},
        },
        {
            "name": "poll-seconds",
            "type": "integer",
            "default": 60,
            "label": {"en": "Seconds between looks"},
            "description": {"en": "1 to 3600, where the server cannot tell of new mails (IDLE)."},
        },
    )
