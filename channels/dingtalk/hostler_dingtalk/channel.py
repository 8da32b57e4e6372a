"""The channels as the host sees them: form, abilities and actions. What they do is in `connection`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from hostler_sdk.channels import ConnectedChannel

MAX_MESSAGE = 5_000
"""Characters of a message, which are at most 20,000 bytes: about what DingTalk takes."""


class DingTalk(ConnectedChannel):
    """DingTalk.

    A robot of DingTalk that answers with cards, which grow and have buttons.
    """

    connection = "hostler_dingtalk.connection:Connection"
    abilities = {
        "edit": True,
        "reactions": True,
        "buttons": True,
        "files": True,
        "repeat": "unknown",  # no id of ours is promised to be taken once, and nothing shows what was sent
        "max_message": MAX_MESSAGE,
        "message_unit": "characters",
        "edit_seconds": 1.5,
    }
    actions: ClassVar[Collection[str]] = (
        "member.info",
        "message.delete",
        "message.react",
        "message.unreact",
        "platform.call",
    )
    withheld = ("sessionWebhook*",)
    """With this address anybody could write into the chat for an hour."""
    config: ClassVar[Sequence[Mapping[str, Any]]] = (
        {
            "name": "client-id",
            "type": "string",
            "required": True,
            "label": {"en": "Client ID of the app"},
            "description": {"en": "Of the app's page “Credentials”; formerly AppKey."},
        },
        {
            "name": "client-secret",
            "type": "secret",
            "required": True,
            "label": {"en": "Client secret of the app"},
            "description": {"en": "Beside the client ID; formerly AppSecret."},
        },
        {
            "name": "robot-code",
            "type": "string",
            "label": {"en": "Code of the robot"},
            "description": {"en": "Where it is not the client ID, as of apps of other makers."},
        },
        {
            "name": "card-template",
            "type": "string",
            "label": {"en": "Id of a card template of your own"},
            "description": {
                "en": "With the variables content, buttons and flowStatus. Empty: DingTalk's own."
            },
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
            "default": "https://api.dingtalk.com",
            "label": {"en": "Address of the API"},
        },
        {
            "name": "files-url",
            "type": "string",
            "default": "https://oapi.dingtalk.com",
            "label": {"en": "Address of the older API"},
            "description": {"en": "It takes files, and tells of people."},
        },
    )
    with_cards: ClassVar[bool] = True


class DingTalkMarkdown(DingTalk):
    """DingTalk without cards.

    A robot of DingTalk that answers in Markdown, once an answer is complete. Choices are numbered.
    """

    abilities = {
        "reactions": True,
        "files": True,
        "repeat": "unknown",
        "max_message": MAX_MESSAGE,
        "message_unit": "characters",
    }
    actions = ("member.info", "message.delete", "message.react", "message.unreact", "platform.call")
    config = tuple(item for item in DingTalk.config if item["name"] != "card-template")
    with_cards = False
