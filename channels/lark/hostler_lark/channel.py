"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 4_000
"""Characters of a text: with marks, and up to four bytes each, they stay below the 30 KB of a card."""


class Lark(ConnectedChannel):
    """Lark (Feishu).

    An app of Lark or Feishu: private chats, groups and topics, answered by cards.
    """

    connection = "hostler_lark.connection:Connection"
    abilities = {
        "edit": True,
        "reactions": True,
        "buttons": True,
        "threads": True,
        "files": True,
        "webhook": True,
        "repeat": "look_up",  # for an hour by the `uuid` of a message, which Lark takes once
        "max_message": MAX_MESSAGE,
        "message_unit": "characters",
        "edit_seconds": 1.0,  # Lark takes five edits of a card a second, and 50 of an app
    }
    actions = (
        "group.info",
        "group.leave",
        "group.rename",
        "history.fetch",
        "member.info",
        "member.kick",
        "member.list",
        "message.delete",
        "message.forward",
        "message.pin",
        "message.react",
        "message.unreact",
        "platform.call",
    )
    withheld = ("lark/token", "lark/preview_token", "lark/context/token", "lark/context/preview_token")
    """With them anybody could change a card."""
    config = (
        {
            "name": "app-id",
            "type": "string",
            "required": True,
            "label": {"en": "App ID"},
            "description": {"en": "Of the app's page “Credentials & Basic Info”; it begins with cli_."},
        },
        {
            "name": "app-secret",
            "type": "secret",
            "required": True,
            "label": {"en": "App Secret"},
            "description": {"en": "Of the same page."},
        },
        {
            "name": "domain",
            "type": "select",
            "options": ["feishu", "lark"],
            "default": "feishu",
            "label": {"en": "Where the app is"},
            "description": {"en": "feishu: open.feishu.cn, in China. lark: open.larksuite.com."},
        },
        {
            "name": "receive",
            "type": "select",
            "options": ["connection", "webhook"],
            "default": "connection",
            "label": {"en": "How events arrive"},
            "description": {"en": "connection: by a long connection, which needs no public address."},
        },
        {
            "name": "verification-token",
            "type": "secret",
            "show_if": {"receive": "webhook"},
            "label": {"en": "Verification Token"},
            "description": {"en": "Of “Events & Callbacks”, “Encryption Strategy”."},
        },
        {
            "name": "encrypt-key",
            "type": "secret",
            "show_if": {"receive": "webhook"},
            "label": {"en": "Encrypt Key"},
            "description": {"en": "Of the same page: with it requests are encrypted and signed."},
        },
        {
            "name": "answer-in-threads",
            "type": "boolean",
            "default": False,
            "label": {"en": "Answer in groups by topics"},
            "description": {"en": "Each message of a group begins one, a conversation of its own."},
        },
        {
            "name": "quote",
            "type": "boolean",
            "default": True,
            "label": {"en": "Answers in groups quote the message"},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB"},
            "description": {"en": "0 to 100."},
        },
        {
            "name": "base-url",
            "type": "string",
            "label": {"en": "Address of the API"},
            "description": {"en": "Of a proxy of your own, in place of that of the domain."},
        },
    )
