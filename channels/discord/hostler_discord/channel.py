"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 2000
"""Of Discord, in code points."""
MAX_WRITTEN = 1900
"""The host splits texts at it: so most fit with their marks, also those that grow by edits."""


class Discord(ConnectedChannel):
    """Discord.

    A bot of Discord: private chats, channels of servers, and threads.
    """

    connection = "hostler_discord.connection:Connection"
    abilities = {
        "edit": True,
        "typing": True,
        "reactions": True,
        "buttons": True,
        "threads": True,
        "files": True,
        "repeat": "look_up",  # by nonce for some minutes, which Discord takes once; later by the history
        "max_message": MAX_WRITTEN,
        "message_unit": "characters",
        "edit_seconds": 1.5,
    }
    actions = (
        "group.info",
        "group.leave",
        "group.rename",
        "history.fetch",
        "member.ban",
        "member.info",
        "member.kick",
        "member.list",
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
    withheld = (
        "discord/token",  # of an interaction, with which anybody could answer it
        "attachments/url",  # signed, for a day
        "attachments/*/url",  # of a command, by their ids
        *(f"{name}/url" for name in ("file", "image", "media", "thumbnail", "video")),
        "proxy_*url",
    )
    config = (
        {
            "name": "token",
            "type": "secret",
            "required": True,
            "label": {"en": "Token of the bot"},
            "description": {"en": "As the Developer Portal gives it under Bot, Reset Token."},
        },
        {
            "name": "message-content",
            "type": "boolean",
            "default": True,
            "label": {"en": "Read what is said in servers"},
            "description": {
                "en": "Needs Message Content Intent in the Developer Portal. Without it the bot reads "
                "private messages and those that mention it."
            },
        },
        {
            "name": "members",
            "type": "boolean",
            "default": False,
            "label": {"en": "Hear who joins and leaves servers"},
            "description": {"en": "Needs Server Members Intent in the Developer Portal."},
        },
        {
            "name": "mentions",
            "type": "boolean",
            "default": False,
            "label": {"en": "Notify people whom an answer mentions or replies to"},
            "description": {"en": "Roles and @everyone are never notified."},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB"},
            "description": {"en": "0 to 100."},
        },
        {
            "name": "link-previews",
            "type": "boolean",
            "default": False,
            "label": {"en": "Show previews of links"},
        },
        {
            "name": "base-url",
            "type": "string",
            "default": "https://discord.com/api",
            "label": {"en": "Address of the API"},
            "description": {"en": "Of a proxy of your own. It names the gateway."},
        },
    )
