"""The channel as the host sees it: its form, abilities and actions. What it does is in `connection`."""

from __future__ import annotations

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 16_000
"""Bytes of UTF-8. An event of Matrix has at most 65,536 bytes, and holds a text two to four times: as it is
written, as HTML, and in an edit with a copy for old clients."""
ENCRYPTED_TEXT = (
    "This room is encrypted, and I cannot read encrypted messages. "
    "Please make a room without encryption, and invite me there."
)


class Matrix(ConnectedChannel):
    """Matrix.

    An account of Matrix: private rooms, groups and threads, without end-to-end encryption.
    """

    connection = "hostler_matrix.connection:Connection"
    abilities = {
        "edit": True,
        "typing": True,
        "reactions": True,
        "threads": True,
        "files": True,
        "repeat": "client_id",  # a homeserver takes a transaction id of one device once
        "max_message": MAX_MESSAGE,
        "message_unit": "bytes",
        "edit_seconds": 3.0,  # homeservers allow few events a second, and each edit is one
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
        *(f"{content}/{name}" for content in ("content", "m.new_content") for name in ("url", "file")),
        "info/thumbnail_url",
        "info/thumbnail_file",
    )
    """Where a homeserver has a file, for which the account's token is needed."""
    config = (
        {
            "name": "homeserver",
            "type": "string",
            "required": True,
            "label": {"en": "Address of the homeserver"},
            "description": {"en": "https://, like https://matrix-client.matrix.org."},
        },
        {
            "name": "access-token",
            "type": "secret",
            "required": True,
            "label": {"en": "Access token of the account"},
            "description": {"en": "Of a login made for this channel alone."},
        },
        {
            "name": "invites",
            "type": "select",
            "options": ["accept", "ignore"],
            "default": "accept",
            "label": {"en": "Invitations to rooms"},
            "description": {"en": "accept: of everybody whom the channel's allow and block lists let in."},
        },
        {
            "name": "send-as",
            "type": "select",
            "options": ["notice", "text"],
            "default": "notice",
            "label": {"en": "Kind of messages"},
            "description": {
                "en": "notice: as bots write, which other bots do not answer; text: as people do."
            },
        },
        {
            "name": "command-prefix",
            "type": "string",
            "default": "!",
            "label": {"en": "What commands begin with"},
            "description": {"en": "Like !help. Empty: there are no commands."},
        },
        {
            "name": "encrypted-text",
            "type": "string",
            "default": ENCRYPTED_TEXT,
            "label": {"en": "What is said once in an encrypted room"},
            "description": {"en": "The channel cannot read there. Empty: nothing."},
        },
        {
            "name": "max-file-mib",
            "type": "integer",
            "default": 20,
            "label": {"en": "Largest file that is fetched, in MiB"},
            "description": {"en": "0 to 100."},
        },
    )
