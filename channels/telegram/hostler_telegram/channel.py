"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 4096
"""Of the Bot API, in UTF-16 code units without the marks."""


class Telegram(ConnectedChannel):
    """Telegram.

    A bot of Telegram: private chats, groups with or without topics, and channels.
    """

    connection = "hostler_telegram.connection:Connection"
    abilities = {
        "edit": True,
        "typing": True,
        "reactions": True,
        "buttons": True,
        "threads": True,
        "files": True,
        "webhook": True,
        "repeat": "unknown",  # the Bot API takes no id of the sender's, and bots cannot read what they sent
        "max_message": MAX_MESSAGE,
        "message_unit": "utf16",
        "edit_seconds": 1.5,
    }
    actions = (
        "group.info",
        "group.leave",
        "group.rename",
        "member.ban",
        "member.info",
        "member.kick",
        "member.mute",
        "member.unmute",
        "message.delete",
        "message.forward",
        "message.pin",
        "message.react",
        "message.unreact",
        "platform.call",
        "poll.create",
        "typing.start",
    )
    config = (
        {
            "name": "token",
            "type": "secret",
            "required": True,
            "label": {"en": "Token of the bot"},
            "description": {"en": "As @BotFather gives it, like 123456:ABC-DEF."},
        },
        {
            "name": "receive",
            "type": "select",
            "options": ["polling", "webhook"],
            "default": "polling",
            "label": {"en": "How messages arrive"},
            "description": {"en": "polling: the host asks for them, and needs no public address."},
        },
        {
            "name": "webhook-url",
            "type": "string",
            "default": "",
            "show_if": {"receive": "webhook"},
            "label": {"en": "Public address of this channel"},
            "description": {"en": "https://, where Telegram reaches the host."},
        },
        {
            "name": "webhook-secret",
            "type": "secret",
            "show_if": {"receive": "webhook"},
            "label": {"en": "Secret of the webhook"},
            "description": {"en": "Chosen by you: 16 to 256 letters, digits, _ and -. Telegram sends it."},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB"},
            "description": {"en": "0 to 100. Telegram's own servers give bots at most 20."},
        },
        {
            "name": "link-previews",
            "type": "boolean",
            "default": False,
            "label": {"en": "Show a preview of the first link"},
        },
        {
            "name": "base-url",
            "type": "string",
            "default": "https://api.telegram.org",
            "label": {"en": "Address of the Bot API"},
            "description": {"en": "Of a Bot API server of your own, without --local."},
        },
    )
