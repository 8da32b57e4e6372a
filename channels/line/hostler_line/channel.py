"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 5_000
"""Of a text message, in UTF-16 code units."""


class Line(ConnectedChannel):
    """LINE.

    A LINE Official Account: chats with its friends, groups and multi-person chats.
    """

    connection = "hostler_line.connection:Connection"
    abilities = {
        "typing": True,
        "buttons": True,
        "webhook": True,
        "repeat": "look_up",  # pushes carry a retry key; of replies the channel finds out by their tokens
        "max_message": MAX_MESSAGE,
        "message_unit": "utf16",
    }
    actions = (
        "group.info",
        "group.leave",
        "member.info",
        "member.list",
        "platform.call",
        "typing.start",
    )
    withheld = ("line/replyToken",)
    """With it others could write in the chat."""
    config = (
        {
            "name": "channel-secret",
            "type": "secret",
            "required": True,
            "label": {"en": "Channel secret"},
            "description": {"en": "Of “Basic settings” in the LINE Developers Console. LINE signs with it."},
        },
        {
            "name": "token",
            "type": "secret",
            "label": {"en": "Channel access token"},
            "description": {"en": "Long-lived, of “Messaging API”. Leave it out if you give the channel id."},
        },
        {
            "name": "channel-id",
            "type": "string",
            "default": "",
            "label": {"en": "Channel ID"},
            "description": {"en": "In place of a token: with the secret, tokens of 15 minutes are issued."},
        },
        {
            "name": "webhook-url",
            "type": "string",
            "default": "",
            "label": {"en": "Public address of this channel"},
            "description": {"en": "https://, told to LINE when the channel is opened. Empty: told by you."},
        },
        {
            "name": "reply-tokens",
            "type": "boolean",
            "default": True,
            "label": {"en": "Answer by reply tokens, which are free"},
            "description": {"en": "Within a minute of a message. Otherwise all is pushed, which is counted."},
        },
        {
            "name": "quote-in-groups",
            "type": "boolean",
            "default": True,
            "label": {"en": "Quote what is answered, in groups"},
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
            "default": "https://api.line.me",
            "label": {"en": "Address of the Messaging API"},
        },
        {
            "name": "data-url",
            "type": "string",
            "default": "https://api-data.line.me",
            "label": {"en": "Address where files of people are"},
        },
    )
